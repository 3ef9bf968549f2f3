/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_control.c: the control network between real processes: order, descriptors, large messages, many at once, strangers,
 * and every way in which a peer can end. Most tests run over Unix sockets and over TCP.
 */
#include "ranks.h"

#include "bootstrap/card.h"
#include "bootstrap/collect.h"
#include "bootstrap/wire.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/un.h>

#define NOTE (CONTROL_TYPE_USER + 7)

static _Atomic int arrived, wrong, left, died, ticks;
static _Atomic int last_number[RANKS_MAX];

struct note {
    uint32_t number, bytes;
    uint8_t filling[CONTROL_BODY_MAX - 8];
};

static void on_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds)
{
    const struct note *n = body;
    size_t i;

    if (!control_on_service_thread() || type != NOTE || bytes < 8 || n->bytes != bytes ||
        (int)n->number != atomic_load(&last_number[from]) + 1)
        atomic_fetch_add(&wrong, 1);
    for (i = 8; i < bytes; i++) {
        if (n->filling[i - 8] != (uint8_t)(n->number + i))
            atomic_fetch_add(&wrong, 1);
    }
    for (i = 0; i < (size_t)nfds; i++) {
        uint32_t seen = 0;

        if (pread(fds[i], &seen, sizeof(seen), 0) != (ssize_t)sizeof(seen) || seen != n->number + i)
            atomic_fetch_add(&wrong, 1);
        close(fds[i]);
    }
    atomic_store(&last_number[from], (int)n->number);
    atomic_fetch_add(&arrived, 1);
}

static void on_gone(int rank, enum control_end end, const char *why)
{
    CHECK(strstr(why, "rank") != NULL && control_peer_state(rank) == (end == PEER_LEFT ? -EPIPE : -ECONNRESET));
    atomic_fetch_add(end == PEER_LEFT ? &left : &died, 1);
}

static void on_tick(void) { atomic_fetch_add(&ticks, 1); }

static const struct control_hooks hooks = {on_message, on_gone, on_tick};

static void barrier(void)
{
    char why[400] = "";

    if (collect_barrier(deadline_in_ms(LIMIT_MS), why, sizeof(why)) != 0) {
        fprintf(stderr, "barrier: %s\n", why);
        _exit(1);
    }
}

static int post_note(int to, uint32_t number, size_t bytes, const int *fds, int nfds)
{
    static _Thread_local struct note n;
    size_t i;

    n.number = number;
    n.bytes = (uint32_t)bytes;
    for (i = 8; i < bytes; i++)
        n.filling[i - 8] = (uint8_t)(number + i);
    return control_post(to, NOTE, &n, bytes, fds, nfds);
}

/* ---- order, sizes, descriptors ---- */

static void rank_fifo(int rank, int size)
{
    static const size_t sizes[] = {8, 9, 300, 65536, 4088, 8, 65535, 100};
    const uint32_t count = 400;
    uint32_t i;
    int to;

    (void)rank;
    rank_start(&hooks);
    for (i = 1; i <= count; i++) {
        for (to = 0; to < size; to++)
            CHECK(post_note(to, i, sizes[i % 8], NULL, 0) == 0);
    }
    CHECK(control_flush(-1, deadline_in_ms(LIMIT_MS)) == 0);
    AWAIT(atomic_load(&arrived) == (int)count * size);
    CHECK(atomic_load(&wrong) == 0);
    barrier();
    CHECK(atomic_load(&died) == 0);
    rank_stop();
}

static void test_messages_arrive_in_order(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks(3, rank_fifo);
}

