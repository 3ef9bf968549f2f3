/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h: one collective operation of a team, simulated: the graphs of all members are executed in virtual
 * time, and what each member gets is checked.
 *
 * Costs are those of LogGPS, with the parameters of coll/model.h. A member is a process on a core of its
 * host, members of a host in turn. It executes the first of its operations that can be executed; each
 * takes the time of its core:
 *
 *     SEND   step, o, and Og for each byte, for each receiver on another host, or, of more than E bytes, os and Os for each byte, and, if there is a
 *            receiver on this one and the bytes do not fit into its cell, the copy
 *     RECV   step, and on a host m, or L / 2 where the message was there before, unless it follows a RECV, or short work on what one
 *            has got, or the call; nothing where the core has the line already; o between hosts, or, of more
 *            than E bytes, "or" and Or for each byte
 *     FOLD   step, and the bytes
 *     COPY   step, and the bytes; of a message that is lent, f too
 *     CALL   nothing; the end of an operation of a loop: op, the call of the next one
 *
 * Bytes that the cache of the core has are copied at the rate Bo, folded at Bfo and fetched at Bxo, others at Bcs, Bfs and Bx. Those that
 * are written where another core has read or written, or that the cache has not, take longer by the difference of Bw to Bo. A core has
 * what it has read or written and no other core has written since, as far as its cache of C bytes goes, and at first the memory of its
 * members (cache.c). What came from another host it has not.
 *
 * A message on a host is there L - m after its SEND, in a loop up to L / 2 earlier where each member has a core: since the first RECV of
 * an operation its member fetches the line of its next SEND; a long one, where each member has a core, after its first 32 KiB, and what reads
 * it ends after its SEND, later by the work on the last 32 KiB. Between hosts each message uses the interface of the
 * sender's host for g and G for each byte, arrives Ln later, and uses the receiver's interface as long. One of more than E bytes uses
 * them for gl and G for each byte, and takes Ll and Gl for each byte from its sender to its receiver: an interface may be the work of their processors. One
 * of more than S bytes first waits for its RECV, and for a round trip.
 *
 * By multicast, of the latency of the options or, for what is sent by cast, of the model, a message of the root to members of all other hosts takes o once, and leaves the root's interface once, for g for each
 * packet of SIM_PACKET bytes, or gl if these are more than E, and G for each byte; it arrives at all interfaces after the latency of multicast. A receiver that has lost
 * a packet asks for it after a time, which doubles, and gets it Ln and a multicast later (doc/collectives.md "The simulator").
 *
 * Where members share a core, one
 * that has nothing to execute yields, and a yield takes sigma, whether or not the next one has something. One
 * operation takes up to twice as long there as one of a loop, in which members begin the next one while the
 * others end the last. In a loop a member sends to its host when all members of the host are over with the operation `depth` before, and
 * reads their boards for that: L, and m for each further one.
 */
#ifndef TOOLS_SIM_SIM_H
#define TOOLS_SIM_SIM_H

#include "coll/coll.h"
#include "coll/model.h"

#define SIM_KILLS 64

struct sim_kill {
    int member;
    uint64_t time;
};

struct sim_options {
    struct coll_model model;
    uint64_t seed;                       /* of skew, and of the phase of noise */
    uint64_t skew;                       /* members begin at a random time up to this */
    uint64_t noise_period, noise_length; /* a core is lost for this length, once in this period */
    struct sim_kill kill[SIM_KILLS];     /* a member that does nothing from a time on */
    int kills;
    int repeat;         /* operations in a loop; 0: one. sim_request() only, and not in place */
    int depth;          /* of these, how many are in flight on a host; 0: as many as messages let */
    uint64_t multicast; /* latency, ps; 0: there is no multicast */
    uint64_t ask;  /* ps: after which a receiver asks for a packet that is missing; 0: SIM_ASK */
    uint32_t loss; /* receivers that lose a packet, of a million */
    /* The request of a member, where blocks have lengths of their own; NULL: that of all members. */
    struct coll_request (*request_of)(const void *argument, int member);
    const void *argument;
};
#define SIM_PACKET COLL_PACKET
#define SIM_ASK COLL_REPAIR
#define SIM_LOSS_MOST 500000 /* of a million */

/* Where the time of the longest chain of operations goes. */
enum sim_part {
    SIM_SEND,
    SIM_RECV,
    SIM_FOLD,
    SIM_COPY,
    SIM_CALL,
    SIM_LINE, /* between SEND and RECV of a host */
    SIM_WIRE, /* between hosts, with what waits for an interface */
    SIM_CORE, /* yields, and other members of the core */
    SIM_START /* before the first operation */
};
#define SIM_PARTS 9

struct sim_result {
    uint64_t time;            /* until the last member that ends */
    uint64_t first;           /* until the first */
    uint64_t part[SIM_PARTS]; /* of the critical path, which add up to the time */
    uint64_t operations;      /* of all members */
    uint64_t messages[2];     /* on hosts; between hosts */
    uint64_t bytes[2];
    uint64_t lost;                                /* packets of multicast, at a receiver */
    uint64_t interface_messages, interface_bytes; /* sent by the busiest host */
    uint64_t scratch;                             /* of the member with the most */
    uint32_t operations_most, slots_most;
    int ended; /* members whose result was checked; fewer than all only after a kill */
};

/*
 * The graphs of all members, shape->size of them. 0; -EPROTO: the graphs do not fit each other, or a result is
 * wrong, and err has where; -EDEADLK: members wait for each other; -ENOMEM.
 */
int sim_run(const struct shape *shape, const struct graph *graph,
            const struct coll_request *request, const struct sim_options *options,
            struct sim_result *result, struct error *err);
/* The same, of graphs that are built for it and released. */
int sim_request(const struct shape *shape, const struct coll_request *request,
                const struct coll_choice *choice, const struct sim_options *options,
                struct sim_result *result, struct error *err);
const char *sim_part_name(enum sim_part part);

#endif
