/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes whose heap is memory of a device, both ends in one process: streams in every mode, configurations and calls that are refused, and
 * calls of the device that fail. Over shared memory, over networks that move a copy (PAIR_NET, pair.h), and over two that reach
 * memory of devices (device_pair.h). test/mpi/mp_device.c has two processes.
 */
#include "device_pair.h"

enum { STREAM = 200, HELD = 4 };

static void assert_describes(rch_t ch, const char *path, const char *why)
{
    rinfo_pipe_t about;

    CHECK_OK(ch, rinfo_describe(ch, &about));
    if (strstr(about.path, path) == NULL || strstr(about.why, why) == NULL)
        fail_msg("\"%s\", \"%s\" do not contain \"%s\", \"%s\"", about.path, about.why, path, why);
}

/* ---- messages ---- */

static size_t size_of(uint64_t i)
{
    uint64_t x = random_mix(i);

    return x % 4 == 0 ? (x >> 8) % 64 : (x >> 8) % (HEAP / 24);
}

static void put(rch_t ch, uint64_t i)
{
    static uint8_t bytes[HEAP];
    size_t size = size_of(i);
    raddr_t d;

    if (i % 3 == 0) {
        pattern_fill(bytes, size, i);
        CHECK_OK(ch, rsend(ch, bytes, size, 0));
        return;
    }
    assert_true((d = rmalloc(ch, size)) != ADDR_NULL);
    if (size > 0)
        device_fill(ch, d, size, i);
    CHECK_OK(ch, rset_tag(ch, d, i));
    CHECK_OK(ch, rwrite(ch, d));
}

static raddr_t get(rch_t ch, uint64_t i)
{
    static uint8_t bytes[HEAP];
    raddr_t d = ADDR_NULL;
    size_t size;

    if (i % 5 == 2) {
        CHECK_OK(ch, rrecv(ch, bytes, sizeof(bytes), &size, 0));
        assert_true(size == size_of(i) && pattern_same(bytes, size, i));
        return ADDR_NULL;
    }
    CHECK_OK(ch, rread(ch, &d, &size));
    assert_true(size == size_of(i) && rtag(ch, d) == (i % 3 == 0 ? 0 : i));
    assert_true(size == 0 || device_has(ch, d, size, i));
    return d;
}

static void stream(rpipe_op_t op, rpipe_sync_t mode)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, op);
    raddr_t held[HELD] = {ADDR_NULL};
    struct pair p;

    cfg.mode = mode;
    cfg.heuristic = mode == RPIPE_SYNC_BLOCKS ? RMALLOC_NEXT_FIT : RMALLOC_BEST_FIT;
    cfg.sync_queue = 0;
    cfg.slots = 8;
    cfg.flags = mode == RPIPE_SYNC_TAGS ? RPIPE_THREADS : 0;
    p = device_open(&cfg);
    if (mode == RPIPE_SYNC_BLOCKS) /* the wait of rread posts what is held */
        CHECK_OK(p.w, rcork(p.w, 1));
    for (uint64_t first = 0, n; first < STREAM; first += n) {
        n = 1 + random_mix(first) % 6;
        for (uint64_t i = first; i < first + n; i++)
            put(p.w, i);
        for (uint64_t i = first; i < first + n; i++) {
            size_t at = (mode == RPIPE_SYNC_BLOCKS ? i : random_mix(~i)) % HELD;

            if (held[at] != ADDR_NULL)
                CHECK_OK(p.r, rfree(p.r, held[at]));
            held[at] = get(p.r, i);
        }
    }
    for (int i = 0; i < HELD; i++)
        if (held[i] != ADDR_NULL)
            CHECK_OK(p.r, rfree(p.r, held[i]));
    device_pair_close(&p);
}

static void test_streams_in_every_mode(void **state)
{
    (void)state;
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++)
        for (int mode = RPIPE_SYNC_BLOCKS; mode <= RPIPE_SYNC_CHANNEL; mode++)
            stream((rpipe_op_t)op, (rpipe_sync_t)mode);
}

/* Messages, one at a time. */
static void pass_some(const struct pair *p)
{
    for (uint64_t i = 0; i < 40; i++) {
        raddr_t d;

        put(p->w, i);
        d = get(p->r, i);
        if (d != ADDR_NULL)
            CHECK_OK(p->r, rfree(p->r, d));
    }
}

