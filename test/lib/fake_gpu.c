/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_gpu.c: a driver of a GPU that this machine does not have, for tests of contrib/gpu: a library with the functions of CUDA's
 * driver that are used there, or with those of HIP (-DFAKE_HIP).
 *
 * Memory is a memfd, and an address of the device is mapped to nothing: a load or store of a processor there is a SIGSEGV. Copies
 * and kernels are put into a stream, and done when that is synchronized, or at the third query of it or of an event behind them: without a
 * wait the memory has what was there before. Functions that need a context fail without one. A mapping of another size than the memory, an access outside of a
 * mapping that set_access has opened, and a descriptor that is no memory of this driver's are errors, as they are of the real one.
 *
 * A test lets the next call of a function fail (fake_gpu_fail) and all queries find work that does not end (fake_gpu_stall), and counts what
 * has been made and not been given back (fake_gpu_live), and flushes of what networks have written (fake_gpu_flushes).
 */
#include "examples/gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef FAKE_HIP
#define NAME(cuda, hip) hip
#else
#define NAME(cuda, hip) cuda
#endif
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* The driver's functions are declared nowhere: they are found by name. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC visibility push(default)

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    NOT_SUPPORTED = 801
};
enum { GRANULARITY = 1 << 16, MOST = 64, QUERIES = 3 };

struct properties {
    int type, handle_types, location_type, location;
    void *not_used;
    unsigned char flags[8];
};

struct memory { /* a handle is its index + 1 */
    int fd;     /* -1: free */
    size_t bytes;
    struct properties properties;
};

struct range { /* of addresses */
    char *address;
    size_t bytes;
    char *alias; /* of the memory that is mapped, or NULL */
    int fd;      /* of that memory */
    bool open;   /* set_access */
};

struct work {
    struct work *next;
    enum { COPY_IN, COPY_OUT, COPY, FILL, CHECK } what;
    uint64_t at, wrong, from;
    void *host; /* COPY_IN: staged, and freed */
    size_t bytes;
    uint32_t key;
};

struct stream {
    struct work *first, **last;
    uint64_t submitted, done;
    int queries;
};

struct event { /* what was submitted when it was recorded */
    struct stream *stream[MOST];
    uint64_t upto[MOST];
    int queries;
};

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory fake_memory[MOST];
static struct range fake_range[MOST];
static struct stream *fake_stream[MOST];
static int fake_contexts, fake_modules, fake_events, fake_flushed;
static bool fake_stalled;
static bool fake_ready;
static char fake_failing[64];
static int fake_code;
static __thread int fake_depth; /* of this thread's stack of contexts; it has only one context */

/* ---- of the test ---- */

void fake_gpu_fail(const char *function, int code)
{
    pthread_mutex_lock(&fake_lock);
    strncpy(fake_failing, function, sizeof(fake_failing) - 1);
    fake_code = code;
    pthread_mutex_unlock(&fake_lock);
}

void fake_gpu_stall(int stalled) { fake_stalled = stalled != 0; }

int fake_gpu_flushes(void) { return fake_flushed; }

/* Handles, ranges, mappings, streams, events, contexts and modules. */
int fake_gpu_live(void)
{
    int live = fake_contexts + fake_modules + fake_events;

    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < MOST; i++)
        live += (fake_ready && fake_memory[i].fd >= 0) + (fake_range[i].address != NULL) +
                (fake_range[i].alias != NULL) + (fake_stream[i] != NULL);
    pthread_mutex_unlock(&fake_lock);
    return live;
}

/* Does this call fail? Returns with the lock if it does not. */
static int fake_begin(const char *function, bool needs_context)
{
    int code = SUCCESS;

    pthread_mutex_lock(&fake_lock);
    if (strcmp(fake_failing, function) == 0) {
        code = fake_code;
        fake_failing[0] = '\0';
    } else if (!fake_ready) {
        code = NOT_INITIALIZED;
    } else if (needs_context && fake_depth == 0) {
        code = INVALID_CONTEXT;
    }
    if (code != SUCCESS)
        pthread_mutex_unlock(&fake_lock);
    return code;
}

static int fake_end(int code)
{
    pthread_mutex_unlock(&fake_lock);
    return code;
}

#define BEGIN(needs_context)                                                                       \
    do {                                                                                           \
        int begun_ = fake_begin(__func__, needs_context);                                          \
        if (begun_ != SUCCESS)                                                                     \
            return begun_;                                                                         \
    } while (0)

