/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which backend a channel gets (lib/btl/btl.c, probe.c): with modules that are fakes, and business cards with what the
 * test requires. What matters most: two ranks that ask about each other choose the same, and nothing is loaded that is not needed.
 */
#include "btl/btl.h"

#include "util/log.h"
#include "util/settings.h"

#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SHM BTL_USABLE_SHM
#define VERBS BTL_USABLE_VERBS
#define OFI BTL_USABLE_OFI
#define TCP BTL_USABLE_TCP
#define ALL (SHM | VERBS | OFI | TCP)

static char directory[] = "/tmp/rmalloc-choice-XXXXXX";
static struct btl_peer card[2];
static bool passable;

static int facts(int peer, struct btl_peer *of, struct error *err)
{
    (void)err;
    *of = card[peer];
    return 0;
}

static int fd_path(int peer, struct error *err)
{
    error_note(err, "rank %d is in another namespace", peer);
    return passable ? 0 : -ENOTSUP;
}

/* What rank `rank` chooses for the other of the two; "" and an error message. */
static const char *choice_of(int rank, const char *wanted, struct error *err)
{
    static struct btl_host host;
    const struct btl_ops *ops = NULL;
    struct btl *btl = NULL;
    int rc;

    host = (struct btl_host){.rank = rank, .peer = facts, .fd_path = fd_path};
    assert_int_equal(btl_start(&host), 0);
    rc = btl_choose(1 - rank, wanted, &ops, &btl, err);
    btl_stop();
    assert_true(rc == 0 ? ops != NULL && btl != NULL : rc < 0 && ops == NULL);
    assert_true(*err->text != '\0');
    return rc == 0 ? ops->name : "";
}

static void both_choose(const char *expected, uint32_t of_0, uint32_t of_1)
{
    struct error err = {""};
    int rank;

    card[0] = (struct btl_peer){of_0, passable};
    card[1] = (struct btl_peer){of_1, passable};
    for (rank = 0; rank < 2; rank++)
        assert_string_equal(choice_of(rank, NULL, &err), expected);
}

static void set_backend(const char *name)
{
    struct error err = {""};

    if (name != NULL)
        setenv("RPIPE_BTL", name, 1);
    else
        unsetenv("RPIPE_BTL");
    assert_int_equal(settings_load(&err), 0);
}

static void set_provider(const char *name)
{
    struct error err = {""};

    if (name != NULL)
        setenv("RPIPE_OFI_PROVIDER", name, 1);
    else
        unsetenv("RPIPE_OFI_PROVIDER");
    assert_int_equal(settings_load(&err), 0);
}

static int reset(void **state)
{
    (void)state;
    set_provider(NULL);
    unsetenv("FAKE_BROKEN");
    unsetenv("FAKE_UNSUITABLE");
    set_backend(NULL);
    passable = true;
    return 0;
}

/* Runs first: no module has been loaded yet. */
static void test_the_probe_loads_nothing(void **state)
{
    char path[PATH_MAX];
    uint32_t usable;

    (void)state;
    set_provider("tcp");
    usable = btl_probe();
    assert_true((usable & SHM) != 0 && (usable & OFI) != 0 && (usable & TCP) != 0);
    snprintf(path, sizeof(path), "%s/btl_ofi.so", directory);
    assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
}

static void test_the_same_host_means_shm_and_loads_only_that(void **state)
{
    (void)state;
    both_choose("shm", ALL, ALL);
    both_choose("shm", SHM, SHM);
    setenv("FAKE_BROKEN", "verbs,ofi", 1); /* they are not asked */
    both_choose("shm", ALL, ALL);
}

static void test_both_ends_choose_the_same_whatever_each_has(void **state)
{
    uint32_t a, b;

    (void)state;
    for (int near = 0; near < 2; near++) {
        passable = near != 0;
        for (a = 0; a <= ALL; a++) {
            for (b = 0; b <= ALL; b++) {
                uint32_t both = a & b;

                both_choose(near && (both & SHM) != 0 ? "shm"
                            : (both & VERBS) != 0     ? "verbs"
                            : (both & OFI) != 0       ? "ofi"
                            : (both & TCP) != 0       ? "tcp"
                                                      : "",
                            a, b);
            }
        }
    }
}

