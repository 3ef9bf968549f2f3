/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU (contrib/gpu) over a fake driver: each of its functions fails once. The call returns a negative errno value, the
 * message has the function and the error, and nothing is left behind: no descriptor, handle, range, stream or context.
 * test/mpi/mp_gpu.c moves messages. test/btl/fake_gpu_verbs is the same over an RDMA device that reaches memory of devices (fake_verbs.h).
 */
#include "rgpu.h"
#include "test/lib/pair.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>

enum { HEAP = 1 << 18, UNKNOWN = 999, OUT_OF_MEMORY = 2 };

static const char *api, *library;
static void (*fake_fail)(const char *function, int code);
static int (*fake_live)(void), (*fake_flushes)(void);
static void (*fake_stall)(int stalled);
static rgpu_t gpu;
static const rmemory_ops_t *memory;

/* The name of a function in the API under test: "cuMemMap" is hipMemMap. */
static const char *named(const char *cuda, const char *hip) { return *api == 'c' ? cuda : hip; }

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static void find_fake(void)
{
    void *handle = dlopen(library, RTLD_NOW), *function;

    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    function = dlsym(handle, "fake_gpu_fail");
    memcpy(&fake_fail, &function, sizeof(function));
    function = dlsym(handle, "fake_gpu_live");
    memcpy(&fake_live, &function, sizeof(function));
    function = dlsym(handle, "fake_gpu_stall");
    memcpy(&fake_stall, &function, sizeof(function));
    function = dlsym(handle, "fake_gpu_flushes");
    memcpy(&fake_flushes, &function, sizeof(function));
}

static void assert_error(const char *function, const char *name)
{
    char error[RGPU_ERROR_BYTES];

    rgpu_error(gpu, error, sizeof(error));
    if (strstr(error, function) == NULL || strstr(error, name) == NULL)
        fail_msg("\"%s\" has not \"%s\" and \"%s\"", error, function, name);
}

static void test_a_device_does_not_open(void **state)
{
    static const char *const calls[][2] = {
        {"cuInit", "hipInit"},
        {"cuDeviceGet", "hipDeviceGet"},
        {"cuDeviceGetName", "hipDeviceGetName"},
        {"cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain"},
        {"cuCtxPushCurrent_v2", "hipCtxPushCurrent"},
        {"cuStreamCreate", "hipStreamCreateWithFlags"},
        {"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"}};
    char error[RGPU_ERROR_BYTES] = "";
    int before = fake_live();
    rgpu_t none;

    (void)state;
    assert_int_equal(rgpu_open(&none, "opencl", NULL, 0, error, sizeof(error)), -EINVAL);
    assert_non_null(strstr(error, "opencl"));
    assert_int_equal(rgpu_open(&none, api, "/nonexistent.so", 0, error, sizeof(error)), -ENOENT);
    assert_non_null(strstr(error, "/nonexistent.so"));
    assert_int_equal(rgpu_open(&none, api, "libc.so.6", 0, error, sizeof(error)), -ENOENT);
    assert_non_null(strstr(error, named("has no cuInit", "has no hipInit")));
    assert_int_equal(rgpu_open(&none, api, library, 7, error, sizeof(error)), -ENODEV);
    assert_non_null(strstr(error, "FAKE_ERROR_INVALID_DEVICE"));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const char *call = named(calls[i][0], calls[i][1]);

        fake_fail(call, UNKNOWN);
        assert_int_equal(rgpu_open(&none, api, library, 0, error, sizeof(error)), -EIO);
        if (strstr(error, call) == NULL || strstr(error, "FAKE_ERROR_UNKNOWN (999)") == NULL)
            fail_msg("%s: \"%s\"", call, error);
        assert_int_equal(fake_live(), before);
    }
}

