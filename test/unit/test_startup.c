/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_startup.c: what rinit logs: a launcher without PMIx, and with RPIPE_LOG=info the line of what was chosen; and that the
 * network of the tests is in no message and no list. Each environment is tried in a process of its own.
 */
#include "test/lib/check.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define VARIABLES_MOST 6
#define OUTPUT_BYTES 4096

struct environment {
    const char *variable[VARIABLES_MOST][2];
};

/* What rinit and rexit of a process with these variables log. */
static const char *logged_with(const struct environment *e)
{
    static const char *const others[] = {"PMIX_NAMESPACE",
                                         "PMIX_RANK",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "SLURM_PROCID",
                                         "SLURM_NTASKS",
                                         "SLURM_STEP_NUM_TASKS",
                                         "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "RPIPE_RANK",
                                         "RPIPE_SIZE",
                                         "RPIPE_LOG",
                                         "RPIPE_BTL"};
    static char output[OUTPUT_BYTES];
    int ends[2], status, rc;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
            unsetenv(others[i]);
        for (int i = 0; i < VARIABLES_MOST && e->variable[i][0] != NULL; i++)
            setenv(e->variable[i][0], e->variable[i][1], 1);
        (void)dup2(ends[1], STDERR_FILENO);
        rc = rinit(NULL, NULL);
        if (rc != 0)
            dprintf(STDERR_FILENO, "%s\n", rerror(NULL));
        _exit(rc == 0 && rexit() == 0 ? 0 : 1);
    }
    close(ends[1]);
    for (size_t used = 0; used < OUTPUT_BYTES - 1; used += (size_t)n) {
        n = read(ends[0], output + used, OUTPUT_BYTES - 1 - used);
        if (n <= 0) {
            output[used] = '\0';
            break;
        }
    }
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    print_message("%s", output);
    return output;
}

static int lines_of(const char *text)
{
    int lines = 0;

    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static void assert_contains(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", text, words);
}

static void assert_warns(const struct environment *e, const char *launcher, const char *remedy)
{
    const char *text = logged_with(e);

    assert_int_equal(lines_of(text), 1);
    assert_contains(text, "warning");
    assert_contains(text, launcher);
    assert_contains(text, "number 0 of 64");
    assert_contains(text, remedy);
}

/* Where there is a module for the launcher's MPI the job is MPI's, and that has one process here. */
static void assert_warns_or_asks_mpi(const struct environment *e, const char *module,
                                     const char *launcher, const char *remedy)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s.so", getenv("RPIPE_MODULE_PATH"), module);
    if (access(path, R_OK) == 0)
        assert_contains(logged_with(e), "the launcher started several processes, and MPI has one");
    else
        assert_warns(e, launcher, remedy);
}

static void test_a_launcher_without_pmix_is_named_once(void **state)
{
    (void)state;
    assert_warns(&(struct environment){{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}}}, "Slurm",
                 "srun --mpi=pmix");
    assert_warns(
        &(struct environment){
            {{"PMI_RANK", "0"}, {"PMI_SIZE", "64"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}}},
        "Slurm", "srun --mpi=pmix");
    assert_warns_or_asks_mpi(&(struct environment){{{"PMI_RANK", "0"}, {"PMI_SIZE", "64"}}},
                             "job_mpich", "MPICH", "mpirun of Open MPI");
    assert_warns_or_asks_mpi(
        &(struct environment){{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "64"}}},
        "job_openmpi", "Open MPI", "mpirun of Open MPI 4");
}

static void test_no_warning_where_nothing_is_wrong(void **state)
{
    static const struct environment fine[] = {
        {{{NULL, NULL}}},
        {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "64"}}}, /* number 0 warns for all */
        {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}},          /* one process on purpose */
        {{{"SLURM_NTASKS", "64"}}},                        /* a shell in an allocation */
        {{{"PMI_RANK", "zero"}, {"PMI_SIZE", "64"}}},      /* not a number */
        {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}, {"SLURM_STEP_NUM_TASKS", "1"}}},
        {{{"PMI_RANK", "0"}, {"PMI_SIZE", "64"}, {"RPIPE_BOOTSTRAP", "single"}}},
        {{{"PMI_RANK", "0"}, {"PMI_SIZE", "64"}, {"RPIPE_RANK", "0"}, {"RPIPE_SIZE", "1"}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++)
        assert_string_equal(logged_with(&fine[i]), "");
}

static void test_info_is_one_line_of_what_was_chosen(void **state)
{
    const char *text = logged_with(&(struct environment){{{"RPIPE_LOG", "info"},
                                                          {"RPIPE_WAIT", "sleep"},
                                                          {"RPIPE_SLOTS", "0"},
                                                          {"RPIPE_ROOT", "a\nb:1"},
                                                          {"RPIPE_SECRET", "of this job"}}});

    (void)state;
    assert_int_equal(lines_of(text), 1);
    assert_contains(text, "rank 0 of 1");
    assert_contains(text, "bootstrap: single");
    assert_contains(text, "backends: shm");
    assert_contains(text, "RPIPE_WAIT=sleep");
    assert_contains(text, "RPIPE_ROOT=a?b:1");
    assert_contains(text, "RPIPE_SECRET=(given)");
    assert_null(strstr(text, "RPIPE_SLOTS")); /* it is the default */
    assert_null(strstr(text, "of this job"));
    assert_contains(logged_with(&(struct environment){{{"RPIPE_LOG", "debug"}}}),
                    "RPIPE_LOG=debug");
}

static void test_the_network_of_the_tests_is_not_shown(void **state)
{
    const char *text = logged_with(&(struct environment){{{"RPIPE_BTL", "pigeon"}}});
    const rinfo_backend_t *b;
    const rinfo_setting_t *s;
    int i;

    (void)state;
    assert_contains(text, "auto|shm|verbs|ofi");
    assert_null(strstr(text, "sim"));
    for (i = 0; (b = rinfo_backend(i)) != NULL; i++)
        assert_string_not_equal(b->name, "sim");
    for (i = 0; (s = rinfo_setting(i)) != NULL; i++)
        assert_null(strstr(s->help, "sim"));
    /* the tests have it all the same */
    assert_string_equal(logged_with(&(struct environment){{{"RPIPE_BTL", "sim"}}}), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_launcher_without_pmix_is_named_once),
        cmocka_unit_test(test_no_warning_where_nothing_is_wrong),
        cmocka_unit_test(test_info_is_one_line_of_what_was_chosen),
        cmocka_unit_test(test_the_network_of_the_tests_is_not_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
