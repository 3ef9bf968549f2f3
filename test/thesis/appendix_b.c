/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * appendix_b.c: every name of Appendix B of the thesis, used as its text states: the configuration of listing B.1, the external interface
 * (B.1), the internal one (B.2), a channel of RDMA_ATOMIC (B.3.6), and the heap of a channel walked, printed and checked.
 *
 * Rank 0 writes, rank 1 reads. network_abort is compiled and not called; rdma_vmem_channel_va does not exist (rmalloc_thesis(3)).
 */
#include <rmalloc_thesis.h>
#include <stdio.h>

#define BYTES 256
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (x)                                                                                     \
            break;                                                                                 \
        fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, __LINE__, #x, rerror(NULL));           \
        network_abort(1);                                                                          \
    } while (0)

static int rank, nranks;

/* clang-format off: listing B.1 as printed, with the braces and commas that print has lost */
static rmalloc_config_t
    cfg = {.rmalloc_g_settings = {.rmalloc_ch_settings =
                                      {
                                          {
                                              .channels = 1,
                                              .primary_channel =
                                                  {.sync = NET_SYNC_BLKS}, // primary channel
                                              .sec_channel = {.enabled = false,
                                                              .sync = NO_SYNC,
                                                              .alloc = {.alloc_size = 0,
                                                                        .algorithm = MAX_ALG,
                                                                        .unit_size =
                                                                            0}} // secondary channel
                                          }, /* allocator settings for network sync with blocks*/
                                          {
                                              .channels = 1,
                                              .primary_channel = {.sync = NET_SYNC_TAGS},
                                              .sec_channel = {.enabled = false,
                                                              .sync = NO_SYNC,
                                                              .alloc =
                                                                  {.alloc_size = 0,
                                                                   .algorithm = MAX_ALG,
                                                                   .unit_size = 0}}}, /* allocator settings for network sync with tags*/
                                          {
                                              .channels = 2,
                                              .primary_channel = {.sync = NET_SYNC},
                                              .sec_channel = {.enabled = true,
                                                              .sync = CH_SYNC,
                                                              .alloc =
                                                                  {
                                                                      .alloc_size = 1024,
                                                                      .algorithm = NEXT_FIT,
                                                                      .unit_size =
                                                                          1}}}, /* allocator settings for channel sync*/
                                      },
                                  /*Cray/uGNI specific settings */
                                  .rmalloc_ugni_settings =
                                      {
                                          .max_cqe =
                                              200, // Max uGNI CQ events supported per endpoint
                                          .BTE_transfer =
                                              16384, // uGNI BTE (DMA) mode threshold in bytes
                                          .sync_method =
                                              SYNC_W_FLAGS, // remote synchronization method
                                                            // SYNC_REQ or SYNC_W_FLAGS
                                          .ep_route = PERF, // endpoint routing mode,
                                          // PERF, NO_ADAPT, NO_HASH, NO_RADAPT
                                          .use_local_comp =
                                              false, // wait for local completion in network requests
                                      },
                                  /*MPI RMA specific settings */
                                  .rmalloc_mpi_settings =
                                      {
                                          .use_passive_rma =
                                              1, // Option to use active or passive MPI3.0 RMA
                                      },
                                  /*Infiniband/PSM specific settings */
                                  .rmalloc_psm_settings =
                                      {
                                          .rndv_threshold =
                                              8192, // Rendevouz (DMA) mode threshold in bytes
                                          .max_sys_size =
                                              8, // Maximum amount of system buffers in MB for unexpected messages
                                          .service_level =
                                              1, // Infiniband SL to use for communication for remote endpoints.
                                          // (0 <= SL < 15)
                                          .debug_level = 0, // Set the PSM library debug level.
                                      },
                                  /* Vmem Instance Settings */
                                  .rmalloc_vm_settings =
                                      {
                                          .max_descriptors =
                                              1000000, // Max remote allocator descriptors per channel
                                          .vm_sync_watermark =
                                              FULL, // Time to Synchronize vm instance for allocation lists
                                          .thread_sync =
                                              false, // Enable instance level thread safety for multithreaded
                                      }},
           .rmalloc_misc_settings = {.use_internal_settings = 1, .verbose = 1},
           /* general parameters for RDMA channels*/
           .allocator =
               {
                   .op = RDMA_PUT,        // RDMA Operation RMDA_* type (PUT, GET, Atomic)
                   .peer = -1,            // RDMA peer rank
                   .rdma_active = false,  // RDMA initator side always sets "true"
                   .algorithm = NEXT_FIT, // Allocation Algorithm
                   .unit_size = 1,        // Basic allocation unit size
                   .alloc_size = 0,       // Total payload supported by this channel
                   .total_required = 0,   // System reserved
                   .atomic_type = 0       // Atomic type supported, default = XOR
               },
#ifdef ENABLE_MPI_NETWORK
           .backend = MPI_BACKEND
#endif
#ifdef ENABLE_UGNI_NETWORK
                          .backend = UGNI_BACKEND
#endif
#ifdef ENABLE_INFINIBAND_NETWORK
                                         .backend = INFINIBAND_BACKEND
#endif
};
/* clang-format on */

