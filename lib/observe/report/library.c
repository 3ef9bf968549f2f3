/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library.c: the library itself: its version, results, settings and backends.
 */
#include "bootstrap/job.h"
#include "btl/btl.h"
#include "rpipe/end/job_state.h"
#include "util/settings.h"

#include <rinfo.h>

const char *rinfo_version(void) { return PACKAGE_VERSION; }

const rinfo_setting_t *rinfo_setting(int index)
{
    static _Thread_local rinfo_setting_t row;
    enum setting s = (enum setting)index;

    if (index < 0 || index >= SETTINGS)
        return NULL;
    row = (rinfo_setting_t){setting_name(s), job_was_opened() ? setting_text(s) : setting_found(s),
                            setting_fallback(s), setting_help(s)};
    return &row;
}

const rinfo_backend_t *rinfo_backend(int index)
{
    static _Thread_local struct error err;
    static _Thread_local rinfo_backend_t row;
    int backends, rc;

    if (index < 0)
        return NULL;
    err.text[0] = '\0';
    if (!job_was_opened()) /* modules are in the directory that a setting has; rinit reports invalid ones */
        (void)settings_load(&err);
    row = (rinfo_backend_t){.kind = "btl", .reason = err.text};
    rc = btl_describe(index, &row.name, &row.usable, &err);
    if (rc != 0) {
        for (backends = 0; btl_describe(backends, &row.name, &row.usable, &err) == 0; backends++)
            ;
        row.kind = "bootstrap";
        rc = job_describe(index - backends, &row.name, &row.usable, &err);
    }
    return rc == 0 ? &row : NULL;
}
