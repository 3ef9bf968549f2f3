/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c: keywords become members of rpipe_config_t, by their names there. The deadline is kept by the binding.
 */
#include "binding.h"

#include <stddef.h>
#include <string.h>

typedef enum { KIND_INT, KIND_UINT32, KIND_UINT64, KIND_STRING } kind_t;

static const struct member {
    const char *name;
    size_t offset;
    kind_t kind;
} config_members[] = {
#define MEMBER(name, kind)                                                                         \
    {                                                                                              \
#name, offsetof(rpipe_config_t, name), kind                                                \
    }
    MEMBER(role, KIND_INT),
    MEMBER(peer, KIND_INT),
    MEMBER(context, KIND_UINT64),
    MEMBER(op, KIND_INT),
    MEMBER(heuristic, KIND_INT),
    MEMBER(mode, KIND_INT),
    MEMBER(unit_bytes, KIND_UINT32),
    MEMBER(heap_bytes, KIND_UINT64),
    MEMBER(max_heap_bytes, KIND_UINT64),
    MEMBER(heap_bytes_at_most, KIND_UINT64),
    MEMBER(slots, KIND_UINT32),
    MEMBER(slots_at_most, KIND_UINT32),
    MEMBER(sync_queue, KIND_UINT32),
    MEMBER(sync_queue_at_most, KIND_UINT32),
    MEMBER(flags, KIND_UINT32),
    MEMBER(watermark, KIND_INT),
    MEMBER(inline_max, KIND_INT),
    MEMBER(fetch_ahead, KIND_UINT32),
    MEMBER(grow_after_us, KIND_UINT32),
    MEMBER(max_messages, KIND_UINT32),
    MEMBER(max_cqe, KIND_UINT32),
    MEMBER(backend, KIND_STRING),
    MEMBER(seed, KIND_UINT64),
#undef MEMBER
};

static const struct member *config_find(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(config_members) / sizeof(*config_members); i++)
        if (strcmp(config_members[i].name, name) == 0)
            return &config_members[i];
    return NULL;
}

static bool config_range(const char *name, PyObject *value)
{
    PyErr_Format(PyExc_OverflowError, "%s is %R, which is out of the range of its type", name,
                 value);
    return false;
}

static bool config_set(const struct member *member, PyObject *value, rpipe_config_t *cfg)
{
    char *at = (char *)cfg + member->offset;
    unsigned long long number;
    const char *string;
    long signed_number;

    switch (member->kind) {
    case KIND_STRING:
        string = PyUnicode_AsUTF8(value); /* valid while the keywords exist; rpipe copies it */
        memcpy(at, &string, sizeof(string));
        return string != NULL;
    case KIND_INT:
        signed_number = PyLong_AsLong(value);
        if (signed_number == -1 && PyErr_Occurred() != NULL)
            return false;
        if (signed_number != (int)signed_number)
            return config_range(member->name, value);
        memcpy(at, &(int){(int)signed_number}, sizeof(int));
        return true;
    case KIND_UINT32:
    case KIND_UINT64:
        number = PyLong_AsUnsignedLongLong(value);
        if (number == (unsigned long long)-1 && PyErr_Occurred() != NULL)
            return false;
        if (member->kind == KIND_UINT32 && number > UINT32_MAX)
            return config_range(member->name, value);
        if (member->kind == KIND_UINT32)
            memcpy(at, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
        else
            memcpy(at, &(uint64_t){number}, sizeof(uint64_t));
        return true;
    }
    return false;
}

bool config_parse(PyObject *keywords, rpipe_config_t *cfg, int *total_ms)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    memset(cfg, 0, sizeof(*cfg));
    *total_ms = DEFAULT_MS;
    while (keywords != NULL && PyDict_Next(keywords, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        const struct member *member = name != NULL ? config_find(name) : NULL;

        if (name == NULL || value == Py_None)
            continue;
        if (strcmp(name, "timeout") == 0) {
            if (!call_timeout(value, DEFAULT_MS, total_ms))
                return false;
            continue;
        }
        if (member == NULL) {
            PyErr_Format(PyExc_TypeError, "a pipe has no setting %s; rpipe_config(3) lists them",
                         name);
            return false;
        }
        if (!config_set(member, value, cfg))
            return false;
    }
    if (*total_ms == DEFAULT_MS)
        *total_ms = call_default_ms();
    cfg->timeout_ms = SLICE_MS;
    return true;
}
