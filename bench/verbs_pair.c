/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_pair.c: what two processes do over one plain RC queue pair of a device: the messages of a pipe over verbs without the
 * library, as parts of rmalloc_model (doc/model.md), to be appended to those of rmalloc_perf -t parts --btl verbs.
 *
 * A message is one ibv_post_send(3): an RDMA WRITE of a payload that is not in its slot, and one of the slot, 64 bytes, inline, whose
 * last word is a number; the other process polls that word. Of a GET whose payload is fetched it is the slot alone, and the payload is one RDMA READ. Nothing is
 * sent that makes a receiver poll its completion queue; a sender polls its own one for what it has posted.
 *
 * usage: verbs_pair [-d DEVICE] [-o put|get] [-e BYTES] [-r ROUNDS] [-c CPU,CPU]
 * -e: payloads of a GET of so many bytes are not fetched: RPIPE_EAGER (16384)
 */
#include "two_cores.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SIZES 4
#define PAYLOAD 65536u
#define SLOT_BYTES 64u
#define SLOT_PAYLOAD 40u
#define DEPTH 16 /* messages in flight of a stream */
#define TURNS 10 /* of a round */
#define STREAM 100
#define GIDS 64

static const size_t sizes[SIZES] = {8, 64, 4096, 65536};

/* What the other process writes into, and reads from. */
struct area {
    char payload[PAYLOAD];
    char slot[SLOT_BYTES - sizeof(uint64_t)];
    _Atomic uint64_t number;
};

/* What the other process needs; `ready` counts what both have done. */
struct card {
    uint32_t qpn, rkey;
    uint64_t address;
    union ibv_gid gid;
    uint16_t lid;
};
struct meeting {
    struct card card[2];
    _Atomic int ready;
};

static struct {
    const char *device;
    int rounds, me;
    bool get;
    size_t eager;
    struct meeting *meeting;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct area *area, *from; /* written by the peer; what this process sends */
    int gid;
    uint64_t number; /* of the last message, in either direction */
} pair = {.rounds = 25, .eager = 16384};

static void must(bool holds, const char *call)
{
    if (__builtin_expect(!holds, 0))
        fail(call);
}

/* ---- the queue pair ---- */

static void meet(int step)
{
    atomic_fetch_add(&pair.meeting->ready, 1);
    while (atomic_load(&pair.meeting->ready) < 2 * step)
        sched_yield();
}

static struct ibv_context *open_device(void)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *context = NULL;

    for (int i = 0; i < n && context == NULL; i++)
        if (pair.device == NULL || strcmp(ibv_get_device_name(list[i]), pair.device) == 0)
            context = ibv_open_device(list[i]);
    if (list != NULL)
        ibv_free_device_list(list);
    if (context == NULL) {
        fprintf(stderr, "verbs_pair: no RDMA device\n");
        exit(77);
    }
    return context;
}

/* One that has an IPv4 address, where the device is Ethernet; else the first. */
static int choose_gid(union ibv_gid *gid)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};

    for (int i = 0; i < GIDS; i++)
        if (ibv_query_gid(pair.context, 1, i, gid) == 0 && memcmp(gid->raw, ipv4, 12) == 0)
            return i;
    must(ibv_query_gid(pair.context, 1, 0, gid) == 0, "ibv_query_gid");
    return 0;
}

static void open_queue(struct card *card)
{
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 4 * DEPTH,
                                            .max_recv_wr = 1,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = SLOT_BYTES}};
    struct ibv_port_attr port;

    pair.context = open_device();
    pair.area = aligned_alloc(4096, 2 * (PAYLOAD + 4096));
    must(pair.area != NULL, "malloc");
    memset(pair.area, 0, 2 * (PAYLOAD + 4096));
    pair.from = (struct area *)((char *)pair.area + PAYLOAD + 4096);
    pair.pd = ibv_alloc_pd(pair.context);
    must(pair.pd != NULL, "ibv_alloc_pd");
    pair.mr = ibv_reg_mr(pair.pd, pair.area, 2 * (PAYLOAD + 4096),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    pair.cq = ibv_create_cq(pair.context, 4 * DEPTH, NULL, NULL, 0);
    must(pair.mr != NULL && pair.cq != NULL, "ibv_reg_mr, ibv_create_cq");
    init.send_cq = init.recv_cq = pair.cq;
    pair.qp = ibv_create_qp(pair.pd, &init);
    must(pair.qp != NULL && ibv_query_port(pair.context, 1, &port) == 0, "ibv_create_qp");
    pair.gid = choose_gid(&card->gid);
    card->qpn = pair.qp->qp_num;
    card->rkey = pair.mr->rkey;
    card->address = (uint64_t)(uintptr_t)pair.area;
    card->lid = port.lid;
}

