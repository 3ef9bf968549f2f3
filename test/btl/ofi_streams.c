/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_streams.c: what the libfabric backend opens for a stream of each category, counted; what it gets where the provider has less; that what a stream
 * leaves is taken by the next one; and how often it polls. The calls that open something go through this program: it counts, and
 * refuses. Each case is a process of its own, since a process opens one backend.
 */
#include "stream_pair.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPES 4

/* ---- libfabric, counted and limited ---- */

struct objects {
    int domains, endpoints, queues;
};

static struct objects objects; /* that have been opened */
static struct {
    bool chooses_keys; /* as the drivers of devices do */
    bool one_thread;   /* domains are for one thread */
    size_t endpoints;  /* most in a domain; 0: as many as it has */
    int domains;       /* most */
    bool registers;    /* in domains, but the first */
} provider = {.domains = 1000, .registers = true};

static struct fi_ops_fabric *fabric_ops;
static struct fi_ops_domain *domain_ops;
static struct fi_ops_mr *mr_ops;
static struct fid *first_domain;

static int counted_queue(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                         void *context)
{
    int rc = domain_ops->cq_open(domain, attr, cq, context);

    objects.queues += rc == 0;
    return rc;
}

static int counted_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                            void *context)
{
    int rc = domain_ops->endpoint(domain, info, ep, context);

    objects.endpoints +=
        rc == 0 && info->ep_attr->type == FI_EP_RDM; /* the others are the provider's own */
    return rc;
}

static int limited_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                       uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                       void *context)
{
    if (!provider.registers && fid != first_domain)
        return -FI_ENOMEM;
    return mr_ops->reg(fid, buf, len, access, offset, key, flags, mr, context);
}

static int counted_domain(struct fid_fabric *fabric, struct fi_info *info,
                          struct fid_domain **domain, void *context)
{
    static struct fi_ops_domain ops;
    static struct fi_ops_mr mr;
    int rc = objects.domains < provider.domains ? fabric_ops->domain(fabric, info, domain, context)
                                                : -FI_EMFILE;

    if (rc != 0)
        return rc;
    if (objects.domains++ == 0) {
        first_domain = &(*domain)->fid;
        domain_ops = (*domain)->ops;
        mr_ops = (*domain)->mr;
        ops = *domain_ops;
        ops.cq_open = counted_queue;
        ops.endpoint = counted_endpoint;
        mr = *mr_ops;
        mr.reg = limited_reg;
    }
    (*domain)->ops = &ops;
    (*domain)->mr = &mr;
    return 0;
}

/* The same function of libfabric. */
static void *original(const char *name)
{
    void *of = dlsym(RTLD_NEXT, name);

    REQUIRE(of != NULL, "%s", dlerror());
    return of;
}

__attribute__((visibility("default"))) int fi_fabric(struct fi_fabric_attr *attr,
                                                     struct fid_fabric **fabric, void *context)
{
    static struct fi_ops_fabric ops;
    int (*call)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    int rc;

    *(void **)&call = original("fi_fabric");
    rc = call(attr, fabric, context);
    if (rc != 0)
        return rc;
    fabric_ops = (*fabric)->ops;
    ops = *fabric_ops;
    ops.domain = counted_domain;
    (*fabric)->ops = &ops;
    return 0;
}

__attribute__((visibility("default"))) int fi_getinfo(uint32_t version, const char *node,
                                                      const char *service, uint64_t flags,
                                                      const struct fi_info *hints,
                                                      struct fi_info **info)
{
    int (*call)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                struct fi_info **);
    int rc;

    if (provider.one_thread && hints != NULL && hints->domain_attr != NULL &&
        hints->domain_attr->threading != FI_THREAD_DOMAIN)
        return -FI_ENODATA;
    *(void **)&call = original("fi_getinfo");
    rc = call(version, node, service, flags, hints, info);
    for (struct fi_info *i = rc == 0 ? *info : NULL; i != NULL; i = i->next) {
        if (provider.chooses_keys)
            i->domain_attr->mr_mode |= FI_MR_PROV_KEY;
        if (provider.endpoints > 0)
            i->domain_attr->ep_cnt = provider.endpoints;
    }
    return rc;
}

