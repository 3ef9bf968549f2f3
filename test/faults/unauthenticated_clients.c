/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unauthenticated_clients.c: a process that does not belong to a job neither gets in nor in the way.
 *
 * Several jobs on one host, with the same ranks and the same ids of channels, started at the same time: each sees
 * its own bytes only. And unauthenticated clients that connect to every Unix socket and TCP port of a job in full traffic: they send
 * nothing, noise, half a greeting, a greeting without the cookie, lengths of gigabytes, too many descriptors; they
 * hang up at once or stay. The job opens new channels all the time, finishes in order, and keeps no descriptor of
 * theirs.
 *
 * And what lets one in, each by itself: the cookie over TCP, the process over a Unix socket, the user (as root: what a process of
 * an unprivileged user's gets, which has the cookie); and that nothing of a job has a name in /dev/shm or /tmp, or can be opened by others.
 */
#include "test/lib/job.h"

#include "control/lane.h"
#include "control/state.h"
#include "control/wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define JOBS 3
#define DOORS_MOST 16
#define STAYING 200

/* ---- a job with traffic: both directions, new channels all the time, until the test sets "go" ---- */

struct traffic {
    uint64_t key;
    uint64_t least; /* channels */
    bool until_go;
};

static int open_fds(void)
{
    int fd, n = 0;

    for (fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void one_channel(int rank, uint64_t k, uint64_t key)
{
    bool writer = (k & 1) == (uint64_t)rank;
    rpipe_config_t cfg = channel_config(k & 2 ? RPIPE_GET : RPIPE_PUT, 1 - rank, writer, 1 << 14);
    uint64_t i;
    size_t size;
    raddr_t d;
    rch_t ch;
    int rc;

    cfg.context = (uint32_t)(k % 3);
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    for (i = 0; writer && i < 20; i++) {
        d = rmalloc(ch, i * 100);
        CHECK(ch, d != ADDR_NULL);
        pattern_fill(rmem(ch, d), i * 100, key + k * 32 + i);
        CHECK(ch, rwrite(ch, d) == 0);
    }
    for (i = 0; !writer && (rc = rread(ch, &d, &size)) == 0; i++) {
        CHECK(ch, size == i * 100 && pattern_same(rmem(ch, d), size, key + k * 32 + i));
        CHECK(ch, rfree(ch, d) == 0);
    }
    CHECK(ch, writer || (rc == R_EOF && i == 20));
    CHECK(ch, rclose(ch) == 0);
}

static int run_traffic(int rank, struct board *board, const void *arguments)
{
    const struct traffic *t = arguments;
    uint64_t k;
    int before, go = 0;

    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (k = 0; k < 10; k++)
        one_channel(rank, k, t->key);
    CHECK(NULL, network_barrier() == 0);
    before = open_fds();
    rank_reached(board, rank, 1);
    do { /* both make the same number: rank 0 decides */
        one_channel(rank, k, t->key);
        k++;
        if (rank == 0) {
            go = t->until_go ? atomic_load(&board->go) : k >= t->least;
            CHECK(NULL, network_send(1, &go, sizeof(go)) == 0);
        } else {
            CHECK(NULL, network_recv(0, &go, sizeof(go)) == 0);
        }
        if (go == 0 || !t->until_go)
            continue;
        /* the clients have gone, or time is up for them */
        for (int patience = 0; open_fds() > before + 2 && patience < 800; patience++)
            backoff_us(10000);
        if (open_fds() > before + 2)
            printf("rank %d has %d descriptors, and had %d\n", rank, open_fds(), before);
        CHECK(NULL, open_fds() <= before + 2);
    } while (go == 0);
    atomic_store(&board->rank[rank].number, k);
    CHECK(NULL, rexit() == 0);
    return 0;
}

static void test_jobs(void)
{
    struct job job[JOBS];
    struct traffic t[JOBS];
    int j, rank;

    for (j = 0; j < JOBS; j++)
        job_prepare(&job[j], 2);
    for (j = 0; j < JOBS; j++) {
        t[j] = (struct traffic){.key = UINT64_C(1) << (20 + j), .least = 100};
        job_start(&job[j], run_traffic, &t[j]);
    }
    for (j = 0; j < JOBS; j++) {
        for (rank = 0; rank < 2; rank++)
            EXPECT(job_ended(&job[j], rank) && job_status_is(&job[j], rank, 0),
                   "job %d of %d, rank %d: status 0x%x", j, JOBS, rank, job[j].status[rank]);
        job_finish(&job[j]);
    }
}

/* ---- the doors of a process: every listening socket that it has ---- */

struct door {
    struct sockaddr_storage at;
    socklen_t bytes;
    bool is_unix;
};

static bool has_inode(pid_t pid, unsigned long inode)
{
    char path[64], link[64], wanted[64];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    dir = opendir(path);
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

        link[n > 0 ? n : 0] = '\0';
        found = strcmp(link, wanted) == 0;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* What listens on any address, of IPv4 or, which takes IPv4 too, IPv6. */
static int find_tcp(const char *path, pid_t pid, struct door *door, int n)
{
    unsigned long inode, port;
    unsigned state;
    char line[512];
    FILE *f = fopen(path, "re");

    while (f != NULL && n < DOORS_MOST && fgets(line, sizeof(line), f) != NULL) {
        struct sockaddr_in *at = (struct sockaddr_in *)(void *)&door[n].at;

        if (sscanf(line, " %*d: %*[0-9A-F]:%lx %*s %x %*s %*s %*s %*s %*s %lu", &port, &state,
                   &inode) != 3 ||
            state != 10 || !has_inode(pid, inode))
            continue;
        *at = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        door[n].bytes = sizeof(*at);
        door[n++].is_unix = false;
    }
    if (f != NULL)
        fclose(f);
    return n;
}

static int find_doors(pid_t pid, struct door *door)
{
    unsigned long inode;
    unsigned flags, type;
    char line[512], name[256];
    int n = 0;
    FILE *f = fopen("/proc/net/unix", "re");

    while (f != NULL && n < DOORS_MOST && fgets(line, sizeof(line), f) != NULL) {
        struct sockaddr_un *at = (struct sockaddr_un *)(void *)&door[n].at;

        if (sscanf(line, "%*s %*s %*s %x %x %*x %lu @%255s", &flags, &type, &inode, name) != 4 ||
            (flags & 0x10000) == 0 || !has_inode(pid, inode))
            continue;
        memset(at, 0, sizeof(*at));
        at->sun_family = AF_UNIX;
        memcpy(at->sun_path + 1, name, strnlen(name, sizeof(at->sun_path) - 2));
        door[n].bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
        door[n++].is_unix = true;
    }
    if (f != NULL)
        fclose(f);
    n = find_tcp("/proc/net/tcp", pid, door, n);
    n = find_tcp("/proc/net/tcp6", pid, door, n);
    return n;
}

/* ---- unauthenticated clients ---- */

static int knock(const struct door *door)
{
    int fd = socket(door->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), tries;

    if (fd < 0)
        return -1;
    for (tries = 0; connect(fd, (const struct sockaddr *)&door->at, door->bytes) != 0; tries++) {
        if (errno != EAGAIN ||
            tries > 200) { /* EAGAIN: the queue of a Unix socket is full for a moment */
            close(fd);
            return -1;
        }
        backoff_us(1000);
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void say(int fd, const void *what, size_t bytes, int descriptors)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * 64)];
    } space = {.head = {0}};
    struct iovec iov = {(void *)(uintptr_t)what, bytes};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    int own[64], i;

    if (descriptors > 0) {
        for (i = 0; i < descriptors; i++)
            own[i] = 0;
        header.msg_control = space.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)descriptors);
        space.head.cmsg_level = SOL_SOCKET;
        space.head.cmsg_type = SCM_RIGHTS;
        space.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)descriptors);
        memcpy(CMSG_DATA(&space.head), own, sizeof(int) * (size_t)descriptors);
    }
    (void)sendmsg(fd, &header, MSG_NOSIGNAL);
}

