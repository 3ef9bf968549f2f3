/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform.c: conform BACKEND [SEED]: does a backend do what lib/btl/btl.h specifies?
 *
 * Everything runs twice: between lines of one process, then between two, as far as the backend reaches. The other process is
 * started before this one opens any library. CONFORM_SECONDS: how long anything may take (60); CONFORM_ADDRESS: what backends receive
 * of this machine (127.0.0.1); CONFORM_KILL=0: the other process is not killed at the end; CONFORM_PROCESSES=1: there is none;
 * CONFORM_STREAMS=1: the lines of each thread are in a stream. What backends read themselves
 * (RPIPE_...) is passed on. RPIPE_MODULE_PATH is where they are.
 *
 * CONFORM_JOB=PATH: the two processes are ranks 0 and 1 of a launcher of MPI, which has started both, and meet at a socket with this
 * name; neither is killed.
 *
 * One line at the end; exit status 0; 1: the backend breaks a rule; 2: it cannot be loaded; 77: not on this machine.
 */
#include "conform.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *name;
static int passed;

/* ---- asking, and the small change of tests ---- */

void ask_begin(struct side *s, const struct ask *what)
{
    REQUIRE(send(s->socket, what, sizeof(*what), MSG_NOSIGNAL) == (ssize_t)sizeof(*what),
            "the target is gone: %s", strerror(errno));
}

struct answer ask_end(struct side *s)
{
    struct answer answer;

    REQUIRE(recv(s->socket, &answer, sizeof(answer), 0) == (ssize_t)sizeof(answer),
            "the target is gone");
    return answer;
}

struct answer ask_any(struct side *s, struct ask what)
{
    ask_begin(s, &what);
    return ask_end(s);
}

struct answer ask(struct side *s, struct ask what)
{
    struct answer answer = ask_any(s, what);

    REQUIRE(answer.rc == 0, "request %u of the target: %s (%d)", what.what, answer.err.text,
            answer.rc);
    return answer;
}

uint64_t draw(struct side *s, uint64_t below)
{
    s->seed = random_mix(s->seed);
    return s->seed % below;
}

void drive(struct side *s, struct btl_connection *connection)
{
    const struct btl_ops *ops = s->backend->ops;
    struct error err = {""};
    int rc;

    if (draw(s, 4) == 0) {
        rc = ops->progress_all(s->backend->btl);
        REQUIRE(rc == 0, "progress_all: %d", rc);
    } else {
        rc = ops->progress(connection);
        if (rc != 0)
            (void)ops->connection_state(connection, &err);
        REQUIRE(rc == 0, "progress: %d: %s", rc, err.text);
    }
    if (draw(s, 64) == 0)
        sched_yield();
}

struct btl_connection *line_up(struct side *s, uint32_t id, uint32_t depth)
{
    const struct btl_ops *ops = s->backend->ops;
    enum btl_role role = draw(s, 2) == 0 ? BTL_CONNECTS : BTL_ACCEPTS;
    bool first = draw(s, 2) == 0; /* which side connects first */
    struct btl_address address;
    struct answer other;
    struct btl_connection *connection;
    struct error err = {""};
    int64_t deadline = patience();
    int rc;

    rc = line_open(s->backend, s->peer, role, depth, &connection, &address, &err);
    REQUIRE(rc == 0, "connection_open: %d: %s", rc, err.text);
    REQUIRE(address.bytes > 0 && address.bytes <= sizeof(address.byte), "an address of %u bytes",
            address.bytes);
    other = ask(s, (struct ask){.what = ASK_LINE,
                                .id = id,
                                .a = role == BTL_CONNECTS ? BTL_ACCEPTS : BTL_CONNECTS,
                                .b = depth});
    rc = ops->connection_state(connection, &err);
    REQUIRE(rc == -EAGAIN, "connection_state before connection_connect: %d", rc);
    if (!first)
        ask(s, (struct ask){.what = ASK_CONNECT, .id = id, .address = address});
    rc = ops->connection_connect(connection, &other.address, &err);
    REQUIRE(rc == 0, "connection_connect: %d: %s", rc, err.text);
    if (first)
        ask(s, (struct ask){.what = ASK_CONNECT, .id = id, .address = address});
    while ((rc = ops->connection_state(connection, &err)) == -EAGAIN) {
        REQUIRE(!deadline_passed(deadline), "the line does not come up: %s", err.text);
        drive(s, connection);
    }
    REQUIRE(rc == 0, "connection_state: %d: %s", rc, err.text);
    return connection;
}

