/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: the parts of rmalloc_model and what they hand to each other; doc/model.md has the idea.
 *
 *     model_parts      components of a path, with their times: built in, or read from a file
 *     model_equations  latency and injection from them: each equation a function
 *     model_what_if    changes of components, by name
 *     model_output     tables, and the comparison with what was measured
 *     model_plot       pictures, by gnuplot
 *
 * Everything here is arithmetic and text: it uses no function of the library.
 */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Sizes of a message for which the components of shared memory are measured. */
#define MODEL_SIZES 4
#define MODEL_SLOT 40u                       /* bytes of a message that rides in its slot */
extern const size_t model_size[MODEL_SIZES]; /* 8, 64, 4096, 65536 */

enum model_part {
    /* a network adapter: Zambre 2020, tables 2.1 to 2.3 */
    PART_MD,          /* preparing the message descriptor */
    PART_MD_BARRIER,  /* the barrier behind it */
    PART_DBC_BARRIER, /* the barrier behind the doorbell counter */
    PART_PIO,         /* the copy into the adapter */
    PART_POST_OTHER,  /* the rest of LLP_post */
    PART_LLP_PROG,    /* a completion, low-level protocol */
    PART_LLP_MISC,    /* the rest of a loop without a high-level protocol */
    PART_HLP_POST,    /* initiation, high-level protocol */
    PART_HLP_TX,      /* progress of a send */
    PART_HLP_RX,      /* progress of a receive */
    PART_MISC,        /* the rest of a loop */
    PART_PCIE,        /* from the processor to the adapter */
    PART_WIRE,
    PART_SWITCH,
    PART_RC_TO_MEM, /* from the root complex to memory */
    /* shared memory: rmalloc_perf -t parts */
    PART_ALLOC,      /* of a message in a slot, */
    PART_ALLOC_HEAP, /* and of one in the heap; the same follows for other calls */
    PART_PUBLISH,    /* rwrite */
    PART_PUBLISH_HEAP,
    PART_TAKE, /* rread of a message that is there */
    PART_TAKE_HEAP,
    PART_FREE, /* rfree by the reader */
    PART_FREE_HEAP,
    PART_POLL,                                /* rread_nb that finds nothing */
    PART_FILL,                                /* of each size, in a cache of one's own */
    PART_READ = PART_FILL + MODEL_SIZES,      /* the same */
    PART_HAND_OVER = PART_READ + MODEL_SIZES, /* filled, flagged, seen and read, by no library */
    MODEL_PARTS = PART_HAND_OVER + MODEL_SIZES,
};

enum model_kind { MODEL_CPU, MODEL_IO, MODEL_NETWORK, MODEL_KINDS };

/* Times in ns of a path that is either a network or shared memory. */
struct model_parts {
    bool network;
    double ns[MODEL_PARTS];
};

/* A prediction is a sum of components, in the order in which they happen. */
#define MODEL_TERMS_MOST 12
struct model_term {
    const char *name;
    double ns;
    enum model_kind kind;
    bool target; /* on the receiving side */
};
struct model_sum {
    struct model_term term[MODEL_TERMS_MOST];
    int terms;
};

/* ---- model_parts.c ---- */
const char *model_part_name(int part);
const char *model_part_meaning(int part);
bool model_part_is_network(int part);
/* A part by its name, or -1. */
int model_part_by_name(const char *name);
/* Tables 2.1 to 2.3 of Zambre 2020: ThunderX2, ConnectX-4. */
extern const struct model_parts model_thunderx2;
/*
 * Reads "NAME NS" a line, # begins a comment. 0; or -1 and a message: a line that is wrong, a part
 * that is missing, or a file with parts of both paths.
 */
int model_parts_read(struct model_parts *p, FILE *file, const char *name, char *why, size_t bytes);
void model_parts_print(const struct model_parts *p, FILE *to);

/* ---- model_equations.c ---- */
double model_llp_post(const struct model_parts *p);
double model_post(const struct model_parts *p);
double model_network(const struct model_parts *p);
double model_completion(const struct model_parts *p);       /* 2.1 */
double model_posts_of_a_poll(const struct model_parts *p);  /* 2.2 */
double model_cpu_time(const struct model_parts *p);         /* 2.3 */
double model_single_injection(const struct model_parts *p); /* 2.4 */
double model_injection_llp(const struct model_parts *p);    /* 2.6 */
double model_latency_llp(const struct model_parts *p);      /* 2.8 without the HLP */
/* Injection, 2.5, and latency, 2.8, of a message of model_size[size]; for a network of 8 bytes. */
struct model_sum model_injection(const struct model_parts *p, int size);
struct model_sum model_latency(const struct model_parts *p, int size);
double model_total(const struct model_sum *s);
double model_share(const struct model_sum *s, enum model_kind kind);

/* ---- model_what_if.c ---- */
/*
 * Applies "NAME=VALUE,...": a part or a group; a factor (0.5), a speed (2x), or for a part a time
 * (30ns); or one of the words integrated, nic, doorbell, cpu. 0; or -1 and a message.
 */
int model_what_if(struct model_parts *p, const char *changes, char *why, size_t bytes);
/* The i-th group of a path, or NULL. */
const char *model_group(bool network, int i);
/* Multiplies all parts of a group. */
void model_scale(struct model_parts *p, const char *group, double factor);
/* By how much (0 to 1) a prediction falls. */
double model_improvement(const struct model_sum *before, const struct model_sum *after);

/* ---- model_output.c ---- */
void model_print(const struct model_parts *p, int size);
void model_print_changed(const struct model_parts *before, const struct model_parts *after,
                         int size);
void model_print_curves(const struct model_parts *p, int size);
/*
 * Compares with the CSV of rmalloc_perf. 0; 1 if an error of a latency exceeds `limit` percent; -1
 * and a message: no CSV, or nothing to compare.
 */
int model_compare(const struct model_parts *p, FILE *csv, double limit, char *why, size_t bytes);

/* ---- model_plot.c ---- */
int model_plot(const char *path, const struct model_parts *p, int size);

#endif