/* ---- driver, device, context ---- */

int NAME(cuInit, hipInit)(unsigned flags)
{
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; !fake_ready && i < MOST; i++)
        fake_memory[i].fd = -1;
    fake_ready = true;
    pthread_mutex_unlock(&fake_lock);
    BEGIN(false);
    return fake_end(flags == 0 ? SUCCESS : INVALID_VALUE);
}

int NAME(cuGetErrorName, hipDrvGetErrorName)(int code, const char **name)
{
    *name = code == INVALID_VALUE     ? "FAKE_ERROR_INVALID_VALUE"
            : code == INVALID_DEVICE  ? "FAKE_ERROR_INVALID_DEVICE"
            : code == INVALID_CONTEXT ? "FAKE_ERROR_INVALID_CONTEXT"
            : code == ILLEGAL_ADDRESS ? "FAKE_ERROR_ILLEGAL_ADDRESS"
            : code == NOT_SUPPORTED   ? "FAKE_ERROR_NOT_SUPPORTED"
            : code == 2               ? "FAKE_ERROR_OUT_OF_MEMORY"
            : code == 999             ? "FAKE_ERROR_UNKNOWN"
                                      : NULL;
    return *name != NULL ? SUCCESS : INVALID_VALUE;
}

int NAME(cuDeviceGet, hipDeviceGet)(int *device, int ordinal)
{
    BEGIN(false);
    if (ordinal == 0)
        *device = 0;
    return fake_end(ordinal == 0 ? SUCCESS : INVALID_DEVICE);
}

int NAME(cuDeviceGetName, hipDeviceGetName)(char *name, int bytes, int device)
{
    BEGIN(false);
    strncpy(name, "fake GPU", (size_t)bytes);
    return fake_end(device == 0 ? SUCCESS : INVALID_DEVICE);
}

#ifndef FAKE_HIP
/* FAKE_GPU_UNORDERED: writes of networks have to be flushed; FAKE_GPU_UNORDERED=never: and cannot be. */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const char *unordered = getenv("FAKE_GPU_UNORDERED");

    BEGIN(false);
    *value = 0;
    if (attribute == 110) /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
        *value = getenv("FAKE_GPU_WITHOUT_NETWORKS") == NULL;
    if (attribute == 117) /* GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS */
        *value = unordered == NULL || strcmp(unordered, "never") != 0;
    if (attribute == 118) /* GPU_DIRECT_RDMA_WRITES_ORDERING */
        *value = unordered == NULL ? 100 : 0;
    return fake_end(device == 0 ? SUCCESS : INVALID_DEVICE);
}

int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    BEGIN(true);
    fake_flushed++;
    return fake_end(target == 0 && scope == 100 ? SUCCESS : INVALID_VALUE);
}
#endif

int NAME(cuDevicePrimaryCtxRetain, hipDevicePrimaryCtxRetain)(void **context, int device)
{
    BEGIN(false);
    *context = &fake_contexts;
    fake_contexts++;
    return fake_end(device == 0 ? SUCCESS : INVALID_DEVICE);
}

int NAME(cuDevicePrimaryCtxRelease_v2, hipDevicePrimaryCtxRelease)(int device)
{
    BEGIN(false);
    fake_contexts--;
    return fake_end(device == 0 ? SUCCESS : INVALID_DEVICE);
}

int NAME(cuCtxGetCurrent, hipCtxGetCurrent)(void **context)
{
    BEGIN(false);
    *context = fake_depth > 0 ? &fake_contexts : NULL;
    return fake_end(SUCCESS);
}

int NAME(cuCtxPushCurrent_v2, hipCtxPushCurrent)(void *context)
{
    BEGIN(false);
    fake_depth++;
    return fake_end(context == &fake_contexts ? SUCCESS : INVALID_CONTEXT);
}

int NAME(cuCtxPopCurrent_v2, hipCtxPopCurrent)(void **context)
{
    BEGIN(true);
    fake_depth--;
    *context = &fake_contexts;
    return fake_end(SUCCESS);
}

int NAME(cuCtxSetCurrent, hipCtxSetCurrent)(void *context)
{
    BEGIN(false);
    fake_depth = 1;
    return fake_end(context == &fake_contexts ? SUCCESS : INVALID_CONTEXT);
}

#ifdef FAKE_HIP
int hipRuntimeGetVersion(int *version)
{
    const char *given = getenv("FAKE_HIP_VERSION");

    *version = given != NULL ? atoi(given) : 70200000;
    return SUCCESS;
}
#endif