void line_down(struct side *s, uint32_t id, struct btl_connection *connection)
{
    s->backend->ops->connection_close(connection);
    ask(s, (struct ask){.what = ASK_CLOSE, .id = id});
}

struct far far_alloc(struct side *s, uint32_t id, size_t bytes, uint32_t access)
{
    return far_alloc_as(s, id, bytes, access, KIND_OWN);
}

struct far far_alloc_as(struct side *s, uint32_t id, size_t bytes, uint32_t access, enum kind kind)
{
    struct answer a =
        ask(s, (struct ask){.what = ASK_ALLOC, .id = id, .a = bytes, .b = access, .c = kind});
    struct far far = {.id = id, .bytes = bytes, .address = a.value};
    struct error err = {""};
    int rc =
        s->backend->ops->attach(s->backend->btl, s->peer, &a.key, bytes, access, &far.remote, &err);

    REQUIRE(rc == 0, "attach: %d: %s", rc, err.text);
    REQUIRE(far.remote.mapping != NULL && far.remote.bytes >= bytes, "attach without a mapping");
    return far;
}

void far_free(struct side *s, struct far *far)
{
    s->backend->ops->detach(s->backend->btl, &far->remote);
    REQUIRE(far->remote.mapping == NULL, "detach leaves something attached");
    ask(s, (struct ask){.what = ASK_FREE, .id = far->id});
}

struct btl_memory near_alloc(struct side *s, size_t bytes)
{
    struct btl_memory piece = {0};
    struct error err = {""};
    int rc =
        s->backend->ops->alloc(s->backend->btl, s->peer, bytes, BTL_LOCAL, false, &piece, &err);

    REQUIRE(rc == 0, "alloc of %zu bytes: %d: %s", bytes, rc, err.text);
    REQUIRE(piece.base != NULL && piece.bytes >= bytes, "alloc of %zu bytes gave %zu", bytes,
            piece.bytes);
    REQUIRE((uintptr_t)piece.base % s->backend->ops->attributes.alignment == 0, "a region at %p",
            piece.base);
    return piece;
}

void near_free(struct side *s, struct btl_memory *piece)
{
    s->backend->ops->free(s->backend->btl, piece);
}

uint64_t write_must(struct side *s, struct btl_connection *connection,
                    const struct btl_transfer *payload, const struct btl_transfer *slot)
{
    int64_t deadline = patience();
    uint64_t refused = 0;
    int rc;

    while ((rc = s->backend->ops->write(connection, payload, slot)) == -EAGAIN) {
        refused++;
        REQUIRE(!deadline_passed(deadline), "a write is refused for ever");
        drive(s, connection);
    }
    REQUIRE(rc == 0, "write: %d", rc);
    return refused;
}

void get_must(struct side *s, struct btl_connection *connection, const struct btl_transfer *t,
              struct btl_done *done)
{
    int64_t deadline = patience();
    int rc;

    while ((rc = s->backend->ops->get(connection, t, done)) == -EAGAIN) {
        REQUIRE(!deadline_passed(deadline), "a get is refused for ever");
        drive(s, connection);
    }
    REQUIRE(rc == 0, "get: %d", rc);
}

void done_must(struct side *s, struct btl_connection *connection, struct btl_done *done)
{
    int64_t deadline = patience();
    int pending;

    while ((pending = atomic_load_explicit(&done->pending, memory_order_acquire)) != 0) {
        REQUIRE(pending > 0, "completed more often than accepted (%d)", pending);
        REQUIRE(!deadline_passed(deadline), "%d operations do not complete", pending);
        drive(s, connection);
    }
    REQUIRE(atomic_load(&done->error) == 0, "an operation failed: %d", atomic_load(&done->error));
}

void flush_must(struct side *s, struct btl_connection *connection)
{
    int64_t deadline = patience();
    int rc;

    while ((rc = s->backend->ops->flush(connection)) == -EAGAIN) {
        REQUIRE(!deadline_passed(deadline), "flush does not end");
        drive(s, connection);
    }
    REQUIRE(rc == 0, "flush: %d", rc);
}

/* ---- the program ---- */

