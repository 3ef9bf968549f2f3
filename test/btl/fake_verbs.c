/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_verbs.c: see fake_verbs.h; objects, queues, and the execution of work requests.
 *
 * One lock, the bus, is the device: whatever changes memory, completion queues or what exists is done with it. It is no lock of pthreads, so that no
 * test counts it.
 */
#include "test/btl/fake_verbs.h"

#include "util/list.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port
#pragma GCC visibility push(default)

struct fake_counts fake_counts;
struct fake_limits fake_limits = {.contexts = 256,
                                  .thread_domains = 64,
                                  .queue_pairs_per_domain = 1024,
                                  .queue_pairs = 4096,
                                  .completion_queues = 4096,
                                  .entries = 65536,
                                  .resizes = true};

static atomic_flag fake_bus = ATOMIC_FLAG_INIT;

static void bus_take(void)
{
    while (atomic_flag_test_and_set_explicit(&fake_bus, memory_order_acquire))
        ;
}

static void bus_give(void) { atomic_flag_clear_explicit(&fake_bus, memory_order_release); }

void fake_die(const char *what)
{
    fprintf(stderr, "fake_verbs: %s\n", what);
    abort();
}

static int count_add(_Atomic int *count, int most)
{
    if (atomic_fetch_add(count, 1) < most)
        return 0;
    atomic_fetch_sub(count, 1);
    errno = ENOMEM;
    return -1;
}

static void *object(size_t bytes)
{
    void *p = calloc(1, bytes);

    if (p == NULL)
        fake_die("no memory");
    return p;
}

/* ---- contexts ---- */

struct fake_context {
    struct verbs_context verbs;
    _Atomic int users; /* objects of it */
};

static _Atomic int *context_users(struct ibv_context *context)
{
    return &container_of(verbs_get_ctx(context), struct fake_context, verbs)->users;
}

static void context_use(struct ibv_context *context)
{
    atomic_fetch_add(context_users(context), 1);
}
static void context_part(struct ibv_context *context)
{
    atomic_fetch_sub(context_users(context), 1);
}

static void contexts_same(const struct ibv_context *a, const struct ibv_context *b)
{
    if (a != b)
        fake_die("objects of different contexts are used together");
}

/* ---- domains ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct fake_pd *p = object(sizeof(*p));

    p->pd.context = context;
    context_use(context);
    atomic_fetch_add(&fake_counts.domains, 1);
    return &p->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    struct fake_pd *p = (struct fake_pd *)pd;

    if (p->users > 0)
        fake_die("a protection domain is destroyed while objects use it");
    if (p->parent != NULL) {
        p->parent->users--;
        p->td->users--;
        atomic_fetch_sub(&fake_counts.parent_domains, 1);
    } else {
        atomic_fetch_sub(&fake_counts.domains, 1);
        context_part(pd->context);
    }
    free(p);
    return 0;
}

static struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *init)
{
    struct fake_td *t;

    (void)init;
    if (fake_limits.thread_domains == 0) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (count_add(&fake_counts.thread_domains, fake_limits.thread_domains) != 0)
        return NULL;
    t = object(sizeof(*t));
    t->td.context = context;
    context_use(context);
    return &t->td;
}

static int td_free(struct ibv_td *td)
{
    struct fake_td *t = (struct fake_td *)td;

    if (t->users > 0)
        fake_die("a thread domain is destroyed while a parent domain uses it");
    atomic_fetch_sub(&fake_counts.thread_domains, 1);
    context_part(td->context);
    free(t);
    return 0;
}

static struct ibv_pd *parent_alloc(struct ibv_context *context,
                                   struct ibv_parent_domain_init_attr *init)
{
    struct fake_pd *p = object(sizeof(*p));

    if (init->pd == NULL || init->td == NULL || init->comp_mask != 0)
        fake_die("a parent domain is made of a protection domain and a thread domain");
    contexts_same(context, init->pd->context);
    contexts_same(context, init->td->context);
    p->pd.context = context;
    p->parent = (struct fake_pd *)init->pd;
    p->td = (struct fake_td *)init->td;
    p->parent->users++;
    p->td->users++;
    atomic_fetch_add(&fake_counts.parent_domains, 1);
    return &p->pd;
}

/* ---- completion queues ---- */

struct fake_channel {
    struct ibv_comp_channel channel;
    struct ibv_cq *ready;
};

