/* SPDX-License-Identifier: BSD-3-Clause */
/* init.c: begin and end of a process, clocks, names, memory. */
#include "rmpi.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct rmpi_state rmpi;
char rmpi_in_place;

#define INIT_CONTEXT "rmpi messages"
#define INIT_LINKS 4 /* processes of a job whose links are opened at once, at most */

static _Noreturn void init_failed(const char *call)
{
    fprintf(stderr, "%s: %s\n", call, rpipe_error(NULL));
    exit(1);
}

/*
 * Small jobs open the links of messages in MPI_Init, as MPIs do on one host: else the first message of two ranks takes as long as it takes
 * to open two pipes. In larger ones most pairs of ranks may never exchange a message, and each link is polled.
 */
static int init_open_links(void)
{
    const uint32_t space =
        MPI_COMM_WORLD->space + 1; /* of collective operations, none of which has begun */
    rmsg_request_t r[2 * INIT_LINKS];
    int rc = 0, n = 0;

    for (int i = 0; i < rmpi.size && rmpi.size <= INIT_LINKS && rc == 0; i++) {
        if (i == rmpi.rank)
            continue;
        rc = rmsg_irecv(rmpi.msg, i, space, 0, NULL, 0, &r[n++], 0);
        if (rc == 0)
            rc = rmsg_isend(rmpi.msg, i, space, 0, NULL, 0, &r[n++], 0);
    }
    return rc != 0 ? rc : rmsg_wait_all(rmpi.msg, r, n, NULL, 0);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    rmsg_config_t cfg = {.context = rpipe_context(INIT_CONTEXT), .timeout_ms = R_FOREVER};

    (void)argc;
    (void)argv;
    if (rmpi.initialized)
        return rmpi_fail(NULL, MPI_ERR_OTHER, "MPI_Init", "it has been called before");
    if (rpipe_init(&rmpi.rank, &rmpi.size) != 0 || rmsg_open(&rmpi.msg, &cfg) != 0 ||
        rmpi_comm_open_world() != 0 || init_open_links() != 0)
        init_failed("MPI_Init");
    rmpi.provided = required < MPI_THREAD_SERIALIZED ? required : MPI_THREAD_SERIALIZED;
    rmpi.initialized = true;
    if (provided != NULL)
        *provided = rmpi.provided;
    return MPI_SUCCESS;
}

int MPI_Init(int *argc, char ***argv)
{
    return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, NULL);
}

/* MPI forbids it, and most libraries are silent. */
static void finalize_posted(void)
{
    uint64_t posted = 0;

    if (rmsg_count(rmpi.msg, "posted", &posted) == 0 && posted > 0)
        fprintf(stderr, "rank %d: MPI_Finalize: %llu receives are posted, and are given up\n",
                rmpi.rank, (unsigned long long)posted);
}

int MPI_Finalize(void)
{
    rmpi_check_running("MPI_Finalize");
    (void)rmpi_attrs_free(MPI_COMM_SELF);
    rmpi_reap(true);
    if (rmpi.active != NULL)
        (void)rmpi_fail(NULL, MPI_ERR_PENDING, "MPI_Finalize",
                        "a collective operation is active; wait for it before");
    finalize_posted();
    (void)MPI_Barrier(MPI_COMM_WORLD);
    rmpi_comm_close_world();
    rmpi.finalized = true;
    if (rmsg_close(rmpi.msg) != 0 || rpipe_exit() != 0)
        init_failed("MPI_Finalize");
    return MPI_SUCCESS;
}

int MPI_Initialized(int *flag)
{
    *flag = rmpi.initialized;
    return MPI_SUCCESS;
}

int MPI_Finalized(int *flag)
{
    *flag = rmpi.finalized;
    return MPI_SUCCESS;
}

int MPI_Abort(MPI_Comm comm, int code)
{
    (void)comm;
    fflush(NULL);
    if (rpipe_initialized() == 1)
        rpipe_network_abort(code);
    _exit(code != 0 ? code : 1);
}

int MPI_Query_thread(int *provided)
{
    *provided = rmpi.provided;
    return MPI_SUCCESS;
}

int MPI_Is_thread_main(int *flag)
{
    *flag = getpid() == gettid();
    return MPI_SUCCESS;
}

double MPI_Wtime(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double MPI_Wtick(void) { return 1e-9; }

int MPI_Get_processor_name(char *name, int *len)
{
    if (gethostname(name, MPI_MAX_PROCESSOR_NAME - 1) != 0)
        return rmpi_fail(NULL, MPI_ERR_OTHER, "MPI_Get_processor_name", "%s", strerror(errno));
    name[MPI_MAX_PROCESSOR_NAME - 1] = '\0';
    *len = (int)strlen(name);
    return MPI_SUCCESS;
}

int MPI_Get_version(int *version, int *subversion)
{
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}

int MPI_Get_library_version(char *version, int *len)
{
    *len = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING,
                    "rmalloc's subset of MPI for testing, over rmsg and rcoll; not an MPI library");
    return MPI_SUCCESS;
}

int MPI_Get_address(const void *at, MPI_Aint *address)
{
    *address = (MPI_Aint)(intptr_t)at;
    return MPI_SUCCESS;
}

int MPI_Address(void *at, MPI_Aint *address) { return MPI_Get_address(at, address); }

int MPI_Alloc_mem(MPI_Aint bytes, void *info, void *base)
{
    void *mem = bytes < 0 ? NULL : malloc(bytes > 0 ? (size_t)bytes : 1);

    (void)info;
    if (mem == NULL)
        return rmpi_fail(NULL, MPI_ERR_NO_MEM, "MPI_Alloc_mem", "no memory for %td bytes", bytes);
    memcpy(base, &mem, sizeof(mem));
    return MPI_SUCCESS;
}

int MPI_Free_mem(void *base)
{
    free(base);
    return MPI_SUCCESS;
}

int MPI_Pcontrol(const int level, ...)
{
    (void)level;
    return MPI_SUCCESS;
}
