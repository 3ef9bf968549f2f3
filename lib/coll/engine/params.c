/* SPDX-License-Identifier: BSD-3-Clause */
/* params.c: see params.h. */
#include "coll/engine/params.h"

#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS_FLAGS (RCOLL_IN_PLACE | RCOLL_ORDERED | RCOLL_VIEWS | RCOLL_COMMUTES)

static bool params_fold(const rcoll_params_t *p)
{
    return p->kind >= RCOLL_REDUCE && p->kind <= RCOLL_EXSCAN;
}

static bool params_have_blocks(const rcoll_params_t *p)
{
    return p->kind >= RCOLL_GATHER || p->kind == RCOLL_REDUCE_SCATTER;
}

static bool params_have_root(const rcoll_params_t *p)
{
    return p->kind == RCOLL_BCAST || p->kind == RCOLL_REDUCE || p->kind == RCOLL_GATHER ||
           p->kind == RCOLL_SCATTER;
}

static size_t params_element(const rcoll_params_t *p)
{
    if (params_fold(p) && p->function == NULL)
        return fold_element_bytes(p->type);
    return p->element == 0 ? 1 : p->element;
}

/* ---- checks ---- */

static int params_check_operator(const rcoll_params_t *p, struct error *err)
{
    if (p->function != NULL && p->element == 0)
        return error_set(err, -EINVAL,
                         "element is 0; with a function it is the bytes of an element");
    if (p->function == NULL && fold_function(p->type, p->op) == NULL)
        return error_set(err, -EINVAL, "type %u has no operator %u; see rgroup_type_t in <rpipe.h>",
                         (unsigned)p->type, (unsigned)p->op);
    return 0;
}

static int params_check_blocks(const struct rteam *t, const rcoll_params_t *p, struct error *err)
{
    if (!params_have_blocks(p) && (p->counts != NULL || p->offsets != NULL))
        return error_set(err, -EINVAL, "counts and offsets are for blocks, and a %s has none",
                         coll_kind_name((enum coll_kind)p->kind));
    if (p->offsets != NULL && p->counts == NULL)
        return error_set(err, -EINVAL, "offsets are given, and counts are not");
    if (p->kind != RCOLL_ALLTOALL && (p->counts_in != NULL || p->offsets_in != NULL))
        return error_set(err, -EINVAL, "counts_in and offsets_in are for alltoall only");
    if (p->offsets_in != NULL && p->counts_in == NULL)
        return error_set(err, -EINVAL, "offsets_in is given, and counts_in is not");
    for (int i = 0; i < t->size && p->counts != NULL; i++)
        if (p->counts[i] > SIZE_MAX / 16 / params_element(p) / (size_t)t->size ||
            (p->offsets != NULL && p->offsets[i] > SIZE_MAX / 16 / params_element(p)))
            return error_set(err, -EINVAL, "block %d has %zu elements, which is too many", i,
                             p->counts[i]);
    return 0;
}

/* Whether this member needs FROM and INTO. */
static void params_need(const struct rteam *t, const rcoll_params_t *p, bool *from, bool *into)
{
    bool root = t->me == p->root, in_place = (p->flags & RCOLL_IN_PLACE) != 0;

    *from = *into = false;
    if (p->kind == RCOLL_BARRIER || p->count == 0 || p->counts != NULL)
        return; /* a block may be empty */
    *from = !in_place;
    *into = true;
    if (p->kind == RCOLL_BCAST || p->kind == RCOLL_SCATTER) {
        *from = root;
        *into = p->kind == RCOLL_SCATTER ? !(root && in_place) : !root;
    } else if (p->kind == RCOLL_REDUCE || p->kind == RCOLL_GATHER) {
        *from = !(root && in_place);
        *into = root;
    } else if (p->kind == RCOLL_EXSCAN && t->me == 0)
        *into = in_place;
    if ((p->flags & RCOLL_VIEWS) != 0 && !in_place)
        *into = false;
}

bool params_have_buffers(const struct rteam *t, const rcoll_params_t *p)
{
    bool from, into;

    if (LIKELY(p->from != NULL && p->into != NULL))
        return true;
    params_need(t, p, &from, &into);
    return (p->from != NULL || !from) && (p->into != NULL || !into);
}

static int params_check_buffers(const struct rteam *t, const rcoll_params_t *p, struct error *err)
{
    bool from, into;

    params_need(t, p, &from, &into);
    if (from && p->from == NULL)
        return error_set(err, -EINVAL, "from is NULL");
    if (into && p->into == NULL)
        return error_set(err, -EINVAL, "into is NULL");
    return 0;
}

