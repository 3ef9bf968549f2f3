/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: the parts of rmalloc_model and what they hand to each other; doc/model.md has the idea.
 *
 *     model_parts      components of a path, with their times: built in, or read from a file
 *     model_equations  latency and injection from them: each equation a function
 *     model_what_if    changes of components, by name
 *     model_output     tables
 *     model_compare    the comparison with what was measured; the cost model of collectives
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

/* The ways of a message: each has parts of its own. */
enum model_way {
    WAY_ADAPTER, /* a network adapter: Zambre 2020, tables 2.1 to 2.3; messages of 8 bytes */
    WAY_MEMORY,  /* shared memory: rmalloc_perf -t parts */
    WAY_NETWORK, /* a network, likewise; over verbs with bench/verbs_pair */
    MODEL_WAYS
};

enum model_part {
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
    /* of each size, both ways */
    PART_ALLOC,
    PART_FILL,    /* in a cache of one's own */
    PART_PUBLISH, /* rwrite; over a network post is in it */
    PART_TAKE, /* rread of a message that is there; over a network completion and fetch are in it */
    PART_READ, /* in a cache of one's own */
    PART_FREE,
    /* shared memory */
    PART_POLL,      /* rread_nb that finds nothing */
    PART_HAND_OVER, /* filled, flagged, seen and read without the library */
    PART_ROW_WRITE, /* rmalloc, filling and rwrite in lines that the reader has had */
    PART_ROW_READ,  /* rread, reading and rfree in lines that the writer has had */
    PART_ROW_BOTH,  /* that, beside a writer that asks for credits and uses it */
    /* a network */
    PART_POST,       /* the call that sends, without the library */
    PART_COMPLETION, /* the call that finds what has arrived */
    PART_NETWORK, /* what is left of one way; negative: it arrives before the call that sends returns */
    PART_FETCH,     /* GET alone: a request and the payload back, without the library */
    PART_ROW_ALLOC, /* rmalloc, rwrite, rread and rfree of messages that follow each other */
    PART_ROW_PUBLISH,
    PART_ROW_TAKE,
    PART_ROW_FREE,
    PART_STREAM, /* a message of a stream without the library */
    MODEL_PARTS
};

enum model_kind { MODEL_CPU, MODEL_IO, MODEL_NETWORK, MODEL_KINDS };

/* Times in ns; parts of an adapter have one, at [0]. */
struct model_parts {
    enum model_way way;
    bool get; /* not of an adapter */
    double ns[MODEL_PARTS][MODEL_SIZES];
};
#define MODEL_PATHS 4 /* of a file, at most */

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
    const char *bound; /* of a stream: what limits it */
};

/* ---- model_parts.c ---- */
const char *model_part_name(int part);
const char *model_part_meaning(int part);
const char *model_way_name(enum model_way way);
bool model_part_is_of(int part, enum model_way way, bool get);
bool model_part_has_sizes(int part);
/*
 * A part by its name: "pio"; "fill_4096", with *size an index; "fill": all sizes, *size -1. Returns -1 if there is none.
 */
int model_part_by_name(const char *name, int *size);
/* Tables 2.1 to 2.3 of Zambre 2020: ThunderX2, ConnectX-4. */
extern const struct model_parts model_thunderx2;
/*
 * Reads up to MODEL_PATHS paths, each of which begins with "path WAY put|get" and has "NAME NS" a line; # begins a comment. Returns
 * how many; or -1 and a message: a line that is wrong, or a part that is missing.
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
/* Injection, 2.5, and latency, 2.8, of a message of model_size[size]; for an adapter of 8 bytes. */
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
const char *model_group(enum model_way way, int i);
/* Multiplies all parts of a group. */
void model_scale(struct model_parts *p, const char *group, double factor);
/* By how much (0 to 1) a prediction falls. */
double model_improvement(const struct model_sum *before, const struct model_sum *after);

/* ---- model_output.c ---- */
void model_print(const struct model_parts *p, int size, bool json);
void model_print_changed(const struct model_parts *before, const struct model_parts *after,
                         int size);
void model_print_curves(const struct model_parts *p, int size);

/* ---- model_compare.c ---- */
/*
 * Compares with the CSV of rmalloc_perf, each row with the path of its op. 0; 1 if an error exceeds `limit` percent; -1 and a message:
 * no CSV, or nothing to compare.
 */
int model_compare(const struct model_parts *p, int paths, FILE *csv, double limit, bool json,
                  char *why, size_t bytes);
/* The parameters of the cost model of collectives that a path has, as RCOLL_MODEL takes them. */
void model_print_collectives(const struct model_parts *p);

/* ---- model_plot.c ---- */
int model_plot(const char *path, const struct model_parts *p, int size);

#endif
