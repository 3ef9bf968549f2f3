/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers, fields and greetings of messages by tag (lib/msg/wire.h): what is written is read, what is not valid is refused; objects with numbers (pool.h). */
#include "msg/pool.h"
#include "msg/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void headers(void **state)
{
    struct msg_wire w;

    (void)state;
    for (uint32_t kind = 1; kind < MSG_WIRE_KINDS_END; kind++) {
        uint64_t header = msg_wire_header((enum msg_wire_kind)kind, 65535, 0xfffffffe);

        assert_true(msg_wire_parse(header, 17, &w));
        assert_true(w.kind == kind && w.space == 65535 && w.word == 0xfffffffe && w.bytes == 17);
        assert_false(msg_wire_parse(header | 1 << 5, 17, &w));
        assert_false(msg_wire_parse(header | 1 << 7, 17, &w));
        assert_false(msg_wire_parse(header | 1 << 24, 17, &w));
        assert_false(msg_wire_parse(header | UINT64_C(1) << 31, 17, &w));
        for (int bit = 0; bit < 64; bit++) { /* the short tests decide as the long one */
            const uint64_t other = header ^ UINT64_C(1) << bit;
            const bool is_msg = msg_wire_parse(other, 17, &w) && w.kind == MSG_WIRE_MSG;

            assert_int_equal(msg_wire_is_msg(other), is_msg);
            assert_int_equal(msg_wire_is_msg_in(other, 65535), is_msg && w.space == 65535);
        }
    }
    assert_false(msg_wire_parse(msg_wire_header((enum msg_wire_kind)0, 0, 0), 0, &w));
    assert_false(msg_wire_parse(msg_wire_header(MSG_WIRE_KINDS_END, 0, 0), 0, &w));
}

static void fields(void **state)
{
    struct msg_wire_fields
        out = {.id = 1, .extra = 2, .bytes = 3, .where = 6, .seen = 4, .number = 5, .open = 1},
        in;
    struct msg_wire w = {.kind = MSG_WIRE_RTR, .space = 1, .word = 7, .bytes = 40};

    (void)state;
    assert_true(msg_wire_fields(&w, &out, &in));
    assert_memory_equal(&in, &out, sizeof(in));
    w.bytes = 39;
    assert_false(msg_wire_fields(&w, &out, &in));
    w.bytes = 40;
    out.where = 0; /* an open buffer has an address */
    assert_false(msg_wire_fields(&w, &out, &in));
    out.where = 6;
    out.open = MSG_WIRE_WINDOWS_MOST;
    assert_true(msg_wire_fields(&w, &out, &in));
    out.open++;
    assert_false(msg_wire_fields(&w, &out, &in));
    out.open = 1;
    w.word = UINT32_MAX; /* no message has this tag */
    assert_false(msg_wire_fields(&w, &out, &in));
    w = (struct msg_wire){.kind = MSG_WIRE_CTS, .word = 9, .bytes = 24};
    assert_true(msg_wire_fields(&w, &out, &in));
    assert_true(in.id == 1 && in.extra == 2 && in.bytes == 3 && in.where == 6 && in.seen == 0 &&
                in.number == 0);
    out.extra = 0;
    w.space = 1; /* it is about a send, whose space is known */
    assert_false(msg_wire_fields(&w, &out, &in));
    w = (struct msg_wire){.kind = MSG_WIRE_FIN, .word = 9};
    assert_true(msg_wire_fields(&w, NULL, &in));
    w = (struct msg_wire){.kind = MSG_WIRE_WRITTEN, .word = 9};
    assert_true(msg_wire_fields(&w, NULL, &in));
    w = (struct msg_wire){.kind = MSG_WIRE_READY};
    assert_true(msg_wire_fields(&w, NULL, &in));
    w.word = 1;
    assert_false(msg_wire_fields(&w, NULL, &in));
    w = (struct msg_wire){.kind = MSG_WIRE_CELLS}; /* it has no fields */
    assert_false(msg_wire_fields(&w, NULL, &in));
    w = (struct msg_wire){.kind = MSG_WIRE_REFUSED, .word = 9, .bytes = 4};
    assert_true(msg_wire_fields(&w, &out, &in));
    assert_true(in.id == 1 && in.bytes == 0); /* number of the RTR */
    w.bytes = 0;
    assert_false(msg_wire_fields(&w, NULL, &in));
    w = (struct msg_wire){.kind = MSG_WIRE_CREDIT, .word = 0, .bytes = 16};
    assert_false(msg_wire_fields(&w, &out, &in)); /* id */
    out.id = 0;
    assert_true(msg_wire_fields(&w, &out, &in));
    w.word = 1;
    assert_false(msg_wire_fields(&w, &out, &in));
}