static void test_an_allocation_fails(void **state)
{
    static const char *const calls[][2] = {
        {"cuCtxPushCurrent_v2", "hipCtxPushCurrent"},
        {"cuMemCreate", "hipMemCreate"},
        {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle"},
        {"cuMemAddressReserve", "hipMemAddressReserve"},
        {"cuMemMap", "hipMemMap"},
        {"cuMemSetAccess", "hipMemSetAccess"}};
    int live = fake_live(), fds = descriptors(), fd = -1;
    void *base = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const char *call = named(calls[i][0], calls[i][1]);

        fake_fail(call, UNKNOWN);
        assert_int_equal(memory->alloc(memory->argument, HEAP, &base, &fd), -EIO);
        assert_error(call, "FAKE_ERROR_UNKNOWN");
        fake_fail(call, OUT_OF_MEMORY);
        assert_int_equal(memory->alloc(memory->argument, HEAP, &base, &fd), -ENOMEM);
        assert_error(call, "FAKE_ERROR_OUT_OF_MEMORY");
        assert_int_equal(fd, -1);
        assert_int_equal(fake_live(), live);
        assert_int_equal(descriptors(), fds);
    }
}

static void test_an_import_fails(void **state)
{
    static const char *const calls[][2] = {
        {"cuCtxPushCurrent_v2", "hipCtxPushCurrent"},
        {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"},
        {"cuMemGetAllocationPropertiesFromHandle", "hipMemGetAllocationPropertiesFromHandle"},
        {"cuMemAddressReserve", "hipMemAddressReserve"},
        {"cuMemMap", "hipMemMap"},
        {"cuMemSetAccess", "hipMemSetAccess"}};
    void *base = NULL, *again = NULL;
    int live, fds, fd = -1;

    (void)state;
    assert_int_equal(memory->alloc(memory->argument, HEAP - 5, &base, &fd), 0);
    live = fake_live();
    fds = descriptors();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const char *call = named(calls[i][0], calls[i][1]);

        fake_fail(call, UNKNOWN);
        /* the first one is this process's own failure, the others may be the fault of the descriptor */
        assert_int_equal(memory->import(memory->argument, fd, HEAP, &again),
                         i == 0 ? -EIO : -EPROTO);
        assert_error(call, "FAKE_ERROR_UNKNOWN");
        assert_int_equal(fake_live(), live);
        assert_int_equal(descriptors(), fds);
    }
    setenv("FAKE_GPU_OF_HOST", "1", 1);
    assert_int_equal(memory->import(memory->argument, fd, HEAP, &again), -EPROTO);
    assert_error("location", "of type 2");
    unsetenv("FAKE_GPU_OF_HOST");
    assert_int_equal(memory->import(memory->argument, fd, HEAP + 1, &again), -EPROTO);
    assert_error("262144 bytes", "262145");
    /* its descriptor does not show the size of CUDA's memory: the driver refuses what is not all of it */
    assert_int_equal(memory->import(memory->argument, fd, HEAP / 2, &again), -EPROTO);
    assert_error(named("cuMemMap", "hipMemMap"), "FAKE_ERROR_NOT_SUPPORTED");
    assert_int_equal(fake_live(), live);
    assert_int_equal(memory->import(memory->argument, fd, HEAP, &again), 0);
    memory->unimport(memory->argument, again, HEAP);
    assert_int_equal(fake_live(), live);
    memory->free(memory->argument, base, HEAP - 5);
    close(fd);
}