struct fake_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex;
    };
    struct fake_pd *domain; /* NULL: none */
    bool single;            /* used by one thread at a time, without a lock */
    _Atomic int inside;     /* `single` and not in a thread domain: that thread */
    pthread_spinlock_t lock;
    bool armed;
    int users;                      /* queue pairs; those that send and receive count twice */
    uint32_t entries, first, count; /* bus */
    struct fake_completion {
        struct ibv_wc wc;
        struct fake_qp *qp;
        uint64_t end; /* fake_qp.posted behind the work request; 0: a receive */
    } * completion;
};

static struct fake_cq *cq_new(struct ibv_context *context, uint32_t entries)
{
    struct fake_cq *c;

    if (entries > (uint32_t)fake_limits.entries) {
        errno = EINVAL;
        return NULL;
    }
    if (count_add(&fake_counts.completion_queues, fake_limits.completion_queues) != 0)
        return NULL;
    c = object(sizeof(*c));
    c->cq.context = context;
    context_use(context);
    c->cq.cqe = (int)entries;
    c->entries = entries;
    c->completion = object(entries * sizeof(c->completion[0]));
    pthread_spin_init(&c->lock, PTHREAD_PROCESS_PRIVATE);
    return c;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    struct fake_cq *c = cq_new(context, (uint32_t)cqe);

    (void)comp_vector;
    if (c == NULL)
        return NULL;
    if (channel != NULL)
        contexts_same(context, channel->context);
    c->cq.cq_context = cq_context;
    c->cq.channel = channel;
    return &c->cq;
}

static struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init)
{
    struct fake_cq *c = cq_new(context, init->cqe);

    if (c == NULL)
        return NULL;
    if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0)
        c->domain = (struct fake_pd *)init->parent_domain;
    if (c->domain != NULL && c->domain->td == NULL)
        fake_die("the domain of a completion queue has no thread domain");
    if (c->domain != NULL)
        contexts_same(context, c->domain->pd.context);
    if (c->domain != NULL)
        c->domain->users++;
    c->single = c->domain != NULL || ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
                                      (init->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0);
    atomic_fetch_add(&fake_counts.single_queues, c->single);
    return &c->ex;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    struct fake_cq *c = (struct fake_cq *)cq;
    struct fake_completion *more;

    if (!fake_limits.resizes || cqe > fake_limits.entries)
        return fake_limits.resizes ? EINVAL : ENOSYS;
    more = object((size_t)cqe * sizeof(*more));
    bus_take();
    for (uint32_t i = 0; i < c->count; i++)
        more[i] = c->completion[(c->first + i) % c->entries];
    free(c->completion);
    c->completion = more;
    c->first = 0;
    c->entries = (uint32_t)cqe;
    bus_give();
    return 0;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct fake_cq *c = (struct fake_cq *)cq;

    if (c->users > 0)
        fake_die("a completion queue is destroyed while queue pairs use it");
    if (c->domain != NULL)
        c->domain->users--;
    atomic_fetch_sub(&fake_counts.single_queues, c->single);
    atomic_fetch_sub(&fake_counts.completion_queues, 1);
    context_part(cq->context);
    free(c->completion);
    free(c);
    return 0;
}

static void inside_enter(_Atomic int *inside)
{
    if (atomic_exchange(inside, 1) != 0)
        fake_die("two threads are in queues of one thread domain");
    for (int i = 0; i < fake_limits.yields; i++)
        (void)sched_yield();
}

static void cq_enter(struct fake_cq *c)
{
    if (!c->single)
        (void)pthread_spin_lock(&c->lock);
    else
        inside_enter(c->domain != NULL ? &c->domain->td->inside : &c->inside);
}

static void cq_leave(struct fake_cq *c)
{
    if (!c->single)
        (void)pthread_spin_unlock(&c->lock);
    else
        atomic_store(c->domain != NULL ? &c->domain->td->inside : &c->inside, 0);
}

static int cq_poll(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct fake_cq *c = (struct fake_cq *)cq;
    int n;

    cq_enter(c);
    atomic_fetch_add_explicit(&fake_counts.polls, 1, memory_order_relaxed);
    bus_take();
    for (n = 0; n < most && c->count > 0; n++, c->count--) {
        const struct fake_completion *x = &c->completion[c->first++ % c->entries];

        wc[n] = x->wc;
        if (x->qp != NULL && x->end > x->qp->retired)
            x->qp->retired = x->end;
    }
    bus_give();
    cq_leave(c);
    return n;
}

