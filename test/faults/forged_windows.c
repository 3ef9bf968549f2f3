/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forged_windows.c: a byzantine owner of windows (doc/windows.md "A byzantine peer"), RPIPE_CROSS, and fork.
 *
 * Rank 1 sends handles that name what it has not made accessible, each with a checksum that fits; rank 0 must refuse each of them with the
 * right code, keep nothing of it, and then use an honest one. Then each of the two ends has RPIPE_CROSS=0, and rank 0 forks. Windows of memory
 * of a device (test/lib/fake_device.h) are among them.
 */
#include "test/lib/fake_device.h"
#include "test/lib/job.h"

#include "btl/shm/mapping.h"
#include "rpipe/window/handle.h"

#include <sys/wait.h>
#include <unistd.h>

#define BYTES 8192
#define SHORT_MS 150

static char program[BYTES], near[BYTES];

static struct fake_device device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t table;

struct plan {
    const char *cross[2]; /* RPIPE_CROSS of both ranks */
};

static rch_t open_end(int rank, uint32_t context, bool writer)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 1 - rank, writer, 1 << 16);
    rch_t ch;

    cfg.context = context;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    CHECK(ch, rwait(ch) == 0);
    return ch;
}

/* ---- the owner ---- */

struct owner {
    rch_t ch;
    rregion_t region[2];
    rwindow_t window[2];
    struct window_wire honest[2];
    rregion_t device_region;
    rwindow_t device_window;
    struct window_wire device_honest;
};

/* A handle with a checksum that fits, how it is attached, and what must become of it. */
static void show_as(struct owner *o, struct window_wire w, bool as_device, int code,
                    const char *what)
{
    struct {
        struct window_wire wire;
        int64_t code, device;
        char what[48];
    } message = {.code = code, .device = as_device};

    handle_seal(&w);
    message.wire = w;
    snprintf(message.what, sizeof(message.what), "%s", what);
    CHECK(o->ch, rsend(o->ch, &message, sizeof(message), 0) == 0);
}

static void show(struct owner *o, struct window_wire w, int code, const char *what)
{
    show_as(o, w, false, code, what);
}

static void forge_head(struct owner *o)
{
    struct window_wire w = o->honest[0];

    w.process ^= 1;
    show(o, w, -EPROTO, "of another process");
    w = o->honest[0], w.user = 1;
    show(o, w, -EPROTO, "open to another rank");
    w = o->honest[0], w.backend ^= 1;
    show(o, w, -EPROTO, "of another backend");
    w = o->honest[0], w.bytes = 0;
    show(o, w, -EPROTO, "without bytes");
    w = o->honest[0], w.access = 4;
    show(o, w, -EPROTO, "with unknown access");
}

static void forge_mapped(struct owner *o)
{
    struct window_wire w = o->honest[0];

    w.bytes += 4096, w.key.word[KEY_BYTES] += 4096;
    show(o, w, -EPROTO, "beyond its segment");
    w = o->honest[0], w.bytes = UINT64_MAX, w.key.word[KEY_BYTES] = UINT64_MAX;
    show(o, w, -EPROTO, "beyond the address space");
    w = o->honest[0], w.key.word[KEY_OFFSET] = 1;
    show(o, w, -EPROTO, "at an odd offset");
    w = o->honest[0], w.key.word[KEY_OFFSET] = UINT64_MAX - 63;
    show(o, w, -EPROTO, "at an offset that wraps");
    w = o->honest[0], w.access = RWINDOW_WRITE;
    show(o, w, -EPROTO, "with another access than its key");
    w = o->honest[0], w.access = RWINDOW_WRITE, w.key.word[KEY_ACCESS] = BTL_PEER_WRITES | KEY_LENT;
    show(o, w, -EPROTO, "with another access than it was announced");
    w = o->honest[0], w.key.word[KEY_SLAB] = 0;
    show(o, w, -EPROTO, "in no segment");
    w = o->honest[0], w.key.word[KEY_SLAB] = UINT64_C(1) << MAPPING_ID_BITS;
    show(o, w, -EPROTO, "in a segment of another rank");
    w = o->honest[0], w.key.word[KEY_SLAB] += 1000;
    show(o, w, -ETIMEDOUT, "in a segment that never arrives");
}