/* ---- memory ---- */

int NAME(cuMemGetAllocationGranularity,
         hipMemGetAllocationGranularity)(size_t *bytes, const void *properties, int recommended)
{
    (void)properties, (void)recommended;
    BEGIN(false);
    *bytes = GRANULARITY;
    return fake_end(SUCCESS);
}

/* A handle of a descriptor, which becomes the handle's. */
static int fake_handle(uint64_t *handle, int fd, size_t bytes, const struct properties *properties)
{
    int i = 0;

    while (i < MOST && fake_memory[i].fd >= 0)
        i++;
    if (i == MOST || fd < 0)
        abort();
    fake_memory[i] = (struct memory){fd, bytes, *properties};
    *handle = (uint64_t)i + 1;
    return SUCCESS;
}

static struct memory *fake_of(uint64_t handle)
{
    if (handle == 0 || handle > MOST || fake_memory[handle - 1].fd < 0)
        abort(); /* undefined behavior of the real one */
    return &fake_memory[handle - 1];
}

int NAME(cuMemCreate, hipMemCreate)(uint64_t *handle, size_t bytes,
                                    const struct properties *properties, unsigned long long flags)
{
    int fd;

    BEGIN(false);
    if (bytes == 0 || bytes % GRANULARITY != 0 || properties->type != 1 ||
        properties->handle_types != 1 || properties->location_type != 1 ||
        properties->location != 0 || flags != 0)
        return fake_end(INVALID_VALUE);
#ifndef FAKE_HIP
    if (properties->flags[1] != (getenv("FAKE_GPU_WITHOUT_NETWORKS") == NULL))
        return fake_end(INVALID_VALUE);
#endif
    fd = memfd_create("fake GPU", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    return fake_end(fake_handle(handle, fd, bytes, properties));
}

int NAME(cuMemRelease, hipMemRelease)(uint64_t handle)
{
    struct memory *m;

    BEGIN(false);
    m = fake_of(handle);
    close(m->fd);
    m->fd = -1;
    return fake_end(SUCCESS);
}

int NAME(cuMemGetAllocationPropertiesFromHandle,
         hipMemGetAllocationPropertiesFromHandle)(struct properties *properties, uint64_t handle)
{
    BEGIN(false);
    *properties = fake_of(handle)->properties;
    if (getenv("FAKE_GPU_OF_HOST") != NULL)
        properties->location_type = 2;
    return fake_end(SUCCESS);
}

int NAME(cuMemExportToShareableHandle, hipMemExportToShareableHandle)(int *fd, uint64_t handle,
                                                                      int type,
                                                                      unsigned long long flags)
{
    BEGIN(false);
    if (type != 1 || flags != 0)
        return fake_end(INVALID_VALUE);
    *fd = dup(fake_of(handle)->fd);
    return fake_end(*fd >= 0 ? SUCCESS : INVALID_VALUE);
}

int NAME(cuMemImportFromShareableHandle, hipMemImportFromShareableHandle)(uint64_t *handle,
                                                                          void *passed, int type)
{
    const struct properties properties = {1, 1, 1, 0, NULL, {0}};
    char path[64], name[64] = "";
    int fd = (int)(intptr_t)passed;
    struct stat s;

    BEGIN(false);
#ifdef FAKE_HIP
    int version;

    if (hipRuntimeGetVersion(&version) == SUCCESS && version < 70100000)
        fd = *(int *)passed;
#endif
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (type != 1 || readlink(path, name, sizeof(name) - 1) < 0 ||
        strncmp(name, "/memfd:fake GPU", 15) != 0 || fstat(fd, &s) != 0)
        return fake_end(INVALID_VALUE);
    return fake_end(
        fake_handle(handle, fcntl(fd, F_DUPFD_CLOEXEC, 0), (size_t)s.st_size, &properties));
}

int NAME(cuMemAddressReserve, hipMemAddressReserve)(uint64_t *at, size_t bytes, size_t alignment,
                                                    uint64_t hint, unsigned long long flags)
{
    struct range *r = fake_range;

    BEGIN(false);
    if (bytes == 0 || bytes % GRANULARITY != 0 || alignment != 0 || hint != 0 || flags != 0)
        return fake_end(INVALID_VALUE);
    while (r < fake_range + MOST && r->address != NULL)
        r++;
    if (r == fake_range + MOST)
        abort();
    r->bytes = bytes;
    r->address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->address == MAP_FAILED)
        abort();
    *at = (uintptr_t)r->address;
    return fake_end(SUCCESS);
}