/* Bus held. */
static void cq_push(struct fake_cq *c, const struct fake_completion *x)
{
    if (c->count == c->entries)
        fake_die("a completion queue has more completions than entries");
    c->completion[(c->first + c->count++) % c->entries] = *x;
    if (c->armed && c->cq.channel != NULL) {
        c->armed = false;
        ((struct fake_channel *)c->cq.channel)->ready = &c->cq;
        (void)!eventfd_write(c->cq.channel->fd, 1);
    }
}

static int cq_arm(struct ibv_cq *cq, int solicited)
{
    (void)solicited;
    bus_take();
    ((struct fake_cq *)cq)->armed = true;
    bus_give();
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct fake_channel *c = object(sizeof(*c));

    c->channel.context = context;
    context_use(context);
    c->channel.fd = eventfd(0, EFD_CLOEXEC);
    return &c->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    context_part(channel->context);
    (void)close(channel->fd);
    free(channel);
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    eventfd_t n;

    if (eventfd_read(channel->fd, &n) != 0)
        return -1;
    *cq = ((struct fake_channel *)channel)->ready;
    *context = (*cq)->cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n) { (void)cq, (void)n; }

/* ---- memory ---- */

#define REGIONS 4096u
#define PAGE 4096u

static struct fake_region {
    struct ibv_mr mr;
    struct fake_pd *domain; /* NULL: none */
    unsigned access;
    uint32_t generation; /* a key that was given back is never valid again */
    char *device;        /* memory of a device: where this one reaches it; else NULL */
} region[REGIONS];

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
    struct fake_region *r = NULL;

    bus_take();
    for (uint32_t i = 0; i < REGIONS && r == NULL; i++)
        if (region[i].domain == NULL)
            r = &region[i];
    if (r == NULL)
        fake_die("too many regions");
    r->domain = (struct fake_pd *)pd;
    r->domain->users++;
    r->access = (unsigned)access;
    r->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = base, .length = bytes};
    r->mr.lkey = r->mr.rkey = ++r->generation << 12 | (uint32_t)(r - region);
    bus_give();
    atomic_fetch_add(&fake_counts.regions, 1);
    return &r->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *base, size_t bytes, uint64_t iova,
                                unsigned int access)
{
    return iova == (uintptr_t)base ? ibv_reg_mr(pd, base, bytes, (int)access) : NULL;
}

#ifdef HAVE_REG_DMABUF
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                 int fd, int access)
{
    off_t end = lseek(fd, 0, SEEK_END);
    struct ibv_mr *mr;
    void *reached;

    /* as the kernel checks them */
    if (offset % PAGE != iova % PAGE || end < 0 || offset + bytes > (uint64_t)end) {
        errno = EINVAL;
        return NULL;
    }
    reached = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (reached == MAP_FAILED)
        return NULL;
    mr = ibv_reg_mr(pd, (void *)(uintptr_t)iova, bytes,
                    access);                      /* NOLINT(performance-no-int-to-ptr) */
    ((struct fake_region *)mr)->device = reached; /* before its key is given away */
    atomic_fetch_add(&fake_counts.device_regions, 1);
    return mr;
}
#endif

/* The program has mapped the addresses, to whatever it has. */
static void region_leaves_device(struct fake_region *r)
{
    unsigned char mapped;

    if (mincore((void *)((uintptr_t)r->mr.addr & ~(uintptr_t)(PAGE - 1)), 1, &mapped) != 0)
        fake_die("memory of a device is freed before its registration ends");
    (void)munmap(r->device, r->mr.length);
    r->device = NULL;
    atomic_fetch_sub(&fake_counts.device_regions, 1);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct fake_region *r = (struct fake_region *)mr;

    if (r->device != NULL)
        region_leaves_device(r);
    bus_take();
    r->domain->users--;
    r->domain = NULL;
    bus_give();
    atomic_fetch_sub(&fake_counts.regions, 1);
    return 0;
}

