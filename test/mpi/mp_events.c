/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event loops over many pipes: rank 0 waits for 100, then for 1,000 pipes of all other ranks, with rfd(3) and epoll(7), and with
 * rpoll(3). Nothing is lost, nothing comes that was not sent, no descriptor stays readable when there is nothing, one
 * message on one of many quiet pipes is found; and as long as nothing happens no rank computes.
 *
 * The share of a processor that an idle rank uses is printed, and must be below a quarter: that distinguishes waiting from spinning on a
 * machine in whatever state, and needs no clock but that of the process. Of rpoll over 1,000 pipes of a network it must be below 0.7: it polls
 * each pipe every millisecond, which took 34 and 44 % of a slow processor.
 */
#include "test/lib/mp_check.h"
#include <sys/epoll.h>
#include <sys/resource.h>

enum { MESSAGES = 10, HEAP = 4096, SLOTS = 8, AT_ONCE = 64, WAIT_MS = 60000, IDLE_MS = 500 };

#define IDLE_MOST 0.25 /* of a processor */
#define IDLE_MOST_POLLED 0.7

struct source {
    rch_t ch;
    int peer;
    uint32_t ctx;
    uint64_t got;
    bool ended;
};

struct loop {
    struct source *source;
    size_t n;
    int set;       /* epoll; or -1: rpoll */
    rch_t *ch;     /* for rpoll: those that have not ended, */
    size_t *whose; /* and where they are in `source` */
    int *ready;
    size_t open;
    uint64_t messages, ends, wakes, empty;
};

static rpipe_op_t op_of(uint32_t ctx) { return ctx % 3 == 0 ? RPIPE_GET : RPIPE_PUT; }

static size_t size_of(uint64_t key) { return random_mix(~key) % (key % 2 == 0 ? 41 : 600); }