static void greet_wrongly(int fd, uint64_t *random)
{
    struct {
        struct wire_frame frame;
        struct wire_hello hello;
    } g = {.frame = {.bytes = sizeof(struct wire_frame),
                     .magic = WIRE_FRAME_MAGIC,
                     .type = WIRE_HELLO,
                     .body_bytes = sizeof(struct wire_hello)},
           .hello = {.bytes = sizeof(struct wire_hello),
                     .versions = control_versions(),
                     .magic = WIRE_HELLO_MAGIC,
                     .window = {LANE_WINDOW_BYTES, LANE_WINDOW_BYTES},
                     .from = (uint32_t)(random_draw(random) % 3),
                     .to = (uint32_t)(random_draw(random) % 3)}};
    uint8_t *bytes = (uint8_t *)&g;
    size_t i;

    switch (random_draw(random) % 6) {
    case 0: /* all but the cookie */
        break;
    case 1:
        g.frame.body_bytes = 0xfffffff8u;
        break;
    case 2:
        g.frame.nfds = 200;
        break;
    case 3:
        g.frame.type = (uint16_t)(random_draw(random) % 80);
        break;
    case 4:
        g.hello.from = 0xffffffffu;
        break;
    default:
        for (i = 0; i < 4; i++)
            bytes[random_draw(random) % sizeof(g)] = (uint8_t)random_draw(random);
    }
    for (i = 0; i < COOKIE_BYTES; i++)
        g.hello.cookie[i] = (uint8_t)random_draw(random);
    say(fd, &g, random_draw(random) % 3 == 0 ? 1 + random_draw(random) % sizeof(g) : sizeof(g), 0);
}