/* The end without the heap takes over the sizes of the other one, and makes its memory then. */
static void test_sizes_of_the_other_end(void **state)
{
    (void)state;
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        rpipe_config_t w = device_config(RPIPE_WRITER, (rpipe_op_t)op),
                       r = device_config(RPIPE_READER, (rpipe_op_t)op);
        struct pair p = {NULL, NULL};

        *(op == RPIPE_PUT ? &w : &r) = (rpipe_config_t){.role = op == RPIPE_PUT ? w.role : r.role,
                                                        .op = (rpipe_op_t)op,
                                                        .context = w.context,
                                                        .memory = &memory};
        CHECK_OK(NULL, rpipe(&p.w, &w));
        CHECK_OK(NULL, rpipe(&p.r, &r));
        ctx++;
        pass_some(&p);
        device_pair_close(&p);
    }
}

/* How often messages were copied: by rwrite and rread, and neither by rsend nor by rrecv. */
static void test_the_way_is_described(void **state)
{
    static const uint8_t bytes[100];
    uint8_t received[100];
    uint64_t staged;

    (void)state;
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        struct pair p = device_pair((rpipe_op_t)op);
        const char *way = is_shared()       ? "memory of a device (fake), notified in memory that"
                          : is_registered() ? "memory of a device (fake), registered, and"
                                            : "memory of a device (fake), staged through memory";
        raddr_t d;
        size_t n;

        CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 100, 1)));
        CHECK_OK(p.r, rread(p.r, &d, &n));
        CHECK_OK(p.r, rfree(p.r, d));
        CHECK_OK(p.w, rsend(p.w, bytes, sizeof(bytes), 0));
        CHECK_OK(p.r, rrecv(p.r, received, sizeof(received), &n, 0));
        assert_describes(p.w, way, is_staged() ? "; staged: backend " : "");
        assert_describes(p.r, way, is_staged() ? "; staged: backend " : "");
        CHECK_OK(p.w, rinfo_count(p.w, "staged", &staged));
        assert_int_equal(staged, is_staged());
        CHECK_OK(p.r, rinfo_count(p.r, "staged", &staged));
        assert_int_equal(staged, is_staged());
        device_pair_close(&p);
    }
}

/* ---- what is refused ---- */

static void assert_refused(const rpipe_config_t *cfg, int code, const char *words)
{
    rch_t ch = NULL;

    CHECK_RC(code, NULL, rpipe(&ch, cfg));
    if (strstr(rerror(NULL), words) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", rerror(NULL), words);
    assert_int_equal(device.allocations, 0);
}

static void test_configurations(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_READER, RPIPE_PUT);
    rmemory_ops_t other = memory;

    (void)state;
    cfg.memory = &other;
    other.version = RMEMORY_VERSION + 1;
    assert_refused(&cfg, -EINVAL, "version");
    other.version = 0;
    assert_refused(&cfg, -EINVAL, "version");
    other = memory;
    other.kind = (rmemory_kind_t)77;
    assert_refused(&cfg, -EINVAL, "memory has kind 77");
    other = memory;
    other.name = NULL;
    assert_refused(&cfg, -EINVAL, "no name");
    other = memory;
    other.import = NULL;
    assert_refused(&cfg, -EINVAL, "import");
    other = memory;
    cfg.inline_max = 8;
    assert_refused(&cfg, -EINVAL, "inline_max");
    cfg.inline_max = RPIPE_INLINE_NONE;
    device.fail_alloc = ENOMEM;
    assert_refused(&cfg, -ENOMEM, "fake: alloc of 65536 bytes");
    device.descriptor = FAKE_NONE;
    other.kind = RMEMORY_OTHER;
    if (is_shared())
        assert_refused(&cfg, -EINVAL, "no descriptor");
    other.copy_in = NULL; /* the reader copies into the device */
    if (!is_shared())
        assert_refused(&cfg, -ENOTSUP, "fake has no copy_in");
    other.copy_in = memory.copy_in;
    other.copy_out = NULL;
    cfg.role = RPIPE_WRITER; /* and the writer out of it */
    if (!is_shared())
        assert_refused(&cfg, -ENOTSUP, "fake has no copy_out");
    device.descriptor = FAKE_MEMFD;
}

static int nowhere_fd;

static int alloc_nowhere(void *argument, size_t bytes, void **base, int *fd)
{
    (void)argument;
    (void)bytes;
    (void)base;
    *fd = nowhere_fd = memfd_create("nowhere", MFD_CLOEXEC);
    return 0;
}