static void rank_bad_arguments(int rank, int size)
{
    static uint8_t body[CONTROL_BODY_MAX + 1];
    int fd = 0;

    CHECK(control_post(0, NOTE, body, 8, NULL, 0) == -ENOTCONN);
    rank_start(&hooks);
    CHECK(control_post(size, NOTE, body, 8, NULL, 0) == -EINVAL);
    CHECK(control_post(-1, NOTE, body, 8, NULL, 0) == -EINVAL);
    CHECK(control_post(0, WIRE_HELLO, body, 8, NULL, 0) == -EINVAL);
    CHECK(control_post(0, NOTE, body, sizeof(body), NULL, 0) == -EINVAL);
    CHECK(control_post(0, NOTE, body, 8, &fd, CONTROL_FDS_MAX + 1) == -EINVAL);
    fd = -1;
    CHECK(control_post(rank, NOTE, body, 8, &fd, 1) == -EBADF);
    CHECK(control_flush(size, DEADLINE_NOW) == -EINVAL);
    barrier();
    rank_stop();
    CHECK(control_post(0, NOTE, body, 8, NULL, 0) == -ENOTCONN);
    CHECK(control_flush(-1, DEADLINE_NOW) == -ENOTCONN);
}

static void test_bad_arguments_are_refused(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "auto", 1);
    run_ranks(2, rank_bad_arguments);
}

static void rank_descriptors(int rank, int size)
{
    int fds[CONTROL_FDS_MAX], n, to = (rank + 1) % size;
    uint32_t i, value;

    rank_start(&hooks);
    for (i = 1; i <= 500; i++) {
        for (n = 0; n < (int)(i % (CONTROL_FDS_MAX + 1)); n++) {
            value = i + (uint32_t)n;
            fds[n] = memfd_create("test", MFD_CLOEXEC);
            CHECK(write(fds[n], &value, sizeof(value)) == (ssize_t)sizeof(value));
        }
        CHECK(post_note(to, i, 8 + i * 131 % 65000, fds, n) == 0);
        CHECK(post_note(rank, i, 8, fds, n) == 0);
        while (n > 0)
            close(fds[--n]);
    }
    AWAIT(atomic_load(&arrived) == 1000);
    CHECK(atomic_load(&wrong) == 0);
    barrier();
    rank_stop();
}

static void test_descriptors_travel_with_their_message(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "auto", 1);
    run_ranks(2, rank_descriptors);
}

static void rank_no_descriptors(int rank, int size)
{
    int fd = 0;

    rank_start(&hooks);
    CHECK(control_path((rank + 1) % size) == CONTROL_TCP && control_path(rank) == CONTROL_SELF);
    CHECK(post_note((rank + 1) % size, 1, 8, &fd, 1) == -ENOTSUP);
    CHECK(control_life((rank + 1) % size) == NULL);
    barrier();
    CHECK(control_life((rank + 1) % size) == NULL);
    rank_stop();
}

static void test_tcp_carries_no_descriptors(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "tcp", 1);
    run_ranks(2, rank_no_descriptors);
}

static void rank_flood(int rank, int size)
{
    int64_t begin;
    uint32_t i;

    rank_start(&hooks);
    barrier();
    begin = clock_now();
    for (i = 1; rank == 0 && i <= 65536; i++)
        CHECK(post_note(1, i, 300, NULL, 0) == 0);
    if (rank == 0)
        CHECK(control_flush(1, deadline_in_ms(LIMIT_MS)) == 0);
    if (rank == 1)
        AWAIT(atomic_load(&arrived) == 65536);
    if (rank == size - 1)
        printf("    65,536 messages of 300 bytes: %.0f ms\n", (double)(clock_now() - begin) / 1e6), fflush(stdout);
    CHECK(atomic_load(&wrong) == 0);
    barrier();
    rank_stop();
}

static void test_very_many_at_once(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks(2, rank_flood);
}

static pthread_mutex_t numbering = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_number;

static void *poster(void *to)
{
    int i;

    for (i = 0; i < 2000; i++) {
        pthread_mutex_lock(&numbering);
        CHECK(post_note(*(int *)to, ++next_number, 8 + (size_t)i % 500, NULL, 0) == 0);
        pthread_mutex_unlock(&numbering);
    }
    return NULL;
}