/* One connection; true if the client stays connected. */
static bool call(int fd, bool is_unix, uint64_t *random)
{
    uint8_t noise[3000];
    size_t i;

    switch (random_draw(random) % 5) {
    case 0:
        break; /* sends nothing */
    case 1:
        for (i = 0; i < sizeof(noise); i++)
            noise[i] = (uint8_t)random_draw(random);
        say(fd, noise, 1 + random_draw(random) % sizeof(noise), 0);
        break;
    case 2:
        if (is_unix)
            say(fd, noise, 1, (int)(1 + random_draw(random) % 60));
        else
            say(fd, "GET / HTTP/1.0\r\n\r\n", 18, 0);
        break;
    default:
        greet_wrongly(fd, random);
    }
    return random_draw(random) % 4 == 0;
}

static void test_clients(uint64_t *random, int calls)
{
    const struct traffic t = {.key = 77, .until_go = true};
    struct door door[2 * DOORS_MOST];
    int doors, staying[STAYING], stay = 0, i, n, rank, reached = 0;
    struct job job;

    job_prepare(&job, 2);
    job_start(&job, run_traffic, &t);
    if (job_reached(&job, 0, 1) && job_reached(&job, 1, 1)) {
        doors = find_doors(job.pid[0], door);
        doors += find_doors(job.pid[1], door + doors);
        EXPECT(doors >= 4, "only %d doors found", doors);
        for (i = 0; i < calls && doors > 0; i++) {
            n = knock(&door[i % doors]);
            if (n < 0)
                continue;
            reached++;
            backoff_us(300); /* while the job goes on */
            if (call(n, door[i % doors].is_unix, random) && stay < STAYING)
                staying[stay++] = n;
            else
                close(n);
        }
        EXPECT(reached > calls / 2, "only %d of %d clients reached a port", reached, calls);
        while (stay > 0 && random_draw(random) % 100 != 0)
            close(staying[--stay]);
        atomic_store(&job.board->go, 1);
        for (rank = 0; rank < 2; rank++)
            EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0), "rank %d: status 0x%x",
                   rank, job.status[rank]);
        printf("%d clients at %d ports during %llu channels\n", reached, doors,
               (unsigned long long)atomic_load(&job.board->rank[0].number));
        while (stay > 0)
            close(staying[--stay]);
    }
    job_finish(&job);
}

/* ---- what lets one in ---- */

/* Rank 2 never sends to any rank: its place at the others is free. Every rank publishes its cookie. */
static int sit(int rank, struct board *board, const void *arguments)
{
    setenv("RPIPE_LOG", "warn", 1);
    (void)dup2(*(const int *)arguments, STDERR_FILENO);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    memcpy(board->rank[rank].error_message, control.card.cookie, COOKIE_BYTES);
    memcpy(board->rank[rank].error_message + COOKIE_BYTES, control.card.process_id,
           PROCESS_ID_BYTES);
    if (rank < 2)
        one_channel(rank, 0, 1);
    rank_reached(board, rank, 1);
    rank_wait_go(board, 1);
    _exit(0);
}

enum answer { WELCOME, HUNG_UP, SILENCE };
static const char *const answers[] = {"welcome", "hung up", "silence"};

static enum answer answer_of(int fd, int ms)
{
    struct {
        struct wire_frame frame;
        struct wire_hello hello;
    } g;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    if (poll(&p, 1, ms) != 1)
        return SILENCE;
    n = recv(fd, &g, sizeof(g), MSG_DONTWAIT | MSG_WAITALL);
    return n >= (ssize_t)sizeof(g.frame) && g.frame.type == WIRE_WELCOME ? WELCOME : HUNG_UP;
}

/* Greets rank 0 in the name of rank 2, all right but perhaps for the cookie or the process id. */
static enum answer greet_rightly(const struct door *door, const void *cookie, const void *id)
{
    struct {
        struct wire_frame frame;
        struct wire_hello hello;
    } g = {.frame = {.bytes = sizeof(struct wire_frame),
                     .magic = WIRE_FRAME_MAGIC,
                     .type = WIRE_HELLO,
                     .body_bytes = sizeof(struct wire_hello)},
           .hello = {.bytes = sizeof(struct wire_hello),
                     .versions = control_versions(),
                     .magic = WIRE_HELLO_MAGIC,
                     .from = 2,
                     .to = 0,
                     .window = {LANE_WINDOW_BYTES, LANE_WINDOW_BYTES}}};
    int fd = knock(door);
    enum answer answer;

