/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_ofi.c: the libfabric backend over a completion queue that is made here, and fails; which addresses stay; and which device it takes. What a real
 * provider does, test/btl/conform tests.
 */
#include "btl/ofi/address.h"
#include "btl/ofi/fabric.h"
#include "btl/ofi/operation.h"
#include "btl/ofi/progress.h"

#include "util/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
    list_append(&btl->connections, &line->link);
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
    list_init(&btl.connections);
    list_init(&btl.stuck);
    list_init(&btl.stuck_connections);
    for (i = 0; i < 2; i++)
        line_begin(&btl, &line[i], &op[i], &done[i]);
    progress_drive(&btl);
    progress_drive(&btl);
    assert_int_equal(failures, 2);
    for (i = 0; i < 2; i++) {
        assert_int_equal(btl_ofi_ops.connection_state(&line[i], &err), -EIO);
        assert_non_null(strstr(err.text, "fi_cq_read"));
        assert_int_equal(done[i].pending, 0);
        assert_int_equal(done[i].error, -EIO);
    }
}

/* ---- the address of a rank ---- */

#define RANKS 1000

static int removed;

static int av_remove(struct fid_av *av, fi_addr_t *to, size_t count, uint64_t flags)
{
    (void)av, (void)to, (void)flags;
    removed += (int)count;
    return 0;
}

static struct ofi_peer *peer_of(struct btl *btl, int rank)
{
    struct ofi_peer *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    p->key = (uint64_t)rank;
    p->rank = rank;
    p->uses = 1;
    assert_int_equal(hash_put(&btl->rma.peers, p->key, p), 0);
    return p;
}

/* A connection that is closed with an operation outstanding keeps the address until that is complete, and not longer. */
static void test_addresses_of_ranks_that_are_gone_are_removed(void **state)
{
    static struct fi_ops_av ops = {.size = sizeof(ops), .remove = av_remove};
    struct fid_av av = {.ops = &ops};
    struct btl btl = {0};
    struct btl_done done;
    struct ofi_op op;

    (void)state;
    btl.rma.av = &av;
    pthread_mutex_init(&btl.lock, NULL);
    list_init(&btl.connections);
    list_init(&btl.stuck);
    list_init(&btl.stuck_connections);
    list_init(&btl.orphans);
    for (int rank = 0; rank < RANKS; rank++) {
        struct btl_connection *line = malloc(sizeof(*line));

        assert_non_null(line);
        list_init(&btl.spare);
        line_begin(&btl, line, &op, &done);
        list_init(&op.stuck);
        op.endpoint = &btl.rma;
        op.peer = line->peer = rank;
        line->pending = 1;
        line->remote = peer_of(&btl, rank);
        btl_ofi_ops.connection_close(line);
        address_rank_gone(&btl.rma, rank);
        assert_int_equal(removed, rank);
        operation_put(&btl, &op);
        assert_int_equal(removed, rank + 1);
    }
    assert_int_equal(btl.rma.peers.used, 0);
    hash_free(&btl.rma.peers);
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

/* One that can crash is taken if it is named, with a warning of one line, and is not chosen by itself. */
static void test_a_provider_that_can_crash_has_to_be_named(void **state)
{
    static const char *const names[] = {"", "tcp", "net"};
    const struct btl_host host = {.setting = setting, .address = ""};
    struct error err;
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *text = logged_by_open(names[i], name);
        const bool old = fi_version() < FI_VERSION(1, 18) && strcmp(name, "tcp;ofi_rxm") == 0;

        assert_true((strstr(text, "warning: ofi: provider tcp;ofi_rxm") != NULL) == old);
        assert_true(!old || strchr(text, '\n') == text + strlen(text) - 1);
        err.text[0] = '\0';
        assert_int_equal(btl_ofi_ops.suitable(&host, &err), old && i == 0 ? -ENOTSUP : 0);
        assert_true((strstr(err.text, "RPIPE_OFI_PROVIDER=tcp") != NULL) == (old && i == 0));
        if (i == 0) { /* rmalloc_info */
            err.text[0] = '\0';
            (void)btl_ofi_ops.query(&err);
            assert_true((strstr(err.text, "has to be named") != NULL) == old);
        }
        if (*err.text != '\0')
            print_message("%s\n", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_fail_with_their_queue),
        cmocka_unit_test(test_addresses_of_ranks_that_are_gone_are_removed),
        cmocka_unit_test(test_the_device_that_was_asked_for),
        cmocka_unit_test(test_a_provider_that_can_crash_has_to_be_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