/* The range that begins there and has this size, or the end of the test: freed twice, or with another size. */
static struct range *fake_whole(uint64_t at, size_t bytes)
{
    for (struct range *r = fake_range; r < fake_range + MOST; r++)
        if ((uintptr_t)r->address == at && r->bytes == bytes)
            return r;
    abort();
}

int NAME(cuMemAddressFree, hipMemAddressFree)(uint64_t at, size_t bytes)
{
    struct range *r;

    BEGIN(false);
    r = fake_whole(at, bytes);
    if (r->alias != NULL)
        return fake_end(INVALID_VALUE);
    munmap(r->address, bytes);
    r->address = NULL;
    return fake_end(SUCCESS);
}

int NAME(cuMemMap, hipMemMap)(uint64_t at, size_t bytes, size_t offset, uint64_t handle,
                              unsigned long long flags)
{
    struct memory *m;
    struct range *r;

    BEGIN(false);
    m = fake_of(handle);
    r = fake_whole(at, bytes);
    if (bytes != m->bytes)
        return fake_end(NOT_SUPPORTED);
    if (r->alias != NULL || offset != 0 || flags != 0)
        return fake_end(INVALID_VALUE);
    r->alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    r->fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
    if (r->alias == MAP_FAILED || r->fd < 0)
        abort();
    return fake_end(SUCCESS);
}

int NAME(cuMemUnmap, hipMemUnmap)(uint64_t at, size_t bytes)
{
    struct range *r;

    BEGIN(false);
    r = fake_whole(at, bytes);
    if (r->alias == NULL)
        return fake_end(INVALID_VALUE);
    munmap(r->alias, bytes);
    close(r->fd);
    r->alias = NULL;
    r->open = false;
    return fake_end(SUCCESS);
}

/* The dma-buf of a mapping: a memfd in its place. */
int NAME(cuMemGetHandleForAddressRange, hipMemGetHandleForAddressRange)(int *fd, uint64_t at,
                                                                        size_t bytes, int type,
                                                                        unsigned long long flags)
{
    struct range *r;

    BEGIN(true);
    r = fake_whole(at, bytes);
    if (r->alias == NULL || !r->open || type != 1 || flags != 0)
        return fake_end(INVALID_VALUE);
    *fd = dup(r->fd);
    return fake_end(*fd >= 0 ? SUCCESS : INVALID_VALUE);
}

int NAME(cuMemSetAccess, hipMemSetAccess)(uint64_t at, size_t bytes, const int *access, size_t n)
{
    struct range *r;

    BEGIN(false);
    r = fake_whole(at, bytes);
    if (r->alias == NULL || n != 1 || access[0] != 1 || access[1] != 0 || access[2] != 3)
        return fake_end(INVALID_VALUE);
    r->open = true;
    return fake_end(SUCCESS);
}

/* ---- streams ---- */

int NAME(cuStreamCreate, hipStreamCreateWithFlags)(void **stream, unsigned flags)
{
    struct stream *s = calloc(1, sizeof(*s));
    int i = 0;

    if (s == NULL)
        abort();
    (void)flags;
    s->last = &s->first;
    if (fake_begin(__func__, true) != SUCCESS) {
        free(s);
        return 999;
    }
    while (fake_stream[i] != NULL)
        i++;
    fake_stream[i] = s;
    *stream = s;
    return fake_end(SUCCESS);
}

/* What the device sees there; NULL: a fault. */
static char *fake_at(uint64_t at, size_t bytes)
{
    for (struct range *r = fake_range; r < fake_range + MOST; r++) {
        size_t offset = at - (uintptr_t)r->address;

        if (r->address != NULL && offset <= r->bytes && bytes <= r->bytes - offset)
            return r->open ? r->alias + offset : NULL;
    }
    return NULL;
}

