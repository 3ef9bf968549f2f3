/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_job.c: the ways into a job: which one is chosen, what is wrong with the settings, and the tcp bootstrap with ranks
 * that come late, come twice, have another secret or size, and with unauthenticated connections at its port.
 */
#include "test/lib/descriptor_limit.h"
#include "test/lib/port.h"
#include "test/lib/ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "control/card.h"

static struct error err;

static void environment(const char *bootstrap, const char *rank, const char *size, const char *root,
                        const char *secret)
{
    static const char *const names[] = {"RPIPE_BOOTSTRAP", "RPIPE_RANK", "RPIPE_SIZE", "RPIPE_ROOT",
                                        "RPIPE_SECRET"};
    const char *const values[] = {bootstrap, rank, size, root, secret};
    int i;

    for (i = 0; i < 5; i++) {
        if (values[i] != NULL)
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
    }
    assert_int_equal(settings_load(&err), 0);
}

static int try_open(int ms)
{
    int rank, size, result;

    err.text[0] = '\0';
    result = job_open(&rank, &size, deadline_in_ms(ms), &err);
    assert_true(result <= 0);
    assert_true((result == 0) == (job_name() != NULL));
    return result;
}

static void test_single_without_any_environment(void **state)
{
    uint8_t card[JOB_CARD_MAX];
    size_t bytes;
    int rank, size;

    (void)state;
    unsetenv("PMIX_NAMESPACE");
    environment(NULL, NULL, NULL, NULL, NULL);
    assert_int_equal(try_open(1000), 0);
    assert_string_equal(job_name(), "single");
    assert_int_equal(job_rank(), 0);
    assert_int_equal(job_size(), 1);
    assert_int_equal(job_local_size(), 1);
    assert_int_equal(job_open(&rank, &size, DEADLINE_NEVER, &err), -EALREADY);
    assert_int_equal(job_card(0, card, &bytes, DEADLINE_NOW, &err), -ENOENT);
    assert_int_equal(job_publish("card", 5, DEADLINE_NOW, &err), 0);
    assert_int_equal(job_publish(card, JOB_CARD_MAX + 1, DEADLINE_NOW, &err), -EMSGSIZE);
    assert_int_equal(job_card(0, card, &bytes, DEADLINE_NOW, &err), 0);
    assert_int_equal(bytes, 5);
    assert_string_equal((char *)card, "card");
    assert_int_equal(job_card(1, card, &bytes, DEADLINE_NOW, &err), -ENOENT);
    assert_int_equal(job_card(-1, card, &bytes, DEADLINE_NOW, &err), -ENOENT);
    job_close();
    assert_int_equal(job_card(0, card, &bytes, DEADLINE_NOW, &err), -ENOTCONN);
}

