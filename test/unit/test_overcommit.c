/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_overcommit.c: with vm.overcommit_memory = 2, RPIPE_LOG=info has a line about it, and else none. The file of the kernel is
 * replaced by another one: the setting is one of the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/overcommit.h"
#include <rpipe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What rinit logs where that file has this text. NULL: there is no such file. */
static void log_of(const char *mode, const char *level, char *text, size_t bytes)
{
    int log = memfd_create("log", 0), file = memfd_create("mode", 0), status;
    char path[64];
    ssize_t n;
    pid_t child;

    assert_true(log >= 0 && file >= 0);
    snprintf(path, sizeof(path), mode != NULL ? "/proc/self/fd/%d" : "/nowhere/%d", file);
    if (mode != NULL)
        assert_int_equal(write(file, mode, strlen(mode)), strlen(mode));
    child = fork();
    if (child == 0) {
        setenv("RPIPE_LOG", level, 1);
        overcommit_path = path;
        _exit(dup2(log, 2) != 2 || rinit(NULL, NULL) != 0 || rexit() != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    n = pread(log, text, bytes - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    close(log);
    close(file);
}

static void test_strict_overcommit_is_logged(void **state)
{
    static const char *const others[] = {"0\n", "1\n", "", "12\n", NULL};
    char text[4096];

    (void)state;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    log_of("2\n", "info", text, sizeof(text));
    assert_non_null(strstr(text, "vm.overcommit_memory is 2"));
    assert_non_null(strstr(text, "SIGBUS"));
    log_of("2\n", "warn", text, sizeof(text));
    assert_null(strstr(text, "overcommit"));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        log_of(others[i], "info", text, sizeof(text));
        assert_non_null(strstr(text, "rank 0 of 1"));
        assert_null(strstr(text, "overcommit"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strict_overcommit_is_logged)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
