/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_tcp_root.c: see job_tcp_root.h.
 *
 * The port is open to any process, so every client has a buffer and a deadline of its own, and no
 * client can delay the others. A client that sends a join and is refused gets the
 * reason; one that sends anything else does not.
 *
 * A client that has not joined is evicted when the table is full, or no descriptor is left, and
 * another one waits: the oldest first, as soon as it has had `patience_ms`. A rank sends its join
 * together with its connect(2), so the join is mostly there when the connection is accepted; a rank
 * that is evicted connects again. The patience is halved after as many evictions as the table has
 * clients, so that many thousands of silent connections delay the start by about a second.
 *
 * Every rank keeps its connection, so the job cannot be larger than the descriptors of rank 0
 * allow. When none is left and all clients are ranks, all are refused, those that connect later
 * too, so that they do not wait for their deadlines.
 */
#include "bootstrap/job_tcp_root.h"

#include "bootstrap/job_tcp_address.h"
#include "util/fork_fds.h"
#include "util/clock.h"
#include "util/limit.h"
#include "util/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIND_MS 2000
#define UNAUTHENTICATED_MAX 1024 /* clients that have not joined, at one time */
#define PATIENCE_MS 500          /* with an unauthenticated client, while others wait */
#define PATIENCE_LEAST_MS 20
#define WARNINGS_MAX 10
#define REFUSE_MS 10000 /* for the ranks that connect after there are not enough descriptors */

struct client {
    int fd, rank; /* -1: has not joined yet */
    int64_t accepted, deadline;
    size_t bytes; /* received so far; after the gathering: sent so far */
    uint8_t received[TCP_MESSAGE_MAX + TCP_SECRET_MAX + JOB_CARD_MAX];
};

struct gathering {
    struct tcp_job *job;
    struct client **client;
    struct pollfd *polls; /* [0] is the listener, [1 + i] client i */
    int clients, most, joined, warnings;
    int short_of; /* errno of the last accept(2), if it lacked a resource: the listener rests */
    int patience_ms, evicted; /* clients that were evicted since the patience was halved */
    const char *refusal;      /* no rank can join any more, for this reason */
    int refused;              /* ranks that have been sent it */
};

static bool tcp_root_bind_any_port(int fd, const struct tcp_job *job, int family)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)atoi(job->port))};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(job->port))};

    if (family == AF_INET6)
        return bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0;
    return bind(fd, (struct sockaddr *)&four, sizeof(four)) == 0;
}

/* At the address that RPIPE_ROOT names; on all, if that is none of this host (behind a
 * translation of addresses). */
static int tcp_root_listen_once(const struct tcp_job *job, const struct addrinfo *list)
{
    const struct addrinfo *a;
    int one = 1, fd, error = EADDRNOTAVAIL;

    for (a = list; a != NULL; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            error = errno;
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if ((bind(fd, a->ai_addr, a->ai_addrlen) == 0 ||
             (errno == EADDRNOTAVAIL && tcp_root_bind_any_port(fd, job, a->ai_family))) &&
            listen(fd, 4096) == 0)
            return fd;
        error = errno;
        close(fd);
    }
    return -error;
}

int tcp_root_listen(const struct tcp_job *job, int64_t deadline, struct error *err)
{
    int64_t patience = deadline_in_ms(BIND_MS);
    struct addrinfo *list;
    int fd = tcp_resolve(job, &list, err);

    if (fd != 0)
        return fd == -EAGAIN ? -EHOSTUNREACH : fd; /* -EAGAIN is R_PENDING in the layers above */
    /* A client that connects before this process listens can reach itself on a port of the
     * ephemeral range, and hold it briefly. */
    while ((fd = tcp_root_listen_once(job, list)) == -EADDRINUSE && !deadline_passed(patience) &&
           !deadline_passed(deadline))
        clock_sleep(50 * NS_PER_MS);
    freeaddrinfo(list);
    if (fd < 0)
        error_note(err, "rank 0 cannot listen at %s:%s (RPIPE_ROOT): %s%s", job->host, job->port,
                   strerror(-fd),
                   fd == -EADDRINUSE ? "; another job has this port: choose another"
                                     : limit_of(-fd));
    else
        fork_fds_add(fd);
    return fd;
}