static void test_nothing_fits_is_one_reason_per_backend(void **state)
{
    struct error err = {""};

    (void)state;
    passable = false;
    card[0] = (struct btl_peer){ALL, false};
    card[1] = (struct btl_peer){SHM, false};
    assert_string_equal(choice_of(0, NULL, &err), "");
    assert_non_null(strstr(err.text, "shm: rank 1 is in another namespace"));
    assert_non_null(strstr(err.text, "verbs: rank 1 has no active RDMA port"));
    assert_non_null(strstr(err.text, "ofi: rank 1 has no RDMA or CXI device"));
    assert_non_null(strstr(err.text, "tcp: rank 1 has not the module btl_tcp"));
    assert_string_equal(choice_of(1, NULL, &err), "");
    assert_non_null(strstr(err.text, "verbs: this rank has no active RDMA port"));
    assert_non_null(strstr(err.text, "ofi: this rank has no RDMA or CXI device"));
}

/* libfabric's providers over sockets have to be named: without a device tcp is left. */
static void test_without_a_device_ofi_is_on_the_card_only_if_its_provider_is_named(void **state)
{
    const bool device =
        btl_device_present("/sys/class/infiniband") || btl_device_present("/sys/class/cxi");

    (void)state;
    assert_true(((btl_probe() & OFI) != 0) == device);
    set_provider("");
    assert_true(((btl_probe() & OFI) != 0) == device);
    set_provider("net");
    assert_true((btl_probe() & OFI) != 0);
    set_provider(NULL);
    set_backend("ofi"); /* by its name it is chosen all the same */
    assert_true(((btl_probe() & OFI) != 0) == device);
    both_choose("ofi", SHM | TCP, SHM | TCP);
}

/* The reason is that of the choice: what the better backend lacks, at which of the two ranks. */
static void test_the_reason_names_what_is_missing_and_where(void **state)
{
    static const struct {
        uint32_t of_0, of_1;
        const char *broken, *expected, *reason;
    } cases[] = {
        {SHM | TCP, ALL, "", "tcp", "this rank has no RDMA or CXI device"},
        {ALL, SHM | TCP, "", "tcp", "the other rank has no RDMA or CXI device"},
        {ALL, ALL, "verbs,ofi", "tcp", "ofi cannot be used"},
        {OFI | TCP, ALL, "", "ofi", "this rank has no active RDMA port"},
        {ALL, OFI | TCP, "", "ofi", "the other rank has no active RDMA port"},
        {ALL, ALL, "verbs", "ofi", "verbs cannot be used"},
        {ALL, ALL, "", "verbs", "both ranks have an active RDMA port"},
    };
    struct error err = {""};

    (void)state;
    passable = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        card[0] = (struct btl_peer){cases[i].of_0, false};
        card[1] = (struct btl_peer){cases[i].of_1, false};
        setenv("FAKE_BROKEN", cases[i].broken, 1);
        assert_string_equal(choice_of(0, NULL, &err), cases[i].expected);
        assert_non_null(strstr(err.text, "no memory can be shared"));
        assert_non_null(strstr(err.text, cases[i].reason));
    }
}

static void test_what_cannot_be_opened_is_passed_over(void **state)
{
    struct error err = {""};

    (void)state;
    passable = false;
    setenv("FAKE_BROKEN", "verbs", 1);
    both_choose("ofi", ALL, ALL);
    setenv("FAKE_BROKEN", "verbs,ofi,tcp", 1);
    card[0] = card[1] = (struct btl_peer){ALL, false};
    assert_string_equal(choice_of(0, NULL, &err), "");
    assert_non_null(strstr(err.text, "verbs: the fake verbs is broken"));
    assert_non_null(strstr(err.text, "ofi: the fake ofi is broken"));
    passable = true; /* but shm is not */
    setenv("FAKE_BROKEN", "shm", 1);
    assert_string_equal(choice_of(0, NULL, &err), "");
    assert_non_null(strstr(err.text, "shm: the fake shm is broken"));
}

static void test_a_name_overrides_and_does_not_fall_back(void **state)
{
    struct error err = {""};

    (void)state;
    card[0] = card[1] = (struct btl_peer){ALL, true};
    assert_string_equal(choice_of(0, "ofi", &err), "ofi");
    set_backend("verbs"); /* over the configuration */
    assert_string_equal(choice_of(0, "ofi", &err), "verbs");
    assert_non_null(strstr(err.text, "RPIPE_BTL"));
    setenv("FAKE_BROKEN", "verbs", 1);
    assert_string_equal(choice_of(0, NULL, &err), "");
    assert_non_null(strstr(err.text, "broken"));
    set_backend(NULL);
    assert_string_equal(choice_of(0, "pigeon", &err), "");
    assert_non_null(strstr(err.text, "no backend \"pigeon\""));
}

