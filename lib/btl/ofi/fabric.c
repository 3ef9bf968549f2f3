/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c: finds a provider and opens one reliable-datagram endpoint of it; answers, from its
 * attributes, what it can do.
 *
 * The provider is the first that libfabric offers for one-sided transfers between hosts, or
 * RPIPE_OFI_PROVIDER. It is bound to the address at which the control network is reached, so that
 * the two use the same network; RPIPE_OFI_DOMAIN names a device instead.
 *
 * An address on the wire is the format and protocol of the provider, so that incompatible ones are
 * detected, followed by the name of the endpoint.
 */
#include "btl/ofi/fabric.h"

#include "util/hash.h"
#include "util/log.h"
#include "util/text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFI_VERSION FI_VERSION(1, 17) /* the interface that this is written against */

struct name { /* struct btl_address.byte */
    uint32_t format, protocol;
    uint8_t byte[BTL_ADDRESS_MAX - 2 - 8 - 1]; /* a zero always follows */
    uint8_t zero;
};
static_assert(offsetof(struct name, zero) <= BTL_ADDRESS_MAX - 2, "travels in an address");

/* ---- choice ---- */

/*
 * What is requested. `order`: a provider that can keep writes in order reports it only on request.
 */
static struct fi_info *fabric_hints(const char *provider, const char *domain, bool order)
{
    struct fi_info *h = fi_allocinfo();

    if (h == NULL)
        return NULL;
    h->caps =
        FI_RMA | (*provider == '\0' ? FI_REMOTE_COMM : 0); /* the default must reach other hosts */
    h->mode = FI_CONTEXT | FI_CONTEXT2;
    h->ep_attr->type = FI_EP_RDM;
    h->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    h->domain_attr->threading = FI_THREAD_DOMAIN;
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    if (order)
        h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAW;
    if (*provider != '\0')
        h->fabric_attr->prov_name = strdup(provider);
    if (*domain != '\0')
        h->domain_attr->name = strdup(domain);
    return h;
}

static bool fabric_is_ip(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN ||
           info->addr_format == FI_SOCKADDR_IN6;
}

/* The first result on this device: layered providers ignore the name of a device in the request. */
static int fabric_pick_device(const char *domain, struct fi_info **found)
{
    struct fi_info *at = *found, *copy = NULL;

    while (at != NULL &&
           (at->domain_attr->name == NULL || strcmp(at->domain_attr->name, domain) != 0))
        at = at->next;
    if (at != NULL)
        copy = fi_dupinfo(at);
    fi_freeinfo(*found);
    *found = copy;
    return copy != NULL ? 0 : at != NULL ? -FI_ENOMEM : -FI_ENODATA;
}

static int fabric_ask(const char *provider, const char *domain, const char *source, bool order,
                      struct fi_info **found)
{
    struct fi_info *h = fabric_hints(provider, domain, order);
    int rc;

    if (h == NULL)
        return -FI_ENOMEM;
    rc = fi_getinfo(OFI_VERSION, *source != '\0' ? source : NULL, NULL,
                    *source != '\0' ? FI_SOURCE : 0, h, found);
    fi_freeinfo(h);
    return rc == 0 && *domain != '\0' ? fabric_pick_device(domain, found) : rc;
}

static int fabric_choose_ordered(const char *provider, const char *domain, const char *source,
                                 struct fi_info **found)
{
    int rc = fabric_ask(provider, domain, source, true, found);

    return rc == 0 ? 0 : fabric_ask(provider, domain, source, false, found);
}

/* Only a provider whose addresses are IP addresses can be bound to one. */
static int fabric_choose(const char *provider, const char *domain, const char *source,
                         struct fi_info **found)
{
    struct fi_info *bound = NULL;
    int rc = fabric_choose_ordered(provider, domain, "", found);

    if (rc != 0 || *domain != '\0' || *source == '\0' || !fabric_is_ip(*found))
        return rc;
    rc = fabric_choose_ordered((*found)->fabric_attr->prov_name, "", source, &bound);
    fi_freeinfo(*found);
    *found = bound;
    return rc;
}

/* ---- a provider that can crash ---- */

/*
 * tcp;ofi_rxm of libfabric 1.17 ends the process, within fi_cq_read(), over transfers with keys
 * that are not registered (doc/security.md). Older versions are taken to be alike. From 1.18 on
 * libfabric offers its provider `net` under the name `tcp`, without ofi_rxm.
 */
static bool fabric_can_crash(const struct fi_info *info)
{
    static const char fragile[] = "tcp;ofi_rxm";

    return strncmp(info->fabric_attr->prov_name, fragile, sizeof(fragile) - 1) == 0 &&
           FI_VERSION_LT(fi_version(), FI_VERSION(1, 18));
}

