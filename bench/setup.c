/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * setup.c: what it takes until two processes can transfer, and to end it: of this library, and of UCX (figure 6.1b of the thesis).
 *
 *   setup rpipe [ROUNDS]   init: rinit; channel: rpipe to rwait of a pipe with a heap of 1 MiB; finalize: rclose and rexit
 *   setup ucx [ROUNDS]     init: ucp_init and a worker; channel: memory of 1 MiB registered, addresses and keys exchanged, an endpoint,
 *                          its first flush; finalize: the endpoint closed and all that freed
 *
 * Two processes of one host, by fork, without a launcher. rinit has found the other process when it returns, ucp_init has not: that is in
 * the channel there. They begin each part at the same time; the slower one counts. Prints a line of JSON for each round: milliseconds.
 */
#include <rinfo.h>
#include <rpipe.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEAP (1 << 20)

enum { INIT, CHANNEL, FINALIZE, PARTS };
static const char *const part_name[PARTS] = {"init_ms", "channel_ms", "finalize_ms"};

static int rank, other; /* other: a socket to the other process */

static void need(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "setup: %s\n", what);
    exit(1);
}

static void need_ours(int code, const char *what)
{
    const char *why = code != 0 ? rerror(NULL) : NULL;

    if (code != 0)
        fprintf(stderr, "setup: %s: %s: %s\n", what, rinfo_strerror(code), why != NULL ? why : "");
    need(code == 0, what);
}

static void swap(const void *mine, void *theirs, size_t bytes)
{
    need(send(other, mine, bytes, MSG_NOSIGNAL) == (ssize_t)bytes, "the other process has ended");
    need(recv(other, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes, "the other process has ended");
}

/* Both processes return from here at the same time. */
static double begin_together(void)
{
    struct timespec t;
    char word = 0;

    swap(&word, &word, 1);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double since(double began)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6 - began;
}

/* ---- this library ---- */

static void setup_rpipe(double *ms)
{
    rpipe_config_t cfg = {.role = rank == 0 ? RPIPE_WRITER : RPIPE_READER, .heap_bytes = HEAP};
    double began = begin_together();
    rch_t ch;

    need_ours(rinit(NULL, NULL), "rinit");
    ms[INIT] = since(began);
    cfg.peer = 1 - rank;
    began = begin_together();
    need_ours(rpipe(&ch, &cfg), "rpipe");
    need_ours(rwait(ch), "rwait");
    ms[CHANNEL] = since(began);
    began = begin_together();
    need_ours(rclose(ch), "rclose");
    need_ours(rexit(), "rexit");
    ms[FINALIZE] = since(began);
}

/* ---- UCX ---- */

#ifdef HAVE_UCX
#include <ucp/api/ucp.h>

static ucp_worker_h worker;

static void ucx_wait(void *request, const char *what)
{
    need(!UCS_PTR_IS_ERR(request), what);
    if (request == NULL)
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(request);
}

/* The other process may need this one's progress until it is here, too. */
static void ucx_together(void)
{
    char word = 0;

    need(send(other, &word, 1, MSG_NOSIGNAL) == 1, "the other process has ended");
    while (recv(other, &word, 1, MSG_DONTWAIT) != 1)
        ucp_worker_progress(worker);
}

/* What is sent as length and bytes; the result is to be freed. */
static void *ucx_swap(const void *mine, size_t bytes, size_t *received)
{
    void *theirs;

    swap(&bytes, received, sizeof(bytes));
    theirs = malloc(*received);
    need(theirs != NULL, "no memory");
    need(send(other, mine, bytes, MSG_NOSIGNAL) == (ssize_t)bytes, "the other process has ended");
    need(recv(other, theirs, *received, MSG_WAITALL) == (ssize_t)*received,
         "the other process has ended");
    return theirs;
}

static ucp_context_h ucx_init(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA};
    const ucp_worker_params_t how = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                     .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;
    ucp_context_h context;

    need(ucp_config_read(NULL, NULL, &config) == UCS_OK, "ucp_config_read");
    need(ucp_init(&params, config, &context) == UCS_OK, "ucp_init");
    ucp_config_release(config);
    need(ucp_worker_create(context, &how, &worker) == UCS_OK, "ucp_worker_create");
    return context;
}