/* Since `before` there are `more`. */
static void objects_are(struct objects before, struct objects more, const char *what)
{
    REQUIRE(objects.domains == before.domains + more.domains &&
                objects.endpoints == before.endpoints + more.endpoints &&
                objects.queues == before.queues + more.queues,
            "%s: %d domains, %d endpoints, %d queues more", what, objects.domains - before.domains,
            objects.endpoints - before.endpoints, objects.queues - before.queues);
}

/* ---- what there is of a category ---- */

static struct btl_stream *stream_with_pipes(enum btl_share wanted, enum btl_share got,
                                            const char *words, struct pair p[PIPES])
{
    struct btl_stream *stream = stream_begin(wanted, got, words);

    for (int k = 0; k < PIPES; k++)
        pair_open(&p[k], stream);
    for (int k = 0; k < PIPES; k++)
        pair_works(&p[k], (uint64_t)wanted * 100 + (uint64_t)k);
    return stream;
}

static void stream_ends(struct btl_stream *stream, struct pair p[PIPES])
{
    for (int k = 0; k < PIPES; k++)
        pair_close(&p[k]);
    backend.ops->stream_close(stream);
}

/* The stream of `wanted` has nothing of its own. */
static void stream_is_refused(enum btl_share wanted, int error, const char *words)
{
    const struct objects before = objects;
    struct btl_stream *stream = NULL;
    struct error why = {""};
    enum btl_share got;
    struct pair p;
    int rc = backend.ops->stream_open(backend.btl, wanted, &stream, &got, &why);

    REQUIRE(rc == error && stream == NULL, "%d: %s", rc, why.text);
    REQUIRE(strstr(why.text, words) != NULL && strncmp(why.text, "threads", 7) == 0, "%s",
            why.text);
    printf("%s\n", why.text);
    REQUIRE(objects.queues == before.queues || !provider.registers, "a queue has been opened");
    pair_open(&p, NULL);
    pair_works(&p, 1);
    pair_close(&p);
}

static const struct category {
    enum btl_share wanted;
    const char *own, *shared; /* what is obtained */
} categories[] = {
    {BTL_SHARE_EVERYWHERE, "everywhere; an endpoint", "static for everywhere, since keys of"},
    {BTL_SHARE_2XDYNAMIC, "everywhere for 2xdynamic; an", "static for 2xdynamic, since"},
    {BTL_SHARE_DYNAMIC, "everywhere for dynamic; an", "static for dynamic, since keys of"},
    {BTL_SHARE_SHARED_DYNAMIC, "everywhere for shared dynamic; an", "static for shared dynamic"},
    {BTL_SHARE_STATIC, "everywhere for static; an", "static; an endpoint"},
};

/* The first stream opens something; the others take it, one after the other; a second one at the same time opens more. */
static void categories_are(enum btl_share got, struct objects of_one)
{
    struct pair p[PIPES], q[PIPES];
    struct btl_stream *first, *second;

    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
        const struct category *c = &categories[i];
        const struct objects before = objects, none = {0};

        first = stream_with_pipes(c->wanted, got, got == BTL_SHARE_STATIC ? c->shared : c->own, p);
        objects_are(before, i == 0 ? of_one : none, c->own);
        stream_ends(first, p);
    }
    const struct objects before = objects;

    first = stream_with_pipes(BTL_SHARE_DYNAMIC, got, "number 1", p);
    second = stream_with_pipes(BTL_SHARE_DYNAMIC, got, "number 2", q);
    objects_are(before, of_one, "two at once");
    stream_ends(first, p);
    first = stream_with_pipes(BTL_SHARE_DYNAMIC, got, "number 1", p);
    stream_ends(second, q);
    stream_ends(first, p);
    stream_is_refused(BTL_SHARE_THREADS, -ENOTSUP, "as without a stream");
}

/* ---- polls ---- */

enum { TURNS = 100, CONNECTIONS = 8 };

static uint64_t polls_now(struct pair p[CONNECTIONS])
{
    struct btl_counts counts;
    uint64_t polls = 0;

    for (int k = 0; k < CONNECTIONS; k++) {
        backend.ops->connection_counts(p[k].dials, &counts);
        polls += counts.polls;
    }
    return polls;
}

/* Polls in so many turns of progress through the connections. While the service thread is inside there is none. */
static uint64_t polls_of_turns(struct pair p[CONNECTIONS])
{
    const uint64_t before = polls_now(p);
    int64_t deadline = patience();
    uint64_t first;

    while ((first = polls_now(p)) ==
           before) { /* it leaves, and stays away while this thread polls */
        REQUIRE(!deadline_passed(deadline), "no poll");
        REQUIRE(backend.ops->progress(p[0].dials) == 0, "progress");
    }
    for (int i = 0; i < TURNS; i++)
        for (int k = 0; k < CONNECTIONS; k++)
            REQUIRE(backend.ops->progress(p[k].dials) == 0, "progress");
    return polls_now(p) - first;
}