/* Bus held. NULL: the key is not valid for this. */
static void *region_find(const struct fake_pd *domain, uint32_t key, uint64_t at, uint64_t bytes,
                         unsigned access)
{
    const struct fake_region *r = &region[key % REGIONS];

    if (r->domain == NULL || r->mr.lkey != key || (r->access & access) != access ||
        at < (uintptr_t)r->mr.addr || bytes > r->mr.length ||
        at - (uintptr_t)r->mr.addr > r->mr.length - bytes)
        return NULL;
    if (r->domain != domain && r->domain != domain->parent)
        fake_die("memory and queue pair are of different protection domains");
    return (r->device != NULL ? r->device : (char *)r->mr.addr) + (at - (uintptr_t)r->mr.addr);
}

/* Words, as a device places them; the last one is visible behind all others. */
static void copy_words(char *to, const char *from, size_t bytes)
{
    size_t i = 0;

    if ((((uintptr_t)to | (uintptr_t)from) & 7) == 0)
        for (; i + 8 <= bytes; i += 8)
            __atomic_store_n(
                (uint64_t *)(void *)(to + i),
                __atomic_load_n((const uint64_t *)(const void *)(from + i), __ATOMIC_ACQUIRE),
                __ATOMIC_RELEASE);
    memcpy(to + i, from + i, bytes - i);
}

/* ---- queue pairs ---- */

static _Atomic uint32_t last_number = 16;

struct ibv_qp *fake_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct fake_pd *domain = (struct fake_pd *)pd;
    struct fake_qp *q;

    contexts_same(pd->context, init->send_cq->context);
    contexts_same(pd->context, init->recv_cq->context);
    if (init->cap.max_inline_data > 512 || init->qp_type != IBV_QPT_RC) {
        errno = EINVAL;
        return NULL;
    }
    if (domain->td != NULL && domain->td->queue_pairs == fake_limits.queue_pairs_per_domain) {
        errno = ENOMEM;
        return NULL;
    }
    if (count_add(&fake_counts.queue_pairs, fake_limits.queue_pairs) != 0)
        return NULL;
    q = object(sizeof(*q));
    q->qp = (struct ibv_qp){.context = pd->context,
                            .qp_context = init->qp_context,
                            .pd = pd,
                            .send_cq = init->send_cq,
                            .recv_cq = init->recv_cq,
                            .qp_num = atomic_fetch_add(&last_number, 1),
                            .qp_type = init->qp_type};
    q->domain = domain;
    q->depth = init->cap.max_send_wr;
    q->inline_most = init->cap.max_inline_data;
    pthread_spin_init(&q->lock, PTHREAD_PROCESS_PRIVATE);
    bus_take();
    domain->users++;
    ((struct fake_cq *)init->send_cq)->users++;
    ((struct fake_cq *)init->recv_cq)->users++;
    if (domain->td != NULL) {
        domain->td->queue_pairs++;
        atomic_fetch_add(&fake_counts.queue_pairs_in_domains, 1);
    }
    bus_give();
    return &q->qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    return fake_qp_create(pd, init);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    const int all = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    struct fake_qp *q = (struct fake_qp *)qp;

    if (attr->qp_state == IBV_QPS_INIT && mask == all && attr->port_num == 1) {
        q->initialized = true;
        return 0;
    }
    if (mask != IBV_QP_STATE || attr->qp_state != IBV_QPS_ERR)
        return EINVAL;
    bus_take();
    ((struct fake_qp *)qp)->failed = true;
    bus_give();
    return 0;
}

/* Bus held: the completions that are left are of no queue pair any more. */
static void cq_forget(struct fake_cq *c, const struct fake_qp *q)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct fake_completion *x = &c->completion[(c->first + i) % c->entries];

        if (x->qp == q)
            x->qp = NULL;
    }
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct fake_qp *q = (struct fake_qp *)qp;

    fake_qp_disconnect(q);
    cq_enter((struct fake_cq *)qp->send_cq); /* a provider takes its completions out */
    bus_take();
    cq_forget((struct fake_cq *)qp->send_cq, q);
    q->domain->users--;
    ((struct fake_cq *)qp->send_cq)->users--;
    ((struct fake_cq *)qp->recv_cq)->users--;
    if (q->domain->td != NULL) {
        q->domain->td->queue_pairs--;
        atomic_fetch_sub(&fake_counts.queue_pairs_in_domains, 1);
    }
    bus_give();
    cq_leave((struct fake_cq *)qp->send_cq);
    atomic_fetch_sub(&fake_counts.queue_pairs, 1);
    free(q);
    return 0;
}

void fake_qp_connect(struct fake_qp *a, struct fake_qp *b)
{
    if (!a->initialized || !b->initialized)
        fake_die("a queue pair is connected in the state RESET");
    bus_take();
    a->peer = b;
    b->peer = a;
    bus_give();
}