static void rank_threads(int rank, int size)
{
    pthread_t threads[4];
    int to = (rank + 1) % size, i;

    rank_start(&hooks);
    for (i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, poster, &to) == 0);
    for (i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    AWAIT(atomic_load(&arrived) == 8000);
    CHECK(atomic_load(&wrong) == 0);
    barrier();
    rank_stop();
}

static void test_many_threads_post(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks(2, rank_threads);
}

/* ---- how a peer ends ---- */

static void rank_leaves(int rank, int size)
{
    rank_start(&hooks);
    barrier();
    if (rank == 1) {
        CHECK(post_note(0, 1, 60000, NULL, 0) == 0);
        rank_stop();
        return;
    }
    if (rank == 0)
        AWAIT(atomic_load(&arrived) == 1);
    AWAIT(atomic_load(&left) == 1);
    CHECK(atomic_load(&died) == 0 && atomic_load(&wrong) == 0);
    CHECK(post_note(1, 1, 8, NULL, 0) == -EPIPE && control_flush(1, DEADLINE_NOW) == 0);
    CHECK(control_life(1) == NULL || !life_died(control_life(1)));
    (void)size;
    rank_stop();
}

static void test_who_stops_has_left(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks(2, rank_leaves);
}

/* Rank 1 talks to nobody, but has been talked to: its goodbye travels on the other's connection. */
static void rank_leaves_silently(int rank, int size)
{
    (void)size;
    rank_start(&hooks);
    if (rank == 0) {
        CHECK(post_note(1, 1, 8, NULL, 0) == 0);
        AWAIT(atomic_load(&left) == 1);
        CHECK(atomic_load(&died) == 0);
    } else {
        AWAIT(atomic_load(&arrived) == 1);
    }
    rank_stop();
}

static void test_who_never_spoke_says_goodbye(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks(2, rank_leaves_silently);
}

static int way_to_die;

static void rank_dies(int rank, int size)
{
    (void)size;
    rank_start(&hooks);
    barrier();
    if (rank == 1) {
        uint32_t i;

        for (i = 1; i <= 300; i++)
            CHECK(post_note(0, i, 600, NULL, 0) == 0);
        CHECK(control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
        switch (way_to_die) {
        case 0:
            kill(getpid(), SIGKILL);
            break;
        case 1:
            exit(0);
        case 2:
            execl("/bin/true", "true", (char *)NULL);
            break;
        default:
            signal(SIGABRT, SIG_DFL);
            abort();
        }
    }
    AWAIT(atomic_load(&died) == 1);
    /* everything that it said is here, and was before its end */
    CHECK(atomic_load(&arrived) == 300 && atomic_load(&wrong) == 0 && atomic_load(&left) == 0);
    CHECK(control_life(1) == NULL || life_died(control_life(1)));
    CHECK(post_note(1, 1, 8, NULL, 0) == -ECONNRESET);
    rank_stop();
}

static void test_who_dies_is_missed(void **state)
{
    pid_t pids[RANKS_MAX];

    setenv("RPIPE_CONTROL", *state, 1);
    for (way_to_die = 0; way_to_die < 4; way_to_die++) {
        ranks_start(2, rank_dies, pids);
        ranks_wait(2, pids, way_to_die == 0 || way_to_die == 3 ? 1 : -1, way_to_die == 0 ? SIGKILL : SIGABRT);
    }
}

static pid_t *shared_pids; /* what ranks tell each other beside the network */

static void share_pids(void)
{
    shared_pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared_pids, MAP_FAILED);
}