static void test_copies_and_waits_fail(void **state)
{
    const char *in = named("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"),
               *out = named("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"),
               *event = named("cuEventCreate", "hipEventCreateWithFlags"),
               *record = named("cuEventRecord", "hipEventRecord"),
               *wait = named("cuEventQuery", "hipEventQuery"),
               *all = named("cuCtxRecordEvent", "hipDeviceSynchronize"),
               *push = named("cuCtxPushCurrent_v2", "hipCtxPushCurrent");
    char bytes[100] = "bytes of the host", back[100] = "";
    void *base = NULL;
    int fd = -1;

    (void)state;
    assert_int_equal(memory->alloc(memory->argument, HEAP, &base, &fd), 0);
    close(fd);
    fake_fail(event, UNKNOWN); /* made once, for the first copy of all */
    assert_int_equal(memory->copy_in(memory->argument, base, bytes, sizeof(bytes)), -EIO);
    assert_error(event, "FAKE_ERROR_UNKNOWN");
    fake_fail(in, UNKNOWN);
    assert_int_equal(memory->copy_in(memory->argument, base, bytes, sizeof(bytes)), -EIO);
    assert_error(in, "FAKE_ERROR_UNKNOWN");
    fake_fail(record, UNKNOWN);
    assert_int_equal(memory->copy_out(memory->argument, back, base, sizeof(back)), -EIO);
    assert_error(record, "FAKE_ERROR_UNKNOWN");
    memset(back, 1, sizeof(back));
    assert_int_equal(memory->left(memory->argument, base, 1), 0);
    assert_int_equal(back[0], 1); /* it was not left in flight */
    fake_fail(wait, UNKNOWN);
    assert_int_equal(memory->copy_in(memory->argument, base, bytes, sizeof(bytes)), -EIO);
    assert_error(wait, "FAKE_ERROR_UNKNOWN");
    fake_fail(push, UNKNOWN);
    assert_int_equal(memory->copy_in(memory->argument, base, bytes, sizeof(bytes)), -EIO);
    assert_int_equal(memory->copy_in(memory->argument, base, bytes, sizeof(bytes)), 0);
    fake_fail(out, UNKNOWN);
    assert_int_equal(memory->copy_out(memory->argument, back, base, sizeof(back)), -EIO);
    assert_error(out, "FAKE_ERROR_UNKNOWN");
    fake_fail(push, UNKNOWN);
    assert_int_equal(memory->copy_out(memory->argument, back, base, sizeof(back)), -EIO);
    assert_int_equal(memory->copy_out(memory->argument, back, base, sizeof(back)), 0);
    assert_string_equal(back, bytes);
    /* beyond the memory: the device finds that */
    assert_int_equal(
        memory->copy_out(memory->argument, back, (char *)base + HEAP - 1, sizeof(back)), -EIO);
    assert_error(wait, "FAKE_ERROR_ILLEGAL_ADDRESS");

    fake_fail(all, UNKNOWN);
    assert_int_equal(memory->left(memory->argument, base, 1), -EIO);
    assert_error(all, "FAKE_ERROR_UNKNOWN");
    fake_fail(push, UNKNOWN);
    assert_int_equal(memory->left(memory->argument, base, 1), -EIO);
    assert_int_equal(memory->left(memory->argument, base, 1), 0);
    fake_fail(all, UNKNOWN);
    rgpu_wait_for(gpu, RGPU_WAIT_NOT, NULL);
    assert_int_equal(memory->left(memory->argument, base, 1), 0);
    rgpu_wait_for(gpu, RGPU_WAIT_CONTEXT, NULL);
    assert_int_equal(memory->left(memory->argument, base, 1), -EIO); /* it was not called before */
    memory->free(memory->argument, base, HEAP);
}

/* Work that does not end: every wait has a deadline, and no copy is made after one that may still be. */
static void test_deadlines(void **state)
{
    char error[RGPU_ERROR_BYTES] = "", bytes[100] = "bytes of the host";
    const rmemory_ops_t *m;
    void *base = NULL;
    rgpu_t other;
    int fd = -1;

    (void)state;
    assert_int_equal(rgpu_open(&other, api, library, 0, error, sizeof(error)), 0);
    rgpu_set_wait_ms(other, 1);
    m = rgpu_memory(other);
    assert_int_equal(m->alloc(m->argument, HEAP, &base, &fd), 0);
    close(fd);
    fake_stall(1);
    assert_int_equal(m->left(m->argument, base, 1), 0); /* there is no work */
    assert_int_equal(m->copy_in(m->argument, base, bytes, sizeof(bytes)), -ETIMEDOUT);
    rgpu_error(other, error, sizeof(error));
    assert_string_equal(error, "a copy has not completed for 1 ms");
    if (*api == 'c') { /* HIP waits for its context without a deadline */
        assert_int_equal(m->left(m->argument, base, 1), -ETIMEDOUT);
        rgpu_error(other, error, sizeof(error));
        assert_string_equal(error, "the work of the context has not completed for 1 ms");
    }
    fake_stall(0);
    assert_int_equal(m->left(m->argument, base, 1), 0);
    assert_int_equal(m->copy_out(m->argument, bytes, base, sizeof(bytes)), -EIO);
    rgpu_error(other, error, sizeof(error));
    assert_non_null(strstr(error, "an earlier copy"));
    m->free(m->argument, base, HEAP);
    rgpu_close(other);
}

