/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * silent_clients.c: connections to the port of the tcp bootstrap that send nothing delay the start of a job by about a second.
 *
 * More of them than rank 0 keeps at one time are connected before the second rank starts, and stay. The first time rank 0 has
 * descriptors for all that it keeps, the second time for few. Measured is the time of rinit.
 */
#include "test/lib/job.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define CLIENTS_MOST 4500 /* the backlog of the port is 4096, the table 1024 */
#define DELAY_MOST_MS 4000
#define FEW_DESCRIPTORS 100

static int clients[CLIENTS_MOST];

/* With these few descriptors; 0: with all. */
static int join_job(int rank, struct board *board, const void *arguments)
{
    const rlim_t descriptors = *(const rlim_t *)arguments;
    const int64_t begin = clock_now();
    struct rlimit limit = {descriptors, descriptors};

    for (int fd = 3; fd < 3 + CLIENTS_MOST; fd++) /* the clients are the test's alone */
        close(fd);
    CHECK(NULL, descriptors == 0 || setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    atomic_store(&board->rank[rank].number, (uint64_t)((clock_now() - begin) / NS_PER_MS));
    CHECK(NULL, network_barrier() == 0);
    return rexit() == 0 ? 0 : 1;
}

static int connect_once(const char *port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(port)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int connect_clients(const char *port, int n)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    int i;

    for (i = 0; i < n; i++)
        while ((clients[i] = connect_once(port)) < 0) { /* rank 0 does not listen yet */
            if (i > 0 || deadline_passed(patience))
                return i;
            backoff_us(1000);
        }
    return n;
}

static void test_start_is_not_delayed(int n, rlim_t descriptors)
{
    struct job job;
    uint64_t took;
    int made, rank;

    job_prepare(&job, 2);
    job_start_one(&job, 0, join_job, &descriptors);
    made = connect_clients(job.port, n);
    EXPECT(made == n, "%d of %d connections: %s", made, n, strerror(errno));
    job_start_one(&job, 1, join_job, &descriptors);
    for (rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0), "rank %d: status 0x%x", rank,
               job.status[rank]);
    took = atomic_load(&job.board->rank[1].number);
    printf("%d silent connections, rank 0 has %s descriptors: rinit of rank 1 took %llu ms\n", made,
           descriptors != 0 ? "few" : "enough", (unsigned long long)took);
    EXPECT(took < DELAY_MOST_MS, "it took %llu ms", (unsigned long long)took);
    while (made > 0)
        close(clients[--made]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    int most = CLIENTS_MOST;

    (void)argc;
    setenv("RPIPE_LOG", "error", 0);
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0, "%s", strerror(errno));
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < CLIENTS_MOST + 100)
        most = (int)limit.rlim_max - 100;
    if (most >= 1500)
        test_start_is_not_delayed(most, 0);
    else
        printf("SKIPPED, at most %d descriptors: more connections than the table keeps\n", most);
    test_start_is_not_delayed(most < 400 ? most : 400, FEW_DESCRIPTORS);
    return check_report(argv[0]);
}