int params_check(const struct rteam *t, const rcoll_params_t *p, struct error *err)
{
    int rc;

    if ((unsigned)p->kind >= COLL_KINDS)
        return error_set(err, -EINVAL, "kind is %d; it must be 0 to %d", (int)p->kind,
                         COLL_KINDS - 1);
    if ((p->flags & ~PARAMS_FLAGS) != 0 || p->zero != 0)
        return error_set(err, -EINVAL,
                         "flags is 0x%x and zero is %u; flags are 0x%x, and zero is 0", p->flags,
                         p->zero, PARAMS_FLAGS);
    if (params_have_root(p) ? p->root < 0 || p->root >= t->size : p->root != 0)
        return error_set(err, -EINVAL, "root is %d; it must be %s, and the team has %d members",
                         p->root, params_have_root(p) ? "a member" : "0 for this kind", t->size);
    if (p->element != 0 && params_fold(p) && p->function == NULL)
        return error_set(err, -EINVAL, "element is %zu; it must be 0 where type gives it",
                         p->element);
    if (p->kind != RCOLL_BARRIER && p->count > SIZE_MAX / 16 / params_element(p) / (size_t)t->size)
        return error_set(err, -EINVAL, "count is %zu, which is too many", p->count);
    rc = params_fold(p) ? params_check_operator(p, err) : 0;
    if (rc == 0 && !params_fold(p) && p->function != NULL)
        rc = error_set(err, -EINVAL, "function is given, and a %s combines nothing",
                       coll_kind_name((enum coll_kind)p->kind));
    if (rc == 0)
        rc = params_check_blocks(t, p, err);
    if (rc == 0)
        rc = params_check_buffers(t, p, err);
    return rc;
}

/* ---- as a request ---- */

struct coll_request params_request(const rcoll_params_t *p)
{
    bool commutes = p->function == NULL || (p->flags & RCOLL_COMMUTES) != 0;

    return (struct coll_request){.kind = (enum coll_kind)p->kind,
                                 .order = (p->flags & RCOLL_ORDERED) != 0 ? COLL_FIXED_ORDER
                                          : commutes                      ? COLL_ANY_ORDER
                                                                          : COLL_MEMBER_ORDER,
                                 .root = p->root,
                                 .in_place = (p->flags & RCOLL_IN_PLACE) != 0,
                                 .element = params_element(p),
                                 .count = p->kind == RCOLL_BARRIER ? 0 : p->count,
                                 .counts = p->counts,
                                 .offsets = p->offsets,
                                 .counts_in = p->counts_in,
                                 .offsets_in = p->offsets_in};
}

uint32_t params_hash(const struct rteam *t, const rcoll_params_t *p)
{
    struct coll_request r = params_request(p);
    uint64_t key[] = {r.kind,
                      r.order,
                      (uint64_t)r.root,
                      r.element,
                      r.counts == NULL ? r.count : 0,
                      r.counts != NULL,
                      params_fold(p) ? p->type : 0,
                      params_fold(p) ? p->op : 0,
                      p->function != NULL};
    uint64_t hash = hash_words(HASH_BASIS, key, sizeof(key) / sizeof(*key));

    if (r.counts != NULL && r.kind != COLL_ALLTOALL)
        hash = hash_bytes(hash, r.counts, (size_t)t->size * sizeof(*r.counts));
    return (uint32_t)(hash ^ hash >> 32);
}

/* ---- copies ---- */

static bool params_equal_array(const struct rteam *t, const size_t *a, const size_t *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return memcmp(a, b, (size_t)t->size * sizeof(*a)) == 0;
}

static bool params_equal_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a, b) == 0;
}

/* Most have no array and no text: that is one test for both. */
static inline uintptr_t params_arrays(const rcoll_params_t *p)
{
    return (uintptr_t)p->counts | (uintptr_t)p->offsets | (uintptr_t)p->counts_in |
           (uintptr_t)p->offsets_in | (uintptr_t)p->algorithm;
}

bool params_equal(const struct rteam *t, const rcoll_params_t *a, const rcoll_params_t *b)
{
    if (a->kind != b->kind || a->flags != b->flags || a->root != b->root || a->count != b->count ||
        a->element != b->element || a->type != b->type || a->op != b->op ||
        a->function != b->function || a->argument != b->argument)
        return false;
    if (LIKELY((params_arrays(a) | params_arrays(b)) == 0))
        return true;
    return params_equal_array(t, a->counts, b->counts) &&
           params_equal_array(t, a->offsets, b->offsets) &&
           params_equal_array(t, a->counts_in, b->counts_in) &&
           params_equal_array(t, a->offsets_in, b->offsets_in) &&
           params_equal_text(a->algorithm, b->algorithm);
}

static const size_t *params_copy_array(const struct rteam *t, const size_t *from, bool *failed)
{
    size_t *to;

    if (from == NULL)
        return NULL;
    to = malloc((size_t)t->size * sizeof(*to));
    if (to == NULL)
        *failed = true;
    else
        memcpy(to, from, (size_t)t->size * sizeof(*to));
    return to;
}

int params_copy(const struct rteam *t, rcoll_params_t *to, const rcoll_params_t *p,
                struct error *err)
{
    bool failed = false;

    *to = *p;
    to->counts = params_copy_array(t, p->counts, &failed);
    to->offsets = params_copy_array(t, p->offsets, &failed);
    to->counts_in = params_copy_array(t, p->counts_in, &failed);
    to->offsets_in = params_copy_array(t, p->offsets_in, &failed);
    to->algorithm = p->algorithm != NULL ? strdup(p->algorithm) : NULL;
    if (!failed && (p->algorithm == NULL || to->algorithm != NULL))
        return 0;
    params_free(to);
    return error_set(err, -ENOMEM, "no memory for the counts of %d members", t->size);
}

void params_free(rcoll_params_t *p)
{
    free((void *)(uintptr_t)p->counts);
    free((void *)(uintptr_t)p->offsets);
    free((void *)(uintptr_t)p->counts_in);
    free((void *)(uintptr_t)p->offsets_in);
    free((void *)(uintptr_t)p->algorithm);
    *p = (rcoll_params_t){0};
}