/* A device that does not keep writes of networks in order: flushed where a network reaches its memory, or not reached by one. */
static void test_writes_of_networks(void **state)
{
    char error[RGPU_ERROR_BYTES] = "";
    int fd = -1, made = -1, flushes = fake_flushes();
    const rmemory_ops_t *m;
    void *base = NULL;
    rgpu_t other;

    (void)state;
    assert_null(memory->arrived);
    assert_true(memory->kind == (*api == 'c' ? RMEMORY_CUDA : RMEMORY_ROCM) && memory->number == 0);
    if (*api != 'c')
        skip(); /* HIP has nothing of this kind */
    for (int can = 0; can < 2; can++) {
        setenv("FAKE_GPU_UNORDERED", can ? "flushed" : "never", 1);
        assert_int_equal(rgpu_open(&other, api, library, 0, error, sizeof(error)), 0);
        m = rgpu_memory(other);
        assert_int_equal(m->arrived != NULL, can);
        assert_int_equal(m->kind, can ? RMEMORY_CUDA : RMEMORY_OTHER);
        assert_int_equal(m->alloc(m->argument, HEAP, &base, &fd), 0);
        close(fd);
        if (can)
            assert_int_equal(m->arrived(m->argument, base, 1), 0);
        assert_int_equal(fake_flushes(), flushes); /* nothing is registered */
        assert_int_equal(m->dmabuf(m->argument, base, HEAP, &made), can ? 0 : -ENOTSUP);
        if (can) {
            close(made);
            assert_int_equal(m->arrived(m->argument, base, 1), 0);
            assert_int_equal(fake_flushes(), flushes + 1);
            fake_fail("cuFlushGPUDirectRDMAWrites", UNKNOWN);
            assert_int_equal(m->arrived(m->argument, base, 1), -EIO);
        }
        m->free(m->argument, base, HEAP);
        rgpu_close(other);
    }
    unsetenv("FAKE_GPU_UNORDERED");
}