static void connect_queue(const struct card *peer)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

    must(ibv_modify_qp(pair.qp, &a,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "ibv_modify_qp to INIT");
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qpn,
        .max_dest_rd_atomic = DEPTH,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .grh = {.dgid = peer->gid, .sgid_index = (uint8_t)pair.gid, .hop_limit = 64},
                    .dlid = peer->lid,
                    .port_num = 1}};
    must(ibv_modify_qp(pair.qp, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "ibv_modify_qp to RTR");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = 14,
                             .retry_cnt = 7,
                             .rnr_retry = 7,
                             .max_rd_atomic = DEPTH};
    must(ibv_modify_qp(pair.qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "ibv_modify_qp to RTS");
}

/* ---- messages ---- */

static void done(int n)
{
    struct ibv_wc wc;

    while (n > 0) {
        const int got = ibv_poll_cq(pair.cq, 1, &wc);

        must(got >= 0, "ibv_poll_cq");
        if (got > 0 && wc.status != IBV_WC_SUCCESS) {
            fprintf(stderr, "verbs_pair: %s\n", ibv_wc_status_str(wc.status));
            exit(1);
        }
        n -= got;
    }
}

/* One doorbell; one completion, of the last request. `payload`: bytes that are not in the slot. */
static void post(size_t payload)
{
    const struct card *peer = &pair.meeting->card[1 - pair.me];
    struct ibv_sge whole = {(uint64_t)(uintptr_t)pair.from->payload, (uint32_t)payload,
                            pair.mr->lkey},
                   last = {(uint64_t)(uintptr_t)pair.from->slot, SLOT_BYTES, pair.mr->lkey};
    struct ibv_send_wr slot = {.sg_list = &last,
                               .num_sge = 1,
                               .opcode = IBV_WR_RDMA_WRITE,
                               .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
                       first = {.next = &slot,
                                .sg_list = &whole,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE},
                       *bad;

    atomic_store_explicit(&pair.from->number, ++pair.number, memory_order_relaxed);
    first.wr.rdma.remote_addr = peer->address;
    slot.wr.rdma.remote_addr = peer->address + offsetof(struct area, slot);
    first.wr.rdma.rkey = slot.wr.rdma.rkey = peer->rkey;
    must(ibv_post_send(pair.qp, payload > 0 ? &first : &slot, &bad) == 0, "ibv_post_send");
}

static void post_read(size_t bytes)
{
    const struct card *peer = &pair.meeting->card[1 - pair.me];
    struct ibv_sge to = {(uint64_t)(uintptr_t)pair.from->payload, (uint32_t)bytes, pair.mr->lkey};
    struct ibv_send_wr read = {.sg_list = &to,
                               .num_sge = 1,
                               .opcode = IBV_WR_RDMA_READ,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    read.wr.rdma.remote_addr = peer->address;
    read.wr.rdma.rkey = peer->rkey;
    must(ibv_post_send(pair.qp, &read, &bad) == 0, "ibv_post_send");
}

static void await(void)
{
    pair.number++;
    /* acquire: the payload is complete; the device has written it before */
    while (atomic_load_explicit(&pair.area->number, memory_order_acquire) != pair.number)
        continue;
}

static double to_and_fro(size_t payload)
{
    const double began = now_ns();

    for (int i = 0; i < TURNS; i++) {
        if (pair.me == 0) {
            post(payload);
            done(1);
        }
        await();
        if (pair.me == 1) {
            post(payload);
            done(1);
        }
    }
    return (now_ns() - began) / TURNS / 2;
}

/* Of the first process: the call alone, and the load that finds an answer which has had time to arrive. */
static void calls(size_t payload, double pause, double *posting, double *looking)
{
    double began;

    if (pair.me == 1) {
        await();
        post(payload);
        done(1);
        return;
    }
    began = now_ns();
    post(payload);
    *posting = now_ns() - began;
    done(1);
    began = now_ns();
    while (now_ns() - began < pause)
        continue;
    began = now_ns();
    await();
    *looking = now_ns() - began;
}

/* What the first process sends, or reads, DEPTH at a time. */
static double stream(size_t payload, bool read)
{
    const double began = now_ns();

    for (int i = 0; i < STREAM && pair.me == 0; i++) {
        if (i >= DEPTH)
            done(1);
        if (read)
            post_read(payload);
        else
            post(payload);
    }
    if (pair.me == 0)
        done(DEPTH);
    return (now_ns() - began) / STREAM;
}

static double fetch(size_t bytes)
{
    const double began = now_ns();

    for (int i = 0; i < TURNS; i++) {
        post_read(bytes);
        done(1);
    }
    return (now_ns() - began) / TURNS;
}

/* ---- all ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return v[n / 2];
}

static void measure(size_t size, int *step)
{
    static double v[4][ROUNDS_MAX];
    const bool read = pair.get && size > SLOT_PAYLOAD && size > pair.eager;
    const size_t payload = !read && size > SLOT_PAYLOAD ? size : 0;
    double way, posting, looking;

    (void)to_and_fro(payload);
    for (int i = 0; i < pair.rounds; i++)
        v[0][i] = to_and_fro(payload);
    way = median(v[0], pair.rounds);
    for (int i = 0; i < pair.rounds; i++)
        calls(payload, 20000 + 6 * way, &v[1][i], &v[2][i]);
    for (int i = 0; i < pair.rounds; i++) {
        v[3][i] = stream(read ? size : payload, read);
        meet(++*step);
        pair.number = 0; /* both count anew */
        atomic_store(&pair.area->number, 0);
        meet(++*step);
    }
    if (pair.me != 0)
        return;
    posting = median(v[1], pair.rounds);
    looking = median(v[2], pair.rounds);
    printf("post_%zu %.2f\ncompletion_%zu %.2f\nnetwork_%zu %.2f\nstream_%zu %.2f\n", size, posting,
           size, looking, size, way - posting - looking, size, median(v[3], pair.rounds));
    for (int i = 0; i < pair.rounds && read; i++)
        v[0][i] = fetch(size);
    if (pair.get)
        printf("fetch_%zu %.2f\n", size, read ? median(v[0], pair.rounds) : 0.0);
}