static void tcp_root_client_drop(struct gathering *g, int i)
{
    struct client *client = g->client[i];

    if (client->rank >= 0) {
        g->joined--;
        g->job->table[client->rank].bytes = 0;
    }
    fork_fds_close(client->fd);
    free(client);
    g->clients--;
    g->client[i] = g->client[g->clients];
    g->polls[1 + i] = g->polls[1 + g->clients];
}

static void tcp_root_client_warn(struct gathering *g, const char *text)
{
    if (g->warnings++ < WARNINGS_MAX)
        log_warn("bootstrap tcp: a process was refused: %s", text);
}

static void tcp_root_client_refuse(struct gathering *g, int i, int code, const char *text)
{
    struct {
        struct tcp_verdict verdict;
        char text[TCP_TEXT_MAX];
    } answer = {.verdict = {.bytes = sizeof(answer.verdict),
                            .code = code,
                            .magic = TCP_VERDICT_MAGIC,
                            .versions = tcp_versions()}};

    tcp_root_client_warn(g, text);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    answer.verdict.text_bytes = (uint32_t)strlen(answer.text);
    /* a fresh socket takes this little at once; if not, the client lacks the reason only */
    send(g->client[i]->fd, &answer, sizeof(answer.verdict) + answer.verdict.text_bytes,
         MSG_NOSIGNAL | MSG_DONTWAIT);
    tcp_root_client_drop(g, i);
}

static bool tcp_root_secret_right(const struct tcp_job *job, const uint8_t *secret, size_t bytes)
{
    size_t length = strlen(job->secret), i;
    unsigned difference = bytes != length;

    for (i = 0; i < bytes; i++)
        difference |= (unsigned)(secret[i] ^ (uint8_t)job->secret[i % (length + 1)]);
    return difference == 0;
}

/* The rank of a complete join with the right secret; or its refusal. */
static int tcp_root_client_check(struct gathering *g, const struct tcp_join *join,
                                 struct error *err)
{
    struct tcp_job *job = g->job;
    int version = version_agree(tcp_versions(), join->versions, "the bootstrap tcp", "it", err);

    if (version < 0)
        return version;
    if (join->size != (uint32_t)job->size || join->rank == 0 || join->rank >= (uint32_t)job->size)
        return error_set(err, -EINVAL,
                         "it is rank %u of %u; RPIPE_SIZE is %d at rank 0: set the same size, and "
                         "ranks from 1, for all",
                         join->rank, join->size, job->size);
    if (g->refusal != NULL) {
        g->refused++;
        return error_set(err, -EMFILE, "%s", g->refusal);
    }
    if (job->table[join->rank].bytes != 0 || join->card_bytes == 0)
        return error_set(
            err, -EEXIST,
            "it is rank %u, which has joined before: give each process another RPIPE_RANK",
            join->rank);
    return 0;
}

