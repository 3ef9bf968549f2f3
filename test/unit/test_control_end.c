/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every way in which a peer of the control network can end, or only stand still.
 */
#include "control_ranks.h"
#include "test/lib/resources.h"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* The page may be unmapped as soon as the peer has ended. */
static bool word_states_death(int peer)
{
    const _Atomic uint32_t *word = control_liveness_hold(peer);
    bool states = liveness_died(word);

    control_liveness_drop(peer, word);
    return states;
}

static void a_rank_that_stops_has_left(int rank, int size)
{
    rank_start(&hooks);
    barrier();
    if (rank == 1) {
        REQUIRE(post_note(0, 1, 60000, NULL, 0) == 0);
        rank_stop();
        return;
    }
    if (rank == 0)
        AWAIT(atomic_load(&arrived) == 1);
    AWAIT(atomic_load(&left) == 1);
    REQUIRE(atomic_load(&died) == 0 && atomic_load(&wrong) == 0);
    REQUIRE(post_note(1, 1, 8, NULL, 0) == -EPIPE && control_flush(1, DEADLINE_NOW) == 0);
    REQUIRE(!word_states_death(1));
    (void)size;
    rank_stop();
}

/* Rank 1 sends to no rank, but has received: its close message travels on the other's connection. */
static void a_rank_without_messages_sends_its_close(int rank, int size)
{
    (void)size;
    rank_start(&hooks);
    if (rank == 0) {
        REQUIRE(post_note(1, 1, 8, NULL, 0) == 0);
        AWAIT(atomic_load(&left) == 1);
        REQUIRE(atomic_load(&died) == 0);
    } else {
        AWAIT(atomic_load(&arrived) == 1);
    }
    rank_stop();
}

static _Atomic bool message_may_return;

static int on_message_that_waits(int from, uint32_t type, const void *body, size_t bytes,
                                 const int *fds, int nfds)
{
    (void)from, (void)type, (void)body, (void)bytes, (void)fds, (void)nfds;
    atomic_fetch_add(&arrived, 1);
    while (!atomic_load(&message_may_return))
        usleep(1000);
    return 0;
}

/* The service thread does not return from a call: the end of the rank waits until its deadline, and names what the thread does. */
static void a_thread_that_stays_is_named(int rank, int size)
{
    static const struct control_hooks waiting = {
        .message = on_message_that_waits, .peer_gone = on_gone, .tick = on_tick};
    struct error err = {""};
    int64_t since;

    (void)size;
    rank_start(&waiting);
    REQUIRE(control_post(rank, NOTE, "12345678", 8, NULL, 0) == 0);
    AWAIT(atomic_load(&arrived) == 1);
    since = clock_now();
    REQUIRE(control_stop(DEADLINE_NOW, deadline_in_ms(50), &err) == -ETIMEDOUT);
    REQUIRE(clock_now() - since < 5 * NS_PER_S);
    REQUIRE(strstr(err.text, "\"rmalloc\"") != NULL &&
                strstr(err.text, "handling a message") != NULL,
            "%s", err.text);
    atomic_store(&message_may_return, true);
    rank_stop();
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
            REQUIRE(post_note(0, i, 600, NULL, 0) == 0);
        REQUIRE(control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
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
    /* everything that it sent is here, and was before its end */
    REQUIRE(atomic_load(&arrived) == 300 && atomic_load(&wrong) == 0 && atomic_load(&left) == 0);
    REQUIRE(control_liveness(1) == NULL || word_states_death(1));
    REQUIRE(post_note(1, 1, 8, NULL, 0) == -ECONNRESET);
    rank_stop();
}

static void test_a_death_is_noticed(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    for (way_to_die = 0; way_to_die < 4; way_to_die++) {
        run_ranks_but(way_to_die == 0 || way_to_die == 3 ? 1 : -1,
                      way_to_die == 0 ? SIGKILL : SIGABRT, 2, rank_dies);
    }
}

static pid_t *shared_pids; /* what ranks share beside the network */

static void share_pids(void)
{
    shared_pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared_pids, MAP_FAILED);
}

/* The liveness word shows the death even if another process keeps the dead process's sockets open. */
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
        REQUIRE(post_note(0, 1, 8, NULL, 0) == 0 &&
                control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
        kill(getpid(), SIGKILL);
    }
    AWAIT(atomic_load(&arrived) == 1);
    AWAIT(word_states_death(1));
    control_check_liveness();
    AWAIT(atomic_load(&died) == 1);
    *(volatile pid_t *)shared_pids = 1;
    control_set_ticking(true);
    AWAIT(atomic_load(&ticks) > 2);
    rank_stop();
}