void fake_qp_disconnect(struct fake_qp *a)
{
    bus_take();
    a->failed = true;
    if (a->peer != NULL) {
        a->peer->failed = true;
        a->peer->peer = NULL;
    }
    a->peer = NULL;
    bus_give();
}

static int qp_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *q = (struct fake_qp *)qp;

    *bad = wr;
    if (!q->initialized)
        return EINVAL;
    bus_take();
    for (; wr != NULL && q->receives < FAKE_RECEIVES; wr = wr->next)
        q->receive[q->receives++] = wr->wr_id;
    bus_give();
    *bad = wr;
    return wr != NULL ? ENOMEM : 0;
}

/* Bus held. */
static enum ibv_wc_status qp_send(struct fake_qp *q)
{
    struct fake_qp *to = q->peer;
    struct fake_completion x = {.wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV}};

    if (to->receives == 0)
        return IBV_WC_RNR_RETRY_EXC_ERR;
    x.wc.wr_id = to->receive[0];
    x.wc.qp_num = to->qp.qp_num;
    memmove(to->receive, to->receive + 1, --to->receives * sizeof(to->receive[0]));
    cq_push((struct fake_cq *)to->qp.recv_cq, &x);
    return IBV_WC_SUCCESS;
}

/* Bus held. */
static enum ibv_wc_status qp_atomic(const struct ibv_send_wr *wr, char *local, uint64_t *word)
{
    uint64_t old = wr->wr.atomic.compare_add;

    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        old = __atomic_fetch_add(word, old, __ATOMIC_SEQ_CST);
    else
        (void)__atomic_compare_exchange_n(word, &old, wr->wr.atomic.swap, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
    memcpy(local, &old, sizeof(old));
    return IBV_WC_SUCCESS;
}

/* Bus held. */
static enum ibv_wc_status qp_execute(struct fake_qp *q, const struct ibv_send_wr *wr)
{
    const bool atomic =
        wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const unsigned access = wr->opcode == IBV_WR_RDMA_WRITE  ? IBV_ACCESS_REMOTE_WRITE
                            : wr->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
                                                             : IBV_ACCESS_REMOTE_ATOMIC;
    const struct ibv_sge none = {0}, *s = wr->num_sge > 0 ? wr->sg_list : &none;
    char *local, *remote;

    if (q->failed || q->peer == NULL)
        return IBV_WC_WR_FLUSH_ERR;
    if (wr->num_sge > 1)
        fake_die("a work request has several ranges");
    if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
        if (s->length > q->inline_most)
            fake_die("more is inline than the queue pair has space for");
        local = (char *)(uintptr_t)s->addr; /* NOLINT(performance-no-int-to-ptr) */
    } else {
        local = region_find(q->domain, s->lkey, s->addr, s->length,
                            wr->opcode == IBV_WR_RDMA_READ || atomic ? IBV_ACCESS_LOCAL_WRITE : 0);
        if (local == NULL && s->length > 0)
            return IBV_WC_LOC_PROT_ERR;
    }
    if (wr->opcode == IBV_WR_SEND)
        return qp_send(q);
    remote = region_find(q->peer->domain, atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey,
                         atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr, s->length,
                         access);
    if (remote == NULL && s->length > 0)
        return IBV_WC_REM_ACCESS_ERR;
    if (atomic)
        return qp_atomic(wr, local, (uint64_t *)(void *)remote);
    if (wr->opcode == IBV_WR_RDMA_WRITE)
        copy_words(remote, local, s->length);
    else
        copy_words(local, remote, s->length);
    return IBV_WC_SUCCESS;
}

/* Bus held. */
static void qp_run(struct fake_qp *q, const struct ibv_send_wr *wr)
{
    struct fake_completion x = {.qp = q};

    x.wc.status = qp_execute(q, wr);
    x.wc.wr_id = wr->wr_id;
    x.wc.qp_num = q->qp.qp_num;
    x.end = ++q->posted;
    if (x.wc.status != IBV_WC_SUCCESS)
        q->failed = true;
    if (x.wc.status != IBV_WC_SUCCESS || (wr->send_flags & IBV_SEND_SIGNALED) != 0)
        cq_push((struct fake_cq *)q->qp.send_cq, &x);
}