/* Reads what client i has sent so far. */
static void tcp_root_client_received(struct gathering *g, int i)
{
    struct client *client = g->client[i];
    struct tcp_card *card;
    struct error err = {""};
    struct tcp_join join;
    const uint8_t *at;
    int refusal;

    if (client->bytes < TCP_JOIN_LEAST)
        return;
    memcpy(&join, client->received, TCP_JOIN_LEAST);
    if (join.magic != TCP_JOIN_MAGIC || join.bytes < TCP_JOIN_LEAST ||
        join.bytes > TCP_MESSAGE_MAX || join.secret_bytes > TCP_SECRET_MAX ||
        join.card_bytes > JOB_CARD_MAX) {
        tcp_root_client_warn(
            g, "it sent no join of this library; another program connects to RPIPE_ROOT");
        tcp_root_client_drop(g, i);
        return;
    }
    if (client->bytes < (size_t)join.bytes + join.secret_bytes + join.card_bytes)
        return;
    at = client->received + join.bytes;
    (void)layout_read(&join, sizeof(join), client->received, join.bytes, TCP_JOIN_LEAST);
    if (!tcp_root_secret_right(g->job, at, join.secret_bytes)) {
        tcp_root_client_refuse(
            g, i, -EACCES,
            "its secret differs from that of rank 0 (RPIPE_SECRET): is it of another job at the "
            "same port?");
        return;
    }
    refusal = tcp_root_client_check(g, &join, &err);
    if (refusal != 0) {
        tcp_root_client_refuse(g, i, refusal, err.text);
        return;
    }
    card = &g->job->table[join.rank];
    memcpy(card->card, at + join.secret_bytes, join.card_bytes);
    card->bytes = join.card_bytes;
    client->rank = (int)join.rank;
    client->deadline = DEADLINE_NEVER;
    g->joined++;
}

