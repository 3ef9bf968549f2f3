/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c: finds a provider and opens one reliable-datagram endpoint of it; answers, from its attributes, what it can do.
 *
 * The provider is the first that libfabric offers for one-sided transfers between hosts, or the one of RPIPE_OFI_PROVIDER. It is
 * bound to the address under which the control network is reached, so that the two agree about which network connects the
 * hosts; RPIPE_OFI_DOMAIN names a device instead.
 *
 * An address, as it travels: format and protocol of the provider, so that two that cannot talk are told apart, then its own name.
 */
#include "btl/ofi/ofi.h"

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

struct ofi_peer {
    struct btl_address address;
    fi_addr_t to;
};

/* ---- choice ---- */

/* What is asked for. `order`: a provider that can keep writes in order says so only when it is asked. */
static struct fi_info *fabric_hints(const char *provider, const char *domain, bool order)
{
    struct fi_info *h = fi_allocinfo();

    if (h == NULL)
        return NULL;
    h->caps =
        FI_RMA | (*provider == '\0' ? FI_REMOTE_COMM : 0); /* by itself only what leaves the host */
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

/* Of what was found the first on this device: layered providers take no notice of the name of one in what is asked for. */
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

int fabric_query(struct error *err)
{
    struct fi_info *info;
    int rc = fabric_choose("", "", "", &info);

    if (rc != 0)
        return error_set(
            err, -ENOTSUP,
            "libfabric %u.%u finds no provider for one-sided transfers between hosts: %s",
            FI_MAJOR(fi_version()), FI_MINOR(fi_version()), fi_strerror(-rc));
    error_note(err, "libfabric %u.%u, provider %s", FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
               info->fabric_attr->prov_name);
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
    /* a context has to live as long as its operation, and what has no completion never tells when it has ended */
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

/* A completion queue that wakes a sleeper where the provider has such. */
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
            err, -ENOTSUP,
            "libfabric finds no provider%s%s%s%s%s%s: %s (fi_info lists what there is)",
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
    log_info("ofi: provider %s, device %s: writes %s, slots %s, progress %s", e->provider,
             e->info->domain_attr->name, e->stream ? "in order" : "in steps",
             e->inject ? "injected" : "from memory",
             e->wait_fd >= 0 ? "when its descriptor says so" : "by time");
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
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + probe;
    uint16_t i;

    for (i = 0; i < address->bytes; i++)
        hash = (hash ^ address->byte[i]) * UINT64_C(0x100000001b3);
    return hash;
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
        return error_set(err, -EPROTO, "the other end's address has %u bytes, which no address has",
                         address->bytes);
    memcpy(&mine, e->address.byte, offsetof(struct name, byte));
    memcpy(&name, address->byte, offsetof(struct name, byte));
    if (name.format != mine.format || name.protocol != mine.protocol)
        return error_set(err, -EPROTO,
                         "the other end uses another provider than %s, which is the one here "
                         "(protocol %u, here %u): set "
                         "RPIPE_OFI_PROVIDER alike for all ranks",
                         e->provider, name.protocol, mine.protocol);
    return 0;
}

int fabric_peer(struct ofi_endpoint *e, const struct btl_address *address, fi_addr_t *to,
                struct error *err)
{
    struct name name = {0}; /* with zeros behind: a name may be a string */
    struct ofi_peer *p;
    uint64_t probe = 0;
    char text[128];
    int rc = fabric_check_address(e, address, err);

    if (rc != 0)
        return rc;
    while ((p = hash_get(&e->peers, fabric_address_hash(address, probe))) != NULL &&
           !fabric_same(&p->address, address))
        probe++;
    if (p != NULL) {
        *to = p->to;
        return 0;
    }
    p = calloc(1, sizeof(*p));
    if (p == NULL || hash_put(&e->peers, fabric_address_hash(address, probe), p) != 0) {
        free(p);
        return error_set(err, -ENOMEM, "no memory for the address of a peer");
    }
    p->address = *address;
    memcpy(&name, address->byte, address->bytes);
    rc = fi_av_insert(e->av, name.byte, 1, &p->to, 0, NULL);
    if (rc != 1) {
        fabric_name(e, address, text, sizeof(text));
        error_note(err, "provider %s does not take the address %s: fi_av_insert: %s", e->provider,
                   text, rc < 0 ? fi_strerror(-rc) : "refused");
        hash_remove(&e->peers, fabric_address_hash(address, probe));
        free(p);
        return -EHOSTUNREACH;
    }
    *to = p->to;
    return 0;
}

void fabric_name(const struct ofi_endpoint *e, const struct btl_address *address, char *text,
                 size_t bytes)
{
    struct name name = {0}; /* a peer's may be a string that does not end */
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