/* Of ranks that have died or left no mapping and no descriptor stays; the page of one that is held does until it is dropped. */
static void ranks_leave_nothing(int rank, int size)
{
    const _Atomic uint32_t *word;
    int mappings, fds;

    rank_start(&hooks);
    if (rank != 0) {
        while (*(volatile pid_t *)shared_pids == 0)
            usleep(1000);
        REQUIRE(post_note(0, 1, 8, NULL, 0) == 0 &&
                control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
        if (rank % 2 == 0)
            rank_stop();
        else
            _exit(0);
        return;
    }
    mappings = resources_mappings();
    fds = resources_fds();
    *(volatile pid_t *)shared_pids = 1;
    AWAIT((word = control_liveness_hold(1)) != NULL || atomic_load(&died) == size / 2);
    AWAIT(atomic_load(&left) + atomic_load(&died) == size - 1);
    REQUIRE(atomic_load(&arrived) == size - 1 && atomic_load(&died) == size / 2);
    REQUIRE(liveness_died(word));
    control_liveness_drop(1, word);
    AWAIT(resources_mappings() <=
          mappings + size / 2 +
              RESOURCES_MAPPINGS_SLACK); /* the first malloc of a thread maps some */
    AWAIT(resources_fds() <= fds);
    REQUIRE(word_states_death(1) && !word_states_death(2));
    rank_stop();
}

int __real_job_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err);
int __wrap_job_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err);

static _Atomic int cards_fetched;

int __wrap_job_card(int rank, void *card, size_t *bytes, int64_t deadline, struct error *err)
{
    atomic_fetch_add(&cards_fetched, 1);
    return __real_job_card(rank, card, bytes, deadline, err);
}

/* What the card of a rank shows is asked again with each pipe, and stays when the rank is gone. */
static void a_card_is_fetched_once(int rank, int size)
{
    uint32_t backends, before;
    struct error err = {""};
    bool same_kernel;

    (void)size;
    rank_start(&hooks);
    if (rank == 1) {
        while (*(volatile pid_t *)shared_pids == 0)
            usleep(1000);
        REQUIRE(post_note(0, 1, 8, NULL, 0) == 0 &&
                control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
        _exit(0);
    }
    REQUIRE(control_peer_backends(1, &before, &same_kernel, &err) == 0 && same_kernel);
    *(volatile pid_t *)shared_pids = 1;
    AWAIT(atomic_load(&died) == 1 && control_peer_state(1) == -ECONNRESET);
    for (int i = 0; i < 100; i++) {
        REQUIRE(control_peer_backends(1, &backends, &same_kernel, &err) == 0, "%s", err.text);
        REQUIRE(backends == before && same_kernel && control_path(1) == CONTROL_UNIX &&
                control_host_unknown(1) == -1);
    }
    REQUIRE(atomic_load(&cards_fetched) <= 2, "%d", atomic_load(&cards_fetched));
    rank_stop();
}

static void test_a_card_is_fetched_once(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "unix", 1);
    share_pids();
    run_ranks(2, a_card_is_fetched_once);
    munmap(shared_pids, 4096);
}

static void test_ranks_that_are_gone_leave_nothing(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "unix", 1);
    share_pids();
    run_ranks(RANKS_MOST, ranks_leave_nothing);
    munmap(shared_pids, 4096);
}

static void test_the_liveness_word_comes_before_sockets(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "unix", 1);
    share_pids();
    run_ranks_but(1, SIGKILL, 2, rank_dies_held);
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
    REQUIRE(atomic_load(&died) <= 1);
    AWAIT(atomic_load(&died) == 1);
    REQUIRE(control_post(1, NOTE, "12345678", 8, NULL, 0) == -ECONNRESET);
    REQUIRE(control_flush(-1, DEADLINE_NOW) == 0);
    rank_stop();
}

static void test_an_unreachable_rank_is_lost(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    run_ranks_but(1, SIGKILL, 2, rank_never_met);
}

static void rank_stopped(int rank, int size)
{
    uint32_t i;

    (void)size;
    rank_start(&hooks);
    barrier();
    if (rank == 1) {
        REQUIRE(control_flush(-1, deadline_in_ms(LIMIT_MS)) ==
                0); /* what rank 0 needs for the barrier */
        shared_pids[1] = getpid();
        raise(SIGSTOP);
        AWAIT(atomic_load(&arrived) == 3000);
        REQUIRE(atomic_load(&wrong) == 0);
    } else {
        AWAIT(*(volatile pid_t *)&shared_pids[1] != 0);
        control_set_ticking(true);
        for (i = 1; i <= 3000; i++)
            REQUIRE(post_note(1, i, 8000, NULL, 0) == 0);
        REQUIRE(control_flush(1, deadline_in_ms(300)) == -ETIMEDOUT);
        REQUIRE(atomic_load(&died) == 0 && atomic_load(&left) == 0);
        kill(shared_pids[1], SIGCONT);
        REQUIRE(control_flush(1, deadline_in_ms(LIMIT_MS)) == 0);
    }
    barrier();
    rank_stop();
}

