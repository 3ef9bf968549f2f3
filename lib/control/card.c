/* SPDX-License-Identifier: BSD-3-Clause */
/* card.c: see card.h. */
#include "control/card.h"

#include "btl/btl.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int card_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The kernel's boot id, "xxxxxxxx-xxxx-...", as 16 bytes. */
static bool card_read_boot_id(uint8_t id[16])
{
    char text[40];
    ssize_t length, i;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), digits = 0;

    if (fd < 0)
        return false;
    length = read(fd, text, sizeof(text));
    close(fd);
    memset(id, 0, 16);
    for (i = 0; i < length && digits < 32; i++) {
        int d = card_hex_digit(text[i]);

        if (d < 0)
            continue;
        id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | d);
        digits++;
    }
    return digits == 32;
}

int card_make(struct card *card, int rank, struct error *err)
{
    struct stat st;

    memset(card, 0, sizeof(*card));
    card->magic = CARD_MAGIC;
    card->bytes = sizeof(*card);
    card->versions = control_versions();
    card->features = CONTROL_FEATURES;
    card->rank = (uint32_t)rank;
    card->pid = (uint32_t)getpid();
    card->backends = btl_probe();
    if (getrandom(card->cookie, COOKIE_BYTES, 0) != COOKIE_BYTES ||
        getrandom(card->process_id, PROCESS_ID_BYTES, 0) != PROCESS_ID_BYTES)
        return error_set(err, -EIO, "getrandom(2) for the cookie of this rank: %s",
                         strerror(errno));
    if (card_read_boot_id(card->boot_id) && stat("/proc/self/ns/net", &st) == 0)
        card->network = (uint64_t)st.st_ino;
    else
        log_info("/proc does not show the boot id and the network namespace: every "
                 "other rank is "
                 "considered remote");
    if (stat("/proc/self/ns/pid", &st) == 0)
        card->pids = (uint32_t)st.st_ino;
    return 0;
}

int card_check(struct card *card, const void *blob, size_t bytes, int rank, struct error *err)
{
    struct error other = {""};
    struct card c;
    unsigned i;

    if (layout_read(&c, sizeof(c), blob, bytes, CARD_LEAST) != 0 || c.magic != CARD_MAGIC)
        return error_set(err, -EPROTO,
                         "the business card of rank %d, of %zu bytes, is of "
                         "another library, or of version 0.1: all ranks need the same version",
                         rank, bytes);
    error_note(&other, "rank %d", rank);
    if (version_agree(control_versions(), c.versions, "the control network", other.text, err) < 0)
        return -EPROTO;
    for (i = 0; i < CARD_ADDRESSES && i < c.addresses; i++) {
        if (c.address[i].family != 4 && c.address[i].family != 6)
            break;
    }
    if (c.rank != (uint32_t)rank || c.addresses > CARD_ADDRESSES || i < c.addresses ||
        c.unix_bytes > sizeof(c.unix_name))
        return error_set(err, -EPROTO,
                         "the business card of rank %d is malformed (it is of rank %u, with %u "
                         "addresses and a name of %u bytes)",
                         rank, c.rank, c.addresses, c.unix_bytes);
    *card = c;
    return 0;
}

bool card_shows_host(const struct card *card) { return card->network != 0; }

bool card_same_kernel(const struct card *a, const struct card *b)
{
    return card_shows_host(a) && card_shows_host(b) &&
           memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

bool card_same_pids(const struct card *a, const struct card *b)
{
    return card_same_kernel(a, b) && a->pids != 0 && a->pids == b->pids;
}

bool card_same_host(const struct card *a, const struct card *b)
{
    return card_same_kernel(a, b) && a->network == b->network;
}

struct control_host card_host(const struct card *card)
{
    struct control_host host = {{0}};

    static_assert(sizeof(card->boot_id) + sizeof(card->network) == sizeof(host.id) &&
                      sizeof(card->process_id) <= sizeof(host.id),
                  "the parts of an id");
    if (card_shows_host(card) && card->unix_bytes > 0) {
        memcpy(host.id, card->boot_id, sizeof(card->boot_id));
        memcpy(host.id + sizeof(card->boot_id), &card->network, sizeof(card->network));
    } else { /* it shares a host with no other rank */
        memcpy(host.id, card->process_id, sizeof(card->process_id));
    }
    return host;
}

bool cookie_equal(const uint8_t *a, const uint8_t *b)
{
    unsigned difference = 0, i;

    for (i = 0; i < COOKIE_BYTES; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}
