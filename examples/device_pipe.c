/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_pipe.c: messages in memory of a device, which no processor touches.
 *
 * Rank 0 writes. The memory of a message is that of the device (rmemory(3)): a kernel fills it, and
 * rwrite hands it over when the kernel has stored all of it. Rank 1 reads: a kernel compares the
 * message where it is, and rfree gives the memory back. Within a host nothing is copied, and the
 * processors pass on nothing but where a message is. Between hosts each process has memory of its own
 * device, and the library copies a message through memory of the host where the network does not reach
 * that; what it does is printed.
 *
 * The device is simulated unless another one is asked for. The driver of CUDA or HIP is opened at
 * run time (contrib/gpu), so this program is the same on a machine without a GPU.
 *
 *     mpirun -n 2 device_pipe
 *     mpirun -n 2 device_pipe --device cuda --most 16384 --op get
 */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "gpu.h"
#include "must.h"

#define KIB 1024u
#define IN_FLIGHT 4 /* messages of the largest size that the heap holds */

static struct {
    const char *device, *library;
    uint32_t number, messages, least, most; /* KiB */
    rpipe_op_t op;
} options = {"simulated", NULL, 0, 200, 4, 1024, RPIPE_PUT};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How many words message i has, from 4 KiB to 1 MiB by default; both ranks compute it. */
static uint32_t words_of(uint32_t i)
{
    uint32_t least = options.least * KIB / 4, most = options.most * KIB / 4;

    if (i < 2) /* both limits, whatever else is drawn */
        return i == 0 ? least : most;
    return least + gpu_word(i, 1) % (most - least + 1);
}

static void write_messages(rch_t ch, struct gpu *gpu)
{
    for (uint32_t i = 0; i < options.messages; i++) {
        raddr_t d;
        void *at = must_alloc(ch, words_of(i) * sizeof(uint32_t), &d);

        gpu->fill(gpu, at, words_of(i), i);
        MUST(ch, rwrite(ch, d)); /* waits for the kernel */
    }
    MUST(ch, rflush(ch));
}

static void read_messages(rch_t ch, struct gpu *gpu)
{
    uint64_t total = 0;
    double begun = 0;
    raddr_t d;

    for (uint32_t i = 0; i < options.messages; i++) {
        size_t bytes;
        const void *at = must_read(ch, &d, &bytes);

        if (i == 0)
            begun = now();
        MUST_HOLD(bytes == words_of(i) * sizeof(uint32_t));
        MUST_HOLD(gpu->check(gpu, at, words_of(i), i) == 0);
        MUST(ch, rfree(ch, d));
        total += bytes;
    }
    MUST_HOLD(rread(ch, &d, NULL) == R_EOF);
    printf("%u messages, %.1f MiB, all words as the other process's device has stored them, in "
           "%.1f ms\n",
           options.messages, (double)total / (1024 * 1024), (now() - begun) * 1e3);
}

static void run(struct gpu *gpu, int rank)
{
    rpipe_config_t cfg = {.role = rank == 0 ? RPIPE_WRITER : RPIPE_READER,
                          .peer = 1 - rank,
                          .op = options.op,
                          .heap_bytes = (uint64_t)IN_FLIGHT * options.most * KIB,
                          .heap_bytes_at_most = (uint64_t)IN_FLIGHT * options.most * KIB,
                          .memory = gpu->memory};
    rinfo_pipe_t about;
    rch_t ch = NULL;
    int rc;

    rc = rpipe(&ch, &cfg);
    if (rc == 0)
        rc = rwait(ch);
    if (rc != 0)
        fprintf(stderr, "rank %d: %s: %s\n", rank, gpu->name, gpu->error(gpu));
    must_succeed(rc, ch, "the pipe");
    MUST(ch, rinfo_describe(ch, &about));
    printf("rank %d: %s: %s, %s, %s\n", rank, gpu->name, rank == 0 ? "writes" : "reads",
           options.op == RPIPE_PUT ? "put" : "get", about.path);
    if (rank == 0)
        write_messages(ch, gpu);
    else
        read_messages(ch, gpu);
    MUST(ch, rclose(ch));
}

/* ---- options ---- */

static uint32_t number(struct argp_state *state, const char *arg, uint32_t least, uint32_t most)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(arg, &end, 10);
    if (errno != 0 || *arg < '0' || *arg > '9' || *end != '\0' || value < least || value > most)
        argp_error(state, "\"%s\" must be a number from %u to %u", arg, least, most);
    return (uint32_t)value;
}

static void word(struct argp_state *state, const char *option, const char *arg,
                 const char *const *words)
{
    for (const char *const *w = words; *w != NULL; w++)
        if (strcmp(arg, *w) == 0)
            return;
    argp_error(state, "--%s is \"%s\"; see --help", option, arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'd':
        word(state, "device", arg, (const char *const[]){"cuda", "hip", "simulated", NULL});
        options.device = arg;
        return 0;
    case 'l':
        options.library = arg;
        return 0;
    case 'n':
        options.number = number(state, arg, 0, 1000);
        return 0;
    case 'm':
        options.messages = number(state, arg, 1, 100000000);
        return 0;
    case 's':
        options.least = number(state, arg, 1, 65536);
        return 0;
    case 'b':
        options.most = number(state, arg, 1, 65536);
        return 0;
    case 'o':
        word(state, "op", arg, (const char *const[]){"put", "get", NULL});
        options.op = arg[0] == 'g' ? RPIPE_GET : RPIPE_PUT;
        return 0;
    case ARGP_KEY_END:
        if (options.least > options.most)
            argp_error(state, "--least is %u, --most is %u", options.least, options.most);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"device", 'd', "NAME", 0, "cuda, hip or simulated (simulated)", 0},
    {"number", 'n', "N", 0, "Which of the devices; the same at both processes, or another (0)", 0},
    {"library", 'l', "FILE", 0, "The driver (libcuda.so.1, libamdhip64.so)", 0},
    {"messages", 'm', "N", 0, "Messages (200)", 0},
    {"least", 's', "KIB", 0, "Size of the smallest message (4)", 0},
    {"most", 'b', "KIB", 0, "Size of the largest message (1024)", 0},
    {"op", 'o', "OP", 0, "put: the reader has the memory; get: the writer (put)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp option_parser = {
    option_table,
    parse_option,
    NULL,
    "Sends messages that are in memory of a device: a kernel fills them at one process, and a "
    "kernel "
    "compares them at the other one. Run it as: mpirun -n 2 device_pipe",
    NULL,
    NULL,
    NULL};

int main(int argc, char **argv)
{
    char error[256] = "";
    int rank, ranks, rc;
    struct gpu gpu;

    argp_parse(&option_parser, argc, argv, 0, NULL, NULL);
    MUST(NULL, rinit(&rank, &ranks));
    if (ranks != 2) {
        fprintf(stderr, "device_pipe needs 2 processes, not %d: mpirun -n 2 device_pipe\n", ranks);
        return 1;
    }
    rc = strcmp(options.device, "simulated") == 0
             ? gpu_open_simulated(&gpu)
             : gpu_open(&gpu, options.device, options.library, (int)options.number, error,
                        sizeof(error));
    if (rc != 0) {
        fprintf(stderr, "rank %d: there is no device: %s\n", rank, error);
        network_abort(1);
        return 1;
    }
    run(&gpu, rank);
    MUST(NULL, rexit());
    gpu.close(&gpu);
    return 0;
}