static rch_t channel(rdma_op_t op)
{
    rch_t ch = NULL;

    cfg.allocator.op = op;
    cfg.allocator.peer = 1 - rank;
    cfg.allocator.rdma_active = (rank == 0) == (op != RDMA_GET);
    cfg.allocator.alloc_size = op == RDMA_ATOMIC ? 64 : 16 * BYTES;
    CHECK(rpipe(ch, cfg) == R_SUCCESS);
    CHECK(channel_active_side(ch) == cfg.allocator.rdma_active);
    return ch;
}

static int count(const rvmem_block_t *block, void *argument)
{
    (void)block;
    ++*(int *)argument;
    return 0;
}

/* B.1 and B.2 at the end that writes: seven messages, of which one is freed unsent. */
static void writes(rch_t ch)
{
    rdma_vmem_t *shadow = get_rdmalloc_remote(ch);
    char text[BYTES] = "setmem";
    int flag = -1, blocks = 0;
    raddr_t d, e;

    d = rmalloc(ch, BYTES);
    CHECK(d != ADDR_NULL && rmem(ch, ADDR_NULL) == NULL);
    strcpy(rmem(ch, d), "rwrite");
    CHECK(network_header_bytes(BYTES) == 8);
    *(uint64_t *)network_header(d) = 77;
    CHECK(rwrite(ch, d) == R_SUCCESS);
    CHECK(network_header(d) == NULL); /* no longer the program's */

    d = rmalloc_nb(ch, BYTES, &flag);
    CHECK(d != ADDR_NULL && flag == R_SUCCESS);
    strcpy(getmem(shadow, d), "async");
    CHECK(rdma_channel_write_async(ch, d, &flag) == R_SUCCESS && flag == R_SUCCESS);

    d = rmalloc_sync(ch, shadow, BYTES);
    CHECK(setmem(shadow, d, text) == R_SUCCESS);
    e = rdmalloc(shadow, BYTES); /* of the heap of the channel */
    CHECK(rdma_vmem_check(shadow) == R_SUCCESS);
    CHECK(rdma_vmem_walk(shadow, count, &blocks) == R_SUCCESS && blocks >= 3);
    CHECK(rdma_vmem_dump(shadow, stdout) == R_SUCCESS);
    CHECK(rdmafree(shadow, e) == ADDR_NULL && rmem(ch, e) == NULL);
    CHECK(rwrite(ch, d) == R_SUCCESS);

    d = rmalloc(ch, BYTES);
    CHECK(rfree_sync(ch, shadow, d) == R_SUCCESS && rfree(d) != R_SUCCESS);
    for (int i = 0; i < 2; i++) {
        strcpy(rmalloc_mem(ch, BYTES, &d), "mem");
        CHECK(rwrite(ch, d) == R_SUCCESS);
    }
    progress_tags(ch, shadow, &flag);
    CHECK(flag >= 0);
}