static void expect_failure(const char *word)
{
    assert_true(try_open(1000) < 0);
    if (strstr(err.text, word) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", err.text, word);
}

static void test_settings_that_cannot_be(void **state)
{
    (void)state;
    environment("pmix", NULL, NULL, NULL, NULL); /* forced, and not there: no fallback */
    expect_failure("pmix");
    environment("tcp", NULL, NULL, NULL, NULL);
    expect_failure("RPIPE_RANK");
    environment(NULL, "0", NULL, NULL, NULL); /* half of it is given: not a job of one */
    expect_failure("RPIPE_SIZE");
    environment(NULL, "2", "2", "h:1", "s");
    expect_failure("RPIPE_RANK is 2");
    environment(NULL, "0", "0", "h:1", "s");
    expect_failure("RPIPE_SIZE is 0");
    environment(NULL, "0", "2", "h:1", "");
    expect_failure("RPIPE_SECRET");
    environment(NULL, "0", "2", NULL, "s");
    expect_failure("RPIPE_ROOT");
    environment(NULL, "0", "2", "localhost", "s");
    expect_failure("RPIPE_ROOT");
    environment(NULL, "0", "2", "localhost:0", "s");
    expect_failure("RPIPE_ROOT");
    environment(NULL, "0", "2", "localhost:65536", "s");
    expect_failure("RPIPE_ROOT");
    environment(NULL, "0", "2", "::1:5000", "s");
    expect_failure("RPIPE_ROOT");
    environment(NULL, "0", "2", "[::1:5000", "s");
    expect_failure("RPIPE_ROOT");
    environment(NULL, "0", "2", ":5000", "s");
    expect_failure("RPIPE_ROOT");
    environment(NULL, "0", "1", NULL, NULL); /* alone: nothing else is needed */
    assert_int_equal(try_open(1000), 0);
    assert_string_equal(job_name(), "tcp");
    assert_int_equal(job_publish("x", 1, deadline_in_ms(1000), &err), 0);
    job_close();
}

static void test_describe_every_way(void **state)
{
    const char *name;
    bool usable;
    int i;

    (void)state;
    environment(NULL, NULL, NULL, NULL, NULL);
    for (i = 0; job_describe(i, &name, &usable, &err) == 0; i++) {
        assert_true(strlen(err.text) > 0);
        assert_int_equal(usable, strcmp(name, "single") == 0);
    }
    assert_int_equal(i, 4);
    assert_int_equal(job_describe(-1, &name, &usable, &err), -ENOENT);
}

/* ---- tcp ---- */

static const char *root;
static int late; /* this rank comes last */

/* In a rank: opens, publishes a card that shows the rank, and reads all others. */
static int join(int rank, int size, int ms)
{
    char card[32], seen[JOB_CARD_MAX];
    size_t bytes;
    int r, s, k, result;

    if (settings_load(&err) != 0)
        return -EINVAL;
    result = job_open(&r, &s, deadline_in_ms(ms), &err);
    if (result != 0)
        return result;
    REQUIRE(r == rank && s == size);
    snprintf(card, sizeof(card), "card of rank %d", rank);
    result = job_publish(card, strlen(card) + 1 + (size_t)rank, deadline_in_ms(ms), &err);
    for (k = 0; k < size && result == 0; k++) {
        REQUIRE(job_card(k, seen, &bytes, DEADLINE_NOW, &err) == 0);
        snprintf(card, sizeof(card), "card of rank %d", k);
        REQUIRE(bytes == strlen(card) + 1 + (size_t)k && strcmp(seen, card) == 0);
    }
    return result;
}

static void joined(int result)
{
    if (result != 0) {
        fprintf(stderr, "[rank %d] %d: %s\n", job_rank(), result, err.text);
        _exit(1);
    }
}

static void rank_joins(int rank, int size)
{
    if (root != NULL)
        setenv("RPIPE_ROOT", root, 1);
    if (rank == late)
        usleep(200000);
    joined(join(rank, size, LIMIT_MS));
    job_close();
}

static void test_ranks_join_in_any_order(void **state)
{
    (void)state;
    for (late = 0; late < 4; late++)
        run_ranks(4, rank_joins);
    late = -1;
    run_ranks(8, rank_joins);
}

static void test_names_and_both_families(void **state)
{
    char text[64];
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    (void)state;
    late = 0; /* the others connect before any rank listens */
    snprintf(text, sizeof(text), "localhost:%d", free_port());
    root = text;
    run_ranks(3, rank_joins);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0) {
        snprintf(text, sizeof(text), "[::1]:%d", free_port());
        run_ranks(3, rank_joins);
    }
    if (fd >= 0)
        close(fd);
    root = NULL;
    late = -1;
}

static void rank_mistaken(int rank, int size)
{
    const char *mistake = getenv("MISTAKE");
    int result;

    log_set_level(LOG_ERROR);
    if (rank == 2 && strcmp(mistake, "secret") == 0) {
        setenv("RPIPE_SECRET", "the word of another job", 1);
    } else if (rank == 2 && strcmp(mistake, "twice") == 0) {
        setenv("RPIPE_RANK", "1", 1);
        usleep(100000);
    } else if (rank == 2 && strcmp(mistake, "size") == 0) {
        setenv("RPIPE_SIZE", "9", 1);
        setenv("RPIPE_RANK", "8", 1);
    }
    if (rank == 2) {
        int r, s;

        REQUIRE(settings_load(&err) == 0 && job_open(&r, &s, deadline_in_ms(LIMIT_MS), &err) == 0);
        result = job_publish("x", 1, deadline_in_ms(LIMIT_MS), &err);
        REQUIRE(result == (strcmp(mistake, "secret") == 0  ? -EACCES
                           : strcmp(mistake, "twice") == 0 ? -EEXIST
                                                           : -EINVAL));
        REQUIRE(strstr(err.text, "refused") != NULL);
        return;
    }
    result =
        join(rank, size, rank == 0 ? 1500 : 3000); /* rank 1 is still there when rank 0 gives up */
    REQUIRE(result == -ETIMEDOUT);
    if (rank == 0)
        REQUIRE(strstr(err.text, "2 of 3") != NULL &&
                strstr(err.text, "rank 2 is the first") != NULL);
}