static void test_a_stopped_rank_is_not_dead(void **state)
{
    setenv("RPIPE_CONTROL", *state, 1);
    share_pids();
    run_ranks(2, rank_stopped);
    munmap(shared_pids, 4096);
}

/*
 * A rank that is stopped while it dials, for longer than the keep-alive: the connection stands meanwhile. It is stopped in
 * epoll_wait(2), which SIGCONT ends with EINTR and without an event.
 */
static _Atomic bool stops_after_dialing, has_dialed;

int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    static int (*real)(int, const struct sockaddr *, socklen_t);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if (atomic_load(&stops_after_dialing) && address->sa_family != AF_UNIX)
        atomic_store(&has_dialed, true);
    return real(fd, address, bytes);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    static int (*real)(int, struct epoll_event *, int, int);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
    if (!atomic_exchange(&has_dialed, false))
        return real(epoll, events, most, timeout);
    atomic_store(&stops_after_dialing, false);
    shared_pids[1] = getpid();
    raise(SIGSTOP);
    errno = EINTR;
    return -1;
}

#define STOPPED_MS 1500 /* more than RPIPE_KEEPALIVE_MS here */

static void rank_stopped_while_it_dials(int rank, int size)
{
    int64_t until;

    (void)size;
    rank_start(&hooks);
    if (rank == 1) {
        atomic_store(&stops_after_dialing, true);
        REQUIRE(post_note(0, 1, 8, NULL, 0) == 0);
        REQUIRE(control_flush(0, deadline_in_ms(LIMIT_MS)) == 0);
        REQUIRE(!atomic_load(&stops_after_dialing) && atomic_load(&died) == 0);
    } else {
        AWAIT(*(volatile pid_t *)&shared_pids[1] != 0);
        until = deadline_in_ms(STOPPED_MS);
        AWAIT(deadline_passed(until));
        do /* it may not have stopped before */
            kill(shared_pids[1], SIGCONT), usleep(1000);
        while (atomic_load(&arrived) == 0 && atomic_load(&died) == 0 && atomic_load(&left) == 0);
        REQUIRE(atomic_load(&arrived) == 1 && atomic_load(&died) == 0);
    }
    barrier();
    rank_stop();
}

static void test_a_rank_stopped_while_it_dials(void **state)
{
    (void)state;
    setenv("RPIPE_CONTROL", "tcp", 1);
    setenv("RPIPE_INTERFACE", "127.0.0.1", 1); /* there is no other address that it could try */
    setenv("RPIPE_KEEPALIVE_MS", "1000", 1);
    share_pids();
    run_ranks(2, rank_stopped_while_it_dials);
    munmap(shared_pids, 4096);
    unsetenv("RPIPE_KEEPALIVE_MS");
    unsetenv("RPIPE_INTERFACE");
}

static int count_sockets(void)
{
    DIR *d = opendir("/proc/self/fd");
    char path[300], target[64];
    struct dirent *e;
    int count = 0;

    REQUIRE(d != NULL);
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

static void child_of_a_fork_has_no_rank(int rank, int size)
{
    int before, status;
    pid_t child;

    before = count_sockets();
    rank_start(&hooks);
    barrier();
    REQUIRE(control_flush(-1, deadline_in_ms(LIMIT_MS)) ==
            0); /* our connection stands: no socket is being made now */
    REQUIRE(count_sockets() > before);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        control_forked();
        REQUIRE(control_post((rank + 1) % size, NOTE, "12345678", 8, NULL, 0) == -ENOTCONN);
        REQUIRE(count_sockets() == before && control_liveness(rank) == NULL);
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    barrier();
    REQUIRE(post_note((rank + 1) % size, 1, 8, NULL, 0) == 0);
    AWAIT(atomic_load(&arrived) == 1);
    REQUIRE(atomic_load(&died) == 0);
    barrier();
    rank_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANKS_BOTH(2, a_rank_that_stops_has_left),
        RANKS_BOTH(2, a_rank_without_messages_sends_its_close),
        BOTH(test_a_death_is_noticed),
        cmocka_unit_test(test_a_card_is_fetched_once),
        cmocka_unit_test(test_ranks_that_are_gone_leave_nothing),
        cmocka_unit_test(test_the_liveness_word_comes_before_sockets),
        BOTH(test_an_unreachable_rank_is_lost),
        BOTH(test_a_stopped_rank_is_not_dead),
        cmocka_unit_test(test_a_rank_stopped_while_it_dials),
        RANKS_BOTH(2, child_of_a_fork_has_no_rank),
        RANKS_OVER("unix", 1, a_thread_that_stays_is_named),
    };

    return cmocka_run_group_tests_name("ends of control network", tests, NULL, NULL);
}
