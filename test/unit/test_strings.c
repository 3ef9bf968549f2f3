/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library reports about itself: rinfo_strerror, rinfo_version, rinfo_setting, rinfo_backend; and
 * about environments that cannot be: rmalloc(7), rinit(3). Each environment is tried in a process of its own.
 */
#include "test/lib/pair.h"
#include <rinfo.h>
#include <ctype.h>
#include <fcntl.h>
#include "test/lib/counts.h"
#include <rpipe.h>

/* from ENVIRONMENT in rmalloc(7) */
static const struct {
    const char *name, *fallback;
} documented[] = {
    {"RPIPE_BOOTSTRAP", "auto"}, {"RPIPE_BTL", "auto"},
    {"RPIPE_CONTROL", "auto"},   {"RPIPE_WAIT", "adaptive"},
    {"RPIPE_SPIN", "-1"},        {"RPIPE_TIMEOUT_MS", "60000"},
    {"RPIPE_SLOTS", "0"},        {"RPIPE_WATERMARK", "0.5"},
    {"RPIPE_HUGE_PAGES", "0"},   {"RMALLOC_DEBUG", "0"},
    {"RPIPE_LOG", "warn"},       {"RPIPE_MODULE_PATH", ""},
    {"RPIPE_INTERFACE", ""},     {"RPIPE_RANK", "-1"},
    {"RPIPE_SIZE", "-1"},        {"RPIPE_ROOT", ""},
    {"RPIPE_SECRET", ""},        {"RPIPE_KEEPALIVE_MS", "10000"},
    {"RPIPE_OFI_PROVIDER", ""},  {"RPIPE_OFI_DOMAIN", ""},
    {"RPIPE_OFI_ORDER", "auto"}, {"RPIPE_MPI_FLUSH", "thread"},
    {"RPIPE_VERBS_DEVICE", ""},  {"RPIPE_VERBS_PORT", "-1"},
    {"RPIPE_VERBS_GID", "-1"},   {"RPIPE_STATS", ""},
    {"RPIPE_TRACE", ""},         {"RPIPE_TRACE_EVENTS", "65536"},
    {"RCOLL_HEAP", "1048576"},   {"RCOLL_ALGORITHM", ""},
    {"RCOLL_MODEL", ""},         {"RCOLL_EXPLAIN", "0"},
    {"RPIPE_EAGER", "16384"},    {"RPIPE_ATOMICS", "auto"},
    {"RPIPE_FIRST", "0"},        {"RPIPE_CROSS", "1"},
    {"RPIPE_CAST_LOSE", ""},     {"RPIPE_CAST_BACKEND", "auto"},
    {"RPIPE_OFI_HMEM", "auto"},
};
#define DOCUMENTED (sizeof(documented) / sizeof(*documented))

static void test_strerror(void **state)
{
    static const int codes[] = {R_SUCCESS,   R_PENDING, R_EOF,        -EALREADY, -EBADF,
                                -ECONNRESET, -EEXIST,   -EINVAL,      -EMSGSIZE, -ENOBUFS,
                                -ENOMEM,     -ENOTCONN, -ENOTSUP,     -EPIPE,    -EPROTO,
                                -ETIMEDOUT,  -EUCLEAN,  -ECONNREFUSED};
    const size_t n = sizeof(codes) / sizeof(*codes);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        errno = 77;
        assert_non_null(rinfo_strerror(codes[i]));
        assert_int_equal(errno, 77);
        assert_true(strlen(rinfo_strerror(codes[i])) > 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(rinfo_strerror(codes[i]), rinfo_strerror(codes[j]));
    }
    /* every other number has a name too */
    for (int code = -5000; code < 200; code++)
        assert_true(strlen(rinfo_strerror(code)) > 0);
    assert_true(strlen(rinfo_strerror(INT32_MIN)) > 0);
    assert_true(strlen(rinfo_strerror(INT32_MAX)) > 0);
    assert_string_not_equal(rinfo_strerror(-4095), rinfo_strerror(R_EOF));
}