/* What to set instead; "" where libfabric has no other provider over TCP. */
static const char *fabric_instead(void)
{
    struct fi_info *info;

    if (fabric_choose_ordered("net", "", "", &info) != 0)
        return "";
    fi_freeinfo(info);
    return "RPIPE_OFI_PROVIDER=net";
}

int fabric_suitable(const struct btl_host *host, struct error *err)
{
    const char *domain = host->setting("RPIPE_OFI_DOMAIN"), *instead;
    struct fi_info *info;
    int rc = 0;

    if (*host->setting("RPIPE_OFI_PROVIDER") != '\0' ||
        fabric_choose("", domain, host->address, &info) != 0)
        return 0; /* it is named; or it cannot be opened, which is reported then */
    if (fabric_can_crash(info)) {
        instead = fabric_instead();
        rc = error_set(err, -ENOTSUP,
                       "%s of libfabric %u.%u can crash; set %s%sRPIPE_OFI_PROVIDER=tcp where all "
                       "ranks are trusted, the same for all (rmalloc(7))",
                       info->fabric_attr->prov_name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
                       instead, *instead != '\0' ? ", or " : "");
    }
    fi_freeinfo(info);
    return rc;
}

static void fabric_warn(const struct fi_info *info)
{
    const char *instead = fabric_instead();

    log_warn(
        "ofi: provider %s of libfabric %u.%u can crash when a rank dies or sends invalid keys: "
        "it is for trusted ranks only%s%s",
        info->fabric_attr->prov_name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
        *instead != '\0' ? "; another provider: " : "", instead);
}

int fabric_query(struct error *err)
{
    struct fi_info *info;
    int rc = fabric_choose("", "", "", &info);

    if (rc != 0)
        return error_set(
            err, -ENOTSUP,
            "libfabric %u.%u finds no provider for one-sided transfers between hosts: %s",
            FI_MAJOR(fi_version()), FI_MINOR(fi_version()), fi_strerror(-rc));
    error_note(err, "libfabric %u.%u, provider %s%s", FI_MAJOR(fi_version()),
               FI_MINOR(fi_version()), info->fabric_attr->prov_name,
               fabric_can_crash(info) ? ", which has to be named (rmalloc(7), Backends)" : "");
    fi_freeinfo(info);
    return 0;
}

/* ---- opening ---- */

static void fabric_learn(struct ofi_endpoint *e, bool pretend_unordered)
{
    const struct fi_info *i = e->info;
    uint64_t order = i->tx_attr->msg_order & i->rx_attr->msg_order;
    bool waw = (order & (FI_ORDER_RMA_WAW | FI_ORDER_WAW)) != 0;
    bool raw = (order & (FI_ORDER_RMA_RAW | FI_ORDER_RAW)) != 0;

    snprintf(e->provider, sizeof(e->provider), "%s", i->fabric_attr->prov_name);
    e->needs_desc = (i->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    e->contexts = (i->mode & (FI_CONTEXT | FI_CONTEXT2)) != 0;
    e->most = i->ep_attr->max_msg_size > 0 ? i->ep_attr->max_msg_size : SIZE_MAX;
    e->ordered = waw ? i->ep_attr->max_order_waw_size : 0;
    /* a context must exist as long as its operation, whose end is unknown without a completion */
    e->stream = !pretend_unordered && e->ordered >= OFI_SLOT && raw &&
                i->ep_attr->max_order_raw_size >= OFI_SLOT && !e->contexts;
    e->inject = i->tx_attr->inject_size >= OFI_SLOT;
    e->keys = i->domain_attr->mr_key_size >= 8
                  ? UINT64_MAX
                  : (UINT64_C(1) << (8 * i->domain_attr->mr_key_size)) - 1;
    if (e->keys == 0)
        e->keys = UINT32_MAX;
}

static int fabric_refused(const struct ofi_endpoint *e, const char *call, int rc, struct error *err)
{
    error_note(err, "provider %s: %s: %s", e->provider, call, fi_strerror(-rc));
    return rc == -FI_ENOMEM ? -ENOMEM : -ENOTSUP;
}

/* A completion queue with a descriptor to wait for, if the provider has such. */
static int fabric_open_queue(struct ofi_endpoint *e)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
    int rc = fi_cq_open(e->domain, &attr, &e->cq, NULL);

    e->wait_fd = -1;
    if (rc == 0 && fi_control(&e->cq->fid, FI_GETWAIT, &e->wait_fd) == 0)
        return 0;
    if (rc == 0)
        fi_close(&e->cq->fid);
    e->cq = NULL;
    e->wait_fd = -1;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(e->domain, &attr, &e->cq, NULL);
}