static void units(void **state)
{
    (void)state;
    assert_true(msg_wire_units(0) == 1 && msg_wire_units(40) == 1);
    assert_true(msg_wire_units(41) == 2 && msg_wire_units(64) == 2 && msg_wire_units(65) == 3);
}

static void greetings(void **state)
{
    struct msg_wire_hello own, other, in;
    struct error err = {""};

    (void)state;
    msg_wire_hello_init(&own, 1000, 4096);
    other = own;
    assert_int_equal(msg_wire_hello_match(&own, &other, sizeof(other), 3, &in, &err), 0);
    assert_true(in.share == 1000 && in.part_bytes == 4096);
    assert_int_equal(msg_wire_hello_match(&own, &other, 8, 3, &in, &err), -EPROTO);
    other.magic++;
    assert_int_equal(msg_wire_hello_match(&own, &other, sizeof(other), 3, &in, &err), -EPROTO);
    other = own;
    other.share = 1;
    assert_int_equal(msg_wire_hello_match(&own, &other, sizeof(other), 3, &in, &err), -EPROTO);
    assert_non_null(strstr(err.text, "rank 3"));
    other = own;
    other.part_bytes = 39;
    assert_int_equal(msg_wire_hello_match(&own, &other, sizeof(other), 3, &in, &err), -EPROTO);
    other = own;
    other.versions = (struct version_range){77, 78};
    assert_int_equal(msg_wire_hello_match(&own, &other, sizeof(other), 3, &in, &err), -EPROTO);
}

struct object {
    struct pool_item item;
    int value;
};

static uint32_t made;

static void object_made(void *object)
{
    struct object *o = object;

    assert_int_equal(o->value, 0);
    o->value = 7;
    made++;
}

static void numbers_of_objects(void **state)
{
    static struct pool pool;
    struct object *a, *b;
    uint64_t handle;
    uint32_t id;

    (void)state;
    pool_init(&pool, sizeof(struct object), 33 * POOL_CHUNK, object_made);
    assert_null(pool_by_handle(&pool, 0));
    assert_null(pool_by_id(&pool, 1));
    a = pool_get(&pool);
    b = pool_get(&pool);
    assert_true(a != NULL && b != NULL && a != b && pool.used == 2);
    handle = pool_handle(&a->item);
    id = pool_id(&a->item);
    assert_true(handle != 0 && id != 0);
    assert_true((uintptr_t)a % POOL_LINE == 0 && (uintptr_t)b % POOL_LINE == 0);
    assert_true(made == POOL_CHUNK && a->value == 7);
    for (uint64_t generation = 0; generation < 3; generation++) /* the first object is never used */
        assert_null(pool_by_handle(&pool, generation << 32));
    assert_ptr_equal(pool_by_handle(&pool, handle), a);
    assert_ptr_equal(pool_by_id(&pool, id), a);
    pool_put(&pool, &a->item);
    assert_null(pool_by_handle(&pool, handle));
    assert_null(pool_by_id(&pool, id));
    assert_ptr_equal(pool_get(&pool), a); /* the same object with another number */
    assert_null(pool_by_handle(&pool, handle));
    assert_null(pool_by_id(&pool, id));
    for (uint32_t i = 0; i < 2 * POOL_CHUNK; i++)
        assert_non_null(pool_get(&pool));
    assert_int_equal(pool.used, 2 * POOL_CHUNK + 2);
    assert_ptr_equal(pool_by_handle(&pool, pool_handle(&b->item)), b);
    while (pool_get(&pool) != NULL)
        ;
    assert_int_equal(pool.used, 33 * POOL_CHUNK - 1); /* index 0 is no object */
    assert_ptr_equal(pool_by_handle(&pool, pool_handle(&b->item)), b);
    pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers),
        cmocka_unit_test(fields),
        cmocka_unit_test(units),
        cmocka_unit_test(greetings),
        cmocka_unit_test(numbers_of_objects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
