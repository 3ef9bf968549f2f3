/* SPDX-License-Identifier: BSD-3-Clause */
/* model.c: see model.h. */
#include "coll/model.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A core of today with a network of 100 Gbit/s; measured values replace them. */
struct coll_model coll_model_default(void)
{
    return (struct coll_model){.line = 140000,
                               .more = 13000,
                               .yield = 1200000,
                               .copy = 33,
                               .fold = 50,
                               .fetch = 600000,
                               .fetched = 50,
                               .step = 8000,
                               .overhead = 250000,
                               .latency = 1300000,
                               .gap = 100000,
                               .byte = 80,
                               .eager = 65536,
                               .own = 33,
                               .switched = 33,
                               .streamed = 33,
                               .added = 50,
                               .taken = 33,
                               .folded = 50,
                               .refetch = 50,
                               .cache = 1048576,
                               .call = 50000};
}

uint64_t model_add(uint64_t a, uint64_t b)
{
    return a > MODEL_NEVER - (b < MODEL_NEVER ? b : MODEL_NEVER) ? MODEL_NEVER : a + b;
}

uint64_t model_times(uint64_t a, uint64_t b)
{
    uint64_t product;

    if (__builtin_mul_overflow(a, b, &product) || product > MODEL_NEVER)
        return MODEL_NEVER;
    return product;
}

/* ---- messages between hosts ---- */

static uint64_t model_linear(uint64_t least, uint64_t byte, uint64_t bytes)
{
    return model_add(least, model_times(byte, bytes));
}

uint64_t coll_model_sending(const struct coll_model *model, uint64_t bytes)
{
    if (!coll_model_is_long(model, bytes))
        return model_linear(model->overhead, model->gathered > 0 ? model->gathered_byte : 0, bytes);
    return model_linear(model->send, model->send_byte, bytes);
}

uint64_t coll_model_receiving(const struct coll_model *model, uint64_t bytes)
{
    if (!coll_model_is_long(model, bytes))
        return model->overhead;
    return model_linear(model->receive, model->receive_byte, bytes);
}

uint64_t coll_model_interface(const struct coll_model *model, uint64_t bytes)
{
    return model_linear(coll_model_is_long(model, bytes) ? model->call_gap : model->gap,
                        model->byte, bytes);
}

uint64_t coll_model_packets(const struct coll_model *model, uint64_t bytes)
{
    uint64_t whole = bytes / COLL_PACKET, rest = bytes % COLL_PACKET;
    uint64_t time = model_times(whole, coll_model_interface(model, COLL_PACKET));

    return rest == 0 && whole > 0 ? time : model_add(time, coll_model_interface(model, rest));
}

uint64_t coll_model_way(const struct coll_model *model, uint64_t bytes)
{
    if (!coll_model_is_long(model, bytes))
        return model_add(model->latency, coll_model_interface(model, bytes));
    return model_linear(model->way, model->way_byte, bytes);
}

/* ---- text ---- */

enum model_unit { MODEL_NS, MODEL_RATE, MODEL_BYTES };

static const struct model_name {
    const char *name;
    size_t at;
    enum model_unit unit;
} model_names[] = {
    {"L", offsetof(struct coll_model, line), MODEL_NS},
    {"m", offsetof(struct coll_model, more), MODEL_NS},
    {"sigma", offsetof(struct coll_model, yield), MODEL_NS},
    {"Bc", offsetof(struct coll_model, copy), MODEL_RATE},
    {"Bf", offsetof(struct coll_model, fold), MODEL_RATE},
    {"f", offsetof(struct coll_model, fetch), MODEL_NS},
    {"Bx", offsetof(struct coll_model, fetched), MODEL_RATE},
    {"step", offsetof(struct coll_model, step), MODEL_NS},
    {"o", offsetof(struct coll_model, overhead), MODEL_NS},
    {"Ln", offsetof(struct coll_model, latency), MODEL_NS},
    {"g", offsetof(struct coll_model, gap), MODEL_NS},
    {"G", offsetof(struct coll_model, byte), MODEL_NS},
    {"S", offsetof(struct coll_model, eager), MODEL_BYTES},
    {"Lm", offsetof(struct coll_model, multicast), MODEL_NS},
    {"loss", offsetof(struct coll_model, loss), MODEL_NS}, /* percent: thousandths too */
    {"E", offsetof(struct coll_model, gathered), MODEL_BYTES},
    {"Og", offsetof(struct coll_model, gathered_byte), MODEL_NS},
    {"os", offsetof(struct coll_model, send), MODEL_NS},
    {"Os", offsetof(struct coll_model, send_byte), MODEL_NS},
    {"Ll", offsetof(struct coll_model, way), MODEL_NS},
    {"Gl", offsetof(struct coll_model, way_byte), MODEL_NS},
    {"gl", offsetof(struct coll_model, call_gap), MODEL_NS},
    {"or", offsetof(struct coll_model, receive), MODEL_NS},
    {"Or", offsetof(struct coll_model, receive_byte), MODEL_NS},
    {"Bcs", offsetof(struct coll_model, streamed), MODEL_RATE},
    {"Bfs", offsetof(struct coll_model, added), MODEL_RATE},
    {"Bo", offsetof(struct coll_model, own), MODEL_RATE},
    {"Bs", offsetof(struct coll_model, switched), MODEL_RATE},
    {"Bw", offsetof(struct coll_model, taken), MODEL_RATE},
    {"Bfo", offsetof(struct coll_model, folded), MODEL_RATE},
    {"Bxo", offsetof(struct coll_model, refetch), MODEL_RATE},
    {"C", offsetof(struct coll_model, cache), MODEL_BYTES},
    {"op", offsetof(struct coll_model, call), MODEL_NS},
};
#define MODEL_NAMES (sizeof(model_names) / sizeof(*model_names))
#define MODEL_DIGITS_MAX 12