static int fake_do(const struct work *w)
{
    char *at = fake_at(w->at, w->bytes), *wrong = fake_at(w->wrong, sizeof(uint32_t)),
         *from = fake_at(w->from, w->bytes);
    uint32_t word, count;

    if (at == NULL || (w->what == CHECK && wrong == NULL) || (w->what == COPY && from == NULL))
        return ILLEGAL_ADDRESS;
    if (w->what == COPY_IN)
        memcpy(at, w->host, w->bytes);
    if (w->what == COPY_OUT)
        memcpy(w->host, at, w->bytes);
    if (w->what == COPY)
        memmove(at, from, w->bytes);
    for (uint32_t i = 0; w->what == FILL && i < w->bytes / sizeof(word); i++) {
        word = gpu_word(w->key, i);
        memcpy(at + i * sizeof(word), &word, sizeof(word));
    }
    for (uint32_t i = 0; w->what == CHECK && i < w->bytes / sizeof(word); i++) {
        memcpy(&word, at + i * sizeof(word), sizeof(word));
        memcpy(&count, wrong, sizeof(count));
        count += word != gpu_word(w->key, i);
        memcpy(wrong, &count, sizeof(count));
    }
    return SUCCESS;
}

static int fake_complete_to(struct stream *s, uint64_t upto)
{
    int code = SUCCESS;

    while (s->first != NULL && s->done < upto) {
        struct work *w = s->first;
        int one = fake_do(w);

        code = code == SUCCESS ? one : code;
        s->first = w->next;
        s->done++;
        if (w->what == COPY_IN)
            free(w->host);
        free(w);
    }
    if (s->first == NULL)
        s->last = &s->first;
    s->queries = 0;
    return code;
}

static int fake_complete(struct stream *s) { return fake_complete_to(s, UINT64_MAX); }

static int fake_submit(struct stream *s, const struct work *work)
{
    struct work *w = malloc(sizeof(*w));

    if (w == NULL || s == NULL)
        abort();
    *w = *work;
    if (w->what == COPY_IN) {
        w->host = malloc(w->bytes);
        if (w->host == NULL)
            abort();
        memcpy(w->host, work->host, w->bytes);
    }
    w->next = NULL;
    s->submitted++;
    *s->last = w;
    s->last = &w->next;
    return SUCCESS;
}

int NAME(cuStreamDestroy_v2, hipStreamDestroy)(void *stream)
{
    int i = 0;

    BEGIN(true);
    while (fake_stream[i] != stream)
        i++;
    (void)fake_complete(stream);
    free(stream);
    fake_stream[i] = NULL;
    return fake_end(SUCCESS);
}

int NAME(cuStreamQuery, hipStreamQuery)(void *stream)
{
    struct stream *s = stream;

    BEGIN(true);
    if (s->first != NULL && (fake_stalled || ++s->queries < QUERIES))
        return fake_end(NOT_READY);
    return fake_end(fake_complete(s));
}

int NAME(cuStreamSynchronize, hipStreamSynchronize)(void *stream)
{
    BEGIN(true);
    return fake_end(fake_complete(stream));
}

int NAME(cuEventCreate, hipEventCreateWithFlags)(void **event, unsigned flags)
{
    BEGIN(true);
    *event = calloc(1, sizeof(struct event));
    if (*event == NULL)
        abort();
    fake_events++;
    return fake_end(flags == 2 ? SUCCESS : INVALID_VALUE);
}

int NAME(cuEventDestroy_v2, hipEventDestroy)(void *event)
{
    BEGIN(true);
    free(event);
    fake_events--;
    return fake_end(SUCCESS);
}

/* stream NULL: all of them. Under the lock. */
static int fake_record(struct event *e, const void *stream)
{
    memset(e, 0, sizeof(*e));
    for (int i = 0; i < MOST; i++)
        if (fake_stream[i] != NULL && (stream == NULL || fake_stream[i] == stream)) {
            e->stream[i] = fake_stream[i];
            e->upto[i] = fake_stream[i]->submitted;
        }
    return SUCCESS;
}

int NAME(cuEventRecord, hipEventRecord)(void *event, void *stream)
{
    BEGIN(true);
    return fake_end(stream != NULL ? fake_record(event, stream) : INVALID_VALUE);
}

#ifndef FAKE_HIP
int cuCtxRecordEvent(void *context, void *event)
{
    BEGIN(false);
    return fake_end(context == &fake_contexts ? fake_record(event, NULL) : INVALID_CONTEXT);
}
#endif

int NAME(cuEventQuery, hipEventQuery)(void *event)
{
    struct event *e = event;
    bool pending = false;
    int code = SUCCESS;

    BEGIN(true);
    for (int i = 0; i < MOST; i++) {
        if (e->stream[i] != fake_stream[i])
            e->stream[i] = NULL; /* it has ended since, and completed its work */
        pending = pending || (e->stream[i] != NULL && e->stream[i]->done < e->upto[i]);
    }
    if (pending && (fake_stalled || ++e->queries < QUERIES))
        return fake_end(NOT_READY);
    for (int i = 0; i < MOST; i++) {
        int one = e->stream[i] != NULL ? fake_complete_to(e->stream[i], e->upto[i]) : SUCCESS;

        code = code == SUCCESS ? one : code;
    }
    return fake_end(code);
}

