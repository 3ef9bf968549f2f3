/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rexit while another thread waits in rclose for the proof that everything has arrived: rexit closes the end in its place; no call
 * returns that the other thread still does. Over the simulated network, which ends the process when memory is given back while an
 * operation accesses it. A process joins a job once: each round is a child, whose errors are logged.
 */
#include "test/lib/pair.h"

#include <time.h>

enum { ROUNDS = 24, MESSAGES = 12, STEP_US = 40 };

static void *close_it(void *argument)
{
    int rc = rclose(argument);

    CHECK(argument, rc == 0 || rc == -ENOTCONN);
    return NULL;
}

static int round_of(int i, FILE *log)
{
    struct timespec pause = {0, (long)i * STEP_US * 1000};
    rpipe_config_t cfg;
    pthread_t thread;
    struct pair p;
    char seed[16];
    int rc;

    snprintf(seed, sizeof(seed), "%d", i);
    setenv("RPIPE_BTL", "sim", 1);
    setenv("RPIPE_SIM_SEED", seed, 1);
    setenv("RPIPE_SIM_MODE", "lazy", 1);
    setenv("RPIPE_LOG", "debug", 1);
    setenv("PAIR_NET", seed, 1);
    if (dup2(fileno(log), 2) < 0)
        return 3;
    if (pair_setup(NULL) != 0)
        return 2;
    check_end = NULL;
    cfg = pair_config(i % 2 == 0 ? RPIPE_PUT : RPIPE_GET, 1 << 16);
    cfg.flags |= RPIPE_THREADS;
    pair_open_with(&p, &cfg);
    for (uint64_t k = 0; k < MESSAGES; k++)
        pair_send(&p, 1000, k);
    REQUIRE(pthread_create(&thread, NULL, close_it, p.w) == 0);
    nanosleep(&pause, NULL);
    rc = rexit();
    pthread_join(thread, NULL);
    REQUIRE(rc == 0, "rexit returned %d", rc);
    return 0;
}

static const char *logged(FILE *log)
{
    static char text[1 << 16];
    size_t bytes;

    rewind(log);
    bytes = fread(text, 1, sizeof(text) - 1, log);
    text[bytes] = '\0';
    return text;
}

static void test_exit(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        FILE *log = tmpfile();
        int status = -1;
        pid_t child;

        assert_non_null(log);
        fflush(NULL);
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(round_of(i, log));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("round %d ended with status 0x%x:\n%s", i, (unsigned)status, logged(log));
        if (strstr(logged(log), "another thread closes the pipe") != NULL)
            fail_msg("round %d has logged:\n%s", i, logged(log));
        fclose(log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exit)};

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    return cmocka_run_group_tests_name("close_exit", tests, NULL, NULL);
}