static double cpu_ms(void)
{
    struct rusage u;

    CHECK(NULL, getrusage(RUSAGE_SELF, &u) == 0);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

/* A descriptor of rfd is two here and one at the writer. How many pipes fit, at least 10 per writer. */
static size_t fitting(size_t pipes)
{
    struct rlimit limit;
    size_t *all = calloc((size_t)mp_ranks, sizeof(*all)), most;

    CHECK(NULL, all != NULL && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    CHECK(NULL, setrlimit(RLIMIT_NOFILE, &limit) == 0);
    most = limit.rlim_cur < 300 ? 30 : (size_t)(limit.rlim_cur - 200) / 3;
    CHECK_OK(NULL, network_allgather(&most, sizeof(most), all));
    for (int i = 0; i < mp_ranks; i++)
        pipes = all[i] < pipes ? all[i] : pipes;
    free(all);
    return pipes / (size_t)(mp_ranks - 1);
}

/* ---- a writer ---- */

static void signal_rank(int to) { CHECK_OK(NULL, network_send(to, "", 1)); }

static void await_rank(int from)
{
    char byte;

    CHECK_OK(NULL, network_recv(from, &byte, 1));
}

static void idle(const char *what, double most, double wall, double cpu)
{
    printf("rank %d idle, %s: %.1f %% of a processor\n", mp_rank, what, 100 * cpu / wall);
    fflush(stdout);
    CHECK(NULL, cpu < most * wall);
}

static void writer(uint32_t base, size_t pipes)
{
    uint64_t state = base + (uint64_t)mp_rank * 1000, *sent = calloc(pipes, sizeof(*sent)),
             left = pipes * MESSAGES;
    rch_t *ch = calloc(pipes, sizeof(*ch));
    double wall, cpu;

    CHECK(NULL, ch != NULL && sent != NULL);
    for (uint32_t i = 0; i < pipes; i++)
        CHECK_OK(NULL, mp_open(&ch[i], true, 0, base + i, op_of(base + i), HEAP, SLOTS));
    while (left > 0) {
        size_t k = mp_draw(&state) % pipes;

        for (uint64_t burst = 1 + mp_draw(&state) % 3; burst > 0 && sent[k] < MESSAGES;
             burst--, left--) {
            uint64_t key = mp_key(mp_rank, 0, base + (uint32_t)k, sent[k]++);

            mp_send(ch[k], size_of(key), key);
        }
    }
    await_rank(0); /* all of it has come, and rank 0 waits without a message */
    wall = now_ms();
    cpu = cpu_ms();
    if (mp_rank == 1) {
        uint64_t key = mp_key(1, 0, base + (uint32_t)pipes / 2, MESSAGES);

        usleep(IDLE_MS * 1000); /* so long it will wait; nothing depends on it */
        mp_send(ch[pipes / 2], size_of(key), key);
    }
    await_rank(0);
    idle("a writer", IDLE_MOST, now_ms() - wall, cpu_ms() - cpu);
    for (size_t i = 0; i < pipes; i++)
        CHECK_OK(ch[i], rclose(ch[i]));
    free(ch);
    free(sent);
}

/* ---- the reader ---- */

static void loop_open(struct loop *l, uint32_t base, size_t pipes, bool epoll)
{
    *l = (struct loop){.n = pipes * (size_t)(mp_ranks - 1), .set = -1};
    l->open = l->n;
    l->source = calloc(l->n, sizeof(*l->source));
    l->ch = calloc(l->n, sizeof(rch_t));
    l->whose = calloc(l->n, sizeof(*l->whose));
    l->ready = calloc(l->n, sizeof(*l->ready));
    CHECK(NULL, l->source != NULL && l->ch != NULL && l->whose != NULL && l->ready != NULL);
    if (epoll)
        l->set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(NULL, !epoll || l->set >= 0);
    for (size_t i = 0; i < l->n; i++) {
        struct source *s = &l->source[i];
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};

        s->peer = 1 + (int)(i / pipes);
        s->ctx = base + (uint32_t)(i % pipes);
        CHECK_OK(NULL, mp_open(&s->ch, false, s->peer, s->ctx, op_of(s->ctx), HEAP, SLOTS));
        l->ch[i] = s->ch;
        l->whose[i] = i;
        if (epoll)
            CHECK(s->ch, epoll_ctl(l->set, EPOLL_CTL_ADD, rfd(s->ch), &event) == 0);
    }
}

static void loop_close(struct loop *l)
{
    CHECK(NULL, l->set < 0 || close(l->set) == 0);
    free(l->source);
    free(l->ch);
    free(l->whose);
    free(l->ready);
}

/* something may be there: takes all of it */
static void drain(struct loop *l, size_t at)
{
    struct source *s = &l->source[at];
    size_t size, taken = 0;
    raddr_t d;
    int rc;

    CHECK(NULL, !s->ended); /* nothing more arrives from a rank that has ended */
    while ((rc = rread_nb(s->ch, &d, &size)) == R_SUCCESS) {
        uint64_t key = mp_key(s->peer, 0, s->ctx, s->got++);

        CHECK(s->ch, size == size_of(key) && pattern_same(rmem(s->ch, d), size, key));
        CHECK_OK(s->ch, rfree(s->ch, d));
        taken++;
    }
    l->messages += taken;
    l->wakes++;
    l->empty += taken == 0 && rc == R_PENDING;
    if (rc == R_PENDING)
        return;
    CHECK_RC(R_EOF, s->ch, rc);
    s->ended = true;
    l->ends++;
    if (l->set >= 0)
        CHECK(s->ch, epoll_ctl(l->set, EPOLL_CTL_DEL, rfd(s->ch), NULL) == 0);
}

static int wait_epoll(struct loop *l, int ms)
{
    struct epoll_event event[AT_ONCE];
    int k = epoll_wait(l->set, event, AT_ONCE, ms);

    CHECK(NULL, k >= 0 || errno == EINTR);
    for (int i = 0; i < k; i++)
        drain(l, event[i].data.u64);
    return k;
}

static int wait_poll(struct loop *l, int ms)
{
    int rc = rpoll(l->ch, (int)l->open, l->ready, ms), k = 0;
    size_t kept = 0;

    if (rc == -ETIMEDOUT || rc == R_PENDING)
        return 0;
    CHECK_OK(NULL, rc);
    for (size_t i = 0; i < l->open; i++) {
        if (l->ready[i]) {
            uint64_t before = l->messages + l->ends;

            drain(l, l->whose[i]);
            REQUIRE(l->messages + l->ends > before, /* what it reports is so */
                    "context %u, after %llu of its messages: %s", l->source[l->whose[i]].ctx,
                    (unsigned long long)l->source[l->whose[i]].got, rerror(l->ch[i]));
            k++;
        }
        if (!l->source[l->whose[i]].ended) {
            l->ch[kept] = l->ch[i];
            l->whose[kept++] = l->whose[i];
        }
    }
    l->open = kept;
    CHECK(NULL, k > 0);
    return k;
}

/* at least one that has something, or none within `ms` */
static int wait_some(struct loop *l, int ms)
{
    return l->set >= 0 ? wait_epoll(l, ms) : wait_poll(l, ms);
}

static void reader(uint32_t base, size_t pipes, bool epoll)
{
    double limit = now_ms() + WAIT_MS, most = IDLE_MOST, wall, cpu;
    uint64_t total;
    rinfo_pipe_t first;
    struct loop l;

    loop_open(&l, base, pipes, epoll);
    total = l.n * MESSAGES;
    while (l.messages < total)
        CHECK(NULL, wait_some(&l, WAIT_MS) > 0);
    CHECK_OK(l.ch[0], rinfo_describe(l.ch[0], &first));
    if (!epoll && pipes > 100 && strcmp(first.backend, "shm") != 0)
        most = IDLE_MOST_POLLED;
    while (wait_some(&l, 10) > 0) /* descriptors come to rest; there is no news */
        CHECK(NULL, l.messages == total && l.ends == 0 && now_ms() < limit);
    for (int i = 1; i < mp_ranks; i++)
        signal_rank(i);
    wall = now_ms();
    cpu = cpu_ms();
    while (l.messages ==
           total) /* a writer that learns late of a descriptor may still wake it for nothing */
        CHECK(NULL, wait_some(&l, WAIT_MS) > 0);
    CHECK(NULL, l.messages == total + 1 && l.source[pipes / 2].got == MESSAGES + 1 && l.ends == 0);
    idle(epoll ? "epoll_wait" : "rpoll", most, now_ms() - wall, cpu_ms() - cpu);
    for (int i = 1; i < mp_ranks; i++)
        signal_rank(i);
    while (l.ends < l.n)
        CHECK(NULL, wait_some(&l, WAIT_MS) > 0);
    CHECK(NULL, l.messages == total + 1);
    for (size_t i = 0; i < l.n; i++) {
        CHECK(NULL, l.source[i].got == MESSAGES + (i == pipes / 2));
        CHECK_OK(l.source[i].ch, rclose(l.source[i].ch));
    }
    printf("%zu pipes, %s: %llu messages, %llu wake-ups, %llu for nothing\n", l.n,
           epoll ? "epoll" : "rpoll", (unsigned long long)l.messages, (unsigned long long)l.wakes,
           (unsigned long long)l.empty);
    loop_close(&l);
}

int main(int argc, char **argv)
{
    uint32_t base = 0;

    mp_begin(argc, argv, 2);
    for (size_t pipes = 100; pipes <= 1000; pipes *= 10) {
        size_t each = fitting(pipes);

        for (int epoll = 0; epoll < 2; epoll++, base += 1000)
            if (mp_rank == 0)
                reader(base, each, epoll != 0);
            else
                writer(base, each);
    }
    return mp_end();
}