int NAME(cuCtxSynchronize, hipDeviceSynchronize)(void)
{
    int code = SUCCESS;

    BEGIN(true);
    for (int i = 0; i < MOST; i++) {
        int one = fake_stream[i] != NULL ? fake_complete(fake_stream[i]) : SUCCESS;

        code = code == SUCCESS ? one : code;
    }
    return fake_end(code);
}

int NAME(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(uint64_t to, const void *from, size_t bytes,
                                                   void *stream)
{
    void *host;

    memcpy(&host, &from, sizeof(host)); /* it is only read */
    BEGIN(true);
    return fake_end(fake_submit(
        stream, &(struct work){.what = COPY_IN, .at = to, .host = host, .bytes = bytes}));
}

int NAME(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *to, uint64_t from, size_t bytes,
                                                   void *stream)
{
    BEGIN(true);
    return fake_end(fake_submit(
        stream, &(struct work){.what = COPY_OUT, .at = from, .host = to, .bytes = bytes}));
}

int NAME(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(uint64_t to, uint64_t from, size_t bytes,
                                                   void *stream)
{
    BEGIN(true);
    return fake_end(
        fake_submit(stream, &(struct work){.what = COPY, .at = to, .from = from, .bytes = bytes}));
}

/* ---- kernels ---- */

int NAME(cuModuleLoadData, hipModuleLoadData)(void **module, const void *image)
{
    BEGIN(true);
    if (image == NULL)
        return fake_end(INVALID_VALUE);
    *module = &fake_modules;
    fake_modules++;
    return fake_end(SUCCESS);
}

int NAME(cuModuleUnload, hipModuleUnload)(void *module)
{
    BEGIN(true);
    fake_modules--;
    return fake_end(module == &fake_modules ? SUCCESS : INVALID_VALUE);
}

static const char *const fake_kernel[] = {"device_fill", "device_check"};

int NAME(cuModuleGetFunction, hipModuleGetFunction)(const void **function, void *module,
                                                    const char *name)
{
    BEGIN(true);
    *function = NULL;
    for (int i = 0; i < 2; i++)
        if (strcmp(name, fake_kernel[i]) == 0)
            *function = &fake_kernel[i];
    return fake_end(*function != NULL && module == &fake_modules ? SUCCESS : INVALID_VALUE);
}

int NAME(cuLaunchKernel, hipModuleLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y,
                                                unsigned grid_z, unsigned block_x, unsigned block_y,
                                                unsigned block_z, unsigned shared, void *stream,
                                                void **arguments, void **more)
{
    struct work w = {.what = function == &fake_kernel[0] ? FILL : CHECK};
    uint32_t words;

    BEGIN(true);
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_y != 1 || block_z != 1 ||
        shared != 0 || more != NULL)
        return fake_end(INVALID_VALUE);
    memcpy(&w.at, arguments[0], sizeof(w.at));
    memcpy(&words, arguments[1], sizeof(words));
    memcpy(&w.key, arguments[2], sizeof(w.key));
    if (w.what == CHECK)
        memcpy(&w.wrong, arguments[3], sizeof(w.wrong));
    w.bytes = words * sizeof(words);
    return fake_end(fake_submit(stream, &w));
}

#ifdef FAKE_HIP
int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers,
                        const char **header, const char **include)
{
    (void)name, (void)header, (void)include;
    *program = &fake_modules;
    return strstr(source, fake_kernel[0]) != NULL && headers == 0 ? SUCCESS : INVALID_VALUE;
}

int hiprtcCompileProgram(void *program, int options, const char **option)
{
    (void)option;
    return program != NULL && options == 0 ? SUCCESS : INVALID_VALUE;
}

int hiprtcGetCodeSize(void *program, size_t *size)
{
    *size = 1;
    return program != NULL ? SUCCESS : INVALID_VALUE;
}

int hiprtcGetCode(void *program, char *to)
{
    *to = 0;
    return program != NULL ? SUCCESS : INVALID_VALUE;
}

int hiprtcDestroyProgram(void **program)
{
    *program = NULL;
    return SUCCESS;
}
#endif
#pragma GCC visibility pop
