/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_carrier.c: what carries the packets of one end, and which carrier the writer uses; see mcast_carrier.h.
 *
 * UDP carries all that is sent to one end alone, and packets to the group until a device is known to do that: RDMA datagrams, where the cards of
 * all ranks list verbs. The writer then asks over the device, some times; each reader reports how packets to the group have reached it
 * (NAK_BY_DEVICE). When all living readers have, packets to the group go by the device, and by nothing else.
 *
 * So the decision is made by the writer alone, from what has been measured, and needs no agreement: packets have the same numbers, heads and
 * sizes on both carriers, and the protocol does not see the change but as packets that overtake each other.
 */
#include "cast/mcast_carrier.h"

#include "cast/medium_udp.h"

#include "btl/btl.h"
#include "control/control.h"
#include "rpipe/end/job_state.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/log.h"
#include "util/module.h"
#include "util/settings.h"

#include <errno.h>
#include <string.h>

#define CARRIER_PROBES 16u /* questions over the device; after them it is given up */
#define CARRIER_PROBE_NS NS_PER_MS
#define CARRIER_PROBE_MOST (64 * NS_PER_MS)

/* ---- opening ---- */

enum carrier_wanted { WANTED_ANY, WANTED_UDP, WANTED_VERBS };

/* 0; -ENOTSUP and a message: there is no such backend. */
static int carrier_find_wanted(const struct rcast *c, enum carrier_wanted *wanted,
                               struct error *err)
{
    static const char *const name[] = {"auto", "udp", "verbs"};
    const char *text = c->backend != NULL && *c->backend != '\0' ? c->backend : "auto";

    if (setting_number(SET_CAST_BACKEND) != 0)
        text = setting_text(SET_CAST_BACKEND);
    for (int i = 0; i < 3; i++)
        if (strcmp(text, name[i]) == 0) {
            *wanted = (enum carrier_wanted)i;
            return 0;
        }
    return error_set(err, -ENOTSUP,
                     "members are on several hosts, and casts between hosts have no backend "
                     "\"%.20s\"; there are udp and verbs",
                     text);
}

/* 0: the card of this rank lists verbs. */
static int carrier_check_card(int rank, struct error *err)
{
    bool same_kernel;
    uint32_t backends;
    int rc = control_peer_backends(rank, &backends, &same_kernel, err);

    if (rc != 0 || (backends & BTL_USABLE_VERBS) != 0)
        return rc;
    return error_set(err, -ENOTSUP, "rank %d has no active RDMA port, or not the module btl_verbs",
                     rank);
}

/* 0: all ranks that have to do with the packets list verbs. */
static int carrier_check_cards(const struct rcast *c, struct error *err)
{
    int rc = carrier_check_card(job_own_rank(), err);

    for (int i = 0; rc == 0 && i < c->n; i++)
        if (i == c->writer || (c->writes && c->member[i].remote))
            rc = carrier_check_card(c->member[i].rank, err);
    return rc;
}

static int carrier_open_device(struct mcast *p, const struct medium_host *host, struct error *err)
{
    struct mcast_carrier *device = &p->carrier[MCAST_DEVICE];
    const struct medium_ops *ops = module_symbol("btl_verbs", "medium_verbs_ops", err);
    int rc;

    if (ops == NULL)
        return -ENOTSUP;
    if (ops->version != MEDIUM_VERSION)
        return error_set(err, -ENOTSUP, "btl_verbs.so is of another version of this library");
    rc = ops->open(&device->medium, host, err);
    if (rc != 0)
        return rc;
    device->ops = ops;
    return p->path.cast->writes ? ops->group(device->medium, p->key, &device->group, err) : 0;
}

/* Why packets to groups go by UDP: reported once for each end, loudly if verbs was named. */
static void carrier_explain(const struct mcast *p, const char *why)
{
    if (p->device_named)
        log_warn("rcast: packets to groups go by udp, not by verbs: %s", why);
    else
        log_info("rcast: packets to groups go by udp: %s", why);
}

static void carrier_close(struct mcast_carrier *carrier)
{
    if (carrier->medium != NULL)
        carrier->ops->close(carrier->medium);
    memset(carrier, 0, sizeof(*carrier));
}

int mcast_carriers_open(struct mcast *p, struct error *err)
{
    const struct medium_host host = {control_address(), setting_of_name};
    struct mcast_carrier *udp = &p->carrier[MCAST_UDP];
    enum carrier_wanted wanted = WANTED_ANY;
    struct error none = {""};
    int rc = carrier_find_wanted(p->path.cast, &wanted, err);

    p->probe_at = NAK_NEVER;
    if (rc != 0)
        return rc;
    p->device_named = wanted == WANTED_VERBS;
    udp->ops = &medium_udp_ops;
    rc = udp->ops->open(&udp->medium, &host, err);
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("net: rcast: socket open");
    udp->root = udp->ops->address(udp->medium);
    if (p->path.cast->writes) /* else packets are sent to each reader */
        (void)udp->ops->group(udp->medium, p->key, &udp->group, &none);
    if (wanted == WANTED_UDP)
        return 0;
    rc = p->device_named ? 0 : carrier_check_cards(p->path.cast, err);
    if (rc == 0)
        rc = carrier_open_device(p, &host, err);
    if (rc == 0) {
        if (p->path.cast->writes)
            p->carrier[MCAST_DEVICE].root =
                p->carrier[MCAST_DEVICE].ops->address(p->carrier[MCAST_DEVICE].medium);
        return 0;
    }
    carrier_close(&p->carrier[MCAST_DEVICE]);
    if (p->device_named)
        return rc;
    carrier_explain(p, err->text);
    return 0;
}