static int fabric_own_name(struct ofi_endpoint *e)
{
    struct name name = {
        .format = e->info->addr_format, .protocol = e->info->ep_attr->protocol, .zero = 0};
    size_t bytes = sizeof(name.byte);
    int rc = fi_getname(&e->ep->fid, name.byte, &bytes);

    if (rc != 0)
        return rc;
    e->address.bytes = (uint16_t)(offsetof(struct name, byte) + bytes);
    memcpy(e->address.byte, &name, e->address.bytes);
    return 0;
}

static int fabric_open_all(struct ofi_endpoint *e, const char **call)
{
    struct fi_av_attr av = {.type = FI_AV_UNSPEC};
    int rc;

    *call = "fi_fabric";
    rc = fi_fabric(e->info->fabric_attr, &e->fabric, NULL);
    if (rc != 0)
        return rc;
    *call = "fi_domain";
    rc = fi_domain(e->fabric, e->info, &e->domain, NULL);
    if (rc != 0)
        return rc;
    *call = "fi_endpoint";
    rc = fi_endpoint(e->domain, e->info, &e->ep, NULL);
    if (rc != 0)
        return rc;
    *call = "fi_cq_open";
    rc = fabric_open_queue(e);
    if (rc != 0)
        return rc;
    *call = "fi_av_open";
    rc = fi_av_open(e->domain, &av, &e->av, NULL);
    if (rc != 0)
        return rc;
    *call = "fi_ep_bind";
    rc = fi_ep_bind(e->ep, &e->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
    if (rc != 0)
        return rc;
    *call = "fi_enable";
    rc = fi_enable(e->ep);
    if (rc != 0)
        return rc;
    *call = "fi_getname";
    return fabric_own_name(e);
}

int fabric_open(const struct btl_host *host, struct ofi_endpoint *e, struct error *err)
{
    const char *provider = host->setting("RPIPE_OFI_PROVIDER"),
               *domain = host->setting("RPIPE_OFI_DOMAIN");
    const char *order = host->setting("RPIPE_OFI_ORDER"), *call;
    int rc = fabric_choose(provider, domain, host->address, &e->info);

    e->wait_fd = -1;
    hash_init(&e->peers);
    if (rc != 0) {
        e->info = NULL;
        return error_set(
            err, -ENOTSUP, "libfabric finds no provider%s%s%s%s%s%s: %s (fi_info lists them)",
            *provider != '\0' ? " " : "", provider, *domain != '\0' ? " on device " : "", domain,
            *domain == '\0' && *host->address != '\0' ? " at " : "",
            *domain == '\0' ? host->address : "", fi_strerror(-rc));
    }
    fabric_learn(e, strcmp(order, "none") == 0);
    rc = fabric_open_all(e, &call);
    if (rc != 0) {
        rc = fabric_refused(e, call, rc, err);
        fabric_close(e);
        fabric_close_domain(e);
        return rc;
    }
    if (fabric_can_crash(e->info))
        fabric_warn(e->info);
    log_info("ofi: provider %s, device %s: writes %s, slots %s, progress %s", e->provider,
             e->info->domain_attr->name, e->stream ? "in order" : "in steps",
             e->inject ? "injected" : "from memory",
             e->wait_fd >= 0 ? "by descriptor" : "by polling");
    return 0;
}

static void fabric_fid_close(struct fid *fid)
{
    int rc = fid != NULL ? fi_close(fid) : 0;

    if (rc != 0)
        log_debug("ofi: fi_close: %s", fi_strerror(-rc));
}

void fabric_close(struct ofi_endpoint *e)
{
    struct ofi_peer *p;
    size_t cursor = 0;

    fabric_fid_close(e->ep != NULL ? &e->ep->fid : NULL);
    fabric_fid_close(e->av != NULL ? &e->av->fid : NULL);
    fabric_fid_close(e->cq != NULL ? &e->cq->fid : NULL);
    while ((p = hash_next(&e->peers, &cursor)) != NULL)
        free(p);
    hash_free(&e->peers);
    e->ep = NULL;
    e->av = NULL;
    e->cq = NULL;
    e->wait_fd = -1;
}

void fabric_close_domain(struct ofi_endpoint *e)
{
    fabric_fid_close(e->domain != NULL ? &e->domain->fid : NULL);
    fabric_fid_close(e->fabric != NULL ? &e->fabric->fid : NULL);
    if (e->info != NULL)
        fi_freeinfo(e->info);
    e->domain = NULL;
    e->fabric = NULL;
    e->info = NULL;
}

/* ---- peers ---- */

static uint64_t fabric_address_hash(const struct btl_address *address, uint64_t probe)
{
    return hash_bytes(HASH_BASIS + probe, address->byte, address->bytes);
}

static bool fabric_same(const struct btl_address *a, const struct btl_address *b)
{
    return a->bytes == b->bytes && memcmp(a->byte, b->byte, a->bytes) == 0;
}

static int fabric_check_address(const struct ofi_endpoint *e, const struct btl_address *address,
                                struct error *err)
{
    struct name mine, name;

    if (address->bytes <= offsetof(struct name, byte) ||
        address->bytes > offsetof(struct name, zero))
        return error_set(
            err, -EPROTO, "the other end's address has %u bytes; an address has %zu to %zu",
            address->bytes, offsetof(struct name, byte) + 1, offsetof(struct name, zero));
    memcpy(&mine, e->address.byte, offsetof(struct name, byte));
    memcpy(&name, address->byte, offsetof(struct name, byte));
    if (name.format != mine.format || name.protocol != mine.protocol)
        return error_set(
            err, -EPROTO,
            "the other end uses another provider than %s: its protocol is %u, here it is "
            "%u; set RPIPE_OFI_PROVIDER to the same provider for all ranks",
            e->provider, name.protocol, mine.protocol);
    return 0;
}

/* The entry of an address; NULL: none, and *key is free. */
static struct ofi_peer *fabric_find_peer(const struct ofi_endpoint *e,
                                         const struct btl_address *address, uint64_t *key)
{
    struct ofi_peer *p;
    uint64_t probe = 0;

    do {
        *key = fabric_address_hash(address, probe++);
        p = hash_get(&e->peers, *key);
    } while (p != NULL && !fabric_same(&p->address, address));
    return p;
}

/* Inserts an address into the vector. 0, or -errno and an error message. */
static int fabric_insert(struct ofi_endpoint *e, const struct btl_address *address, fi_addr_t *to,
                         struct error *err)
{
    struct name name = {0}; /* zeros follow the address: it may be a string */
    char text[128];
    int rc;

    memcpy(&name, address->byte, address->bytes);
    rc = fi_av_insert(e->av, name.byte, 1, to, 0, NULL);
    if (rc == 1)
        return 0;
    fabric_name(e, address, text, sizeof(text));
    return error_set(err, -EHOSTUNREACH, "provider %s: fi_av_insert of address %s: %s", e->provider,
                     text, rc < 0 ? fi_strerror(-rc) : "refused");
}

int fabric_peer_get(struct ofi_endpoint *e, int rank, const struct btl_address *address,
                    struct ofi_peer **out, struct error *err)
{
    struct ofi_peer *p;
    uint64_t key;
    int rc = fabric_check_address(e, address, err);

    if (rc != 0)
        return rc;
    p = fabric_find_peer(e, address, &key);
    if (p != NULL) {
        p->uses++;
        *out = p;
        return 0;
    }
    p = calloc(1, sizeof(*p));
    if (p == NULL || hash_put(&e->peers, key, p) != 0) {
        free(p);
        return error_set(err, -ENOMEM, "there is no memory for the address of rank %d", rank);
    }
    rc = fabric_insert(e, address, &p->to, err);
    if (rc != 0) {
        hash_remove(&e->peers, key);
        free(p);
        return rc;
    }
    p->address = *address;
    p->key = key;
    p->rank = rank;
    p->uses = 1;
    *out = p;
    return 0;
}

/*
 * The probes of fabric_find_peer() end at a free key, so an entry that was found behind a removed
 * one is not found again: it would be inserted once more, which does no harm.
 */
static void fabric_remove(struct ofi_endpoint *e, struct ofi_peer *p)
{
    const int rc = fi_av_remove(e->av, &p->to, 1, 0);

    if (rc != 0)
        log_debug("ofi: provider %s: fi_av_remove: %s", e->provider, fi_strerror(-rc));
    hash_remove(&e->peers, p->key);
    free(p);
}

void fabric_peer_put(struct ofi_endpoint *e, struct ofi_peer *p)
{
    if (--p->uses == 0 && p->gone)
        fabric_remove(e, p);
}

void fabric_peer_gone(struct ofi_endpoint *e, int rank)
{
    struct ofi_peer *p, *unused;
    size_t cursor;

    do { /* the table must not change while it is read */
        unused = NULL;
        cursor = 0;
        while ((p = hash_next(&e->peers, &cursor)) != NULL) {
            p->gone = p->gone || p->rank == rank;
            if (p->gone && p->uses == 0)
                unused = p;
        }
        if (unused != NULL)
            fabric_remove(e, unused);
    } while (unused != NULL);
}

void fabric_name(const struct ofi_endpoint *e, const struct btl_address *address, char *text,
                 size_t bytes)
{
    struct name name = {0}; /* a peer's string may not be terminated */
    size_t length = bytes;

    *text = '\0';
    if (address->bytes <= offsetof(struct name, byte) ||
        address->bytes > offsetof(struct name, zero))
        return;
    memcpy(&name, address->byte, address->bytes);
    (void)fi_av_straddr(e->av, name.byte, text, &length);
    text[bytes - 1] = '\0';
    text_make_printable(text);
}