/* The life word tells the death even if somebody keeps the dead process's sockets open. */
static void rank_dies_held(int rank, int size)
{
    (void)size;
    rank_start(&hooks);
    barrier();
    if (rank == 1) {
        pid_t holder = fork(); /* a child that does not call control_forked() */

        if (holder == 0) {
            alarm(120);
            while (*(volatile pid_t *)shared_pids == 0)
                usleep(1000);
            _exit(0);
        }
        CHECK(post_note(0, 1, 8, NULL, 0) == 0 && control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
        kill(getpid(), SIGKILL);
    }
    AWAIT(atomic_load(&arrived) == 1);
    AWAIT(life_died(control_life(1)));
    control_look();
    AWAIT(atomic_load(&died) == 1);
    *(volatile pid_t *)shared_pids = 1;
    control_set_ticking(true);
    AWAIT(atomic_load(&ticks) > 2);
    rank_stop();
}

static void test_life_word_tells_before_sockets(void **state)
{
    pid_t pids[RANKS_MAX];

    (void)state;
    setenv("RPIPE_CONTROL", "unix", 1);
    share_pids();
    ranks_start(2, rank_dies_held, pids);
    ranks_wait(2, pids, 1, SIGKILL);
    munmap(shared_pids, 4096);
}

static void rank_never_met(int rank, int size)
{
    (void)size;
    rank_start(&hooks);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    while (control_post(1, NOTE, "12345678", 8, NULL, 0) == 0)
        usleep(1000);
    CHECK(atomic_load(&died) <= 1);
    AWAIT(atomic_load(&died) == 1);
    CHECK(control_post(1, NOTE, "12345678", 8, NULL, 0) == -ECONNRESET);
    CHECK(control_flush(-1, DEADLINE_NOW) == 0);
    rank_stop();
}

static void test_who_cannot_be_reached_is_lost(void **state)
{
    pid_t pids[RANKS_MAX];

    setenv("RPIPE_CONTROL", *state, 1);
    ranks_start(2, rank_never_met, pids);
    ranks_wait(2, pids, 1, SIGKILL);
}

static void rank_stopped(int rank, int size)
{
    uint32_t i;

    (void)size;
    rank_start(&hooks);
    barrier();
    if (rank == 1) {
        CHECK(control_flush(-1, deadline_in_ms(LIMIT_MS)) == 0); /* what rank 0 needs for the barrier */
        shared_pids[1] = getpid();
        raise(SIGSTOP);
        AWAIT(atomic_load(&arrived) == 3000);
        CHECK(atomic_load(&wrong) == 0);
    } else {
        AWAIT(*(volatile pid_t *)&shared_pids[1] != 0);
        control_set_ticking(true);
        for (i = 1; i <= 3000; i++)
            CHECK(post_note(1, i, 8000, NULL, 0) == 0);
        CHECK(control_flush(1, deadline_in_ms(300)) == -ETIMEDOUT);
        CHECK(atomic_load(&died) == 0 && atomic_load(&left) == 0);
        kill(shared_pids[1], SIGCONT);
        CHECK(control_flush(1, deadline_in_ms(LIMIT_MS)) == 0);
    }
    barrier();
    rank_stop();
}

static void test_who_is_stopped_is_not_dead(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    share_pids();
    run_ranks(2, rank_stopped);
    munmap(shared_pids, 4096);
}

static int count_sockets(void)
{
    DIR *d = opendir("/proc/self/fd");
    char path[300], target[64];
    struct dirent *e;
    int count = 0;

    CHECK(d != NULL);
    while ((e = readdir(d)) != NULL) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = '\0';
            count += strstr(target, "socket:") != NULL || strstr(target, "anon_inode:") != NULL;
        }
    }
    closedir(d);
    return count;
}

