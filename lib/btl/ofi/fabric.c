/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c: finds a provider and opens one reliable-datagram endpoint of it; answers, from its
 * attributes, what it can do.
 *
 * The provider is the first that libfabric offers for one-sided transfers between hosts, or
 * RPIPE_OFI_PROVIDER. It is bound to the address at which the control network is reached, so that
 * the two use the same network; RPIPE_OFI_DOMAIN names a device instead.
 */
#include "btl/ofi/fabric.h"

#include "btl/ofi/address.h"
#include "btl/ofi/operation.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFI_VERSION FI_VERSION(1, 17) /* the interface that this is written against */

/* ---- choice ---- */

/* What is requested beside what every endpoint needs: a provider may report it on request alone, or because of it give up something else. */
enum { ASK_ORDER = 1, ASK_HMEM = 2 };

static struct fi_info *fabric_hints(const char *provider, const char *domain, int ask)
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
    if ((ask & ASK_HMEM) != 0) {
        h->caps |= FI_HMEM;
        h->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    if ((ask & ASK_ORDER) != 0)
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

static int fabric_ask(const char *provider, const char *domain, const char *source, int ask,
                      struct fi_info **found)
{
    struct fi_info *h = fabric_hints(provider, domain, ask);
    int rc;

    if (h == NULL)
        return -FI_ENOMEM;
    rc = fi_getinfo(OFI_VERSION, *source != '\0' ? source : NULL, NULL,
                    *source != '\0' ? FI_SOURCE : 0, h, found);
    fi_freeinfo(h);
    return rc == 0 && *domain != '\0' ? fabric_pick_device(domain, found) : rc;
}

static int fabric_choose_ordered(const char *provider, const char *domain, const char *source,
                                 int ask, struct fi_info **found)
{
    int rc = fabric_ask(provider, domain, source, ask | ASK_ORDER, found);

    return rc == 0 ? 0 : fabric_ask(provider, domain, source, ask, found);
}

/* Only a provider whose addresses are IP addresses can be bound to one. */
static int fabric_choose(const char *provider, const char *domain, const char *source, int ask,
                         struct fi_info **found)
{
    struct fi_info *bound = NULL;
    int rc = fabric_choose_ordered(provider, domain, "", ask, found);

    if (rc != 0 || *domain != '\0' || *source == '\0' || !fabric_is_ip(*found))
        return rc;
    rc = fabric_choose_ordered((*found)->fabric_attr->prov_name, "", source, ask, &bound);
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

    if (fabric_choose_ordered("net", "", "", 0, &info) != 0)
        return "";
    fi_freeinfo(info);
    return "RPIPE_OFI_PROVIDER=net";
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

/* ---- providers over sockets ---- */

/*
 * The host has a device (probe.c), for which libfabric has no provider: the backend tcp does the
 * same as what it offers instead. A provider has layers, "tcp;ofi_rxm"; the first is the lowest.
 */
static bool fabric_is_over_sockets(const struct fi_info *info)
{
    static const char *const names[] = {"tcp", "net", "sockets", "udp"};
    const char *provider = info->fabric_attr->prov_name;
    size_t length = strcspn(provider, ";");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == length && strncmp(provider, names[i], length) == 0)
            return true;
    return false;
}

int fabric_suitable(const struct btl_host *host, struct error *err)
{
    const char *domain = host->setting("RPIPE_OFI_DOMAIN");
    struct fi_info *info;
    int rc = 0;

    if (*host->setting("RPIPE_OFI_PROVIDER") != '\0' ||
        fabric_choose("", domain, host->address, 0, &info) != 0)
        return 0; /* it is named; or it cannot be opened, which is reported then */
    if (fabric_is_over_sockets(info))
        rc =
            error_set(err, -ENOTSUP,
                      "libfabric %u.%u has provider %s here, over sockets, which has to be named: "
                      "RPIPE_OFI_PROVIDER, the same for all ranks (rmalloc(7))",
                      FI_MAJOR(fi_version()), FI_MINOR(fi_version()), info->fabric_attr->prov_name);
    fi_freeinfo(info);
    return rc;
}

int fabric_query(struct error *err)
{
    struct fi_info *info;
    int rc = fabric_choose("", "", "", 0, &info);

    if (rc != 0)
        return error_set(
            err, -ENOTSUP,
            "libfabric %u.%u finds no provider for one-sided transfers between hosts: %s",
            FI_MAJOR(fi_version()), FI_MINOR(fi_version()), fi_strerror(-rc));
    error_note(err, "libfabric %u.%u, provider %s%s", FI_MAJOR(fi_version()),
               FI_MINOR(fi_version()), info->fabric_attr->prov_name,
               fabric_is_over_sockets(info) ? ", which has to be named (rmalloc(7), Backends)"
                                            : "");
    fi_freeinfo(info);
    return 0;
}

/* ---- opening ---- */

/*
 * A provider over a TCP stream, whose receiver copies it in order into the ranges: `tcp` (`net` up to
 * 1.17), also below ofi_rxm, which passes writes on as they are. Other processors than those below may
 * show the copies to each other in another order.
 */
static bool fabric_is_stream(const struct fi_info *info)
{
#if defined(__x86_64__) || defined(__i386__)
    const char *name = info->fabric_attr->prov_name;
    size_t length = strcspn(name, ";");

    return length == 3 && (strncmp(name, "tcp", 3) == 0 || strncmp(name, "net", 3) == 0) &&
           (name[length] == '\0' || strcmp(name + length, ";ofi_rxm") == 0);
#else
    (void)info;
    return false;
#endif
}

bool fabric_joins(const struct fi_info *info)
{
    return info->tx_attr->iov_limit >= 2 && info->tx_attr->rma_iov_limit >= 2 &&
           ((info->rx_attr->comp_order & FI_ORDER_DATA) != 0 || fabric_is_stream(info));
}

static void fabric_learn(struct ofi_endpoint *e, const char *wanted)
{
    const struct fi_info *i = e->info;
    uint64_t order = i->tx_attr->msg_order & i->rx_attr->msg_order;
    bool waw = (order & (FI_ORDER_RMA_WAW | FI_ORDER_WAW)) != 0;
    bool raw = (order & (FI_ORDER_RMA_RAW | FI_ORDER_RAW)) != 0;

    snprintf(e->provider, sizeof(e->provider), "%s", i->fabric_attr->prov_name);
    e->needs_desc = (i->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    e->contexts = (i->mode & (FI_CONTEXT | FI_CONTEXT2)) != 0;
    e->most = i->ep_attr->max_msg_size > 0 ? i->ep_attr->max_msg_size : SIZE_MAX;
    e->ordered_most = waw ? i->ep_attr->max_order_waw_size : 0;
    /* a context must exist as long as its operation, whose end is unknown without a completion */
    e->ordered = strcmp(wanted, "none") != 0 && e->ordered_most >= OFI_SLOT && raw &&
                 i->ep_attr->max_order_raw_size >= OFI_SLOT && !e->contexts;
    e->joined = 0;
    if (e->ordered && strcmp(wanted, "operations") != 0 && fabric_joins(i))
        e->joined = e->most < e->ordered_most ? e->most : e->ordered_most;
    e->inject = i->tx_attr->inject_size >= OFI_SLOT;
    e->hmem = (i->caps & FI_HMEM) != 0;
    e->keys = i->domain_attr->mr_key_size >= 8
                  ? UINT64_MAX
                  : (UINT64_C(1) << (8 * i->domain_attr->mr_key_size)) - 1;
    if (e->keys == 0)
        e->keys = UINT32_MAX;
}

/*
 * Memory is registered in each domain. That goes unnoticed by peers where the keys are chosen here, the same in each, and by
 * transfers where local memory needs no registration, whose descriptor would be another one in each; that of devices always does.
 */
static bool fabric_has_domains(const struct fi_info *info)
{
    return (info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_LOCAL)) == 0 &&
           (info->caps & FI_HMEM) == 0;
}

/* Several threads may be inside the domain, each with an endpoint and its queue; memory is that of all its endpoints. */
static bool fabric_domain_is_wide(const struct fi_info *info)
{
    return info->domain_attr->threading != FI_THREAD_DOMAIN &&
           info->domain_attr->threading != FI_THREAD_UNSPEC &&
           (info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0;
}

/*
 * Where a stream cannot have a domain, that of the process is opened for several threads, if the provider has such. It may cost the provider a
 * lock, and therefore is not requested elsewhere.
 */
static void fabric_widen(struct fi_info **info)
{
    struct fi_info *h, *wide = NULL;

    if (fabric_has_domains(*info) || fabric_domain_is_wide(*info))
        return;
    h = fi_dupinfo(*info);
    if (h == NULL)
        return;
    h->domain_attr->threading = FI_THREAD_COMPLETION;
    if (fi_getinfo(OFI_VERSION, NULL, NULL, 0, h, &wide) == 0 &&
        strcmp(wide->fabric_attr->prov_name, (*info)->fabric_attr->prov_name) == 0 &&
        fabric_domain_is_wide(wide)) {
        fi_freeinfo(*info);
        *info = wide;
    } else if (wide != NULL) {
        fi_freeinfo(wide);
    }
    fi_freeinfo(h);
}

/* Whether there can be another endpoint. 0, or -ENOTSUP and the reason. */
static int fabric_check_beside(const struct ofi_endpoint *first, bool own_domain, struct error *err)
{
    const struct fi_domain_attr *domain = first->info->domain_attr;
    const size_t endpoints = first->btl->in_domain + 1; /* with that of the process */

    if (own_domain)
        return fabric_has_domains(first->info)
                   ? 0
                   : error_set(err, -ENOTSUP, "%s of provider %s are those of one domain",
                               first->hmem ? "descriptors of memory of devices" : "keys",
                               first->provider);
    if (!fabric_domain_is_wide(first->info))
        return error_set(err, -ENOTSUP, "a domain of provider %s is for one thread",
                         first->provider);
    if ((domain->ep_cnt > 0 && endpoints >= domain->ep_cnt) ||
        (domain->cq_cnt > 0 && endpoints >= domain->cq_cnt))
        return error_set(
            err, -ENOSPC,
            "a domain of provider %s has at most %zu endpoints and %zu completion queues",
            first->provider, domain->ep_cnt, domain->cq_cnt);
    return 0;
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
    struct ofi_name name = {
        .format = e->info->addr_format, .protocol = e->info->ep_attr->protocol, .zero = 0};
    size_t bytes = sizeof(name.byte);
    int rc = fi_getname(&e->ep->fid, name.byte, &bytes);

    if (rc != 0)
        return rc;
    e->address.bytes = (uint16_t)(offsetof(struct ofi_name, byte) + bytes);
    memcpy(e->address.byte, &name, e->address.bytes);
    return 0;
}

/* What is open already is another endpoint's. */
static int fabric_open_all(struct ofi_endpoint *e, const char **call)
{
    struct fi_av_attr av = {.type = FI_AV_UNSPEC};
    int rc;

    *call = "fi_fabric";
    rc = e->fabric != NULL ? 0 : fi_fabric(e->info->fabric_attr, &e->fabric, NULL);
    if (rc != 0)
        return rc;
    *call = "fi_domain";
    rc = e->domain != NULL ? 0 : fi_domain(e->fabric, e->info, &e->domain, NULL);
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

/* ---- memory of devices ---- */

/* NULL: FI_HMEM is requested; else why not. */
static const char *fabric_hmem_unwanted(const struct btl_host *host)
{
    const char *wish = host->setting("RPIPE_OFI_HMEM");

    if (strcmp(wish, "no") == 0)
        return "RPIPE_OFI_HMEM=no";
    return host->devices || strcmp(wish, "yes") == 0
               ? NULL
               : "the backend was opened before any pipe with memory of a device; with "
                 "RPIPE_OFI_HMEM=yes it is requested at once";
}

static bool fabric_is_named(const char *name, const char *other)
{
    return name == other || (name != NULL && other != NULL && strcmp(name, other) == 0);
}

static bool fabric_is_in_order(const struct fi_info *info)
{
    return (info->tx_attr->msg_order & (FI_ORDER_RMA_WAW | FI_ORDER_WAW)) != 0;
}

/*
 * The same provider and device as `plain`, with FI_HMEM. Peers compare providers, and may not have devices: so it must not be another
 * one, nor be slower for other pipes than it is without. NULL, and the reason.
 */
static struct fi_info *fabric_choose_hmem(const struct btl_host *host, const struct fi_info *plain,
                                          struct error *why)
{
    const char *unwanted = fabric_hmem_unwanted(host), *provider = plain->fabric_attr->prov_name,
               *refused = NULL;
    struct fi_info *with = NULL;
    int rc;

    if (unwanted != NULL) {
        error_note(why, "%s", unwanted);
        return NULL;
    }
    rc = fabric_choose(provider, host->setting("RPIPE_OFI_DOMAIN"), host->address, ASK_HMEM, &with);
    if (rc != 0)
        refused = fi_strerror(-rc);
    else if ((with->caps & FI_HMEM) == 0 ||
             !fabric_is_named(with->fabric_attr->prov_name, provider) ||
             !fabric_is_named(with->domain_attr->name, plain->domain_attr->name))
        refused = "another provider or device has it";
    else if (fabric_is_in_order(plain) && !fabric_is_in_order(with))
        refused = "with it the provider does not keep writes in order";
    if (refused == NULL)
        return with;
    error_note(why, "%s", refused);
    if (rc == 0)
        fi_freeinfo(with);
    return NULL;
}

/* ---- the endpoint of the process ---- */

/* Takes over `info`. 0, or -errno and the reason. */
static int fabric_try(const struct btl_host *host, struct ofi_endpoint *e, struct fi_info *info,
                      struct error *err)
{
    const char *call;
    int rc;

    e->own_domain = true;
    e->wait_fd = -1;
    address_init(e);
    e->info = info;
    fabric_widen(&e->info);
    fabric_learn(e, host->setting("RPIPE_OFI_ORDER"));
    rc = fabric_open_all(e, &call);
    if (rc == 0)
        return 0;
    rc = fabric_refused(e, call, rc, err);
    fabric_close(e);
    fabric_close_domain(e);
    return rc;
}

/* With FI_HMEM, if it is requested and the provider has it. Takes over `plain`. */
static int fabric_open_best(const struct btl_host *host, struct ofi_endpoint *e,
                            struct fi_info *plain, struct error *err)
{
    struct error why = {""};
    struct fi_info *with = fabric_choose_hmem(host, plain, &why);

    if (with != NULL && fabric_try(host, e, with, &why) == 0) {
        fi_freeinfo(plain);
        return 0;
    }
    snprintf(e->no_hmem, sizeof(e->no_hmem), "%.199s", why.text);
    return fabric_try(host, e, plain, err);
}

int fabric_open(const struct btl_host *host, struct ofi_endpoint *e, struct error *err)
{
    const char *provider = host->setting("RPIPE_OFI_PROVIDER"),
               *domain = host->setting("RPIPE_OFI_DOMAIN");
    struct fi_info *plain;
    int rc = fabric_choose(provider, domain, host->address, 0, &plain);

    if (rc != 0)
        return error_set(
            err, -ENOTSUP, "libfabric finds no provider%s%s%s%s%s%s: %s (fi_info lists them)",
            *provider != '\0' ? " " : "", provider, *domain != '\0' ? " on device " : "", domain,
            *domain == '\0' && *host->address != '\0' ? " at " : "",
            *domain == '\0' ? host->address : "", fi_strerror(-rc));
    rc = fabric_open_best(host, e, plain, err);
    if (rc != 0)
        return rc;
    if (fabric_can_crash(e->info))
        fabric_warn(e->info);
    log_info("ofi: provider %s, device %s: writes %s, slots %s, progress %s%s", e->provider,
             e->info->domain_attr->name,
             e->joined > 0 ? "in order, with their slots"
             : e->ordered  ? "in order"
                           : "in steps",
             e->inject ? "injected" : "from memory",
             e->wait_fd >= 0 ? "by descriptor" : "by polling",
             e->hmem ? ", memory of devices by FI_HMEM" : "");
    return 0;
}

int fabric_open_beside(const struct ofi_endpoint *first, bool own_domain, struct ofi_endpoint *e,
                       struct error *err)
{
    const char *call;
    int rc = fabric_check_beside(first, own_domain, err);

    if (rc != 0)
        return rc;
    e->own_domain = own_domain;
    e->wait_fd = -1;
    address_init(e);
    e->info = fi_dupinfo(first->info);
    if (e->info == NULL)
        return error_set(err, -ENOMEM, "there is no memory for another endpoint");
    e->fabric = first->fabric;
    e->domain = own_domain ? NULL : first->domain;
    fabric_learn(e, first->btl->host.setting("RPIPE_OFI_ORDER"));
    e->atomics = first->atomics;
    rc = fabric_open_all(e, &call);
    if (rc == 0)
        return 0;
    (void)fabric_refused(e, call, rc, err);
    fabric_close(e);
    fabric_close_domain(e);
    return -operation_errno(-rc);
}

static void fabric_fid_close(struct fid *fid)
{
    int rc = fid != NULL ? fi_close(fid) : 0;

    if (rc != 0)
        log_debug("ofi: fi_close: %s", fi_strerror(-rc));
}

void fabric_close(struct ofi_endpoint *e)
{
    fabric_fid_close(e->ep != NULL ? &e->ep->fid : NULL);
    fabric_fid_close(e->av != NULL ? &e->av->fid : NULL);
    fabric_fid_close(e->cq != NULL ? &e->cq->fid : NULL);
    address_free_all(e);
    e->ep = NULL;
    e->av = NULL;
    e->cq = NULL;
    e->wait_fd = -1;
}

void fabric_close_domain(struct ofi_endpoint *e)
{
    if (e->own_domain)
        fabric_fid_close(e->domain != NULL ? &e->domain->fid : NULL);
    if (e->stream == NULL)
        fabric_fid_close(e->fabric != NULL ? &e->fabric->fid : NULL);
    if (e->info != NULL)
        fi_freeinfo(e->info);
    e->domain = NULL;
    e->fabric = NULL;
    e->info = NULL;
}
