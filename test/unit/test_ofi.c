/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_ofi.c: the libfabric backend over a completion queue that is made here, and fails; which addresses stay; how many operations a
 * write is; and which device it takes. What a real provider does, test/btl/conform tests.
 */
#include "btl/ofi/address.h"
#include "btl/ofi/fabric.h"
#include "btl/ofi/operation.h"
#include "btl/ofi/progress.h"
#include "btl/ofi/ordered.h"

#include "util/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct btl_ops btl_ofi_ops;

static ssize_t overrun(struct fid_cq *cq, void *entries, size_t count)
{
    (void)cq, (void)entries, (void)count;
    return -FI_EOVERRUN;
}

static int failures;
static void connection_failed(void) { failures++; }

static void line_begin(struct btl *btl, struct btl_connection *line, struct ofi_op *op,
                       struct btl_done *done)
{
    memset(line, 0, sizeof(*line));
    memset(op, 0, sizeof(*op));
    line->btl = btl;
    line->endpoint = &btl->rma;
    list_init(&line->ops);
    list_init(&line->stuck);
    list_append(&btl->rma.connections, &line->link);
    op->connection = line;
    op->done = done;
    list_append(&line->ops, &op->link);
    *done = (struct btl_done){1, 0};
}

/* Nothing that is outstanding would ever be complete: every connection fails, and each waiting call returns the error. */
static void test_lines_fail_with_their_queue(void **state)
{
    struct fi_ops_cq ops = {.size = sizeof(ops), .read = overrun};
    struct fid_cq cq = {.ops = &ops};
    struct btl btl = {.host = {.connection_failed = connection_failed}};
    struct btl_connection line[2];
    struct btl_done done[2];
    struct ofi_op op[2];
    struct error err = {""};
    int i;

    (void)state;
    log_set_level(LOG_ERROR);
    btl.rma.cq = &cq;
    snprintf(btl.rma.provider, sizeof(btl.rma.provider), "fake");
    ofi_endpoint_init(&btl.rma, &btl, NULL);
    for (i = 0; i < 2; i++)
        line_begin(&btl, &line[i], &op[i], &done[i]);
    progress_drive(&btl.rma);
    progress_drive(&btl.rma);
    assert_int_equal(failures, 2);
    for (i = 0; i < 2; i++) {
        assert_int_equal(btl_ofi_ops.connection_state(&line[i], &err), -EIO);
        assert_non_null(strstr(err.text, "fi_cq_read"));
        assert_int_equal(done[i].pending, 0);
        assert_int_equal(done[i].error, -EIO);
    }
}

/* ---- operations of a write ---- */

/* Order between operations includes nothing within one: udp;ofi_rxd takes several ranges, too. */
static void test_which_providers_take_payload_and_slot_together(void **state)
{
    static const struct {
        const char *provider;
        size_t near, far;
        uint64_t order;
        bool joins;
    } known[] = {
        {"sockets", 8, 8, FI_ORDER_STRICT | FI_ORDER_DATA, true},
        {"any", 2, 2, FI_ORDER_DATA, true},
        {"any", 1, 2, FI_ORDER_DATA, false},
        {"any", 2, 1, FI_ORDER_DATA, false},
        {"tcp", 4, 1, FI_ORDER_STRICT, false},
        {"any", 4, 4, FI_ORDER_STRICT, false},
        {"udp;ofi_rxd", 4, 4, FI_ORDER_NONE, false},
        {"tcp;ofi_rxd", 4, 4, FI_ORDER_NONE, false},
        {"verbs;ofi_rxm", 4, 4, FI_ORDER_NONE, false},
        {"tcpx", 4, 4, FI_ORDER_NONE, false},
#if defined(__x86_64__) || defined(__i386__)
        {"tcp", 4, 4, FI_ORDER_STRICT, true},
        {"tcp;ofi_rxm", 4, 4, FI_ORDER_NONE, true},
        {"net", 4, 4, FI_ORDER_STRICT, true},
#endif
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char name[32];
        struct fi_tx_attr tx = {.iov_limit = known[i].near, .rma_iov_limit = known[i].far};
        struct fi_rx_attr rx = {.comp_order = known[i].order};
        struct fi_fabric_attr fabric = {.prov_name = name};
        struct fi_info info = {.tx_attr = &tx, .rx_attr = &rx, .fabric_attr = &fabric};

        snprintf(name, sizeof(name), "%s", known[i].provider);
        if (fabric_joins(&info) != known[i].joins)
            fail_msg("%s, row %zu", name, i);
    }
}

