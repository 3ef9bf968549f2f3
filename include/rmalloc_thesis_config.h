/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_thesis_config.h: the configuration of Appendix B.3 of the thesis; included by rmalloc_thesis.h.
 */
#ifndef RMALLOC_THESIS_CONFIG_H
#define RMALLOC_THESIS_CONFIG_H

#include <rpipe.h>
#include <stdbool.h>

/* ---- B.3: configuration ---- */

typedef enum { RDMA_PUT = RPIPE_PUT, RDMA_GET = RPIPE_GET, RDMA_ATOMIC = 2 } rdma_op_t;

typedef enum {
    NEXT_FIT = 0,
    FIRST_FIT,
    BEST_FIT,
    WORST_FIT,
    RANDOM_FIT,
    MAX_ALG
} rmalloc_alloc_algorithm_t;

typedef enum {
    NET_SYNC_BLKS = 0, /* blocks with NEXT_FIT, else tags: a heuristic that chooses needs them */
    NET_SYNC_BLOCKS = 0,
    NET_SYNC = 0,
    NET_SYNC_TAG = 1,
    NET_SYNC_TAGS = 1,
    CHANNEL_SYNC = 2,
    CH_SYNC = 2,
    NO_SYNC = 3
} rmalloc_sync_algorithm_t;

typedef enum { RATOMIC_XOR = 0, RATOMIC_ADD, RATOMIC_SWAP, RATOMIC_AND, RATOMIC_OR } ratomic_type_t;
typedef enum { SYNC_REQ = 0, SYNC_W_FLAGS } rmalloc_sync_method_t;
typedef enum { PERF = 0, NO_ADAPT, NO_HASH, NO_RADAPT } rmalloc_ep_route_t;
typedef enum {
    DEFAULT_BACKEND = 0,
    MPI_BACKEND,
    UGNI_BACKEND,
    INFINIBAND_BACKEND
} rmalloc_backend_t;

#define HALF 0.5
#define FULL 1.0

typedef struct rmalloc_ch_settings {
    int channels;
    struct {
        rmalloc_sync_algorithm_t sync;
    } primary_channel;
    struct {
        bool enabled;
        rmalloc_sync_algorithm_t sync;
        struct {
            uint64_t alloc_size;
            rmalloc_alloc_algorithm_t algorithm;
            uint32_t unit_size;
        } alloc;
    } sec_channel;
} rmalloc_ch_settings_t;

typedef struct rmalloc_config {
    struct {
        rmalloc_ch_settings_t rmalloc_ch_settings[3]; /* the first one counts */
        struct {
            uint32_t max_cqe;
            uint32_t BTE_transfer;
            rmalloc_sync_method_t sync_method;
            rmalloc_ep_route_t ep_route;
            bool use_local_comp;
        } rmalloc_ugni_settings;
        struct {
            int use_passive_rma;
        } rmalloc_mpi_settings;
        struct {
            uint32_t rndv_threshold;
            uint32_t max_sys_size;
            int service_level;
            int debug_level;
        } rmalloc_psm_settings;
        struct {
            uint32_t max_descriptors;
            double vm_sync_watermark; /* 0: the default, not "always" */
            bool thread_sync;
        } rmalloc_vm_settings;
    } rmalloc_g_settings;
    struct {
        int use_internal_settings;
        int verbose;
    } rmalloc_misc_settings;
    struct {
        rdma_op_t op;
        int peer;
        bool rdma_active;
        rmalloc_alloc_algorithm_t algorithm;
        uint32_t unit_size;  /* rounded up to a power of two */
        uint64_t alloc_size; /* 0: 1 MiB */
        uint64_t total_required;
        ratomic_type_t atomic_type;
    } allocator;
    rdma_op_t op; /* listing B.3 has it here, too; other than RDMA_PUT it is preferred */
    rmalloc_backend_t backend;
} rmalloc_config_t;

#endif