static void test_a_process_outside_the_job_gets_the_reason(void **state)
{
    static const char *const mistakes[] = {"secret", "twice", "size"};
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        setenv("MISTAKE", mistakes[i], 1);
        run_ranks(3, rank_mistaken);
    }
}

static void unauthenticated_clients_at_the_port(int rank, int size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t noise[3000];
    unsigned seed = 7;
    int fds[60], i;
    size_t k;

    log_set_level(LOG_ERROR);
    a.sin_port = htons((uint16_t)atoi(strrchr(getenv("RPIPE_ROOT"), ':') + 1));
    for (i = 0; rank == 1 && i < 60;
         i++) { /* some send invalid data, some hang up, some stay and send nothing */
        int64_t patience = deadline_in_ms(LIMIT_MS);

        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        while (connect(fds[i], (struct sockaddr *)&a, sizeof(a)) != 0) {
            REQUIRE(!deadline_passed(patience));
            usleep(1000);
        }
        for (k = 0; k < sizeof(noise); k++)
            noise[k] = (uint8_t)rand_r(&seed);
        if (i % 3 != 0)
            send(fds[i], noise, (size_t)(i * 50 % 3000 + 1), MSG_NOSIGNAL);
        if (i % 3 == 1)
            close(fds[i]);
    }
    joined(join(rank, size, LIMIT_MS));
    job_close();
}

/* Every rank that joins takes a descriptor of rank 0: with fewer than ranks the job cannot start, which is reported at once. */
static void more_ranks_than_descriptors(int rank, int size)
{
    int r, s, result;

    log_set_level(LOG_ERROR);
    if (rank != 0) {
        result = join(rank, size, LIMIT_MS);
        REQUIRE(result == -ETIMEDOUT ||
                (result == -EMFILE && strstr(err.text, "no place for all 5 ranks") != NULL));
        return;
    }
    REQUIRE(settings_load(&err) == 0 && job_open(&r, &s, deadline_in_ms(LIMIT_MS), &err) == 0);
    REQUIRE(descriptors_leave(2));
    result = job_publish("x", 1, deadline_in_ms(LIMIT_MS), &err);
    REQUIRE(result == -EMFILE && strstr(err.text, "no place for all 5 ranks") != NULL &&
            strstr(err.text, "ulimit -n") != NULL);
    job_close();
}

static void a_rank_may_die_and_come_again(int rank, int size)
{
    if (rank == 1) {
        /* joins, and dies before the table is complete; it is started anew */
        pid_t first = fork();

        if (first == 0) {
            join(rank, size, LIMIT_MS);
            _exit(1); /* not reached: rank 2 waits for its death */
        }
        usleep(200000);
        kill(first, SIGKILL);
        REQUIRE(waitpid(first, NULL, 0) == first);
    }
    if (rank == 2)
        usleep(500000);
    joined(join(rank, size, LIMIT_MS));
    job_close();
}

static void rank_alone(int rank, int size)
{
    int result = join(rank, size, 200);

    REQUIRE(result == -ETIMEDOUT && strstr(err.text, "RPIPE_ROOT") != NULL);
}

static void rank_aborts(int rank, int size)
{
    struct control_hooks none = {NULL, NULL, NULL, NULL};

    log_set_level(LOG_ERROR);
    (void)size;
    rank_start(&none);
    if (rank == 2)
        job_abort(7);
    for (;;)
        pause(); /* alarm(2), set by ranks_body(), ends a rank that does not receive the abort */
}