#define WRITES_MOST 8

static struct written {
    size_t ranges, bytes[2];
} written[WRITES_MOST];
static size_t writes, accepts;

static ssize_t write_ranges(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    (void)ep, (void)flags;
    if (writes == accepts)
        return -FI_EAGAIN;
    assert_in_range(m->iov_count, 1, 2);
    assert_int_equal(m->iov_count, m->rma_iov_count);
    written[writes] = (struct written){m->iov_count, {0}};
    for (size_t i = 0; i < m->iov_count; i++) {
        assert_int_equal(m->msg_iov[i].iov_len, m->rma_iov[i].len);
        assert_true(m->msg_iov[i].iov_len > 0);
        written[writes].bytes[i] = m->msg_iov[i].iov_len;
    }
    writes++;
    return 0;
}

static void assert_written(size_t i, size_t first, size_t second)
{
    assert_true(i < writes);
    assert_int_equal(written[i].ranges, second > 0 ? 2 : 1);
    assert_int_equal(written[i].bytes[0], first);
    assert_int_equal(written[i].bytes[1], second);
}

/* What the provider does not accept at first, it gets later, as it would have been. */
static void test_operations_of_a_write(void **state)
{
    static char memory[4096];
    struct fi_ops_rma rma = {.size = sizeof(rma), .writemsg = write_ranges};
    struct fid_ep ep = {.rma = &rma};
    struct btl btl = {0};
    struct btl_connection line = {.btl = &btl, .endpoint = &btl.rma, .connected = true};
    struct ofi_part slot = {.local = memory, .bytes = OFI_SLOT};

    (void)state;
    ofi_endpoint_init(&btl.rma, &btl, NULL);
    list_init(&line.stuck);
    btl.rma.ep = &ep;
    btl.rma.ordered = true;
    btl.rma.most = btl.rma.ordered_most = 1000;
    for (int joined = 0; joined < 2; joined++) {
        btl.rma.joined = joined ? 1000 : 0;
        writes = 0, accepts = WRITES_MOST;
        line.rest = (struct ofi_part){.local = memory, .bytes = 1000 - OFI_SLOT};
        line.rest_slot = slot;
        assert_int_equal(ordered_continue(&line), 0);
        assert_int_equal(writes, joined ? 1 : 2);
        assert_written(0, 1000 - OFI_SLOT, joined ? OFI_SLOT : 0);
        assert_int_equal(line.counts.work_requests, joined ? 3 : 2);
        line.rest = (struct ofi_part){.local = memory, .bytes = 1001 - OFI_SLOT};
        line.rest_slot = slot;
        writes = 0;
        assert_int_equal(ordered_continue(&line), 0);
        assert_int_equal(writes, 2);
        assert_written(0, 1001 - OFI_SLOT, 0);
        assert_written(1, OFI_SLOT, 0);
        line.counts.work_requests = 2;
    }
    /* longer than an operation: its last part, with the slot */
    line.rest = (struct ofi_part){.local = memory, .bytes = 2500};
    line.rest_slot = slot;
    writes = 0, accepts = 2;
    assert_int_equal(ordered_continue(&line), -EAGAIN);
    accepts = WRITES_MOST;
    assert_int_equal(ordered_continue(&line), 0);
    assert_int_equal(writes, 3);
    assert_written(2, 500, OFI_SLOT);
    assert_int_equal(line.rest.bytes + line.rest_slot.bytes, 0);
    /* a slot alone */
    line.rest_slot = slot;
    writes = 0;
    assert_int_equal(ordered_continue(&line), 0);
    assert_int_equal(writes, 1);
    assert_written(0, OFI_SLOT, 0);
}

/* ---- the address of a rank ---- */

#define RANKS 1000

static int inserted, removed;

static int av_insert(struct fid_av *av, const void *name, size_t count, fi_addr_t *to,
                     uint64_t flags, void *context)
{
    (void)av, (void)name, (void)flags, (void)context;
    *to = (fi_addr_t)inserted;
    inserted += (int)count;
    return (int)count;
}

static int av_remove(struct fid_av *av, fi_addr_t *to, size_t count, uint64_t flags)
{
    (void)av, (void)to, (void)flags;
    removed += (int)count;
    return 0;
}

static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .insert = av_insert, .remove = av_remove};
static struct fid_av av = {.ops = &av_ops};