static void test_version(void **state)
{
    int major, minor, patch, end = 0;

    (void)state;
    assert_int_equal(sscanf(rinfo_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
    assert_int_equal(rinfo_version()[end], '\0');
    assert_string_equal(rinfo_version(), PACKAGE_VERSION);
}

static void test_settings(void **state)
{
    const rinfo_setting_t *s;
    bool found[DOCUMENTED] = {false};
    int n;

    (void)state;
    for (n = 0; (s = rinfo_setting(n)) != NULL; n++) {
        size_t i;

        for (i = 0; i < DOCUMENTED && strcmp(documented[i].name, s->name) != 0; i++)
            ;
        if (i == DOCUMENTED) {
            fail_msg("%s is not in the manual", s->name);
            return;
        }
        assert_false(found[i]);
        found[i] = true;
        assert_string_equal(s->fallback, documented[i].fallback);
        if (getenv(s->name) == NULL)
            assert_string_equal(s->value, s->fallback);
        assert_true(strlen(s->help) > 0 && strchr(s->help, '\n') == NULL);
    }
    for (size_t i = 0; i < DOCUMENTED; i++)
        if (!found[i])
            fail_msg("%s is in the manual only", documented[i].name);
    assert_null(rinfo_setting(n));
    assert_null(rinfo_setting(INT32_MAX));
    assert_null(rinfo_setting(-1));
}

static void test_backends(void **state)
{
    static const char *const names[] = {"shm", "pmix", "tcp", "single"};
    bool found[4] = {false};
    const rinfo_backend_t *b;
    int n;

    (void)state;
    for (n = 0; (b = rinfo_backend(n)) != NULL; n++) {
        for (size_t i = 0; i < 4; i++)
            if (strcmp(b->name, names[i]) == 0) {
                found[i] = true;
                if (i != 2) /* there are two of that name */
                    assert_string_equal(b->kind, i == 0 ? "btl" : "bootstrap");
            }
        assert_true(strlen(b->reason) > 0 && strchr(b->reason, '\n') == NULL);
        if (strcmp(b->name, "single") == 0 || strcmp(b->name, "shm") == 0)
            assert_true(b->usable);
    }
    for (size_t i = 0; i < 4; i++)
        if (!found[i])
            fail_msg("%s is in the manual only", names[i]);
    assert_null(rinfo_backend(n));
    assert_null(rinfo_backend(-1));
}

/* ---- before rinit: -ENOTCONN, whatever the arguments are; and what works at any time ---- */

static void test_before_rinit(void **state)
{
    char byte = 0, all[4] = {0};
    struct pipe_counts st = {0};
    raddr_t d = ADDR_NULL;
    size_t size = 5;
    int ready = 7;
    rch_t ch = NULL;

    (void)state;
    assert_string_equal(rerror(NULL), "no error");
    assert_int_equal(rclose(ch), -ENOTCONN);
    assert_int_equal(rwait(ch), -ENOTCONN);
    assert_int_equal(rset_timeout(ch, 1), -ENOTCONN);
    assert_int_equal(rfd(ch), -ENOTCONN);
    assert_int_equal(pipe_counts(ch, &st), -ENOTCONN);
    assert_int_equal(rwrite(ch, d), -ENOTCONN);
    assert_int_equal(rwrite_n(ch, d, 1), -ENOTCONN);
    assert_int_equal(rwrite_nb(ch, d), -ENOTCONN);
    assert_int_equal(rread(ch, &d, &size), -ENOTCONN);
    assert_int_equal(rread_nb(ch, &d, &size), -ENOTCONN);
    assert_int_equal(rflush(ch), -ENOTCONN);
    assert_int_equal(rfree(ch, d), -ENOTCONN);
    assert_int_equal(rmalloc_nb(ch, 1, &d), -ENOTCONN);
    assert_int_equal(rpoll(&ch, 1, &ready, 0), -ENOTCONN);
    CHECK_ERRNO(ENOTCONN, rmalloc(ch, 1));
    CHECK_ERRNO(ENOTCONN, rmalloc(ch, 1));
    CHECK_RC(-ENOTCONN, ch, rread(ch, &d, &size));
    CHECK_ERRNO(ENOTCONN, rmem(ch, d));
    CHECK_ERRNO(ENOTCONN, rsize(ch, d));
    CHECK_ERRNO(ENOTCONN, rtag(ch, d));
    assert_int_equal(network_barrier(), -ENOTCONN);
    assert_int_equal(network_allgather(&byte, 1, all), -ENOTCONN);
    assert_int_equal(network_send(0, &byte, 1), -ENOTCONN);
    assert_int_equal(network_recv(0, &byte, 1), -ENOTCONN);
    assert_int_equal(rexit(), -ENOTCONN);
    assert_true(size == 5 && ready == 7 && d == ADDR_NULL);
    assert_string_not_equal(rerror(NULL), "no error");

    assert_int_equal(network_rank(), -ENOTCONN);
    assert_int_equal(network_ranks(), -ENOTCONN);
    assert_int_equal(rprogress(), R_SUCCESS);
}

/* ---- environments ---- */

/* a process that has only this in its environment of ours; its exit status */
static int in_child(int (*body)(const char *name, const char *value), const char *name,
                    const char *value)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setenv(name, value, 1);
        _exit(body(name, value));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status))
        print_error("a child ended with status 0x%x\n", (unsigned)status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

/* -EINVAL and an error message that names the variable and its value; better then, it works */
static int bad(const char *name, const char *value)
{
    int rank = 55, nranks = 55, rc = rinit(&rank, &nranks);
    const rinfo_setting_t *s;
    int seen = 0;

    if (rc != -EINVAL || rank != 55 || nranks != 55) {
        fprintf(stderr, "%s=%s: rinit gave %d, %s\n", name, value, rc, rerror(NULL));
        return 1;
    }
    if (strstr(rerror(NULL), name) == NULL || strstr(rerror(NULL), value) == NULL) {
        fprintf(stderr, "%s=%s: the error message does not name both: %s\n", name, value,
                rerror(NULL));
        return 2;
    }
    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++) {
        seen += strcmp(s->name, name) == 0 && strcmp(s->value, s->fallback) == 0;
        seen += strcmp(s->name, "RPIPE_SECRET") == 0 && strcmp(s->value, "found") == 0;
    }
    if (seen != 2) {
        fprintf(stderr,
                "%s=%s: rinfo_setting does not return the default of an invalid setting and the "
                "values of all others\n",
                name, value);
        return 3;
    }
    unsetenv(name);
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    rc = rinit(NULL, NULL);
    if (rc != R_SUCCESS || rexit() != R_SUCCESS) {
        fprintf(stderr, "after %s=%s: a good environment gives %d, %s\n", name, value, rc,
                rerror(NULL));
        return 4;
    }
    return 0;
}