static void setup_ucx(double *ms)
{
    const ucp_request_param_t none = {0};
    ucp_mem_map_params_t map = {.field_mask =
                                    UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                .length = HEAP,
                                .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    size_t address_bytes, key_bytes, received;
    void *key, *their_key, *their_address;
    double began = begin_together();
    ucp_context_h context = ucx_init();
    ucp_address_t *address;
    ucp_rkey_h rkey;
    ucp_mem_h heap;
    ucp_ep_h ep;

    ms[INIT] = since(began);
    began = begin_together();
    need(ucp_mem_map(context, &map, &heap) == UCS_OK, "ucp_mem_map");
    need(ucp_rkey_pack(context, heap, &key, &key_bytes) == UCS_OK, "ucp_rkey_pack");
    need(ucp_worker_get_address(worker, &address, &address_bytes) == UCS_OK, "no address");
    their_address = ucx_swap(address, address_bytes, &received);
    their_key = ucx_swap(key, key_bytes, &received);
    to.address = their_address;
    need(ucp_ep_create(worker, &to, &ep) == UCS_OK, "ucp_ep_create");
    need(ucp_ep_rkey_unpack(ep, their_key, &rkey) == UCS_OK, "ucp_ep_rkey_unpack");
    ucx_wait(ucp_ep_flush_nbx(ep, &none), "ucp_ep_flush_nbx");
    ms[CHANNEL] = since(began);
    ucx_together();
    began = begin_together();
    ucp_rkey_destroy(rkey);
    ucx_wait(ucp_ep_close_nbx(ep, &none), "ucp_ep_close_nbx");
    ucx_together();
    ucp_worker_release_address(worker, address);
    ucp_rkey_buffer_release(key);
    need(ucp_mem_unmap(context, heap) == UCS_OK, "ucp_mem_unmap");
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    ms[FINALIZE] = since(began);
    free(their_address);
    free(their_key);
}
#else
static void setup_ucx(double *ms)
{
    (void)ms;
    need(0, "UCX was not built in (Debian: libucx-dev)");
}
#endif

/* ---- the two processes ---- */

/* Settings of the bootstrap tcp; a port that nothing listens at is free for rank 0 a moment later. */
static void settings(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char root[64], secret[33];

    need(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
             getsockname(fd, (struct sockaddr *)&at, &bytes) == 0,
         "no port on the loopback interface");
    close(fd);
    snprintf(root, sizeof(root), "127.0.0.1:%d", ntohs(at.sin_port));
    snprintf(secret, sizeof(secret), "%032lx", (unsigned long)getpid() * 2654435761u);
    setenv("RPIPE_BOOTSTRAP", "tcp", 1);
    setenv("RPIPE_SIZE", "2", 1);
    setenv("RPIPE_ROOT", root, 1);
    setenv("RPIPE_SECRET", secret, 1);
}

/* One of two processes: rank 0 prints. */
static void run(int as, const int *pair, void (*setup)(double *ms))
{
    double ms[PARTS] = {0}, theirs[PARTS];

    rank = as;
    other = pair[rank];
    close(pair[1 - rank]);
    setenv("RPIPE_RANK", rank == 0 ? "0" : "1", 1);
    setup(ms);
    swap(ms, theirs, sizeof(ms));
    for (int i = 0; rank == 0 && i < PARTS; i++)
        printf("%s\"%s\": %.3f%s", i == 0 ? "{" : ", ", part_name[i],
               ms[i] > theirs[i] ? ms[i] : theirs[i], i == PARTS - 1 ? "}\n" : "");
    exit(0);
}

static void round_of(void (*setup)(double *ms))
{
    int pair[2], status;
    pid_t child;

    settings();
    fflush(stdout);
    need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no socketpair");
    for (int as = 0; as < 2; as++) {
        child = fork();
        need(child >= 0, "no fork");
        if (child == 0)
            run(as, pair, setup);
    }
    close(pair[0]); /* a process whose partner has ended finds that out */
    close(pair[1]);
    for (int i = 0; i < 2; i++)
        need(wait(&status) > 0 && status == 0, "a process has failed");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int rounds = argc > 2 ? atoi(argv[2]) : 1;

    if ((strcmp(what, "rpipe") != 0 && strcmp(what, "ucx") != 0) || rounds < 1) {
        fprintf(stderr, "usage: setup rpipe|ucx [ROUNDS]\n");
        return 2;
    }
    for (int i = 0; i < rounds; i++)
        round_of(what[0] == 'u' ? setup_ucx : setup_rpipe);
    return 0;
}