void mcast_carriers_close(struct mcast *p)
{
    for (int i = 0; i < MCAST_CARRIERS; i++)
        carrier_close(&p->carrier[i]);
}

size_t mcast_carriers_mtu(const struct mcast *p)
{
    size_t least = MEDIUM_PACKET_MOST;

    for (int i = 0; i < MCAST_CARRIERS; i++) {
        const struct mcast_carrier *c = &p->carrier[i];

        if (c->medium != NULL && c->ops->mtu(c->medium) < least)
            least = c->ops->mtu(c->medium);
    }
    return least;
}

/* The device has failed: UDP carries on. */
static void carrier_give_up(struct mcast *p, const char *why)
{
    p->probe_at = NAK_NEVER;
    if (p->path.cast->writes)
        nak_sender_use(&p->sender, NAK_BY_GROUP);
    carrier_explain(p, why);
    carrier_close(&p->carrier[MCAST_DEVICE]);
}

void mcast_carriers_join(struct mcast *p)
{
    for (int i = 0; i < MCAST_CARRIERS; i++) {
        struct mcast_carrier *c = &p->carrier[i];
        struct error err = {""};

        if (c->medium == NULL || c->group.family == MEDIUM_NONE ||
            c->ops->join(c->medium, &c->group, &err) == 0)
            continue;
        if (i == MCAST_UDP)
            log_warn("rcast: packets are sent to this rank alone, not by multicast: %s", err.text);
        else
            carrier_give_up(p, err.text);
    }
    RPIPE_FAILPOINT("net: rcast: groups joined");
}

/* ---- packets ---- */

int mcast_carriers_receive(struct mcast *p, const void **packet, struct mcast_arrival *a)
{
    bool by_group;

    for (int i = 0; i < MCAST_CARRIERS; i++) {
        struct mcast_carrier *c = &p->carrier[i];
        int n =
            c->medium != NULL ? c->ops->receive(c->medium, packet, &a->from, &by_group) : -EAGAIN;

        if (n < 0)
            continue;
        a->carrier = (enum mcast_carrier_kind)i;
        a->by = !by_group ? 0 : i == MCAST_DEVICE ? NAK_BY_DEVICE : NAK_BY_GROUP;
        return n;
    }
    return -EAGAIN;
}

void mcast_flush(struct mcast *p)
{
    struct mcast_carrier *device = &p->carrier[MCAST_DEVICE];

    if (device->medium != NULL && p->path.cast->writes && device->ops->flush(device->medium) != 0)
        carrier_give_up(p, "the device sends no more");
    (void)p->carrier[MCAST_UDP].ops->flush(p->carrier[MCAST_UDP].medium);
}

/* ---- the decision ---- */

void mcast_carriers_measure(struct mcast *p, int64_t now)
{
    if (p->carrier[MCAST_DEVICE].medium == NULL || p->sender.by == NAK_BY_DEVICE)
        return;
    p->probes = 0;
    p->probe_delay = CARRIER_PROBE_NS;
    p->probe_at = now;
}

int64_t mcast_carriers_due(const struct mcast *p)
{
    return p->path.cast->writes ? p->probe_at : NAK_NEVER;
}

/* The first living reader that has joined, and has received nothing over the device; -1: there is none. */
static int carrier_find_missing(const struct mcast *p)
{
    for (uint32_t i = 0; i < p->readers; i++)
        if (!p->sender.member[i].gone && p->reader[i].joined &&
            (p->sender.member[i].by & NAK_BY_DEVICE) == 0)
            return p->path.cast->member[p->reader[i].member].rank;
    return -1;
}

/* Readers that have not opened the cast yet begin this again when they join. */
void mcast_carriers_tick(struct mcast *p, int64_t now)
{
    char why[100];
    int missing;

    if (p->probe_at == NAK_NEVER)
        return;
    if (nak_sender_all_by(&p->sender, NAK_BY_DEVICE)) {
        p->probe_at = NAK_NEVER;
        nak_sender_use(&p->sender, NAK_BY_DEVICE);
        log_info("rcast: packets to groups go by verbs: all of %u readers receive them",
                 p->readers);
        return;
    }
    if (now < p->probe_at)
        return;
    missing = carrier_find_missing(p);
    if (missing < 0 || p->probes == CARRIER_PROBES) {
        p->probe_at = NAK_NEVER;
        snprintf(why, sizeof(why), "rank %d has answered none of %u questions over the device",
                 missing, p->probes);
        if (missing >= 0)
            carrier_explain(p, why);
        return;
    }
    p->probes++;
    p->probe_at = now + p->probe_delay;
    p->probe_delay =
        2 * p->probe_delay < CARRIER_PROBE_MOST ? 2 * p->probe_delay : CARRIER_PROBE_MOST;
    nak_sender_probe(&p->sender, now);
}