static int fine(const char *name, const char *value)
{
    const rinfo_setting_t *s;
    int rc = rinit(NULL, NULL);

    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++)
        if (strcmp(s->name, name) == 0 && strcmp(s->value, value) != 0) {
            fprintf(stderr, "%s=%s: in force is \"%s\"\n", name, value, s->value);
            return 1;
        }
    if (rc != R_SUCCESS || rexit() != R_SUCCESS) {
        fprintf(stderr, "%s=%s: rinit gave %d, %s\n", name, value, rc, rerror(NULL));
        return 2;
    }
    if (rinit(NULL, NULL) != -EALREADY || rexit() != -ENOTCONN)
        return 3;
    return 0;
}

static void test_environment(void **state)
{
    static const char *const bads[][2] = {
        {"RPIPE_BOOTSTRAP", "slurm"},
        {"RPIPE_BTL", "ofi2"},
        {"RPIPE_CONTROL", "udp"},
        {"RPIPE_WAIT", "dream"},
        {"RPIPE_WAIT", "SPIN"},
        {"RPIPE_SPIN", "-2"},
        {"RPIPE_SPIN", "1000001"},
        {"RPIPE_SPIN", "abc"},
        {"RPIPE_SPIN", ""},
        {"RPIPE_TIMEOUT_MS", "-2"},
        {"RPIPE_TIMEOUT_MS", "1000000001"},
        {"RPIPE_TIMEOUT_MS", "10s"},
        {"RPIPE_TIMEOUT_MS", ""},
        {"RPIPE_TIMEOUT_MS", " "},
        {"RPIPE_TIMEOUT_MS", "99999999999999999999"},
        {"RPIPE_KEEPALIVE_MS", "999"},
        {"RPIPE_KEEPALIVE_MS", "-1"},
        {"RPIPE_SLOTS", "-2"},
        {"RPIPE_SLOTS", "1"},
        {"RPIPE_SLOTS", "3"},
        {"RPIPE_SLOTS", "131072"},
        {"RPIPE_SLOTS", "64x"},
        {"RPIPE_WATERMARK", "1.5"},
        {"RPIPE_WATERMARK", "-0.1"},
        {"RPIPE_WATERMARK", "nan"},
        {"RPIPE_WATERMARK", ""},
        {"RPIPE_WATERMARK", "half"},
        {"RPIPE_HUGE_PAGES", "2"},
        {"RMALLOC_DEBUG", "2"},
        {"RMALLOC_DEBUG", "yes please"},
        {"RPIPE_LOG", "loud"},
        {"RPIPE_RANK", "-2"},
        {"RPIPE_RANK", "first"},
        {"RPIPE_SIZE", "many"},
    };
    static const char *const fines[][2] = {
        {"RPIPE_BOOTSTRAP", "single"},
        {"RPIPE_BTL", "shm"},
        {"RPIPE_BTL", "auto"},
        {"RPIPE_CONTROL", "unix"},
        {"RPIPE_CONTROL", "tcp"},
        {"RPIPE_WAIT", "spin"},
        {"RPIPE_WAIT", "yield"},
        {"RPIPE_WAIT", "sleep"},
        {"RPIPE_WAIT", "adaptive"},
        {"RPIPE_SPIN", "0"},
        {"RPIPE_SPIN", "1000000"},
        {"RPIPE_TIMEOUT_MS", "-1"},
        {"RPIPE_TIMEOUT_MS", "1000000000"},
        {"RPIPE_KEEPALIVE_MS", "1000"},
        {"RPIPE_SLOTS", "0"},
        {"RPIPE_SLOTS", "2"},
        {"RPIPE_SLOTS", "65536"},
        {"RPIPE_WATERMARK", "0"},
        {"RPIPE_WATERMARK", "1"},
        {"RPIPE_HUGE_PAGES", "1"},
        {"RMALLOC_DEBUG", "1"},
        {"RPIPE_LOG", "error"},
        {"RPIPE_LOG", "info"},
    };
    int failed = 0;

    (void)state;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_SECRET", "found", 1);
    for (size_t i = 0; i < sizeof(bads) / sizeof(*bads); i++)
        if (in_child(bad, bads[i][0], bads[i][1]) != 0) {
            print_error("%s=\"%s\" is bad\n", bads[i][0], bads[i][1]);
            failed++;
        }
    for (size_t i = 0; i < sizeof(fines) / sizeof(*fines); i++)
        if (in_child(fine, fines[i][0], fines[i][1]) != 0) {
            print_error("%s=\"%s\" is good\n", fines[i][0], fines[i][1]);
            failed++;
        }
    unsetenv("RPIPE_SECRET");
    assert_int_equal(failed, 0);
}

