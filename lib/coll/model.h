/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h: what operations and messages cost: the parameters of LogGPS, and of memory that is shared on a
 * host. Times are in picoseconds, and all arithmetic is of integers that saturate: the same parameters
 * give the same times, and so the same choice, on every machine.
 */
#ifndef COLL_MODEL_H
#define COLL_MODEL_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Costs of more than this are this. */
#define MODEL_NEVER (UINT64_MAX / 4)

struct coll_model {
    uint64_t line;     /* L: a line of memory that another core has written */
    uint64_t more;     /* m: each further line that is loaded beside it */
    uint64_t yield;    /* sigma: a yield and the switch to another process of the core */
    uint64_t copy;     /* Bc: of a byte that another core has written */
    uint64_t fold;     /* Bf: of a byte */
    uint64_t fetch;    /* f: of a copy from the memory of another process, however short */
    uint64_t fetched;  /* Bx: of a byte of that */
    uint64_t step;     /* of an operation, whatever it does */
    uint64_t overhead; /* o: processor time of a message between hosts, at each end */
    uint64_t latency;  /* Ln: between hosts */
    uint64_t gap;      /* g: of an interface, between messages */
    uint64_t byte;     /* G: of an interface, for a byte */
    uint64_t eager;    /* S, in bytes: a longer message between hosts waits for its receiver */
    uint64_t gathered; /* E, in bytes; 0: any. Of a longer message, in the place of o, Ln and g: */
    uint64_t gathered_byte;   /* Og: with E, of a byte of a message that is not longer, to o */
    uint64_t send, send_byte; /* os, Os: processor time of the sender, and for each byte */
    uint64_t way, way_byte;   /* Ll, Gl: latency between the two, and for each byte */
    uint64_t call_gap;        /* gl: as g, between messages */
    uint64_t receive, receive_byte; /* or, Or: processor time of the receiver, and for each byte */
    uint64_t
        multicast; /* Lm: of a message to all hosts, in the place of latency; 0: there is no multicast */
    uint64_t loss; /* packets of multicast that a receiver loses, in thousandths of a percent */
    /* Of the simulator alone (tools/sim/cache.c): what is in the cache of a core already, and what another core has there. */
    uint64_t own;      /* Bo: of a byte of memory of this core alone, copied */
    uint64_t streamed; /* Bcs: as Bc, in a stream of messages whose sender is ahead */
    uint64_t added;    /* Bfs: as Bf, in such a stream */
    uint64_t taken;    /* Bw: of a byte that is copied to where another core has read or written */
    uint64_t switched; /* Bs: the same, after a switch between processes of the core */
    uint64_t folded;   /* Bfo: of a byte of memory of this core alone, folded */
    uint64_t refetch;  /* Bxo: of a byte of another process that this core has fetched before */
    uint64_t cache;    /* C, in bytes: of a core */
    uint64_t call;     /* op: of an operation of a loop at a member, beside its steps */
};

/* Of multicast: bytes of a packet, and the time, in ps, after which a receiver requests what it lacks (lib/cast/nak). */
#define COLL_PACKET 1408
#define COLL_REPAIR UINT64_C(200000000)

/* A message on a host is copied so many bytes at a time: receivers with a core of their own read some while more is copied. */
#define COLL_CHUNK 32768

struct coll_model coll_model_default(void);
/*
 * Changes what a text names: "L=140 m=13 sigma=1200 Bc=30 Bf=20 f=600 Bx=20 step=8 o=250 Ln=1300 g=100 G=0.08 S=65536 Lm=0 loss=0
 * E=0 Og=0 os=0 Os=0 Ll=0 Gl=0 gl=0 or=0 Or=0 Bcs=30 Bfs=20 Bo=30 Bs=30 Bw=30 Bfo=20 Bxo=20 C=1048576 op=50": times in ns, rates (B...)
 * in bytes per ns, S, E and C in bytes, loss in percent, up to three decimals. 0; -EINVAL, and nothing is changed.
 */
int coll_model_parse(struct coll_model *model, const char *text, struct error *err);
/* The text that coll_model_parse() takes. Returns its length, as snprintf does. */
int coll_model_print(char *text, size_t bytes, const struct coll_model *model);

uint64_t model_add(uint64_t a, uint64_t b);
uint64_t model_times(uint64_t a, uint64_t b);

/*
 * A message between hosts: what it costs the processor of its sender and that of its receiver; how long it is on its way between the two;
 * and for how long it keeps the interfaces of both hosts from the next one. Of a message of at most E bytes these are o + bytes Og, o,
 * Ln and the time of an interface, and g + bytes G. Where the processors drive the network themselves, as the kernel's TCP does, short messages
 * of a stream leave together, and a longer one by a call of its own: os + bytes Os, or + bytes Or, Ll + bytes Gl, and gl + bytes G.
 */
static inline bool coll_model_is_long(const struct coll_model *model, uint64_t bytes)
{
    return model->gathered > 0 && bytes > model->gathered;
}

uint64_t coll_model_sending(const struct coll_model *model, uint64_t bytes);
uint64_t coll_model_receiving(const struct coll_model *model, uint64_t bytes);
uint64_t coll_model_way(const struct coll_model *model, uint64_t bytes);
uint64_t coll_model_interface(const struct coll_model *model, uint64_t bytes);
/* The interface of a message by cast, each of whose packets is a message of its own to it. */
uint64_t coll_model_packets(const struct coll_model *model, uint64_t bytes);

#endif