static void forge_cross(struct owner *o)
{
    struct window_wire w = o->honest[1];

    w.key.word[0] = 4096;
    show(o, w, -EPROTO, "with a record that is not there");
    w = o->honest[1], w.key.word[0] = UINT64_MAX - 7;
    show(o, w, -EPROTO, "with a record beyond the address space");
    w = o->honest[1], w.key.word[0] = (uintptr_t)program;
    show(o, w, -EPROTO, "with a record that is none");
    w = o->honest[1], w.key.word[1] = 0;
    show(o, w, -EPROTO, "with cookie 0");
    w = o->honest[1], w.key.word[1] ^= 1;
    show(o, w, -EPROTO, "with another cookie");
    w = o->honest[1], w.key.word[2] += 64;
    show(o, w, -EPROTO, "at another address");
    w = o->honest[1], w.bytes *= 2;
    show(o, w, -EPROTO, "longer than what was lent");
    w = o->honest[1], w.access = RWINDOW_READ, w.key.word[3] = BTL_PEER_READS | KEY_CROSS;
    show(o, w, -EPROTO, "with another access than was lent");
}

static void forge_device(struct owner *o)
{
    struct window_wire w = o->honest[0];

    show_as(o, w, true, -EPROTO, "of the host");
    w.access |= HANDLE_DEVICE;
    show_as(o, w, true, -EPROTO, "of the host, of which it claims a device");
    w = o->device_honest;
    show(o, w, -EPROTO, "of a device");
    w.access &= (uint8_t)~HANDLE_DEVICE;
    show(o, w, -EPROTO, "of a device, of which it claims the host");
    w.key.word[KEY_ACCESS] = BTL_PEER_ATOMICS | KEY_LENT;
    show(o, w, -ETIMEDOUT, "of a device, named as a segment to come");
    w = o->device_honest, w.access = HANDLE_DEVICE;
    show_as(o, w, true, -EPROTO, "of a device, without access");
    w = o->device_honest, w.bytes += 1;
    show_as(o, w, true, -EPROTO, "of a device, longer than what was passed");
    w = o->device_honest, w.bytes = UINT64_MAX;
    show_as(o, w, true, -EPROTO, "of a device, beyond the address space");
    w = o->device_honest, w.key.word[KEY_SLAB] = 0;
    show_as(o, w, true, -EPROTO, "of a device, without a number");
    w = o->device_honest, w.key.word[KEY_SLAB] = o->honest[0].key.word[KEY_SLAB];
    show_as(o, w, true, -EPROTO, "of a device, with the number of a segment");
    w = o->device_honest, w.key.word[KEY_SLAB] += 1000;
    show_as(o, w, true, -ETIMEDOUT, "of a device, that never arrives");
    w = o->device_honest, w.key.word[KEY_SLAB] = UINT64_MAX;
    show_as(o, w, true, -ETIMEDOUT, "of a device, with the largest number");
    show_as(o, o->device_honest, true, 0, "honest, of a device");
}

static void own_device(struct owner *o)
{
    rwindow_handle_t handle;

    CHECK(NULL, rregion_open_device(&o->device_region, NULL, &table, NULL, BYTES) == 0);
    CHECK(o->ch, rwindow_open(&o->device_window, o->ch, o->device_region,
                              RWINDOW_READ | RWINDOW_WRITE, &handle) == 0);
    memcpy(&o->device_honest, &handle, sizeof(handle));
    forge_device(o);
}

static void own(const struct plan *plan, struct board *board, struct owner *o)
{
    bool cross = strcmp(plan->cross[1], "0") != 0, both = cross && strcmp(plan->cross[0], "0") != 0;

    for (int i = 0; i < 2; i++) {
        rwindow_handle_t handle;
        int rc;

        CHECK(o->ch, rregion_open(&o->region[i], i == 0 ? NULL : o->ch, i == 0 ? NULL : program,
                                  BYTES) == 0);
        rc =
            rwindow_open(&o->window[i], o->ch, o->region[i], RWINDOW_READ | RWINDOW_WRITE, &handle);
        CHECK(o->ch, rc == (i == 0 || cross ? 0 : -ENOTSUP));
        if (rc != 0)
            CHECK(o->ch, strstr(rerror(o->ch), "RPIPE_CROSS") != NULL);
        else
            memcpy(&o->honest[i], &handle, sizeof(handle));
    }
    forge_head(o);
    forge_mapped(o);
    if (both)
        forge_cross(o);
    own_device(o);
    show(o, o->honest[0], 0, "honest, of the library");
    if (cross)
        show(o, o->honest[1], both ? 0 : -ENOTSUP, "honest, of the program");
    CHECK(o->ch, rclose(o->ch) == 0);
    rank_wait_go(board, 1); /* the other one has used them */
    for (int i = 0; i < (cross ? 2 : 1); i++)
        CHECK(NULL, rwindow_close(o->window[i]) == 0);
    CHECK(NULL, rregion_close(o->region[0]) == 0 && rregion_close(o->region[1]) == 0);
    CHECK(NULL, rwindow_close(o->device_window) == 0 && rregion_close(o->device_region) == 0);
    EXPECT(device.allocations == 0, "memory of the device is left");
}