/* An unknown variable: the warning has its name and that of the nearest setting ("-": none). */
static int warning_contains(const char *name, const char *text)
{
    char output[512] = "";
    int ends[2], before = dup(STDERR_FILENO), rc;
    ssize_t n;

    if (before < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        return 1;
    rc = rinit(NULL, NULL);
    (void)dup2(before, STDERR_FILENO);
    n = read(ends[0], output, sizeof(output) - 1);
    fprintf(stderr, "%s is set: %s", name, n > 0 ? output : "no message\n");
    if (rc != R_SUCCESS || rexit() != R_SUCCESS)
        return 2;
    if (strncmp(name, "RPIPE_", 6) != 0 ||
        strcmp(name, "RPIPE_WAIT") == 0) /* no business of the library's; or right */
        return n > 0 ? 3 : 0;
    if (n <= 0 || strstr(output, name) == NULL || strchr(output, '\n') != &output[n - 1])
        return 4;
    return strcmp(text, "-") == 0 ? strstr(output, "nearest") != NULL
                                  : strstr(output, text) == NULL;
}

static void test_unknown_variables(void **state)
{
    (void)state;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    assert_int_equal(in_child(warning_contains, "RPIPE_TIMEOUT", "the nearest is RPIPE_TIMEOUT_MS"),
                     0);
    assert_int_equal(
        in_child(warning_contains, "RPIPE_TIMOUT_MS", "the nearest is RPIPE_TIMEOUT_MS"), 0);
    assert_int_equal(
        in_child(warning_contains, "RPIPE_KEEPALIVE", "the nearest is RPIPE_KEEPALIVE_MS"), 0);
    assert_int_equal(in_child(warning_contains, "RPIPE_LSOTS", "the nearest is RPIPE_SLOTS"), 0);
    assert_int_equal(
        in_child(warning_contains, "RPIPE_RTACE_EVENT", "the nearest is RPIPE_TRACE_EVENTS"), 0);
    assert_int_equal(in_child(warning_contains, "RPIPE_", "-"), 0);
    assert_int_equal(in_child(warning_contains, "RPIPE_X", "-"), 0);
    assert_int_equal(in_child(warning_contains, "RPIPE", "-"), 0);
    assert_int_equal(in_child(warning_contains, "MY_RPIPE_TIMEOUT", "-"), 0);
    assert_int_equal(in_child(warning_contains, "RPIPE_WAIT", "sleep"), 0);
}

/* a request for a launcher where there is none is an error, never another bootstrap */
static int no_job(const char *name, const char *value)
{
    int rc;

    (void)name;
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
    unsetenv("RPIPE_RANK");
    unsetenv("RPIPE_SIZE");
    rc = rinit(NULL, NULL);
    if (rc == -ENOENT || (rc == -ENOSYS && strcmp(value, "pmix") == 0))
        return strlen(rerror(NULL)) > 10 ? 0 : 2;
    fprintf(stderr, "bootstrap %s without a job: %d, %s\n", value, rc, rerror(NULL));
    return 1;
}

static void test_no_job(void **state)
{
    (void)state;
    assert_int_equal(in_child(no_job, "RPIPE_BOOTSTRAP", "tcp"), 0);
    assert_int_equal(in_child(no_job, "RPIPE_BOOTSTRAP", "pmix"), 0);
}

/* a deadline, and the size of a ring, of a channel without its own */
static int in_force(const char *name, const char *value)
{
    rpipe_config_t cfg = pair_reader(pair_config(RPIPE_PUT, 4096));
    double begun, passed;
    struct pipe_counts st = {0};
    raddr_t d;
    rch_t ch;

    (void)name;
    (void)value;
    setenv("RPIPE_SLOTS", "16", 1);
    if (rinit(NULL, NULL) != R_SUCCESS || rpipe(&ch, &cfg) != R_SUCCESS ||
        pipe_counts(ch, &st) != R_SUCCESS)
        return 1;
    setenv("RPIPE_SLOTS", "32", 1); /* has no effect any more */
    begun = now_ms();
    if (rread(ch, &d, NULL) != -ETIMEDOUT)
        return 2;
    passed = now_ms() - begun;
    if (passed < 39.0 || passed > CHECK_LATE_MS)
        return 3;
    return st.slots == 16 && rexit() == R_SUCCESS ? 0 : 4;
}

static void test_in_force(void **state)
{
    (void)state;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    assert_int_equal(in_child(in_force, "RPIPE_TIMEOUT_MS", "40"), 0);
}

/* the child of a process that has not joined may join by itself; of one that has, it may not */
static int joins(const char *name, const char *value)
{
    int rc, status;
    pid_t pid;

    (void)name;
    (void)value;
    rc = rinit(NULL, NULL);
    if (rc != R_SUCCESS)
        return 1;
    pid = fork();
    if (pid == 0)
        _exit(rinit(NULL, NULL) == -EALREADY && rexit() == -ENOTCONN &&
                      network_barrier() == -ENOTCONN
                  ? 0
                  : 1);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return 2;
    return network_barrier() == R_SUCCESS && rexit() == R_SUCCESS ? 0 : 3;
}

static void test_fork(void **state)
{
    (void)state;
    assert_int_equal(in_child(joins, "RPIPE_BOOTSTRAP", "single"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strerror),     cmocka_unit_test(test_version),
        cmocka_unit_test(test_settings),     cmocka_unit_test(test_backends),
        cmocka_unit_test(test_before_rinit), cmocka_unit_test(test_environment),
        cmocka_unit_test(test_no_job),       cmocka_unit_test(test_in_force),
        cmocka_unit_test(test_fork),         cmocka_unit_test(test_unknown_variables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