static void tcp_root_client_readable(struct gathering *g, int i)
{
    struct client *client = g->client[i];
    ssize_t n = recv(client->fd, client->received + client->bytes,
                     sizeof(client->received) - client->bytes, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* A client that has joined sends nothing: this is its end, and its rank is free again. */
    if (n <= 0 || client->rank >= 0) {
        tcp_root_client_drop(g, i);
        return;
    }
    client->bytes += (size_t)n;
    tcp_root_client_received(g, i);
}

/* The client that has been here longest without having joined; -1: there is none. */
static int tcp_root_oldest(const struct gathering *g)
{
    int i, oldest = -1;

    for (i = 0; i < g->clients; i++)
        if (g->client[i]->rank < 0 &&
            (oldest < 0 || g->client[i]->accepted < g->client[oldest]->accepted))
            oldest = i;
    return oldest;
}

static int64_t tcp_root_patience_ends(const struct gathering *g, const struct client *client)
{
    return client->accepted + g->patience_ms * NS_PER_MS;
}

/* Whether it has dropped a client that has not joined in time. */
static bool tcp_root_evict_oldest(struct gathering *g)
{
    int oldest = tcp_root_oldest(g);

    if (oldest < 0 || !deadline_passed(tcp_root_patience_ends(g, g->client[oldest])))
        return false;
    if (++g->evicted >= g->clients) {
        g->evicted = 0;
        if (g->patience_ms > PATIENCE_LEAST_MS)
            g->patience_ms /= 2;
    }
    tcp_root_client_drop(g, oldest);
    return true;
}

static void tcp_root_client_add(struct gathering *g, int fd)
{
    struct client *client = calloc(1, sizeof(*client));
    int one = 1;

    if (client == NULL) {
        close(fd);
        return;
    }
    fork_fds_add(fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    client->fd = fd;
    client->rank = -1;
    client->accepted = clock_now();
    client->deadline = deadline_in_ms(TCP_JOIN_MS);
    g->polls[1 + g->clients] = (struct pollfd){.fd = fd, .events = POLLIN};
    g->client[g->clients++] = client;
}

static bool tcp_root_is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void tcp_root_client_accept(struct gathering *g, int listener)
{
    int fd;

    g->short_of = 0;
    while (g->clients < g->most || tcp_root_evict_oldest(g)) {
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            g->short_of = 0;
            tcp_root_client_add(g, fd);
            continue;
        }
        /* with a shortage the listener stays readable: poll(2) would return at once */
        g->short_of = tcp_root_is_shortage(errno) ? errno : 0;
        if (g->short_of == 0 || !tcp_root_evict_oldest(g))
            return;
    }
}

/* With as many clients as possible, or without descriptors, the next event is the end of a
 * client's time, not a new client. Sets when it ends. */
static bool tcp_root_may_accept(const struct gathering *g, int64_t *until)
{
    int oldest = g->clients == g->most || g->short_of != 0 ? tcp_root_oldest(g) : -1;
    int64_t ends;

    if (oldest < 0)
        return g->clients < g->most && g->short_of == 0;
    ends = tcp_root_patience_ends(g, g->client[oldest]);
    if (deadline_passed(ends))
        return true;
    if (ends < *until)
        *until = ends;
    return false;
}

/* Receives what has come, and accepts clients. 0 or -errno. */
static int tcp_root_gather_turn(struct gathering *g, int listener, int64_t deadline)
{
    int64_t until = deadline;
    bool accepts = tcp_root_may_accept(g, &until);
    int i;

    g->polls[0] = (struct pollfd){.fd = accepts ? listener : -1, .events = POLLIN};
    if (poll(g->polls, (nfds_t)g->clients + 1, deadline_left_ms(until, 200)) < 0 && errno != EINTR)
        return -errno;
    for (i = g->clients - 1; i >= 0;
         i--) { /* backwards: a client that is dropped is replaced by the last */
        if (g->polls[1 + i].revents != 0)
            tcp_root_client_readable(g, i);
        else if (deadline_passed(g->client[i]->deadline))
            tcp_root_client_drop(g, i);
    }
    if ((g->polls[0].revents & POLLIN) != 0 || g->short_of != 0)
        tcp_root_client_accept(g, listener);
    return 0;
}

/* There are more ranks than descriptors: each gets this reason when it connects. */
static int tcp_root_refuse_all(struct gathering *g, int listener, int64_t deadline,
                               struct error *err)
{
    int64_t patience = deadline_in_ms(REFUSE_MS), until = patience < deadline ? patience : deadline;
    char text[TCP_TEXT_MAX];
    int i;

    snprintf(text, sizeof(text),
             "there is no place for all %d ranks: rank 0 accepted %d others, and then: %s%s",
             g->job->size, g->joined, strerror(EMFILE), limit_of(EMFILE));
    error_note(err, "%s", text);
    g->refusal = text;
    g->warnings = WARNINGS_MAX; /* each refused rank has the reason, and the caller here too */
    for (i = g->clients - 1; i >= 0; i--) {
        g->refused++;
        tcp_root_client_refuse(g, i, -EMFILE, text);
    }
    while (g->refused < g->job->size - 1 && !deadline_passed(until) &&
           tcp_root_gather_turn(g, listener, until) == 0)
        ;
    g->refusal = NULL;
    return -EMFILE;
}

static int tcp_root_gather_all(struct gathering *g, int listener, int64_t deadline,
                               struct error *err)
{
    int missing = 0, result;

    while (g->joined < g->job->size - 1) {
        if (deadline_passed(deadline)) {
            while (missing < g->job->size - 1 && g->job->table[missing].bytes != 0)
                missing++;
            error_note(err,
                       "%d of %d ranks have joined at %s:%s in time; rank %d is the first that is "
                       "missing%s%s",
                       g->joined + 1, g->job->size, g->job->host, g->job->port, missing,
                       g->short_of != 0 ? "; no further client can be accepted: " : "",
                       g->short_of != 0 ? strerror(g->short_of) : "");
            return -ETIMEDOUT;
        }
        result = tcp_root_gather_turn(g, listener, deadline);
        if (result != 0)
            return error_set(err, result, "poll(2) of %d connections: %s%s", g->clients,
                             strerror(-result), limit_of(-result));
        if (g->short_of == EMFILE && g->joined == g->clients && g->joined < g->job->size - 1)
            return tcp_root_refuse_all(g, listener, deadline, err);
    }
    return 0;
}

/* The verdict and the table, as each client gets them; NULL: no memory. */
static uint8_t *tcp_root_make_answer(const struct tcp_job *job, size_t *bytes)
{
    struct tcp_verdict verdict = {
        .bytes = sizeof(verdict), .magic = TCP_VERDICT_MAGIC, .versions = tcp_versions()};
    uint8_t *answer, *at;
    int i;

    for (i = 0; i < job->size; i++)
        verdict.table_bytes += (uint32_t)sizeof(uint32_t) + job->table[i].bytes;
    *bytes = sizeof(verdict) + verdict.table_bytes;
    answer = malloc(*bytes);
    if (answer == NULL)
        return NULL;
    memcpy(answer, &verdict, sizeof(verdict));
    at = answer + sizeof(verdict);
    for (i = 0; i < job->size; i++) {
        memcpy(at, &job->table[i].bytes, sizeof(uint32_t));
        memcpy(at + sizeof(uint32_t), job->table[i].card, job->table[i].bytes);
        at += sizeof(uint32_t) + job->table[i].bytes;
    }
    return answer;
}

/* Sends client i what its socket takes. */
static void tcp_root_client_send(struct gathering *g, int i, const uint8_t *answer, size_t all)
{
    struct client *client = g->client[i];
    ssize_t n = send(client->fd, answer + client->bytes, all - client->bytes, MSG_NOSIGNAL);

    if (n >= 0) {
        client->bytes += (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        /* It is dead. The others have its card, and notice the death when they connect to it. */
        log_warn("bootstrap tcp: rank %d disconnected while it joined: %s", client->rank,
                 strerror(errno));
        client->bytes = all;
    }
    if (client->bytes == all)
        g->polls[1 + i].events = 0;
}

/* To each client, as fast as it takes it. */
static int tcp_root_send_table(struct gathering *g, int64_t deadline, struct error *err)
{
    size_t all;
    uint8_t *answer = tcp_root_make_answer(g->job, &all);
    int i, left, result = 0;

    if (answer == NULL)
        return -ENOMEM;
    for (i = 0; i < g->clients; i++) {
        g->client[i]->bytes = 0;
        g->polls[1 + i].events = g->client[i]->rank >= 0 ? POLLOUT : 0;
        g->polls[1 + i].revents = g->polls[1 + i].events;
    }
    g->polls[0].fd = -1;
    for (;;) {
        for (i = g->clients - 1, left = 0; i >= 0; i--) {
            if (g->polls[1 + i].events != 0 && g->polls[1 + i].revents != 0)
                tcp_root_client_send(g, i, answer, all);
            left += g->polls[1 + i].events != 0;
        }
        if (left == 0)
            break;
        if (deadline_passed(deadline)) {
            error_note(err, "%d of %d ranks have not received the table of ranks in time", left,
                       g->job->size);
            result = -ETIMEDOUT;
            break;
        }
        poll(g->polls, (nfds_t)g->clients + 1, deadline_left_ms(deadline, 200));
    }
    free(answer);
    return result;
}

int tcp_root_gather(struct tcp_job *job, int listener, int64_t deadline, struct error *err)
{
    struct gathering g = {
        .job = job, .most = job->size + UNAUTHENTICATED_MAX, .patience_ms = PATIENCE_MS};
    int i, result = -ENOMEM;

    error_note(err, "no memory for %d ranks to join", job->size);
    g.client = calloc((size_t)g.most, sizeof(*g.client));
    g.polls = calloc((size_t)g.most + 1, sizeof(*g.polls));
    if (g.client != NULL && g.polls != NULL)
        result = tcp_root_gather_all(&g, listener, deadline, err);
    if (result == 0)
        result = tcp_root_send_table(&g, deadline, err);
    for (i = 0; i < g.clients; i++) {
        if (result == 0 && g.client[i]->rank >= 0)
            job->links[g.client[i]->rank] = g.client[i]->fd;
        else
            fork_fds_close(g.client[i]->fd);
        free(g.client[i]);
    }
    free(g.client);
    free(g.polls);
    return result;
}
