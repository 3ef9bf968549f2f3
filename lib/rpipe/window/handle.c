/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.c: see handle.h. */
#include "rpipe/window/handle.h"

#include "util/crc32c.h"
#include "util/hash.h"

#include <errno.h>
#include <string.h>

uint16_t handle_backend(const char *name)
{
    return (uint16_t)hash_bytes(HASH_BASIS, name, strlen(name));
}

uint32_t handle_access(int flags)
{
    return flags == RWINDOW_READ    ? BTL_PEER_READS
           : flags == RWINDOW_WRITE ? BTL_PEER_WRITES
                                    : BTL_PEER_ATOMICS; /* both */
}

static uint32_t handle_crc(const struct window_wire *w)
{
    uint64_t word[sizeof(*w) / sizeof(uint64_t)];
    struct window_wire copy = *w;

    copy.crc = 0;
    memcpy(word, &copy, sizeof(word));
    return crc32c_words(UINT32_MAX, word, sizeof(word) / sizeof(word[0]));
}

void handle_seal(struct window_wire *w)
{
    w->magic = HANDLE_MAGIC;
    w->version = HANDLE_VERSION;
    w->crc = handle_crc(w);
}

int handle_check(const rwindow_handle_t *handle, uint64_t process, int user, const char *backend,
                 struct window_wire *w, struct error *err)
{
    memcpy(w, handle, sizeof(*w));
    if (w->magic != HANDLE_MAGIC || w->version != HANDLE_VERSION || w->crc != handle_crc(w))
        return error_set(err, -EPROTO,
                         "the handle is damaged, or none of this version (magic 0x%x, version %u)",
                         w->magic, w->version);
    if (w->process != process)
        return error_set(err, -EPROTO, "window %u is of another process than the peer of this pipe",
                         w->number);
    if (w->user != (uint32_t)user)
        return error_set(err, -EPROTO, "window %u is open to rank %u; this is rank %d", w->number,
                         w->user, user);
    if (w->backend != handle_backend(backend))
        return error_set(err, -EPROTO,
                         "window %u is open by another backend than %s, that of this pipe",
                         w->number, backend);
    if (w->bytes == 0 || (w->access & (RWINDOW_READ | RWINDOW_WRITE)) == 0 ||
        (w->access & ~(RWINDOW_READ | RWINDOW_WRITE | HANDLE_DEVICE)) != 0)
        return error_set(err, -EPROTO, "window %u has %llu bytes and access 0x%x", w->number,
                         (unsigned long long)w->bytes, w->access);
    return 0;
}
