/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk.c: copies between the elements of a type and one block; MPI_Pack, MPI_Unpack.
 *
 * A block that is shorter than the data ends the walk: a short message fills the first elements. The format of MPI_Pack is
 * the data itself.
 */
#include "rmpi.h"

struct walk {
    char *block;
    size_t left; /* bytes of the block */
    bool pack;   /* to the block */
};

static inline void walk_copy(struct walk *w, const char *memory, size_t bytes)
{
    if (RMPI_UNLIKELY(bytes > w->left))
        bytes = w->left;
    if (w->pack)
        memcpy(w->block, memory, bytes);
    else
        memcpy((char *)(uintptr_t)memory, w->block, bytes);
    w->block += bytes;
    w->left -= bytes;
}

/* count blocks of `bytes` at a stride; of 8 and 4 bytes with copies of a constant size */
static void walk_strided(struct walk *w, const char *memory, size_t count, MPI_Aint stride,
                         size_t bytes)
{
    size_t whole = bytes == 0 ? 0 : w->left / bytes;

    if (bytes == 0)
        return;
    if (count < whole)
        whole = count;
    for (size_t i = 0; i < whole; i++, memory += stride) {
        if (bytes == 8)
            walk_copy(w, memory, 8);
        else if (bytes == 4)
            walk_copy(w, memory, 4);
        else
            walk_copy(w, memory, bytes);
    }
    if (whole < count)
        walk_copy(w, memory, bytes); /* what is left */
}

static void walk_elements(struct walk *w, const char *memory, size_t count,
                          const struct rmpi_type *type);

static void walk_element(struct walk *w, const char *memory, const struct rmpi_type *type)
{
    const struct rmpi_type *of = type->of;

    if (type->solid) {
        walk_copy(w, memory + type->true_lb, type->size);
        return;
    }
    if (type->shape == RMPI_LIST) {
        for (size_t i = 0; i < type->count && w->left > 0; i++)
            walk_elements(w, memory + type->parts[i].at, type->parts[i].count, type->parts[i].of);
        return;
    }
    memory += type->at;
    if (of->solid) {
        walk_strided(w, memory + of->true_lb, type->count, type->stride, of->size);
        return;
    }
    for (size_t i = 0; i < type->count && w->left > 0; i++, memory += type->stride)
        walk_element(w, memory, of);
}

static void walk_elements(struct walk *w, const char *memory, size_t count,
                          const struct rmpi_type *type)
{
    if (type->dense) {
        walk_copy(w, memory, count * type->size);
        return;
    }
    if (type->solid) {
        walk_strided(w, memory + type->true_lb, count, type->extent, type->size);
        return;
    }
    for (size_t i = 0; i < count && w->left > 0; i++, memory += type->extent)
        walk_element(w, memory, type);
}

size_t rmpi_pack(void *block, size_t bytes, const void *memory, size_t count,
                 const struct rmpi_type *type)
{
    struct walk w = {.block = block, .left = bytes, .pack = true};

    if (bytes > 0)
        walk_elements(&w, memory, count, type);
    return bytes - w.left;
}

size_t rmpi_unpack(const void *block, size_t bytes, void *memory, size_t count,
                   const struct rmpi_type *type)
{
    struct walk w = {.block = (char *)(uintptr_t)block, .left = bytes};

    if (bytes > 0)
        walk_elements(&w, memory, count, type);
    return bytes - w.left;
}

/* ---- counting ---- */

/* Basic elements that begin the data of one element; takes their bytes from *bytes. */
static size_t walk_count(const struct rmpi_type *type, size_t *bytes)
{
    size_t n = 0;

    if (*bytes >= type->size) {
        *bytes -= type->size;
        return type->basics;
    }
    if (type->shape == RMPI_BASIC)
        return 0;
    for (size_t i = 0; i < type->count; i++) {
        const struct rmpi_type *of = type->shape == RMPI_LIST ? type->parts[i].of : type->of;
        size_t times = type->shape == RMPI_LIST ? type->parts[i].count : 1;

        for (size_t k = 0; k < times; k++) {
            size_t before = *bytes;

            n += walk_count(of, bytes);
            if (before < of->size)
                return n;
        }
    }
    return n;
}

size_t rmpi_elements(const struct rmpi_type *type, size_t bytes, size_t *rest)
{
    size_t whole = type->size == 0 ? 0 : bytes / type->size, n;

    *rest = type->size == 0 ? 0 : bytes % type->size;
    n = whole * type->basics;
    return *rest == 0 ? n : n + walk_count(type, rest);
}

/* ---- MPI_Pack ---- */

int MPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int room, int *position,
             MPI_Comm comm)
{
    int rc = rmpi_check_data("MPI_Pack", in, count, type, comm);
    size_t bytes;

    if (rc != MPI_SUCCESS)
        return rc;
    bytes = (size_t)count * type->size;
    if (*position < 0 || room < *position || bytes > (size_t)(room - *position))
        return rmpi_fail(comm, MPI_ERR_TRUNCATE, "MPI_Pack", "%zu bytes do not fit at %d of %d",
                         bytes, *position, room);
    *position += (int)rmpi_pack((char *)out + *position, bytes, in, (size_t)count, type);
    return MPI_SUCCESS;
}

int MPI_Unpack(const void *in, int bytes, int *position, void *out, int count, MPI_Datatype type,
               MPI_Comm comm)
{
    int rc = rmpi_check_data("MPI_Unpack", out, count, type, comm);
    size_t wanted;

    if (rc != MPI_SUCCESS)
        return rc;
    wanted = (size_t)count * type->size;
    if (*position < 0 || bytes < *position || wanted > (size_t)(bytes - *position))
        return rmpi_fail(comm, MPI_ERR_TRUNCATE, "MPI_Unpack",
                         "%zu bytes are not there at %d of %d", wanted, *position, bytes);
    *position += (int)rmpi_unpack((const char *)in + *position, wanted, out, (size_t)count, type);
    return MPI_SUCCESS;
}

int MPI_Pack_size(int count, MPI_Datatype type, MPI_Comm comm, int *bytes)
{
    if (count < 0 || type == NULL || (size_t)count * type->size > INT32_MAX)
        return rmpi_fail(comm, MPI_ERR_ARG, "MPI_Pack_size", "%d elements of %s", count,
                         type == NULL ? "no type" : "this type have more than INT_MAX bytes");
    *bytes = (int)((size_t)count * type->size);
    return MPI_SUCCESS;
}