/* The connections of a stream, or of none, poll at most `most` times in these turns, and more than half of that unless this thread is interrupted. */
static void polls_are(struct btl_stream *stream, uint64_t most)
{
    struct pair p[CONNECTIONS];
    uint64_t polls = 0;

    for (int k = 0; k < CONNECTIONS; k++)
        pair_open(&p[k], stream);
    for (int tries = 0; tries < 100 && polls <= most / 2; tries++) {
        polls = polls_of_turns(p);
        REQUIRE(polls <= most, "%llu polls", (unsigned long long)polls);
    }
    printf("polls in %d turns through %d connections %s: %llu\n", TURNS, CONNECTIONS,
           stream != NULL ? "of a stream" : "without a stream", (unsigned long long)polls);
    REQUIRE(polls > most / 2, "polls");
    for (int k = 0; k < CONNECTIONS; k++) {
        pair_works(&p[k], (uint64_t)k);
        pair_close(&p[k]);
    }
}

static void polls_are_of_one(void)
{
    struct btl_stream *stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_EVERYWHERE, "");

    polls_are(stream, TURNS);
    polls_are(NULL, TURNS * CONNECTIONS);
    backend.ops->stream_close(stream);
}

/* ---- threads ---- */

/* Another thread opens and closes pipes of a stream, whose thread transfers; and registers memory, which its domain has to have, too. */
static void other_threads(void)
{
    struct btl_stream *stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_EVERYWHERE, "");
    struct pair first, other;
    struct pair_worker w = {.p = &first};

    pair_open(&first, stream);
    pair_worker_begin(&w);
    for (int i = 0; i < 30 || atomic_load(&w.rounds) < 100; i++) {
        pair_open(&other, i % 2 == 0 ? stream : NULL);
        pair_works(&other, 6000 + (uint64_t)i);
        REQUIRE(backend.ops->progress_all(backend.btl) == 0, "progress_all");
        pair_close(&other);
    }
    pair_worker_end(&w);
    pair_close(&first);
    backend.ops->stream_close(stream);
    printf("pipes opened and closed during %llu rounds of the stream's thread\n",
           (unsigned long long)w.rounds);
}

/* One thread after the other has the same endpoint. */
static void one_thread_after_the_other(void)
{
    struct pair p;

    for (int i = 0; i < 5; i++) {
        struct btl_stream *stream =
            stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_EVERYWHERE, "number 1");
        struct pair_worker w = {.p = &p};

        pair_open(&p, stream);
        pair_worker_begin(&w);
        (void)backend.ops->progress_all(backend.btl);
        pair_worker_end(&w);
        pair_close(&p);
        backend.ops->stream_close(stream);
    }
}

/* ---- the end that is written to ---- */

/* "PROVIDER FROM to TO": whether the one connection goes from where the other one goes to. */
static bool meet(struct btl_connection *one, struct btl_connection *other)
{
    char text[2][300], from[300], to[300];

    backend.ops->connection_describe(one, text[0], sizeof(text[0]));
    backend.ops->connection_describe(other, text[1], sizeof(text[1]));
    return sscanf(text[0], "%*s %299s to", from) == 1 &&
           sscanf(text[1], "%*s %*s to %299s", to) == 1 && strcmp(from, to) == 0;
}

/* Writes arrive at the endpoint of the other end's stream, whose domain has the memory: what was there before the stream, and what came later. */
static void peers_reach_a_stream(void)
{
    struct pair before, later;
    struct btl_stream *stream, *other;

    pair_alloc(&before);
    stream = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_EVERYWHERE, "");
    other = stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_EVERYWHERE, "");
    pair_connect(&before, stream, other);
    pair_connect(&later, NULL, other);
    pair_alloc(&later);
    pair_works(&before, 20);
    pair_works(&later, 21);
    REQUIRE(meet(before.accepts, before.dials) && meet(before.dials, before.accepts) &&
                meet(later.accepts, later.dials) && meet(later.dials, later.accepts) &&
                !meet(before.accepts, before.accepts) && !meet(later.dials, before.accepts),
            "addresses");
    pair_close(&before);
    pair_close(&later);
    backend.ops->stream_close(stream);
    backend.ops->stream_close(other);
}