/* What a network registers. */
static void test_a_dmabuf(void **state)
{
    static const char *const calls[][2] = {
        {"cuCtxPushCurrent_v2", "hipCtxPushCurrent"},
        {"cuMemGetHandleForAddressRange", "hipMemGetHandleForAddressRange"}};
    int fds, fd = -1, made = -1;
    void *base = NULL;

    (void)state;
    assert_int_equal(memory->alloc(memory->argument, HEAP - 5, &base, &fd), 0);
    close(fd);
    fds = descriptors();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const char *call = named(calls[i][0], calls[i][1]);

        fake_fail(call, UNKNOWN);
        assert_int_equal(memory->dmabuf(memory->argument, base, HEAP - 5, &made), -EIO);
        assert_error(call, "FAKE_ERROR_UNKNOWN");
        assert_int_equal(made, -1);
        assert_int_equal(descriptors(), fds);
    }
    assert_int_equal(memory->dmabuf(memory->argument, base, HEAP - 5, &made), 0);
    assert_int_equal(lseek(made, 0, SEEK_END), HEAP);
    assert_int_equal(fcntl(made, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(made);
    memory->free(memory->argument, base, HEAP - 5);
}

/* A device that shares the memory of the host. */
static void test_a_device_without_networks(void **state)
{
    char error[RGPU_ERROR_BYTES] = "";
    const rmemory_ops_t *m;
    void *base = NULL;
    rgpu_t other;
    int fd = -1;

    (void)state;
    setenv("FAKE_GPU_WITHOUT_NETWORKS", "1", 1);
    assert_int_equal(rgpu_open(&other, api, library, 0, error, sizeof(error)), 0);
    m = rgpu_memory(other);
    assert_int_equal(m->alloc(m->argument, HEAP, &base, &fd), 0);
    close(fd);
    m->free(m->argument, base, HEAP);
    rgpu_close(other);
    unsetenv("FAKE_GPU_WITHOUT_NETWORKS");
}

/* A pipe reports the provider's code, and goes on. */
static void test_a_pipe_reports_it(void **state)
{
    rpipe_config_t cfg = {.role = RPIPE_WRITER, .context = 1, .heap_bytes = HEAP, .memory = memory};
    int live = fake_live();
    struct pair p = {NULL, NULL};
    char bytes[1000] = "a message", back[1000] = "";
    rinfo_pipe_t about;
    size_t n;

    (void)state;
    CHECK_OK(NULL, rpipe(&p.w, &cfg));
    cfg.role = RPIPE_READER;
    CHECK_OK(NULL, rpipe(&p.r, &cfg));
    fake_fail(named("cuCtxRecordEvent", "hipDeviceSynchronize"), UNKNOWN);
    CHECK_RC(-EIO, p.w, rsend(p.w, bytes, sizeof(bytes), 0));
    assert_non_null(strstr(rerror(p.w), named("cuda: left", "hip: left")));
    CHECK_OK(p.w, rinfo_describe(p.w, &about));
    if (pair_over_network()) /* linked with the device of fake_verbs.h */
        assert_non_null(strstr(about.path, "registered, and reached by the network"));
    CHECK_OK(p.w, rsend(p.w, bytes, sizeof(bytes), 0));
    CHECK_OK(p.r, rrecv(p.r, back, sizeof(back), &n, 0));
    assert_true(n == sizeof(bytes) && memcmp(bytes, back, n) == 0);
    CHECK_OK(p.w, rclose(p.w));
    CHECK_OK(p.r, rclose(p.r));
    for (double since = now_ms(); fake_live() != live && now_ms() - since < CHECK_LATE_MS;)
        sched_yield(); /* the service thread gives the memory back */
    assert_int_equal(fake_live(), live);
}

static int run(const char *of_api, const char *of_library, rgpu_t *opened)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_does_not_open),
        cmocka_unit_test(test_an_allocation_fails),
        cmocka_unit_test(test_an_import_fails),
        cmocka_unit_test(test_copies_and_waits_fail),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_writes_of_networks),
        cmocka_unit_test(test_a_dmabuf),
        cmocka_unit_test(test_a_device_without_networks),
        cmocka_unit_test(test_a_pipe_reports_it),
    };
    char error[RGPU_ERROR_BYTES] = "";

    api = of_api;
    library = of_library;
    find_fake();
    if (rgpu_open(&gpu, api, library, 0, error, sizeof(error)) != 0) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
    *opened = gpu;
    memory = rgpu_memory(gpu);
    return cmocka_run_group_tests_name(api, tests, NULL, NULL);
}

int main(void)
{
    rgpu_t cuda, hip;
    int failed;

    pair_process = getpid();
    if (rinit(NULL, NULL) != 0)
        return 1;
    failed = run("cuda", "test/lib/.libs/fake_cuda.so", &cuda);
    failed += run("hip", "test/lib/.libs/fake_hip.so", &hip);
    failed += rexit() != 0;
    rgpu_close(cuda);
    rgpu_close(hip); /* the fake of hip is found */
    if (fake_live() != 0)
        fprintf(stderr, "%d objects of the driver are left\n", fake_live());
    return failed != 0 || fake_live() != 0;
}