/* A use of the n-th address that there is. */
static struct ofi_peer *peer_of(struct btl *btl, int rank, uint32_t n)
{
    struct btl_address address = {.bytes = offsetof(struct ofi_name, byte) + sizeof(n)};
    struct ofi_peer *p = NULL;
    struct error err = {""};

    memcpy(address.byte + offsetof(struct ofi_name, byte), &n, sizeof(n));
    assert_int_equal(address_get(&btl->rma, rank, &address, &p, &err), 0);
    return p;
}

/* A connection that is closed with an operation outstanding keeps the address until that is complete, and not longer. */
static void test_addresses_of_ranks_that_are_gone_are_removed(void **state)
{
    struct btl btl = {0};
    struct btl_done done;
    struct ofi_op op;

    (void)state;
    removed = 0;
    btl.rma.av = &av;
    pthread_mutex_init(&btl.lock, NULL);
    ofi_endpoint_init(&btl.rma, &btl, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        struct btl_connection *line = aligned_alloc(_Alignof(struct btl_connection), sizeof(*line));

        assert_non_null(line);
        list_init(&btl.rma.spare);
        line_begin(&btl, line, &op, &done);
        list_init(&op.stuck);
        op.endpoint = &btl.rma;
        op.peer = line->peer = rank;
        line->pending = 1;
        line->remote = peer_of(&btl, rank, (uint32_t)rank);
        btl_ofi_ops.connection_close(line);
        address_rank_gone(&btl.rma, rank);
        assert_int_equal(removed, rank);
        operation_put(&op);
        assert_int_equal(removed, rank + 1);
    }
    assert_int_equal(btl.rma.peers.used, 0);
    address_free_all(&btl.rma);
}

/* A rank has one address, which stays for its next connection. Of one that sends others few stay, besides those in use. */
static void test_addresses_of_a_rank_are_few(void **state)
{
    struct btl btl = {0};
    struct ofi_peer *used, *other;

    (void)state;
    inserted = removed = 0;
    btl.rma.av = &av;
    for (int i = 0; i < 1000; i++)
        address_put(&btl.rma, peer_of(&btl, 1, 1));
    assert_true(inserted == 1 && removed == 0);
    used = peer_of(&btl, 2, 2);
    for (uint32_t n = 0; n < 10000; n++)
        address_put(&btl.rma, peer_of(&btl, 2, 1000 + n));
    assert_true(btl.rma.peers.used <= 8 && inserted - removed == (int)btl.rma.peers.used);
    assert_ptr_equal(peer_of(&btl, 2, 2), used);
    address_put(&btl.rma, used);
    /* an address that two ranks have sent stays as long as one of them is there, and uses it */
    other = peer_of(&btl, 3, 2);
    assert_ptr_equal(other, used);
    address_put(&btl.rma, used);
    address_rank_gone(&btl.rma, 2);
    assert_int_equal(btl.rma.peers.used, 2);
    assert_ptr_equal(peer_of(&btl, 3, 2), other);
    address_put(&btl.rma, other);
    address_put(&btl.rma, other);
    address_put(&btl.rma, peer_of(&btl, 1, 1));
    assert_int_equal(btl.rma.peers.used, 2);
    for (int rank = 1; rank <= 3; rank++)
        address_rank_gone(&btl.rma, rank);
    assert_int_equal(btl.rma.peers.used, 0);
    assert_int_equal(btl.rma.ranks.used, 0);
    assert_int_equal(inserted, removed);
    address_free_all(&btl.rma);
}

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double ranks_come_and_go(struct btl *btl)
{
    double began = processor_seconds();

    for (int rank = 0; rank < RANKS; rank++) {
        address_put(&btl->rma, peer_of(btl, rank, (uint32_t)rank));
        address_rank_gone(&btl->rma, rank);
    }
    return processor_seconds() - began;
}

#define OTHERS 20000
#define COSTS_MOST 30.0 /* a scan of all addresses makes it more than 1,000 */

/* The end of a rank costs what that rank has. */
static void test_the_end_of_a_rank_is_no_scan(void **state)
{
    struct btl btl = {0};
    double alone, beside;

    (void)state;
    btl.rma.av = &av;
    (void)ranks_come_and_go(&btl);
    alone = ranks_come_and_go(&btl);
    for (uint32_t n = 0; n < OTHERS; n++)
        (void)peer_of(&btl, RANKS, RANKS + n);
    beside = ranks_come_and_go(&btl);
    print_message("%d ranks: %.3f ms, with %d addresses of another one %.3f ms\n", RANKS,
                  alone * 1e3, OTHERS, beside * 1e3);
    assert_true(beside <= COSTS_MOST * alone);
    address_free_all(&btl.rma);
}

