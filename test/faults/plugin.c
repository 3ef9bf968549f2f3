/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin.c: what test/faults/plugins loads: a plugin that uses the library, and is the only one to do so.
 *
 * plugin_works() joins a job of one process, sends messages through pipes to itself, in every way that leaves something
 * behind in the library, and leaves the job. plugin_abandons() does not leave it. Both return NULL, or what was wrong.
 */
#include <pthread.h>
#include <rpipe.h>
#include <stdio.h>
#include <string.h>

__attribute__((visibility("default"))) const char *plugin_works(void);
__attribute__((visibility("default"))) const char *plugin_abandons(void);

static char wrong[600];

static const char *error_of(const char *call, rch_t ch)
{
    snprintf(wrong, sizeof(wrong), "%s: %s; %s", call, rerror(NULL), ch != NULL ? rerror(ch) : "");
    return wrong;
}

static const char *one_message(rch_t w, rch_t r, size_t size)
{
    raddr_t d = rmalloc(w, size);

    if (d == ADDR_NULL)
        return error_of("rmalloc", w);
    memset(rmem(w, d), 7, size);
    if (rwrite(w, d) != 0)
        return error_of("rwrite", w);
    if (rread(r, &d, &size) != 0 || rfree(r, d) != 0)
        return error_of("rread", r);
    return NULL;
}

static const char *pipes(rpipe_op_t op, uint32_t ctx)
{
    rpipe_config_t cfg = {0};
    const char *error;
    rch_t w, r;

    cfg.op = op;
    cfg.peer = 0;
    cfg.heap_bytes = 10000;
    cfg.max_heap_bytes = 100000;
    cfg.context = ctx;
    cfg.role = RPIPE_WRITER;
    if (rpipe(&w, &cfg) != 0)
        return error_of("rpipe", NULL);
    cfg.role = cfg.role == RPIPE_WRITER ? RPIPE_READER : RPIPE_WRITER;
    if (rpipe(&r, &cfg) != 0)
        return error_of("rpipe", NULL);
    if (rfd(r) < 0)
        return error_of("rfd", r);
    error = one_message(w, r, 20);
    if (error == NULL)
        error = one_message(w, r, 5000);
    if (error == NULL)
        error = one_message(w, r, 50000);
    if (error == NULL && ctx % 2 == 0 && (rclose(w) != 0 || rclose(r) != 0)) /* else rexit does */
        error = error_of("rclose", w);
    return error;
}

static void *in_a_thread(void *result)
{
    *(const char **)result = pipes(RPIPE_GET, 3);
    return NULL;
}

static const char *joins(void)
{
    int rc = rinit(NULL, NULL);

    return rc == 0 ? NULL : error_of("rinit", NULL);
}

const char *plugin_works(void)
{
    const char *error = joins();
    pthread_t t;

    for (uint32_t ctx = 0; error == NULL && ctx < 3; ctx++)
        error = pipes(ctx % 2 == 0 ? RPIPE_PUT : RPIPE_GET, ctx);
    if (error == NULL && pthread_create(&t, NULL, in_a_thread, &error) == 0)
        pthread_join(t, NULL);
    if (error == NULL && rexit() != 0)
        error = error_of("rexit", NULL);
    if (error == NULL && (rinit(NULL, NULL) != -EALREADY || strstr(rerror(NULL), "once") == NULL))
        error = error_of("rinit after rexit is not refused", NULL);
    return error;
}

const char *plugin_abandons(void)
{
    const char *error = joins();

    return error != NULL ? error : pipes(RPIPE_PUT, 1);
}