static void run(struct side *s, const struct test *test, const char *where)
{
    for (; test->name != NULL; test++) {
        uint64_t seed = s->seed;

        printf("%s, seed %llu: %s\n", where, (unsigned long long)seed, test->name);
        fflush(stdout);
        test->run(s);
        passed++;
    }
}

static void *stream_main(void *side)
{
    stream(side, 400);
    count_together(side);
    return NULL;
}

/* Two lines at once, from two threads, to the same target. */
static void run_together(struct side side[AGENTS], const char *where)
{
    pthread_t thread[AGENTS];

    printf("%s: two threads\n", where);
    for (int i = 0; i < AGENTS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, stream_main, &side[i]) == 0, "pthread_create");
    for (int i = 0; i < AGENTS; i++)
        pthread_join(thread[i], NULL);
    passed++;
}

static void run_all(struct side side[AGENTS], const char *where)
{
    run(&side[0], transfer_tests, where);
    run(&side[0], line_tests, where);
    run_together(side, where);
}

/* The target dies while operations are outstanding: the connection fails, sooner or later. */
static void run_killed(struct side *s, pid_t target)
{
    struct btl_connection *connection = line_up(s, 0, 0);
    struct far far = far_alloc(s, 0, 4096, BTL_PEER_READS);
    struct btl_memory near = near_alloc(s, 4096);
    struct btl_transfer t = {&far.remote, 0, &near, 0, 4096};
    struct btl_done done = {0};
    const struct btl_ops *ops = s->backend->ops;
    int64_t deadline = patience();
    struct error err = {""};
    int rc = 0;

    printf("two processes: the target is killed\n");
    kill(target, SIGKILL);
    waitpid(target, NULL, 0);
    while (rc == 0 || rc == -EAGAIN) {
        REQUIRE(!deadline_passed(deadline), "a connection to a process that is dead does not fail");
        if (atomic_load(&done.pending) < 4)
            (void)ops->get(connection, &t, &done);
        (void)ops->progress(connection);
        rc = atomic_load(&done.error) != 0 ? atomic_load(&done.error)
                                           : ops->connection_state(connection, &err);
        usleep(1000);
    }
    (void)ops->connection_state(connection, &err);
    REQUIRE(*err.text != '\0', "a failed connection has no error message");
    printf("    %s\n", err.text);
    if (ops->peer_gone != NULL)
        ops->peer_gone(s->backend->btl, s->peer);
    ops->connection_close(connection);
    ops->detach(s->backend->btl, &far.remote);
    near_free(s, &near);
    passed++;
}

static void run_target(const int socket[AGENTS], bool together)
{
    struct backend backend = {0};
    struct agent agent[AGENTS];
    pthread_t thread[AGENTS];
    char byte;

    for (int i = 0; i < AGENTS; i++)
        agent[i] = (struct agent){&backend, socket[i], 0};
    if (together) /* both ranks open the backend at once, or none can */
        backend_open(&backend, name, 1);
    if (recv(agent[0].socket, &byte, 1, 0) != 1) /* now it is needed */
        exit(0);
    if (!together)
        backend_open(&backend, name, 1);
    for (int i = 0; i < AGENTS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, agent_main, &agent[i]) == 0, "pthread_create");
    for (int i = 0; i < AGENTS; i++)
        pthread_join(thread[i], NULL);
    backend_close(&backend);
    exit(0);
}