static const char *device = "", *provider = "";
static const char *setting(const char *name)
{
    if (strcmp(name, "RPIPE_OFI_DOMAIN") == 0)
        return device;
    return strcmp(name, "RPIPE_OFI_PROVIDER") == 0 ? provider : "";
}

/* RPIPE_OFI_DOMAIN is obeyed, or an error is reported. */
static void test_the_device_that_was_asked_for(void **state)
{
    const struct btl_host host = {.setting = setting, .address = ""};
    struct ofi_endpoint e = {0};
    struct error err = {""};

    (void)state;
    device = "no-such-device";
    assert_int_equal(fabric_open(&host, &e, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "no-such-device"));
    device = "lo";
    memset(&e, 0, sizeof(e));
    if (fabric_open(&host, &e, &err) != 0) { /* a machine without a provider there */
        print_message("%s\n", err.text);
        return;
    }
    assert_string_equal(e.info->domain_attr->name, "lo");
    fabric_close(&e);
    fabric_close_domain(&e);
}

/* What an endpoint with these settings logs; its provider in `name`, "" if there is none. */
static const char *logged_by_open(const char *wanted, char name[64])
{
    const struct btl_host host = {.setting = setting, .address = ""};
    int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
    struct ofi_endpoint e = {0};
    struct error err = {""};
    static char text[1000];
    ssize_t n;

    device = "";
    provider = wanted;
    *name = '\0';
    log_set_level(LOG_WARN);
    assert_true(log >= 0 && before >= 0 && dup2(log, STDERR_FILENO) >= 0);
    if (fabric_open(&host, &e, &err) == 0) {
        snprintf(name, 64, "%s", e.provider);
        fabric_close(&e);
        fabric_close_domain(&e);
    }
    (void)dup2(before, STDERR_FILENO);
    n = pread(log, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(before);
    close(log);
    print_message("%s: %s", name, *text != '\0' ? text : "nothing is logged\n");
    return text;
}

static bool is_over_sockets(const char *name)
{
    return strncmp(name, "tcp", 3) == 0 || strncmp(name, "net", 3) == 0 ||
           strncmp(name, "sockets", 7) == 0 || strncmp(name, "udp", 3) == 0;
}

/* One over sockets is taken if it is named, if it can crash with a warning of one line, and is not chosen by itself. */
static void test_a_provider_over_sockets_has_to_be_named(void **state)
{
    static const char *const names[] = {"", "tcp", "net"};
    const struct btl_host host = {.setting = setting, .address = ""};
    struct error err;
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *text = logged_by_open(names[i], name);
        const bool old = fi_version() < FI_VERSION(1, 18) && strcmp(name, "tcp;ofi_rxm") == 0;
        const bool sockets = is_over_sockets(name);

        assert_true((strstr(text, "warning: ofi: provider tcp;ofi_rxm") != NULL) == old);
        assert_true(!old || strchr(text, '\n') == text + strlen(text) - 1);
        err.text[0] = '\0';
        assert_int_equal(btl_ofi_ops.suitable(&host, &err), sockets && i == 0 ? -ENOTSUP : 0);
        assert_true((strstr(err.text, "RPIPE_OFI_PROVIDER") != NULL) == (sockets && i == 0));
        if (i == 0) { /* rmalloc_info */
            err.text[0] = '\0';
            (void)btl_ofi_ops.query(&err);
            assert_true((strstr(err.text, "has to be named") != NULL) == sockets);
        }
        if (*err.text != '\0')
            print_message("%s\n", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_fail_with_their_queue),
        cmocka_unit_test(test_which_providers_take_payload_and_slot_together),
        cmocka_unit_test(test_operations_of_a_write),
        cmocka_unit_test(test_addresses_of_ranks_that_are_gone_are_removed),
        cmocka_unit_test(test_addresses_of_a_rank_are_few),
        cmocka_unit_test(test_the_end_of_a_rank_is_no_scan),
        cmocka_unit_test(test_the_device_that_was_asked_for),
        cmocka_unit_test(test_a_provider_over_sockets_has_to_be_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
