/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair that breaks under a pipe: that pipe fails at its active end, with the device's status in its error message, closes all the same,
 * and its other end does not wait for ever; the pipes beside it, between the same two ranks, go on. 2 ranks, over verbs only.
 *
 * The queue pairs are known because this program's rdma_create_qp stands before that of librdmacm. A writer dials, so rank 0 makes
 * one for each pipe, in their order. Breaking is: to state ERR, as the device does it when something is wrong.
 */
#include "test/lib/mp_check.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

enum { PIPES = 4, BROKEN = 1, HEAP = 4096, MESSAGES = 200 };

static struct made {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
} made[64];
static _Atomic int n_made;

__attribute__((visibility("default"))) int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
                                                          struct ibv_qp_init_attr *attr)
{
    static int (*real)(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *);
    int rc, n;

    if (real == NULL) {
        void *library = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;

        CHECK(NULL, library != NULL && (symbol = dlsym(library, "rdma_create_qp")) != NULL);
        memcpy(&real, &symbol, sizeof(real));
    }
    rc = real(id, pd, attr);
    if (rc != 0)
        return rc;
    /* an attempt to connect that is made again has the same completion queue */
    n = atomic_load(&n_made);
    if (n > 0 && made[n - 1].cq == attr->send_cq)
        n--;
    if (n >= (int)(sizeof(made) / sizeof(*made))) {
        fprintf(stderr, "mp_connection_error: more than %d queue pairs\n", n);
        abort();
    }
    made[n] = (struct made){attr->send_cq, id->qp};
    atomic_store(&n_made, n + 1);
    return 0;
}

static rch_t ch[PIPES];

static void exchange(int pipe, uint64_t salt)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (mp_rank == 0)
            mp_send(ch[pipe], (size_t)(salt + i) % 1000, mp_key(0, 1, (uint32_t)pipe, salt + i));
        else
            mp_read_free(ch[pipe], (size_t)(salt + i) % 1000,
                         mp_key(0, 1, (uint32_t)pipe, salt + i));
    }
}

static void break_it(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    double end = now_ms() + 60000;
    int rc = 0;

    CHECK(NULL, atomic_load(&n_made) == PIPES);
    CHECK(NULL, ibv_modify_qp(made[BROKEN].qp, &attr, IBV_QP_STATE) == 0);
    while (rc == 0 || rc == R_PENDING || rc == -ETIMEDOUT) {
        raddr_t d = ADDR_NULL;

        CHECK(ch[BROKEN], now_ms() < end);
        rc = rmalloc_nb(ch[BROKEN], 100, &d);
        if (rc == 0)
            rc = rwrite(ch[BROKEN], d);
    }
    printf("rank 0: %d, %s\n", rc, rerror(ch[BROKEN]));
    CHECK(ch[BROKEN], rc == -ECONNRESET || rc == -EIO);
    if (strstr(rerror(ch[BROKEN]), "has ended") ==
        NULL) /* what iWARP reports, where that was first */
        CHECK_ERROR(ch[BROKEN], ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR));
}

/* What was written before it broke is there; then an error, or the end, and no waiting for ever. */
static void read_out(void)
{
    raddr_t d;
    int rc;

    CHECK_OK(ch[BROKEN], rset_timeout(ch[BROKEN], 60000));
    while ((rc = rread(ch[BROKEN], &d, NULL)) == 0)
        CHECK_OK(ch[BROKEN], rfree(ch[BROKEN], d));
    printf("rank 1: %d, %s\n", rc, rerror(ch[BROKEN]));
    CHECK(ch[BROKEN], rc == R_EOF || (rc < 0 && rc != -ETIMEDOUT));
}

int main(int argc, char **argv)
{
    const char *btl = getenv("RPIPE_BTL");

    mp_begin(argc, argv, 2);
    if (mp_ranks != 2 || btl == NULL || strcmp(btl, "verbs") != 0) {
        printf("skipped: for 2 ranks, and RPIPE_BTL=verbs\n");
        CHECK_OK(NULL, rexit());
        return 77;
    }
    for (int i = 0; i < PIPES; i++) {
        CHECK_OK(NULL, mp_open(&ch[i], mp_rank == 0, 1 - mp_rank, (uint32_t)i,
                               i % 2 == 0 ? RPIPE_GET : RPIPE_PUT, HEAP, 8));
        CHECK_OK(ch[i], rwait(ch[i]));
    }
    for (int i = 0; i < PIPES; i++)
        exchange(i, 1);
    if (mp_rank == 0)
        break_it();
    for (int i = 0; i < PIPES; i++)
        if (i != BROKEN)
            exchange(i, 1000);
    if (mp_rank == 0)
        (void)rclose(ch[BROKEN]);
    else
        read_out();
    for (int i = 0; i < PIPES; i++)
        if (i != BROKEN)
            exchange(i, 2000);
    if (mp_rank != 0)
        (void)rclose(ch[BROKEN]);
    for (int i = 0; i < PIPES; i++)
        if (i != BROKEN)
            CHECK_OK(ch[i], rclose(ch[i]));
    return mp_end();
}