static void rank_forks(int rank, int size)
{
    int before, status;
    pid_t child;

    before = count_sockets();
    rank_start(&hooks);
    barrier();
    CHECK(control_flush(-1, deadline_in_ms(LIMIT_MS)) == 0); /* our connection stands: no socket is being made now */
    CHECK(count_sockets() > before);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        control_forked();
        CHECK(control_post((rank + 1) % size, NOTE, "12345678", 8, NULL, 0) == -ENOTCONN);
        CHECK(count_sockets() == before && control_life(rank) == NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    barrier();
    CHECK(post_note((rank + 1) % size, 1, 8, NULL, 0) == 0);
    AWAIT(atomic_load(&arrived) == 1);
    CHECK(atomic_load(&died) == 0);
    barrier();
    rank_stop();
}

static void test_child_of_a_fork_is_nobody(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks(2, rank_forks);
}

/* ---- strangers ---- */

static void own_card(int rank, struct card *card)
{
    uint8_t blob[JOB_CARD_MAX];
    char why[256];
    size_t bytes;

    CHECK(job_card(rank, blob, &bytes, DEADLINE_NOW, why, sizeof(why)) == 0 && bytes == sizeof(*card));
    memcpy(card, blob, sizeof(*card));
}

static int stranger(const struct card *card, bool tcp)
{
    struct sockaddr_un u = {.sun_family = AF_UNIX};
    struct sockaddr_in i = {
        .sin_family = AF_INET, .sin_port = htons(card->tcp_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(u.sun_path, card->unix_name, card->unix_bytes);
    CHECK(fd >= 0);
    if (tcp)
        CHECK(connect(fd, (struct sockaddr *)&i, sizeof(i)) == 0);
    else
        CHECK(connect(fd, (struct sockaddr *)&u,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + card->unix_bytes)) == 0);
    return fd;
}

static void expect_hangup(int fd)
{
    char c;
    ssize_t n;

    while ((n = recv(fd, &c, 1, 0)) > 0)
        ;
    CHECK(n == 0 || errno == ECONNRESET);
    close(fd);
}

struct greeting {
    struct wire_frame frame;
    struct wire_hello hello;
};

static struct greeting good_greeting(const struct card *to, uint32_t from)
{
    struct greeting g = {{WIRE_FRAME_MAGIC, WIRE_HELLO, sizeof(struct wire_hello), 0},
                         {.magic = WIRE_HELLO_MAGIC, .version = WIRE_VERSION, .from = from, .to = to->rank}};

    memcpy(g.hello.cookie, to->cookie, COOKIE_BYTES);
    return g;
}

static void send_bytes(int fd, const void *data, size_t bytes) { send(fd, data, bytes, MSG_NOSIGNAL); }

static void rank_strangers(int rank, int size)
{
    struct card card;
    uint8_t noise[5000];
    struct greeting g;
    unsigned seed = (unsigned)getpid();
    int i, k, fd, idle[40];
    bool tcp = strcmp(getenv("RPIPE_CONTROL"), "tcp") == 0;

    log_set_level(LOG_ERROR); /* the warnings are expected */
    rank_start(&hooks);
    own_card((rank + 1) % size, &card); /* each rank is a stranger to the next one */
    for (i = 0; i < 40; i++)
        idle[i] = stranger(&card, tcp); /* say nothing, or only a part */
    for (i = 0; i < 200; i++) {
        fd = stranger(&card, tcp);
        g = good_greeting(&card, 0);
        switch (i % 10) {
        case 0: /* noise */
            for (k = 0; k < (int)sizeof(noise); k++)
                noise[k] = (uint8_t)rand_r(&seed);
            send_bytes(fd, noise, sizeof(noise));
            break;
        case 1: /* an oversized length */
            g.frame.bytes = UINT32_MAX - (uint32_t)i;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 2: /* the wrong cookie */
            g.hello.cookie[i % COOKIE_BYTES] ^= 1;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 3: /* half a hello, then nothing more */
            send_bytes(fd, &g, sizeof(g) / 2);
            shutdown(fd, SHUT_WR);
            break;
        case 4: /* a rank that does not exist */
            g.hello.from = (uint32_t)size + (uint32_t)i;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 5: /* the rank itself */
            g.hello.from = card.rank;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 6: /* meant for somebody else */
            g.hello.to = card.rank + 1;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 7: /* another version */
            g.hello.version++;
            send_bytes(fd, &g, sizeof(g));
            break;
        case 8: /* no greeting at all, but a message */
            g.frame.type = NOTE;
            send_bytes(fd, &g, sizeof(g));
            break;
        default: /* a greeting with mutilated bytes, before the cookie */
            ((uint8_t *)&g)[(unsigned)i / 10 * 3 % 32] ^= 0x55;
            g.frame.nfds |= (i / 10) % 2 != 0 ? 1u : 0u;
            send_bytes(fd, &g, sizeof(g));
            shutdown(fd, SHUT_WR);
            break;
        }
        expect_hangup(fd);
    }
    CHECK(atomic_load(&arrived) == 0);
    barrier();
    CHECK(post_note((rank + 1) % size, 1, 1000, NULL, 0) == 0);
    AWAIT(atomic_load(&arrived) == 1);
    CHECK(atomic_load(&wrong) == 0 && atomic_load(&died) == 0 && atomic_load(&left) == 0);
    barrier();
    for (i = 0; i < 40; i++)
        close(idle[i]);
    rank_stop();
}

static void test_strangers_do_no_harm(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks(2, rank_strangers);
}

/* Rank 1 knows the cookies, as every rank does, and breaks the protocol in the name of rank 2, which says nothing. */
static void rank_rogue(int rank, int size)
{
    static uint8_t noise[100000];
    struct greeting g;
    struct card card;
    unsigned seed = 42;
    size_t i;
    int fd;

    (void)size;
    log_set_level(LOG_ERROR);
    rank_start(&hooks);
    if (rank == 1) {
        own_card(0, &card);
        fd = stranger(&card, true);
        g = good_greeting(&card, 2);
        send_bytes(fd, &g, sizeof(g));
        CHECK(recv(fd, &g, sizeof(g), MSG_WAITALL) == (ssize_t)sizeof(g) && g.frame.type == WIRE_WELCOME);
        for (i = 0; i < sizeof(noise); i++)
            noise[i] = (uint8_t)rand_r(&seed);
        g.frame = (struct wire_frame){WIRE_FRAME_MAGIC, WIRE_PIECE, 40, 0}; /* a piece shorter than its header */
        if (getenv("ROGUE") != NULL)
            send_bytes(fd, &g, sizeof(g.frame) + 40);
        else
            send_bytes(fd, noise, sizeof(noise));
        expect_hangup(fd);
        CHECK(post_note(0, 1, 8, NULL, 0) == 0);
    }
    if (rank == 0) {
        AWAIT(atomic_load(&died) == 1 && atomic_load(&arrived) == 1);
        CHECK(control_peer_state(2) == -ECONNRESET && control_peer_state(1) == 0);
        CHECK(post_note(1, 1, 8, NULL, 0) == 0 && control_flush(1, deadline_in_ms(LIMIT_MS)) == 0);
    }
    if (rank == 1)
        AWAIT(atomic_load(&arrived) == 1);
    rank_stop();
}

static void test_a_peer_that_talks_nonsense_is_cut_off(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "tcp", 1);
    unsetenv("ROGUE");
    run_ranks(3, rank_rogue);
    setenv("ROGUE", "1", 1);
    run_ranks(3, rank_rogue);
    unsetenv("ROGUE");
}

int main(void)
{
    char un[] = "unix", tcp[] = "tcp";
#define BOTH(test)                                                                                                     \
    {#test " (unix)", test, NULL, NULL, un}, { #test " (tcp)", test, NULL, NULL, tcp }
    const struct CMUnitTest tests[] = {
        BOTH(test_messages_arrive_in_order),
        cmocka_unit_test(test_bad_arguments_are_refused),
        cmocka_unit_test(test_descriptors_travel_with_their_message),
        cmocka_unit_test(test_tcp_carries_no_descriptors),
        BOTH(test_very_many_at_once),
        BOTH(test_many_threads_post),
        BOTH(test_who_stops_has_left),
        BOTH(test_who_never_spoke_says_goodbye),
        BOTH(test_who_dies_is_missed),
        cmocka_unit_test(test_life_word_tells_before_sockets),
        BOTH(test_who_cannot_be_reached_is_lost),
        BOTH(test_who_is_stopped_is_not_dead),
        BOTH(test_child_of_a_fork_is_nobody),
        BOTH(test_strangers_do_no_harm),
        cmocka_unit_test(test_a_peer_that_talks_nonsense_is_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