static void test_abort_ends_all(void **state)
{
    struct ranks r = {4, rank_aborts};
    struct job job;

    (void)state;
    job_prepare(&job, r.size);
    job_start(&job, ranks_body, &r);
    for (int rank = 0; rank < r.size; rank++)
        assert_true(job_ended(&job, rank) && job_status_is(&job, rank, 7));
    job_finish(&job);
}

static void test_no_process_listens(void **state)
{
    char text[64];
    pid_t pid;
    int status;

    (void)state;
    snprintf(text, sizeof(text), "127.0.0.1:%d", free_port());
    environment("tcp", "1", "2", text, "word");
    pid = fork();
    if (pid == 0) {
        rank_alone(1, 2);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A card of a later version, which is longer, and the shortest one. */
static void test_cards_are_read_zero_extended(void **state)
{
    struct {
        struct card card;
        uint64_t later[4];
    } longer = {.later = {1, 2, 3, 4}};
    struct card out;

    (void)state;
    environment(NULL, NULL, NULL, NULL, NULL);
    assert_int_equal(card_make(&longer.card, 3, &err), 0);
    longer.card.bytes = sizeof(longer);
    assert_int_equal(card_check(&out, &longer, sizeof(longer), 3, &err), 0);
    assert_memory_equal(&out, &longer.card, sizeof(out));
    longer.card.bytes = CARD_LEAST;
    assert_int_equal(card_check(&out, &longer, sizeof(longer), 3, &err), 0);
    assert_memory_equal(&out, &longer.card, CARD_LEAST);
}

static void test_a_damaged_card_is_refused(void **state)
{
    struct card card, copy, out;

    (void)state;
    environment(NULL, NULL, NULL, NULL, NULL);
    assert_int_equal(card_make(&card, 3, &err), 0);
    assert_int_equal(card_check(&out, &card, sizeof(card), 3, &err), 0);
    assert_true(card_same_host(&card, &out) && cookie_equal(card.cookie, out.cookie));
    assert_int_equal(card_check(&out, &card, sizeof(card), 4, &err), -EPROTO);
    assert_int_equal(card_check(&out, &card, sizeof(card) - 1, 3, &err), -EPROTO);
    copy = card, copy.versions.newest++; /* there is one in common */
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), 0);
    copy.versions.oldest = copy.versions.newest;
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), -EPROTO);
    assert_non_null(strstr(err.text, "versions 4 to 4"));
    assert_non_null(strstr(err.text, "3 to 3"));
    copy.versions = (struct version_range){9, 1};
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), -EPROTO);
    copy = card, copy.bytes++;
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), -EPROTO);
    copy = card, copy.bytes = CARD_LEAST - 1;
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), -EPROTO);
    copy = card, copy.addresses = CARD_ADDRESSES + 1;
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), -EPROTO);
    copy = card, copy.addresses = 1;
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), -EPROTO);
    copy = card, copy.unix_bytes = 41;
    assert_int_equal(card_check(&out, &copy, sizeof(copy), 3, &err), -EPROTO);
    copy = card, copy.network++;
    assert_false(card_same_host(&card, &copy));
    copy.network = card.network = 0;
    assert_false(card_same_host(&card, &copy));
    copy.cookie[15] ^= 0x80;
    assert_false(cookie_equal(card.cookie, copy.cookie));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_without_any_environment),
        cmocka_unit_test(test_settings_that_cannot_be),
        cmocka_unit_test(test_describe_every_way),
        cmocka_unit_test(test_cards_are_read_zero_extended),
        cmocka_unit_test(test_a_damaged_card_is_refused),
        cmocka_unit_test(test_ranks_join_in_any_order),
        cmocka_unit_test(test_names_and_both_families),
        cmocka_unit_test(test_a_process_outside_the_job_gets_the_reason),
        RANKS(3, unauthenticated_clients_at_the_port),
        RANKS(5, more_ranks_than_descriptors),
        RANKS(3, a_rank_may_die_and_come_again),
        cmocka_unit_test(test_abort_ends_all),
        cmocka_unit_test(test_no_process_listens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