static void reads(rch_t ch)
{
    raddr_t d = ADDR_NULL;
    char *ptr = NULL;
    int flag = -1;

    CHECK(rread(ch, ptr, d, BYTES) == R_SUCCESS && strcmp(ptr, "rwrite") == 0);
    CHECK(*(uint64_t *)network_header(d) == 77);
    CHECK(rfree(d) == R_SUCCESS && rfree(d) != R_SUCCESS);

    do
        CHECK(rread_nb(ch, ptr, d, BYTES, &flag) == R_SUCCESS);
    while (flag == R_PENDING);
    CHECK(flag == R_SUCCESS && strcmp(ptr, "async") == 0 && rfree(d) == R_SUCCESS);

    d = rmalloc(ch, BYTES); /* a descriptor without a message, as listing 5.3 has it */
    do
        CHECK(rread_addr_nb(ch, ptr, d, &flag) == R_SUCCESS);
    while (flag == R_PENDING);
    CHECK(flag == R_SUCCESS && strcmp(ptr, "setmem") == 0);
    CHECK(strcmp(getmem(get_rdmalloc_local(ch), d), "setmem") == 0);
    CHECK(rfree_sync(ch, get_rdmalloc_local(ch), d) == R_SUCCESS);

    do
        rdma_channel_read_async(ch, d, &flag);
    while (flag == R_PENDING);
    CHECK(flag == R_SUCCESS && strcmp(rmem(ch, d), "mem") == 0 && rfree(ch, d) == R_SUCCESS);
    ptr = rread_mem(ch, BYTES, &d);
    CHECK(ptr != NULL && strcmp(ptr, "mem") == 0 && rfree(d) == R_SUCCESS);
    CHECK(rdma_vmem_check(get_rdmalloc_local(ch)) == -EINVAL); /* the heap is at the other end */
}

/* The active end combines, and fetches what the cell has then. */
static void atomics(rch_t ch)
{
    raddr_t d = ADDR_NULL;
    uint64_t *ptr = NULL;

    if (rank == 0) {
        d = rmalloc(ch, sizeof(uint64_t));
        *(uint64_t *)rmem(ch, d) = 0x55;
        CHECK(rwrite(ch, d) == R_SUCCESS); /* XOR */
        d = rmalloc(ch, sizeof(uint64_t));
        CHECK(rread(ch, ptr, d, sizeof(uint64_t)) == R_SUCCESS && *ptr == 0x55);
        CHECK(rfree(d) == R_SUCCESS);
    }
    network_barrier();
}

static void allocator(void)
{
    static char buffer[4096] __attribute__((aligned(4096)));
    rdma_vmem_t *v = rdma_vmem_create(buffer, 64, sizeof(buffer), 0, 1, BEST_FIT, NET_SYNC_TAG,
                                      false, false, 0, &cfg);
    char text[64] = "local";
    int blocks = 0;
    raddr_t d;

    CHECK(v != NULL);
    d = rdmalloc(v, sizeof(text));
    CHECK(d != ADDR_NULL && setmem(v, d, text) == R_SUCCESS);
    CHECK(strcmp(getmem(v, d), "local") == 0);
    CHECK(rdma_vmem_check(v) == R_SUCCESS && rdma_vmem_walk(v, count, &blocks) == R_SUCCESS);
    CHECK(blocks >= 2 && rdma_vmem_dump(v, stdout) == R_SUCCESS);
    CHECK(rdmafree(v, d) == ADDR_NULL && rdmafree(v, d) == d);
    CHECK(rdma_vmem_destroy(v) == R_SUCCESS);
}

int main(int argc, char **argv)
{
    int word = 41 + (argc > 1000);
    rch_t ch;

    CHECK(rinit(&rank, &nranks) == R_SUCCESS && nranks == 2);
    CHECK((int)network_rank() == rank && (int)network_ranks() == nranks);
    if (argc > 1000)
        network_abort(argv[0][0]);
    if (rank == 0)
        CHECK(network_rdma_send(1, &word, sizeof(word)) == R_SUCCESS);
    else
        CHECK(network_rdma_recv(0, &word, sizeof(word)) == R_SUCCESS && word == 41);
    allocator();
    for (rdma_op_t op = RDMA_PUT; op <= RDMA_GET; op++) {
        ch = channel(op);
        if (rank == 0)
            writes(ch);
        else
            reads(ch);
        network_barrier();
    }
    atomics(channel(RDMA_ATOMIC));
    CHECK(rexit() == R_SUCCESS);
    return 0;
}
