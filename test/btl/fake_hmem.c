/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_hmem.c: see fake_hmem.h. A program that does not set RPIPE_BTL uses the backend. */
#include "test/btl/fake_hmem.h"

#include "test/lib/fake_device.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdarg.h>
#include <stdio.h>

struct fake_hmem_limits fake_hmem_limits = {.registers = 1 << 20};
struct fake_hmem_counts fake_hmem_counts;

enum { DEVICES = 8, ENTRIES = 8192, RANGES = 4 };

static __attribute__((format(printf, 1, 2))) _Noreturn void hmem_die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "fake_hmem: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

/* ---- the devices ---- */

static pthread_mutex_t hmem_lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct fake_device *hmem_devices[DEVICES];

void fake_device_seen(struct fake_device *dev)
{
    int i = 0;

    pthread_mutex_lock(&hmem_lock);
    while (i < DEVICES && hmem_devices[i] != NULL && hmem_devices[i] != dev)
        i++;
    if (i == DEVICES)
        hmem_die("more than %d devices", DEVICES);
    hmem_devices[i] = dev;
    pthread_mutex_unlock(&hmem_lock);
    dev->kind = RMEMORY_CUDA;
    dev->number = FAKE_HMEM_NUMBER;
}

/* What lies outside of the device behind an address of it; NULL: it is none. Under the lock. */
static uint8_t *hmem_outside(const void *at, size_t bytes)
{
    uint8_t *outside = NULL;

    for (int i = 0; i < DEVICES && hmem_devices[i] != NULL && outside == NULL; i++) {
        struct fake_device *dev = hmem_devices[i];

        pthread_mutex_lock(&dev->lock);
        for (int k = 0; k < dev->used && outside == NULL; k++) {
            const struct fake_memory *m = &dev->memory[k];
            size_t offset = (uintptr_t)at - (uintptr_t)m->address;

            if (m->address == NULL || offset >= m->bytes)
                continue;
            if (bytes > m->bytes - offset)
                hmem_die("%zu bytes at %p are more than the memory of the device", bytes, at);
            outside = m->outside + offset;
        }
        pthread_mutex_unlock(&dev->lock);
    }
    return outside;
}

/* All of a memory of a device, from its first byte on. Under the lock. */
static bool hmem_is_all(const void *base, size_t bytes)
{
    bool all = false;

    for (int i = 0; i < DEVICES && hmem_devices[i] != NULL; i++) {
        struct fake_device *dev = hmem_devices[i];

        pthread_mutex_lock(&dev->lock);
        for (int k = 0; k < dev->used; k++)
            all = all || (dev->memory[k].address == base && dev->memory[k].bytes == bytes);
        pthread_mutex_unlock(&dev->lock);
    }
    return all;
}

/* ---- registrations ---- */

static struct entry {
    struct fid_mr *mr; /* NULL: free */
    struct fi_ops *ops, own_ops;
    void *desc; /* the provider's */
    const uint8_t *base;
    uint8_t *outside; /* NULL: memory of the host */
    size_t bytes;
} hmem_entries[ENTRIES];

static struct fi_ops_mr *hmem_mr_ops;

static struct entry *hmem_entry_of(const struct fid *mr)
{
    struct entry *e = hmem_entries;

    while (e < hmem_entries + ENTRIES && (e->mr == NULL || &e->mr->fid != mr))
        e++;
    if (e == hmem_entries + ENTRIES)
        hmem_die("a registration that is none");
    return e;
}

static int hmem_mr_close(struct fid *mr)
{
    struct entry *e;
    int rc;

    pthread_mutex_lock(&hmem_lock);
    e = hmem_entry_of(mr);
    if (e->outside != NULL && hmem_outside(e->base, e->bytes) != e->outside)
        hmem_die("memory of the device ends before its registration");
    if (e->outside != NULL)
        fake_hmem_counts.live--;
    mr->ops = e->ops;
    e->mr = NULL;
    pthread_mutex_unlock(&hmem_lock);
    rc = mr->ops->close(mr);
    return rc;
}

/* The registration has a descriptor of this file. */
static void hmem_record(struct fid_mr *mr, const void *base, uint8_t *outside, size_t bytes)
{
    struct entry *e = hmem_entries;

    while (e < hmem_entries + ENTRIES && e->mr != NULL)
        e++;
    if (e == hmem_entries + ENTRIES)
        hmem_die("more than %d registrations", ENTRIES);
    *e = (struct entry){.mr = mr,
                        .ops = mr->fid.ops,
                        .own_ops = *mr->fid.ops,
                        .desc = mr->mem_desc,
                        .base = base,
                        .outside = outside,
                        .bytes = bytes};
    e->own_ops.close = hmem_mr_close;
    mr->fid.ops = &e->own_ops;
    mr->mem_desc = e;
}