static int import_nowhere(void *argument, int fd, size_t bytes, void **base)
{
    (void)argument;
    (void)fd;
    (void)bytes;
    (void)base;
    return 0;
}

/* A success without an address is a defect of the table; its descriptor is closed. */
static void test_memory_without_an_address(void **state)
{
    rpipe_config_t w = device_config(RPIPE_WRITER, RPIPE_PUT),
                   r = device_config(RPIPE_READER, RPIPE_PUT);
    rmemory_ops_t table = memory;
    rregion_t region = NULL;
    struct pair p = {NULL, NULL};

    (void)state;
    r.memory = &table;
    table.alloc = alloc_nowhere;
    assert_refused(&r, -EINVAL, "fake: alloc of 65536 bytes returned 0 and no address");
    assert_true(fcntl(nowhere_fd, F_GETFD) == -1 && errno == EBADF);
    CHECK_RC(-EINVAL, NULL, rregion_open_device(&region, NULL, &table, NULL, HEAP));
    assert_non_null(strstr(rerror(NULL), "no address"));
    assert_true(fcntl(nowhere_fd, F_GETFD) == -1 && region == NULL);
    if (!is_shared())
        return; /* nothing is imported */
    table = memory;
    table.import = import_nowhere;
    w.memory = &table;
    r.memory = &memory;
    CHECK_OK(NULL, rpipe(&p.r, &r));
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_RC(-EINVAL, p.w, rwait(p.w));
    assert_non_null(strstr(rerror(p.w), "fake: import of 65536 bytes returned 0 and no address"));
    ctx++;
    device_pair_close(&p);
}

static void test_calls_of_the_device_fail(void **state)
{
    struct pair p = device_pair(RPIPE_PUT);
    uint64_t staged;
    raddr_t d, got;
    size_t n;

    (void)state;
    d = device_message(p.w, 100, 1);
    device.fail_left = EIO;
    CHECK_RC(-EIO, p.w, rwrite(p.w, d)); /* still the writer's */
    assert_non_null(strstr(rerror(p.w), "fake: left of 100 bytes"));
    if (is_staged()) {
        device.fail_copy_out = EIO;
        CHECK_RC(-EIO, p.w, rwrite(p.w, d));
        assert_non_null(strstr(rerror(p.w), "fake: copy_out of 100 bytes"));
    }
    CHECK_OK(p.w, rwrite(p.w, d));
    CHECK_OK(p.w, rinfo_count(p.w, "staged", &staged)); /* messages, and not attempts */
    assert_int_equal(staged, is_staged());
    CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 50, 2)));
    *(is_staged() ? &device.fail_copy_in : &device.fail_arrived) = EIO;
    CHECK_RC(-EIO, p.r, rread(p.r, &got, &n));
    assert_non_null(strstr(rerror(p.r), is_staged() ? "fake: copy_in of 100 bytes"
                                                    : "fake: arrived of 100 bytes"));
    assert_non_null(strstr(rerror(p.r), "message 1 is lost"));
    CHECK_OK(p.r, rread(p.r, &got, &n)); /* the next one */
    CHECK_OK(p.r, rinfo_count(p.r, "staged", &staged));
    assert_int_equal(staged, is_staged());
    assert_true(n == 50 && device_has(p.r, got, n, 2));
    CHECK_OK(p.r, rfree(p.r, got));
    device_pair_close(&p);
}

/* An attempt that finds no slot leaves the message as it is; the one that does takes what it has then. */
static void test_a_full_ring(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    struct pair p;
    raddr_t d, got;
    size_t n;

    (void)state;
    cfg.slots = 2;
    p = device_open(&cfg);
    CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 100, 1)));
    CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 100, 2)));
    d = device_message(p.w, 100, 3);
    CHECK_RC(R_PENDING, p.w, rwrite_nb(p.w, d));
    device_fill(p.w, d, 100, 4);
    for (uint64_t key = 1; key <= 4; key++) {
        if (key == 3)
            continue;
        if (key == 4)
            CHECK_OK(p.w, rwrite(p.w, d));
        CHECK_OK(p.r, rread(p.r, &got, &n));
        assert_true(n == 100 && device_has(p.r, got, n, key));
        CHECK_OK(p.r, rfree(p.r, got));
    }
    device_pair_close(&p);
}