static bool parse(int argc, char **argv, int cpu[2])
{
    int option;

    while ((option = getopt(argc, argv, "d:o:e:r:c:")) != -1) {
        if (option == 'd')
            pair.device = optarg;
        else if (option == 'o' && (strcmp(optarg, "put") == 0 || strcmp(optarg, "get") == 0))
            pair.get = optarg[0] == 'g';
        else if (option == 'e')
            pair.eager = strtoull(optarg, NULL, 10);
        else if (option == 'r')
            pair.rounds = atoi(optarg);
        else if (option != 'c' || sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) != 2)
            return false;
    }
    return optind == argc && pair.rounds >= 1 && pair.rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    int cpu[2] = {-1, -1}, step = 2;
    pid_t child;

    if (!parse(argc, argv, cpu)) {
        fprintf(stderr,
                "usage: verbs_pair [-d DEVICE] [-o put|get] [-e BYTES] [-r ROUNDS up to %d] [-c "
                "CPU,CPU]\n",
                ROUNDS_MAX);
        return 2;
    }
    ibv_close_device(open_device()); /* without one there is nothing to do */
    pair.meeting = shared_memory(sizeof(*pair.meeting));
    child = second_process(cpu);
    pair.me = child == 0;
    open_queue(&pair.meeting->card[pair.me]);
    meet(1);
    connect_queue(&pair.meeting->card[1 - pair.me]);
    meet(2);
    for (int i = 0; i < SIZES; i++)
        measure(sizes[i], &step);
    meet(++step); /* no queue goes before the other process has its answers */
    if (child == 0)
        _exit(0);
    return second_process_is_good(child) ? 0 : 1;
}