/* ---- cases ---- */

static void case_domains(void)
{
    peers_reach_a_stream();
    polls_are_of_one();
    one_thread_after_the_other();
    other_threads();
}

static void case_categories(void)
{
    categories_are(BTL_SHARE_EVERYWHERE, (struct objects){1, 1, 1});
}

static void case_no_domains(void)
{
    provider.domains = 1;
    stream_is_refused(BTL_SHARE_DYNAMIC, -EMFILE, "fi_domain: ");
    stream_is_refused(BTL_SHARE_EVERYWHERE, -EMFILE, "is for one thread");
    provider.domains = 2;
    backend.ops->stream_close(
        stream_begin(BTL_SHARE_DYNAMIC, BTL_SHARE_EVERYWHERE, "number 1")); /* there is one again */
}

static void case_keys_of_provider(void)
{
    categories_are(BTL_SHARE_STATIC, (struct objects){0, 1, 1});
}

static void case_few_endpoints(void)
{
    struct pair p[PIPES];
    struct btl_stream *stream = stream_with_pipes(BTL_SHARE_DYNAMIC, BTL_SHARE_STATIC, "", p);

    stream_is_refused(BTL_SHARE_DYNAMIC, -ENOSPC, "has at most 2 endpoints");
    stream_ends(stream, p);
    stream = stream_with_pipes(BTL_SHARE_DYNAMIC, BTL_SHARE_STATIC, "number 1", p);
    stream_ends(stream, p);
}

static void case_one_thread(void)
{
    stream_is_refused(BTL_SHARE_DYNAMIC, -ENOTSUP, "; and a domain of provider");
}

/* Memory cannot be registered again: no stream; or, with a stream, no more memory for peers. */
static void case_no_registrations(void)
{
    struct pair p[PIPES], held;
    struct btl_memory memory;
    struct btl_stream *stream;
    struct error err = {""};

    pair_alloc(&held);
    pair_connect(&held, NULL, NULL);
    provider.registers = false;
    stream_is_refused(BTL_SHARE_DYNAMIC, -ENOMEM, "in the domain of a stream");
    provider.registers = true;
    stream = stream_with_pipes(BTL_SHARE_DYNAMIC, BTL_SHARE_EVERYWHERE, "number 1", p);
    provider.registers = false;
    REQUIRE(backend.ops->alloc(backend.btl, 0, 1 << 20, BTL_PEER_WRITES, false, &memory, &err) ==
                -ENOMEM,
            "%s", err.text);
    REQUIRE(strstr(err.text, "in the domain of a stream") != NULL, "%s", err.text);
    REQUIRE(backend.ops->alloc(backend.btl, 0, 1 << 20, BTL_LOCAL, false, &memory, &err) == 0, "%s",
            err.text);
    backend.ops->free(backend.btl, &memory);
    provider.registers = true;
    pair_works(&p[0], 9);
    pair_works(&held, 10);
    stream_ends(stream, p);
    pair_close(&held);
}

static const struct test_case {
    const char *name;
    void (*run)(void);
    bool chooses_keys, one_thread;
    size_t endpoints;
} cases[] = {
    {"threads and polls", case_domains, false, false, 0},
    {"a domain for each stream", case_categories, false, false, 0},
    {"no further domain", case_no_domains, false, false, 0},
    {"a provider that chooses keys", case_keys_of_provider, true, false, 0},
    {"and has few endpoints", case_few_endpoints, true, false, 2},
    {"and whose domain is for one thread", case_one_thread, true, true, 0},
    {"memory that cannot be registered again", case_no_registrations, false, false, 0},
};

static void run(const struct test_case *c)
{
    provider.chooses_keys = c->chooses_keys;
    provider.one_thread = c->one_thread;
    provider.endpoints = c->endpoints;
    backend_open(&backend, "ofi", 0);
    c->run();
    backend_close(&backend);
    printf("%s: ok\n", c->name);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* one whose endpoints take little memory */
    (void)setenv("RPIPE_OFI_PROVIDER", fi_version() < FI_VERSION(1, 18) ? "net" : "tcp", 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
            run(&cases[i]);
            exit(0);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child, "fork");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            return 77;
        REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %d", cases[i].name,
                status);
    }
    return 0;
}