static pid_t start_target(const char *self, int far_socket[AGENTS], int near_socket[AGENTS])
{
    char number[AGENTS][16];
    pid_t pid = fork();

    for (int i = 0; i < AGENTS; i++)
        snprintf(number[i], sizeof(number[i]), "%d", far_socket[i]);
    if (pid == 0) {
        for (int i = 0; i < AGENTS; i++)
            close(near_socket[i]);
        execl("/proc/self/exe", self, "--target", name, number[0], number[1], (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < AGENTS; i++)
        close(far_socket[i]);
    return pid;
}

/* The rank that a launcher of MPI gave to this process; -1: none. */
static int launched_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (rank == NULL)
        rank = getenv("PMI_RANK");
    return rank != NULL ? atoi(rank) : -1;
}

/* Rank 0 listens at the path, rank 1 connects to it. */
static void meet(const char *path, int rank, int connected[AGENTS])
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int64_t deadline = patience();
    int listener = -1;

    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (rank == 0) {
        listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        REQUIRE(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 &&
                    listen(listener, AGENTS) == 0,
                "%s: %s", path, strerror(errno));
    }
    for (int i = 0; i < AGENTS; i++) {
        if (rank == 0) {
            connected[i] = accept(listener, NULL, NULL);
            REQUIRE(connected[i] >= 0, "accept: %s", strerror(errno));
            continue;
        }
        connected[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        while (connect(connected[i], (struct sockaddr *)&at, sizeof(at)) != 0) {
            REQUIRE(!deadline_passed(deadline), "%s: %s", path, strerror(errno));
            sched_yield();
        }
    }
    if (listener >= 0)
        close(listener);
}

static void one_process(struct backend *b, uint64_t seed)
{
    struct side side[AGENTS];
    struct agent agent[AGENTS];
    pthread_t thread[AGENTS];
    int pair[2];

    for (int i = 0; i < AGENTS; i++) {
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
        agent[i] = (struct agent){b, pair[1], b->rank};
        side[i] = (struct side){b, pair[0], b->rank, random_mix(seed + (uint64_t)i),
                                strcmp(name, "sim") == 0};
        REQUIRE(pthread_create(&thread[i], NULL, agent_main, &agent[i]) == 0, "pthread_create");
    }
    run_all(side, "one process");
    for (int i = 0; i < AGENTS; i++) {
        close(side[i].socket);
        pthread_join(thread[i], NULL);
        close(agent[i].socket);
    }
}

static void two_processes(struct backend *b, uint64_t seed, int socket[AGENTS], pid_t target)
{
    struct side side[AGENTS];
    const char *kills = getenv("CONFORM_KILL"), *processes = getenv("CONFORM_PROCESSES");
    struct error err = {""};

    if (processes != NULL && strcmp(processes, "1") == 0)
        return;

    if (b->ops->reach(b->btl, 1, &err) != 0) {
        /* a simulated network is one process; any other backend has to reach the other process, or has not been tested */
        REQUIRE(strcmp(name, "sim") == 0, "two processes: %s", err.text);
        printf("two processes: skipped: %s\n", err.text);
        return;
    }
    REQUIRE(send(socket[0], "", 1, MSG_NOSIGNAL) == 1, "the target is gone");
    for (int i = 0; i < AGENTS; i++)
        side[i] = (struct side){b, socket[i], 1, random_mix(seed + 100 + (uint64_t)i), false};
    run_all(side, "two processes");
    if (target > 0 && (kills == NULL || strcmp(kills, "0") != 0))
        run_killed(&side[0], target);
}

int main(int argc, char *argv[])
{
    int pair[2], near_socket[AGENTS], far_socket[AGENTS], status = 0;
    const char *job = getenv("CONFORM_JOB");
    struct backend backend = {0};
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    struct error err = {""};
    pid_t target = -1;

    if (argc == 3 + AGENTS && strcmp(argv[1], "--target") == 0) {
        name = argv[2];
        for (int i = 0; i < AGENTS; i++)
            far_socket[i] = atoi(argv[3 + i]);
        run_target(far_socket, false);
    }
    if (argc < 2) {
        fprintf(stderr, "usage: conform BACKEND [SEED]\n");
        return 2;
    }
    name = argv[1];
    if (job != NULL) {
        REQUIRE(launched_rank() == 0 || launched_rank() == 1, "CONFORM_JOB, and no two ranks");
        meet(job, launched_rank(), near_socket);
        if (launched_rank() == 1)
            run_target(near_socket, true);
    }
    for (int i = 0; job == NULL && i < AGENTS; i++) {
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0, "socketpair");
        near_socket[i] = pair[0];
        far_socket[i] = pair[1];
    }
    if (job == NULL)
        target = start_target(argv[0], far_socket, near_socket);
    backend_open(&backend, name, 0);
    REQUIRE(backend.ops->reach(backend.btl, 0, &err) == 0, "one process: %s", err.text);
    one_process(&backend, seed);
    two_processes(&backend, seed, near_socket, target);
    for (int i = 0; i < AGENTS; i++)
        close(near_socket[i]);
    if (target > 0 && waitpid(target, &status, 0) == target)
        REQUIRE(status == 0, "the target ended with status 0x%x", (unsigned)status);
    backend_close(&backend);
    printf("%d passed: backend %s, seed %llu\n", passed, name, (unsigned long long)seed);
    return 0;
}