    if (fd < 0)
        return HUNG_UP;
    memcpy(g.hello.cookie, cookie, COOKIE_BYTES);
    memcpy(g.hello.process_id, id, PROCESS_ID_BYTES);
    say(fd, &g, sizeof(g), 0);
    answer = answer_of(fd, PATIENCE_MS);
    close(fd);
    return answer;
}

/* As an unprivileged user: a silent connection, and a right greeting. 0: both were sent away. */
static int as_no_rank(const struct door *door, const void *cookie, const void *id, pid_t pid)
{
    char path[64];
    int fd, status = -1;
    pid_t child = fork();

    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(9);
        fd = knock(door);
        if (fd >= 0 && answer_of(fd, PATIENCE_MS) != HUNG_UP)
            _exit(1);
        if (greet_rightly(door, cookie, id) != HUNG_UP)
            _exit(2);
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        _exit(opendir(path) != NULL ? 3 : 0);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status))
        return WEXITSTATUS(status);
    printf("a client ended with status 0x%x\n", (unsigned)status);
    return 99;
}

/* Of what a rank has open, or mapped, nothing has a name where others could find it. */
static void test_names(pid_t pid)
{
    char path[64], link[512];
    struct dirent *entry;
    int memory = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/map_files", (int)pid);
    for (int i = 0; i < 2; i++, snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid)) {
        dir = opendir(path);
        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

            link[n > 0 ? n : 0] = '\0';
            memory += strncmp(link, "/memfd:rmalloc", 14) == 0;
            EXPECT(strncmp(link, "/dev/shm/", 9) != 0, "it has %s", link);
        }
        if (dir != NULL)
            closedir(dir);
    }
    EXPECT(memory > 0 || geteuid() != 0, "no shared memory found in process %d", (int)pid);
}

/* As the ranks have reported. */
static bool logged(int log, const char *what)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    static char text[20000];
    ssize_t n;

    do {
        n = pread(log, text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        if (strstr(text, what) != NULL)
            return true;
        backoff_us(1000);
    } while (!deadline_passed(patience));
    return false;
}

static void test_admission(void)
{
    int log = memfd_create("clients", MFD_CLOEXEC);

    char wrong[COOKIE_BYTES] = "a wrong cookie", right[COOKIE_BYTES], id[PROCESS_ID_BYTES];
    struct door door[DOORS_MOST];
    struct job job;
    int doors, i;

    job_prepare(&job, 3);
    job_start(&job, sit, &log);
    if (job_reached(&job, 0, 1) && job_reached(&job, 1, 1) && job_reached(&job, 2, 1)) {
        memcpy(right, job.board->rank[0].error_message, COOKIE_BYTES);
        memcpy(id, job.board->rank[2].error_message + COOKIE_BYTES, PROCESS_ID_BYTES);
        doors = find_doors(job.pid[0], door);
        EXPECT(doors >= 2, "only %d doors found", doors);
        for (i = 0; i < doors; i++) {
            enum answer answer = greet_rightly(&door[i], wrong, id);

            EXPECT(answer == HUNG_UP, "door %d, a wrong cookie: %s", i, answers[answer]);
            if (door[i].is_unix) {
                answer = greet_rightly(&door[i], right, id);
                EXPECT(answer == HUNG_UP, "the right cookie, and another process than rank 2: %s",
                       answers[answer]);
                EXPECT(logged(log, "it greeted as rank 2, which is another process"),
                       "the log does not name it");
            }
            if (door[i].is_unix && geteuid() == 0) {
                int rc = as_no_rank(&door[i], right, id, job.pid[0]);

                EXPECT(rc == 0, "another user: step %d", rc);
                EXPECT(logged(log, "of another user (SO_PEERCRED)"),
                       "it was not for the user that it was sent away");
            } else if (door[i].is_unix) {
                printf("SKIPPED, it needs root: another user\n");
            }
        }
        test_names(job.pid[0]);
        for (
            i = 0; i < doors;
            i++) /* at last, what shows that the greetings above were right: the cookie is all there is over TCP */
            if (!door[i].is_unix) {
                enum answer answer = greet_rightly(&door[i], right, wrong);

                EXPECT(answer == HUNG_UP, "another process id over TCP: %s", answers[answer]);
                answer = greet_rightly(&door[i], right, id);
                EXPECT(answer == WELCOME, "the right cookie over TCP: %s", answers[answer]);
                break;
            }
    }
    atomic_store(&job.board->go, 1);
    for (i = 0; i < 3; i++)
        (void)job_ended(&job, i);
    job_finish(&job);
    close(log);
}

int main(int argc, char **argv)
{
    uint64_t random = seed_of(argc, argv);

    setenv("RPIPE_LOG", "error", 0);
    test_jobs();
    test_admission();
    test_clients(&random, argc > 1 ? atoi(argv[1]) : 1500);
    return check_report(argv[0]);
}