static int hmem_reg(struct fid *domain, const void *base, size_t bytes, uint64_t access,
                    uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                    void *context)
{
    int rc;

    pthread_mutex_lock(&hmem_lock);
    if (hmem_outside(base, 1) != NULL)
        hmem_die("memory of the device is registered as memory of the host");
    rc = hmem_mr_ops->reg(domain, base, bytes, access, offset, key, flags, mr, context);
    if (rc == 0)
        hmem_record(*mr, base, NULL, bytes);
    pthread_mutex_unlock(&hmem_lock);
    return rc;
}

static int hmem_regattr(struct fid *domain, const struct fi_mr_attr *attr, uint64_t flags,
                        struct fid_mr **mr)
{
    const struct iovec *range = attr->mr_iov;
    uint8_t *outside;
    int rc;

    if (attr->iov_count != 1 || attr->iface != FI_HMEM_CUDA ||
        attr->device.cuda != FAKE_HMEM_NUMBER || flags != 0)
        hmem_die("memory of a device of kind %d, number %d", attr->iface, attr->device.cuda);
    if (fake_hmem_counts.live >= fake_hmem_limits.registers)
        return -FI_EOPNOTSUPP;
    pthread_mutex_lock(&hmem_lock);
    outside = hmem_outside(range->iov_base, range->iov_len);
    if (outside == NULL)
        hmem_die("memory of the host is registered as that of a device");
    if (!hmem_is_all(range->iov_base, range->iov_len))
        hmem_die("%zu bytes are registered of a larger memory of the device", range->iov_len);
    rc = hmem_mr_ops->reg(domain, outside, range->iov_len, attr->access, attr->offset,
                          attr->requested_key, 0, mr, attr->context);
    if (rc == 0) {
        hmem_record(*mr, range->iov_base, outside, range->iov_len);
        fake_hmem_counts.live++;
    }
    pthread_mutex_unlock(&hmem_lock);
    return rc;
}

/* ---- transfers ---- */

static struct fi_ops_rma *hmem_rma_ops;

/* Checks a range of this process, and puts in its place what the provider may access. True: it is memory of the device. */
static bool hmem_translate(struct iovec *range, void **desc)
{
    const struct entry *e = *desc;
    uint8_t *at = range->iov_base, *outside = hmem_outside(at, range->iov_len);

    if (e != NULL && (e < hmem_entries || e >= hmem_entries + ENTRIES || e->mr == NULL ||
                      (uintptr_t)at - (uintptr_t)e->base >= e->bytes ||
                      range->iov_len > e->bytes - (size_t)(at - e->base)))
        hmem_die("%zu bytes at %p with a descriptor of other memory", range->iov_len, (void *)at);
    if (outside != NULL && (e == NULL || e->outside == NULL))
        hmem_die("memory of the device without the descriptor of its registration");
    if (outside == NULL && e == NULL && fake_hmem_limits.local)
        hmem_die("FI_MR_LOCAL: memory of the host without a descriptor");
    if (outside != NULL)
        range->iov_base = outside;
    *desc = e != NULL ? e->desc : NULL;
    return outside != NULL;
}

static ssize_t hmem_move(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags,
                         bool fetch)
{
    struct iovec range[RANGES];
    void *desc[RANGES] = {NULL};
    struct fi_msg_rma changed = *message;
    size_t of_device = 0;
    ssize_t rc;

    if (message->iov_count > RANGES)
        hmem_die("%zu ranges", message->iov_count);
    pthread_mutex_lock(&hmem_lock);
    for (size_t i = 0; i < message->iov_count; i++) {
        range[i] = message->msg_iov[i];
        desc[i] = message->desc != NULL ? message->desc[i] : NULL;
        of_device += hmem_translate(&range[i], &desc[i]);
    }
    pthread_mutex_unlock(&hmem_lock);
    if (of_device > 0 && of_device < message->iov_count)
        hmem_die("an operation with memory of the host and of the device");
    if (of_device > 0 && (flags & FI_INJECT) != 0)
        hmem_die("memory of the device is to be injected");
    changed.msg_iov = range;
    changed.desc = desc;
    rc = fetch ? hmem_rma_ops->readmsg(ep, &changed, flags)
               : hmem_rma_ops->writemsg(ep, &changed, flags);
    fake_hmem_counts.moved += rc == 0 && of_device > 0;
    return rc;
}

static ssize_t hmem_writemsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    return hmem_move(ep, message, flags, false);
}

static ssize_t hmem_readmsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    return hmem_move(ep, message, flags, true);
}

/* ---- objects ---- */

static struct fi_ops_fabric *hmem_fabric_ops;
static struct fi_ops_domain *hmem_domain_ops;

/* The same without what the provider does not have. */
static struct fi_info *hmem_strip(const struct fi_info *info)
{
    struct fi_info *plain = fi_dupinfo(info);