static int qp_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *q = (struct fake_qp *)qp;
    struct fake_td *td = q->domain->td;

    if (td != NULL)
        inside_enter(&td->inside);
    else
        (void)pthread_spin_lock(&q->lock);
    atomic_fetch_add_explicit(&fake_counts.doorbells, 1, memory_order_relaxed);
    bus_take();
    for (; wr != NULL && q->posted - q->retired < q->depth; wr = wr->next)
        qp_run(q, wr);
    bus_give();
    if (td != NULL)
        atomic_store(&td->inside, 0);
    else
        (void)pthread_spin_unlock(&q->lock);
    *bad = wr;
    return wr != NULL ? ENOMEM : 0;
}

/* ---- the device ---- */

static int port_query(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                      size_t bytes)
{
    const struct ibv_port_attr all = {
        .state = IBV_PORT_ACTIVE, .max_msg_sz = 1u << 30, .link_layer = IBV_LINK_LAYER_ETHERNET};

    (void)context;
    memcpy(attr, &all, bytes < sizeof(all) ? bytes : sizeof(all));
    return port == 1 ? 0 : EINVAL;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    *attr = (struct ibv_device_attr){.max_qp_wr = 8192,
                                     .max_cqe = fake_limits.entries,
                                     .max_qp_init_rd_atom = 16,
                                     .max_qp_rd_atom = 16,
                                     .atomic_cap = IBV_ATOMIC_HCA,
                                     .phys_port_cnt = 1};
    return 0;
}

static struct ibv_device device = {.node_type = IBV_NODE_CA,
                                   .transport_type = IBV_TRANSPORT_IB,
                                   .name = "fake0",
                                   .dev_name = "fake_verbs0"};
static struct fake_context first; /* librdmacm's */

static struct ibv_context *context_begin(struct fake_context *c)
{
    struct verbs_context *v = &c->verbs;

    v->query_port = port_query;
    v->alloc_td = td_alloc;
    v->dealloc_td = td_free;
    v->alloc_parent_domain = parent_alloc;
    v->create_cq_ex = cq_create_ex;
    v->context.device = &device;
    v->context.cmd_fd = v->context.async_fd = -1;
    v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    v->context.ops.poll_cq = cq_poll;
    v->context.ops.req_notify_cq = cq_arm;
    v->context.ops.post_send = qp_post;
    v->context.ops.post_recv = qp_receive;
    v->sz = sizeof(*v);
    return &v->context;
}

struct ibv_context *fake_context(void)
{
    return first.verbs.sz != 0 ? &first.verbs.context : context_begin(&first);
}

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = object(2 * sizeof(*list));

    list[0] = &device;
    *count = 1;
    return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *of) { return of->name; }
int ibv_fork_init(void) { return 0; }

struct ibv_context *ibv_open_device(struct ibv_device *of)
{
    (void)of;
    if (count_add(&fake_counts.contexts, fake_limits.contexts) != 0) {
        errno = ENODEV;
        return NULL;
    }
    return context_begin(object(sizeof(struct fake_context)));
}

int ibv_close_device(struct ibv_context *context)
{
    if (atomic_load(context_users(context)) != 0)
        fake_die("a context is closed while it has objects");
    atomic_fetch_sub(&fake_counts.contexts, 1);
    free(container_of(verbs_get_ctx(context), struct fake_context, verbs));
    return 0;
}

#pragma GCC visibility pop

/* ---- the program ---- */

static pid_t process;

__attribute__((constructor)) static void fake_begin(void)
{
    process = getpid();
    (void)setenv("RPIPE_BTL", "verbs", 0);
    (void)setenv("PAIR_NET", "1", 0);
    (void)setenv("CONFORM_PROCESSES", "1", 0);
    (void)setenv("PAIR_BTL", "verbs", 0);
    (void)setenv("PAIR_ONLY", "0", 0);
}

__attribute__((destructor)) static void fake_end(void)
{
    const struct fake_counts *c = &fake_counts;

    if (getpid() != process || c->queue_pairs + c->completion_queues + c->thread_domains +
                                       c->domains + c->regions + c->contexts ==
                                   0)
        return;
    fprintf(stderr,
            "fake_verbs: left: %d queue pairs, %d completion queues, %d thread domains, "
            "%d domains, %d regions, %d contexts\n",
            c->queue_pairs, c->completion_queues, c->thread_domains, c->domains, c->regions,
            c->contexts);
    _exit(1);
}