static void test_an_import_fails(void **state)
{
    rpipe_config_t w = device_config(RPIPE_WRITER, RPIPE_PUT),
                   r = device_config(RPIPE_READER, RPIPE_PUT);
    struct pair p = {NULL, NULL};

    (void)state;
    if (!is_shared())
        skip(); /* nothing is imported */
    device.fail_import = EPROTO;
    CHECK_OK(NULL, rpipe(&p.r, &r));
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_RC(-EPROTO, p.w, rwait(p.w));
    assert_non_null(strstr(rerror(p.w), "fake: import of 65536 bytes of rank 0"));
    ctx++;
    device_pair_close(&p);
}

/*
 * A network that reaches memory of devices, and one end whose memory it does not reach: that end has a copy of it, and the other one
 * does not notice.
 */
static void test_one_end_is_staged(void **state)
{
    static const struct {
        enum fake_descriptor descriptor;
        int fail_dmabuf;
        bool dmabuf;
        const char *way, *why;
    } ends[] = {
        {FAKE_NONE, 0, false, "staged through", "; staged: fake has made no descriptor"},
        {FAKE_OTHER, 0, false, "staged through", "; staged: ibv_reg_dmabuf_mr of 65536 bytes on"},
        {FAKE_MEMFD, EIO, true, "staged through", "; staged: fake: dmabuf of 65536 bytes: "},
        {FAKE_OTHER, 0, true, "registered, and reached", ""},
    };

    (void)state;
    if (!is_registered_by_fd())
        skip();
    for (int i = 0; i < 8; i++) {
        rmemory_ops_t table = memory;
        rpipe_config_t cfg = device_config(RPIPE_READER, i % 2 == 0 ? RPIPE_PUT : RPIPE_GET),
                       w = pair_writer(cfg);
        struct pair p = {NULL, NULL};

        device.descriptor = ends[i / 2].descriptor;
        device.fail_dmabuf = ends[i / 2].fail_dmabuf;
        table.dmabuf = ends[i / 2].dmabuf ? fake_dmabuf : NULL;
        cfg.memory = &table;
        CHECK_OK(NULL, rpipe(&p.r, &cfg));
        device.descriptor = FAKE_MEMFD;
        CHECK_OK(NULL, rpipe(&p.w, &w));
        ctx++;
        pass_some(&p);
        assert_describes(p.w, "registered, and reached", "");
        assert_describes(p.r, ends[i / 2].way, ends[i / 2].why);
        device_pair_close(&p);
    }
}

/* It ends before the kind of the device, which is not read. */
static void test_a_table_of_version_1(void **state)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, RPIPE_PUT);
    rmemory_ops_t table = memory;
    struct pair p;

    (void)state;
    table.version = 1;
    table.kind = (rmemory_kind_t)77;
    cfg.memory = &table;
    p = device_open(&cfg);
    pass_some(&p);
    assert_describes(p.w,
                     is_shared()             ? "notified in memory"
                     : is_registered_by_fd() ? "registered, and reached"
                                             : "staged through memory",
                     is_registered_by_kind() ? "; staged: its table names no kind" : "");
    device_pair_close(&p);
}

static void test_a_table_without_copies(void **state)
{
    struct pair p = device_pair(RPIPE_GET);
    static uint8_t bytes[64];
    raddr_t d;
    size_t n;

    (void)state;
    memory.copy_in = NULL;
    CHECK_RC(-ENOTSUP, p.w, rsend(p.w, bytes, 8, 0));
    assert_non_null(strstr(rerror(p.w), "fake has no copy_in"));
    memory = fake_ops(&device);
    CHECK_OK(p.w, rwrite(p.w, device_message(p.w, 20, 3)));
    memory.copy_out = NULL;
    CHECK_RC(-ENOTSUP, p.r, rrecv(p.r, bytes, sizeof(bytes), &n, 0));
    memory = fake_ops(&device);
    CHECK_OK(p.r, rread(p.r, &d, &n)); /* it is still the next one */
    assert_true(n == 20 && device_has(p.r, d, n, 3));
    CHECK_OK(p.r, rfree(p.r, d));
    device_pair_close(&p);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_in_every_mode),
        cmocka_unit_test(test_sizes_of_the_other_end),
        cmocka_unit_test(test_the_way_is_described),
        cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_memory_without_an_address),
        cmocka_unit_test(test_calls_of_the_device_fail),
        cmocka_unit_test(test_a_full_ring),
        cmocka_unit_test(test_an_import_fails),
        cmocka_unit_test(test_one_end_is_staged),
        cmocka_unit_test(test_a_table_of_version_1),
        cmocka_unit_test(test_a_table_without_copies),
    };

    memory = fake_ops(&device);
    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
