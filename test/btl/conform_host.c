/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform_host.c: the surroundings of a backend: a thread that watches for it, as the service thread does, and little else.
 * And what both sides of a test share: patience, patterns, sealed slots.
 */
#include "conform.h"

#include "util/log.h"
#include "util/module.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory of a device ---- */

struct device_memory device_memory_make(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct device_memory m = {.bytes = (bytes + page - 1) / page * page};

    m.fd = memfd_create("memory of a device", MFD_CLOEXEC);
    REQUIRE(m.fd >= 0 && ftruncate(m.fd, (off_t)m.bytes) == 0, "memfd: %s", strerror(errno));
    m.base = mmap(NULL, m.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m.alias = mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
    REQUIRE(m.base != MAP_FAILED && m.alias != MAP_FAILED, "mmap: %s", strerror(errno));
    return m;
}

void device_memory_free(struct device_memory *m)
{
    if (m->alias == NULL)
        return;
    munmap(m->base, m->bytes);
    munmap(m->alias, m->bytes);
    close(m->fd);
    *m = (struct device_memory){0};
}

/* ---- the watching thread ---- */

#define WATCHES_MOST 128

struct watch {
    bool used, armed;
    int fd;
    int64_t at; /* not before */
    void (*ready)(void *arg);
    void *arg;
};

static struct watch watches[WATCHES_MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static const struct watch *running;
static pthread_t watcher;
static int wake_pipe[2] = {-1, -1};
static bool started, stopping;

static struct watch *find(void (*ready)(void *), void *arg)
{
    for (int i = 0; i < WATCHES_MOST; i++)
        if (watches[i].used && watches[i].ready == ready && watches[i].arg == arg)
            return &watches[i];
    return NULL;
}

static int host_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg)
{
    struct watch *w;

    pthread_mutex_lock(&lock);
    w = find(ready, arg);
    for (int i = 0; w == NULL && i < WATCHES_MOST; i++)
        if (!watches[i].used)
            w = &watches[i];
    REQUIRE(w != NULL, "a backend watches more than %d things", WATCHES_MOST);
    *w = (struct watch){true,  true, fd, clock_now() + (delay_us > 0 ? delay_us : 0) * 1000,
                        ready, arg};
    pthread_mutex_unlock(&lock);
    if (!pthread_equal(pthread_self(), watcher))
        (void)!write(wake_pipe[1], "", 1);
    return 0;
}

static void host_unwatch(void (*ready)(void *arg), void *arg)
{
    struct watch *w;

    pthread_mutex_lock(&lock);
    while ((w = find(ready, arg)) != NULL) {
        w->used = w->armed = false;
        while (running == w && !pthread_equal(pthread_self(), watcher))
            pthread_cond_wait(&finished, &lock);
    }
    pthread_mutex_unlock(&lock);
}

/* Lock held, and given back for the call, in which it may be watched again. */
static void fire(struct watch *w)
{
    void (*ready)(void *arg) = w->ready;
    void *arg = w->arg;

    w->armed = false;
    running = w;
    pthread_mutex_unlock(&lock);
    ready(arg);
    pthread_mutex_lock(&lock);
    running = NULL;
    pthread_cond_broadcast(&finished);
}

/* Lock held. What to poll for, and for how long. */
static nfds_t gather(struct pollfd *poll_for, int *which, int *timeout_ms)
{
    int64_t now = clock_now(), next = INT64_MAX;
    nfds_t n = 1;

    poll_for[0] = (struct pollfd){wake_pipe[0], POLLIN, 0};
    for (int i = 0; i < WATCHES_MOST; i++) {
        if (!watches[i].used || !watches[i].armed)
            continue;
        if (watches[i].at > now || watches[i].fd < 0) {
            next = watches[i].at < next ? watches[i].at : next;
            continue;
        }
        which[n] = i;
        poll_for[n++] = (struct pollfd){watches[i].fd, POLLIN, 0};
    }
    *timeout_ms = next == INT64_MAX ? 1000 : next <= now ? 0 : (int)((next - now) / NS_PER_MS) + 1;
    return n;
}

static void *watch_main(void *unused)
{
    struct pollfd poll_for[WATCHES_MOST + 1];
    int which[WATCHES_MOST + 1], timeout_ms;
    char byte[256];
    nfds_t n;

    (void)unused;
    pthread_mutex_lock(&lock);
    while (!stopping) {
        n = gather(poll_for, which, &timeout_ms);
        pthread_mutex_unlock(&lock);
        (void)poll(poll_for, n, timeout_ms);
        if (poll_for[0].revents != 0)
            (void)!read(wake_pipe[0], byte, sizeof(byte));
        pthread_mutex_lock(&lock);
        for (nfds_t i = 1; i < n; i++) {
            struct watch *w = &watches[which[i]];

            if (poll_for[i].revents != 0 && w->used && w->armed && w->fd == poll_for[i].fd)
                fire(w);
        }
        for (int i = 0; i < WATCHES_MOST; i++)
            if (watches[i].used && watches[i].armed && watches[i].fd < 0 &&
                watches[i].at <= clock_now())
                fire(&watches[i]);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- the host ---- */

static const char *host_setting(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

static int host_tell(int peer, const void *body, size_t bytes, const int *fds, int nfds)
{
    (void)peer, (void)body, (void)bytes, (void)fds, (void)nfds;
    return -ENOTSUP;
}

static int host_fd_path(int peer, struct error *err)
{
    return error_set(err, -ENOTSUP, "no descriptors travel to rank %d here", peer);
}

static struct btl_host host = {
    .log_level = LOG_WARN,
    .send_to_peer = host_tell,
    .fd_path = host_fd_path,
    .setting = host_setting,
    .address = "127.0.0.1",
    .watch = host_watch,
    .unwatch = host_unwatch,
};

void backend_open(struct backend *b, const char *name, int rank)
{
    char module[32], symbol[32];
    struct error err = {""};

    REQUIRE(settings_load(&err) == 0, "%s", err.text);
    snprintf(module, sizeof(module), "btl_%s", name);
    snprintf(symbol, sizeof(symbol), "btl_%s_ops", name);
    b->rank = host.rank = rank;
    if (getenv("CONFORM_ADDRESS") != NULL)
        host.address = getenv("CONFORM_ADDRESS");
    b->ops = module_symbol(module, symbol, &err);
    if (b->ops == NULL) {
        fprintf(stderr, "conform: backend %s: %s\n", name, err.text);
        fflush(NULL);
        _exit(2);
    }
    REQUIRE(b->ops->version == BTL_OPS_VERSION, "backend %s has interface version %u", name,
            b->ops->version);
    if (b->ops->query(&err) != 0) {
        printf("conform: skipped: backend %s: %s\n", name, err.text);
        fflush(NULL);
        _exit(77);
    }
    REQUIRE((b->ops->attributes.capabilities & BTL_LOAD_STORE) == 0,
            "backend %s maps memory: it has no lines", name);
    REQUIRE(pipe2(wake_pipe, O_NONBLOCK | O_CLOEXEC) == 0, "pipe2");
    REQUIRE(pthread_create(&watcher, NULL, watch_main, NULL) == 0, "pthread_create");
    started = true;
    REQUIRE(b->ops->open(&host, &b->btl, &err) == 0, "backend %s cannot be opened: %s", name,
            err.text);
}

/* ---- streams ---- */

#define STREAMS_MOST 16

static struct btl_stream *streams[STREAMS_MOST];
static int stream_count;
static _Thread_local struct btl_stream *stream_of_thread;

static struct btl_stream *stream_here(const struct backend *b)
{
    struct error why = {""};
    enum btl_share got;

    if (stream_of_thread != NULL)
        return stream_of_thread;
    REQUIRE(b->ops->stream_open(b->btl, BTL_SHARE_DYNAMIC, &stream_of_thread, &got, &why) == 0,
            "stream_open: %s", why.text);
    pthread_mutex_lock(&lock);
    REQUIRE(stream_count < STREAMS_MOST, "too many streams");
    streams[stream_count++] = stream_of_thread;
    pthread_mutex_unlock(&lock);
    return stream_of_thread;
}

int line_open(const struct backend *b, int peer, enum btl_role role, uint32_t depth,
              struct btl_connection **connection, struct btl_address *address, struct error *err)
{
    const char *in_streams = getenv("CONFORM_STREAMS");
    int rc = b->ops->connection_open(b->btl, peer, role, depth, connection, address, err);

    if (rc == 0 && b->ops->stream_open != NULL && in_streams != NULL &&
        strcmp(in_streams, "1") == 0)
        b->ops->connection_join(*connection, stream_here(b), address);
    return rc;
}

void backend_close(struct backend *b)
{
    if (!started)
        return;
    for (int i = 0; i < stream_count; i++)
        b->ops->stream_close(streams[i]);
    b->ops->close(b->btl);
    for (int i = 0; i < WATCHES_MOST; i++)
        REQUIRE(!watches[i].used, "close leaves a watch behind");
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_mutex_unlock(&lock);
    (void)!write(wake_pipe[1], "", 1);
    pthread_join(watcher, NULL);
    close(wake_pipe[0]);
    close(wake_pipe[1]);
}

/* ---- shared ---- */

int64_t patience(void)
{
    const char *seconds = getenv("CONFORM_SECONDS");

    return clock_now() + (seconds != NULL ? atoi(seconds) : 60) * NS_PER_S;
}

/* words 0 to 3: the note; 4 to 6: noise; 7: the flag */
static uint64_t slot_flag(const uint64_t *word, uint64_t number)
{
    uint64_t hash = random_mix(number);

    for (int i = 0; i < 7; i++)
        hash = random_mix(hash ^ word[i]);
    return (hash & 0xffffffff00000000u) | (number & 0xffffffffu);
}

void slot_seal(void *slot, const struct note *note)
{
    uint64_t word[8] = {note->number, note->offset, note->bytes, note->key};

    for (unsigned i = 4; i < 7; i++)
        word[i] = random_mix(note->number * 8 + i);
    word[7] = slot_flag(word, note->number);
    memcpy(slot, word, sizeof(word));
}

bool slot_read(const void *slot, uint64_t number, struct note *note)
{
    const uint64_t *at = slot;
    uint64_t word[8];

    /* acquire: pairs with the backend's promise: the payload is visible before the flag */
    for (int i = 7; i >= 0; i--)
        word[i] = __atomic_load_n(&at[i], __ATOMIC_ACQUIRE);
    if (word[7] != slot_flag(word, number) || word[0] != number)
        return false;
    *note = (struct note){word[0], word[1], word[2], word[3]};
    return true;
}
