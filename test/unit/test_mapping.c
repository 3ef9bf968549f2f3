/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments that a peer has announced: an id that was announced is not waited for, whatever has become of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* its module exports the backend alone */
#include "btl/shm/mapping.c" /* NOLINT(bugprone-suspicious-include) */

#include <errno.h>

enum { PEER = 3, OTHER = 4, BYTES = 4096, MOST = MAPPING_MOST };

static int borrow(struct mapping_table *table, int peer, uint64_t id)
{
    const struct btl_key key = {{id, 0, BYTES, BTL_PEER_WRITES}};
    struct btl_remote remote = {0};
    struct error err = {""};

    return mapping_borrow(table, peer, &key, BYTES, BTL_PEER_WRITES, &remote, &err);
}

/* Without a descriptor: recorded, and not mapped. */
static void announce(struct mapping_table *table, int peer, uint64_t id)
{
    mapping_announced(table, peer, id, BTL_PEER_WRITES, BYTES, -1);
}

static void announced(void **state)
{
    struct mapping_table table;

    (void)state;
    mapping_table_init(&table, 0);
    assert_int_equal(borrow(&table, PEER, 1), -EAGAIN);
    for (uint64_t id = 1; id <= MOST; id++)
        announce(&table, PEER, id);
    assert_int_equal(borrow(&table, PEER, MOST), -EMFILE);
    assert_int_equal(borrow(&table, PEER, MOST + 1), -EAGAIN);
    announce(&table, PEER, MOST + 1); /* too many: refused, and never there */
    assert_int_equal(borrow(&table, PEER, MOST + 1), -EPROTO);
    assert_int_equal(borrow(&table, PEER, MOST + 2), -EAGAIN);
    assert_int_equal(borrow(&table, OTHER, 1), -EAGAIN);
    assert_int_equal(borrow(&table, PEER, UINT64_C(1) << MAPPING_ID_BITS), -EPROTO);
    mapping_table_destroy(&table);
}

static void revoked(void **state)
{
    struct mapping_table table;

    (void)state;
    mapping_table_init(&table, 0);
    announce(&table, PEER, 1);
    announce(&table, PEER, 2);
    mapping_revoked(&table, PEER, 2);
    assert_int_equal(borrow(&table, PEER, 2), -EPROTO);
    mapping_revoked(&table, PEER, 1); /* the peer has none any more */
    assert_int_equal(borrow(&table, PEER, 1), -EPROTO);
    assert_int_equal(borrow(&table, PEER, 3), -EAGAIN);
    announce(&table, PEER, 3);
    assert_int_equal(borrow(&table, PEER, 3), -EMFILE);
    mapping_peer_gone(&table, PEER); /* its numbers begin anew */
    assert_int_equal(borrow(&table, PEER, 1), -EAGAIN);
    mapping_peer_gone(&table, PEER);
    mapping_peer_gone(&table, OTHER);
    announce(&table, PEER, 1);
    assert_int_equal(borrow(&table, PEER, 1), -EMFILE);
    mapping_table_destroy(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(announced),
        cmocka_unit_test(revoked),
    };

    return cmocka_run_group_tests_name("mapping", tests, NULL, NULL);
}