    if (plain == NULL)
        hmem_die("no memory");
    plain->caps &= ~FI_HMEM;
    if (plain->tx_attr != NULL)
        plain->tx_attr->caps &= ~FI_HMEM;
    if (plain->rx_attr != NULL)
        plain->rx_attr->caps &= ~FI_HMEM;
    if (plain->domain_attr != NULL)
        plain->domain_attr->mr_mode &= ~(FI_MR_HMEM | FI_MR_LOCAL | FI_MR_VIRT_ADDR);
    return plain;
}

static int hmem_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    static struct fi_ops_rma rma;
    struct fi_info *plain = hmem_strip(info);
    int rc = hmem_domain_ops->endpoint(domain, plain, ep, context);

    fi_freeinfo(plain);
    if (rc != 0 || info->ep_attr->type != FI_EP_RDM) /* the others are the provider's own */
        return rc;
    hmem_rma_ops = (*ep)->rma;
    rma = *hmem_rma_ops;
    rma.writemsg = hmem_writemsg;
    rma.readmsg = hmem_readmsg;
    (*ep)->rma = &rma;
    return 0;
}

static int hmem_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    static struct fi_ops_domain ops;
    static struct fi_ops_mr mr;
    const bool hmem = (info->caps & FI_HMEM) != 0;
    struct fi_info *plain = hmem_strip(info);
    int rc = hmem && fake_hmem_limits.opens_not
                 ? -FI_ENODEV
                 : hmem_fabric_ops->domain(fabric, plain, domain, context);

    fi_freeinfo(plain);
    if (rc != 0)
        return rc;
    hmem_domain_ops = (*domain)->ops;
    hmem_mr_ops = (*domain)->mr;
    ops = *hmem_domain_ops;
    ops.endpoint = hmem_endpoint;
    mr = *hmem_mr_ops;
    mr.reg = hmem_reg;
    if (hmem)
        mr.regattr = hmem_regattr;
    (*domain)->ops = &ops;
    (*domain)->mr = &mr;
    return 0;
}

static void *hmem_original(const char *name)
{
    void *of = dlsym(RTLD_NEXT, name);

    if (of == NULL)
        hmem_die("%s", dlerror());
    return of;
}

__attribute__((visibility("default"))) int fi_fabric(struct fi_fabric_attr *attr,
                                                     struct fid_fabric **fabric, void *context)
{
    static struct fi_ops_fabric ops;
    int (*call)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    int rc;

    *(void **)&call = hmem_original("fi_fabric");
    rc = call(attr, fabric, context);
    if (rc != 0)
        return rc;
    hmem_fabric_ops = (*fabric)->ops;
    ops = *hmem_fabric_ops;
    ops.domain = hmem_domain;
    (*fabric)->ops = &ops;
    return 0;
}

__attribute__((visibility("default"))) int fi_getinfo(uint32_t version, const char *node,
                                                      const char *service, uint64_t flags,
                                                      const struct fi_info *hints,
                                                      struct fi_info **info)
{
    int (*call)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                struct fi_info **);
    const bool asks = hints != NULL && (hints->caps & FI_HMEM) != 0;
    struct fi_info *plain = hints != NULL ? hmem_strip(hints) : NULL;
    const uint64_t mode =
        hints != NULL && hints->domain_attr != NULL ? (uint64_t)hints->domain_attr->mr_mode : 0;
    int rc = -FI_ENODATA;

    *(void **)&call = hmem_original("fi_getinfo");
    fake_hmem_counts.requests += asks;
    if (!asks || (!fake_hmem_limits.none && (mode & FI_MR_HMEM) != 0))
        rc = call(version, node, service, flags, plain, info);
    if (plain != NULL)
        fi_freeinfo(plain);
    for (struct fi_info *i = rc == 0 ? *info : NULL; i != NULL; i = i->next) {
        if (fake_hmem_limits.local)
            i->domain_attr->mr_mode |= FI_MR_LOCAL;
        if (!asks)
            continue;
        i->caps |= FI_HMEM;
        i->domain_attr->mr_mode |= FI_MR_HMEM;
        if (fake_hmem_limits.unordered)
            i->tx_attr->msg_order = i->rx_attr->msg_order = 0;
    }
    return rc;
}

/* ---- the program ---- */

__attribute__((constructor)) static void hmem_begin(void)
{
    (void)setenv("RPIPE_BTL", "ofi", 0);
    (void)setenv("RPIPE_OFI_PROVIDER", fi_version() < FI_VERSION(1, 18) ? "net" : "tcp", 0);
    (void)setenv("RPIPE_OFI_HMEM", "yes", 0); /* a test may open pipes of the host first */
    (void)setenv("PAIR_NET", "1", 0);
    (void)setenv("PAIR_BTL", "ofi", 0);
    (void)setenv("PAIR_ONLY", "0", 0);
}

__attribute__((destructor)) static void hmem_end(void)
{
    if (fake_hmem_counts.live != 0)
        hmem_die("%d registrations of memory of the device are left", fake_hmem_counts.live);
}