/* A decimal number in thousandths: "0.08" is 80. */
static bool model_read(const char **text, uint64_t *value)
{
    uint64_t number = 0;
    int digits = 0, decimals = -1;

    for (; isdigit((unsigned char)**text) || (**text == '.' && decimals < 0); (*text)++) {
        if (**text == '.') {
            decimals = 0;
            continue;
        }
        if (decimals == 3 || ++digits > MODEL_DIGITS_MAX)
            return false;
        number = number * 10 + (uint64_t)(**text - '0');
        decimals += decimals >= 0;
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++)
        number *= 10;
    *value = number;
    return digits > 0;
}

static const struct model_name *model_find(const char *name, size_t length)
{
    for (size_t i = 0; i < MODEL_NAMES; i++)
        if (strlen(model_names[i].name) == length && memcmp(model_names[i].name, name, length) == 0)
            return &model_names[i];
    return NULL;
}

int coll_model_parse(struct coll_model *model, const char *text, struct error *err)
{
    struct coll_model changed = *model;

    for (;;) {
        const struct model_name *found;
        const char *begin;
        uint64_t value;

        text += strspn(text, " ,");
        if (*text == '\0')
            break;
        begin = text;
        text += strcspn(text, "= ,");
        found = model_find(begin, (size_t)(text - begin));
        if (found == NULL || *text++ != '=' || !model_read(&text, &value) ||
            (*text != '\0' && *text != ' ' && *text != ',') ||
            (found->unit == MODEL_RATE && value == 0))
            return error_set(
                err, -EINVAL,
                "\"%.20s\" is no parameter; NAME=NUMBER with L, m, sigma, Bc, Bf, f, Bx, "
                "step, o, Ln, g, G, S, Lm, loss, E, Og, os, Os, Ll, Gl, gl, or, Or, Bcs, Bfs, Bo, "
                "Bs, "
                "Bw, "
                "Bfo, Bxo, C or op, and at most three decimals",
                begin);
        if (found->unit == MODEL_RATE)
            value = (UINT64_C(1000000) + value / 2) / value;
        if (found->unit == MODEL_BYTES)
            value /= 1000;
        memcpy((char *)&changed + found->at, &value, sizeof(value));
    }
    *model = changed;
    return 0;
}

int coll_model_print(char *text, size_t bytes, const struct coll_model *model)
{
    int length = 0;

    for (size_t i = 0; i < MODEL_NAMES; i++) {
        const struct model_name *name = &model_names[i];
        size_t used = (size_t)length < bytes ? (size_t)length : bytes;
        uint64_t value;

        memcpy(&value, (const char *)model + name->at, sizeof(value));
        if (name->unit == MODEL_RATE)
            value = value == 0 ? 0 : (UINT64_C(1000000) + value / 2) / value;
        length += snprintf(used < bytes ? text + used : NULL, bytes - used, "%s%s=%" PRIu64,
                           i > 0 ? " " : "", name->name,
                           name->unit == MODEL_BYTES ? value : value / 1000);
        if (name->unit == MODEL_BYTES)
            continue;
        used = (size_t)length < bytes ? (size_t)length : bytes;
        length +=
            snprintf(used < bytes ? text + used : NULL, bytes - used, ".%03" PRIu64, value % 1000);
    }
    return length;
}