static void test_what_has_to_be_named_is_not_chosen_by_itself(void **state)
{
    struct btl_host host = {.rank = 0, .peer = facts, .fd_path = fd_path};
    const struct btl_ops *ops = NULL;
    struct error err = {""};
    struct btl *btl = NULL;

    (void)state;
    passable = false;
    setenv("FAKE_UNSUITABLE", "ofi", 1);
    both_choose("verbs", ALL, ALL);
    both_choose("tcp", ALL & ~VERBS, ALL & ~VERBS);
    both_choose("", SHM | OFI, SHM | OFI);
    assert_string_equal(choice_of(0, NULL, &err), "");
    assert_non_null(strstr(err.text, "ofi: the fake ofi has to be named"));
    assert_string_equal(choice_of(0, "ofi", &err), "ofi");
    /* also after it has been opened by its name: the other end may not have done so */
    assert_int_equal(btl_start(&host), 0);
    assert_int_equal(btl_choose(1, "ofi", &ops, &btl, &err), 0);
    ops = NULL;
    assert_int_equal(btl_choose(1, NULL, &ops, &btl, &err), -ENOTSUP);
    assert_null(ops);
    btl_stop();
    set_backend("ofi");
    assert_string_equal(choice_of(0, NULL, &err), "ofi");
}

/* ---- devices and ports ---- */

static void write_state(const char *below, const char *port, const char *text)
{
    static const char *const part[] = {"dev0", "dev0/ports", "dev1", "dev1/ports"};
    char path[PATH_MAX];
    FILE *file;

    (void)mkdir(below, 0700);
    for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", below, part[i]);
        (void)mkdir(path, 0700);
    }
    snprintf(path, sizeof(path), "%s/%s", below, port);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/state", below, port);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_a_port_is_active_or_not(void **state)
{
    char below[PATH_MAX];

    (void)state;
    snprintf(below, sizeof(below), "%s/infiniband", directory);
    assert_false(btl_port_active(below)); /* no such directory */
    assert_false(btl_device_present(below));
    assert_int_equal(mkdir(below, 0700), 0);
    assert_false(btl_device_present(below)); /* the module ib_core without a device */
    write_state(below, "dev0/ports/1", "1: DOWN\n");
    assert_false(btl_port_active(below));
    assert_true(btl_device_present(below));
    write_state(below, "dev0/ports/2", "5: ACTIVE_DEFER\n");
    assert_false(btl_port_active(below));
    write_state(below, "dev1/ports/1", "");
    assert_false(btl_port_active(below));
    write_state(below, "dev1/ports/1", "4: ACTIVE\n");
    assert_true(btl_port_active(below));
}

/* ---- the directory of modules ---- */

static int prepare(void **state)
{
    static const char *const name[] = {"btl_shm", "btl_verbs", "btl_ofi", "btl_tcp"};
    char module[PATH_MAX], path[PATH_MAX];
    const char *fakes = getenv("TEST_FAKE_BTL");

    if (realpath(fakes != NULL ? fakes : "test/unit/.libs/fake_btl.so", module) == NULL ||
        mkdtemp(directory) == NULL)
        return -1;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%s.so", directory, name[i]);
        if (symlink(module, path) != 0)
            return -1;
    }
    setenv("RPIPE_MODULE_PATH", directory, 1);
    log_set_level(LOG_ERROR); /* what is passed over is logged */
    return reset(state);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int clean(void **state)
{
    (void)state;
    return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_probe_loads_nothing, reset),
        cmocka_unit_test_setup(test_the_same_host_means_shm_and_loads_only_that, reset),
        cmocka_unit_test_setup(test_both_ends_choose_the_same_whatever_each_has, reset),
        cmocka_unit_test_setup(test_nothing_fits_is_one_reason_per_backend, reset),
        cmocka_unit_test_setup(
            test_without_a_device_ofi_is_on_the_card_only_if_its_provider_is_named, reset),
        cmocka_unit_test_setup(test_the_reason_names_what_is_missing_and_where, reset),
        cmocka_unit_test_setup(test_what_cannot_be_opened_is_passed_over, reset),
        cmocka_unit_test_setup(test_a_name_overrides_and_does_not_fall_back, reset),
        cmocka_unit_test_setup(test_what_has_to_be_named_is_not_chosen_by_itself, reset),
        cmocka_unit_test_setup(test_a_port_is_active_or_not, reset),
    };

    return cmocka_run_group_tests(tests, prepare, clean);
}