/* ---- the user ---- */

/* A child can do nothing with it, and the parent goes on. */
static void fork_with(rremote_t remote)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0)
        _exit(rwindow_write(remote, 0, near, 8, NULL, NULL, 0) != -ENOTCONN ||
              strstr(rerror(NULL), "parent") == NULL || rwindow_detach(remote) != -ENOTCONN);
    CHECK(NULL, waitpid(pid, &status, 0) == pid && status == 0);
}

static void use_honest(rch_t out, rremote_t remote)
{
    int word = 0;

    pattern_fill(near, BYTES, 1);
    CHECK(out, rwindow_write(remote, 0, near, BYTES, NULL, &word, 0) == 0 && word == 1);
    fork_with(remote);
    memset(near, 0, BYTES);
    CHECK(out, rwindow_fetch(remote, 0, near, BYTES, NULL, &word, 0) == 0 && word == 1);
    CHECK(out, pattern_same(near, BYTES, 1));
    CHECK(out, rwindow_detach(remote) == 0);
}

static void use(rch_t in, rch_t out, struct board *board)
{
    struct {
        rwindow_handle_t handle;
        int64_t code, device;
        char what[48];
    } message;
    size_t bytes = 0;
    int rc;

    while ((rc = rrecv(in, &message, sizeof(message), &bytes, 0)) == 0) {
        rremote_t remote = NULL;

        CHECK(out, rset_timeout(out, message.code == -ETIMEDOUT ? SHORT_MS : PATIENCE_MS) == 0);
        rc = message.device ? rwindow_attach_device(&remote, out, &table, &message.handle, 0)
                            : rwindow_attach(&remote, out, &message.handle, 0);
        if (rc != message.code)
            printf("a window %s: %d, not %d: %s\n", message.what, rc, (int)message.code,
                   rerror(out));
        CHECK(out, rc == message.code && (rc == 0) == (remote != NULL));
        atomic_fetch_add(&board->rank[0].done, 1);
        if (rc == 0)
            use_honest(out, remote);
        else if (rc == -ENOTSUP)
            CHECK(out, strstr(rerror(out), "RPIPE_CROSS") != NULL);
    }
    CHECK(in, rc == R_EOF);
    EXPECT(device.imports == 0, "memory of the device that was imported is left");
}

static int be(int rank, struct board *board, const void *arguments)
{
    const struct plan *plan = arguments;
    struct owner o = {0};
    rch_t in = NULL, out = NULL;

    table = fake_ops(&device);
    setenv("RPIPE_CROSS", plan->cross[rank], 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (rank == 1) {
        o.ch = open_end(1, 0, true);
        in = open_end(1, 1, false);
        own(plan, board, &o);
        CHECK(in, rclose(in) == 0);
    } else {
        in = open_end(0, 0, false);
        out = open_end(0, 1, true);
        use(in, out, board);
        CHECK(out, rclose(out) == 0 && rclose(in) == 0);
        rank_reached(board, 0, 1);
    }
    CHECK(NULL, rexit() == 0);
    return 0;
}

static void play(const struct plan *plan, uint64_t handles)
{
    struct job job;

    job_prepare(&job, 2);
    job_start(&job, be, plan);
    if (job_reached(&job, 0, 1))
        atomic_store(&job.board->go, 1);
    for (int rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
               "RPIPE_CROSS %s and %s: rank %d: status 0x%x", plan->cross[0], plan->cross[1], rank,
               job.status[rank]);
    EXPECT(atomic_load(&job.board->rank[0].done) == handles, "%d handles were tried, not %d",
           (int)atomic_load(&job.board->rank[0].done), (int)handles);
    job_finish(&job);
}

int main(void)
{
    static const struct plan both = {{"1", "1"}}, user = {{"0", "1"}}, owner = {{"1", "0"}};

    play(&both, 37);
    play(&user, 29);
    play(&owner, 28);
    printf("%s\n", check_failures == 0 ? "every forged window was refused" : "FAILED");
    return check_failures != 0;
}
