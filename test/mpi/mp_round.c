/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figure 4.6 of Zambre 2020 without help: the service threads of two ranks do nothing meanwhile. In each turn one rank writes a message that its peer
 * fetches (GET), and then waits on a pipe that is not in the stream of that message, for a word that the peer sends when it has fetched it. So
 * the thread that waits has to drive the other stream itself: it is its own, or that of a thread that makes no calls.
 *
 * The service thread waits in epoll_wait(2), which is defined here, in the program.
 */
#include "test/lib/mp_check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/epoll.h>

enum { LARGE = 200000, TURNS = 12, HEAP = 4096 };

/* ---- the service thread ---- */

static pthread_mutex_t service_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t service_changed = PTHREAD_COND_INITIALIZER;
static bool service_held, service_stands; /* it is to stand still; it does */

static void service_pass(void)
{
    pthread_mutex_lock(&service_mutex);
    while (service_held) {
        service_stands = true;
        pthread_cond_broadcast(&service_changed);
        pthread_cond_wait(&service_changed, &service_mutex);
    }
    service_stands = false;
    pthread_mutex_unlock(&service_mutex);
}

static bool service_is_this(void)
{
    char name[16] = "";

    return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
           strcmp(name, "rmalloc") == 0;
}

/* In short waits, so that it comes past service_pass. */
__attribute__((visibility("default"))) int epoll_wait(int epoll, struct epoll_event *events,
                                                      int most, int timeout)
{
    int (*call)(int, struct epoll_event *, int, int), n = 0;

    *(void **)&call = dlsym(RTLD_NEXT, "epoll_wait");
    if (timeout == 0 || !service_is_this())
        return call(epoll, events, most, timeout);
    for (int ms = 0; n == 0 && (timeout < 0 || ms < timeout); ms++) {
        service_pass();
        n = call(epoll, events, most, 1);
    }
    return n;
}

static void service_hold(bool hold)
{
    pthread_mutex_lock(&service_mutex);
    service_held = hold;
    pthread_cond_broadcast(&service_changed);
    while (hold && !service_stands)
        pthread_cond_wait(&service_changed, &service_mutex);
    pthread_mutex_unlock(&service_mutex);
}

/* ---- pipes ---- */

struct ends {
    rstream_t of_large, of_words; /* the second one may be NULL */
    rch_t large_out, large_in, word_out, word_in;
};

static rch_t round_open(rstream_t stream, rpipe_role_t role, uint64_t context, rpipe_op_t op,
                        uint64_t heap)
{
    rpipe_config_t cfg = {.role = role,
                          .peer = 1 - mp_rank,
                          .context = context,
                          .op = op,
                          .heap_bytes = heap,
                          .stream = stream};
    rch_t ch;

    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

static void word_send(const struct ends *e, uint64_t word)
{
    CHECK_OK(e->word_out, rsend(e->word_out, &word, sizeof(word), 0));
}

static void word_await(const struct ends *e, uint64_t word)
{
    uint64_t got = ~word;

    CHECK_OK(e->word_in, rrecv(e->word_in, &got, sizeof(got), NULL, 0));
    CHECK(e->word_in, got == word);
}

static void ends_open(struct ends *e, uint64_t context, bool words_in_stream)
{
    CHECK_OK(NULL, rstream_open(&e->of_large, NULL));
    if (words_in_stream)
        CHECK_OK(NULL, rstream_open(&e->of_words, NULL));
    e->large_out = round_open(e->of_large, RPIPE_WRITER, context, RPIPE_GET, 2 * LARGE);
    e->large_in = round_open(e->of_large, RPIPE_READER, context, RPIPE_GET, 2 * LARGE);
    e->word_out = round_open(e->of_words, RPIPE_WRITER, context + 1, RPIPE_PUT, HEAP);
    e->word_in = round_open(e->of_words, RPIPE_READER, context + 1, RPIPE_PUT, HEAP);
    CHECK_OK(e->large_out, rwait(e->large_out));
    CHECK_OK(e->large_in, rwait(e->large_in));
    CHECK_OK(e->word_out, rwait(e->word_out));
    CHECK_OK(e->word_in, rwait(e->word_in));
    word_send(e, context); /* when it has come, the peer is past its waits, too */
    word_await(e, context);
}

static void ends_close(struct ends *e)
{
    CHECK_OK(e->large_out, rclose(e->large_out));
    CHECK_OK(e->word_out, rclose(e->word_out));
    CHECK_OK(e->large_in, rclose(e->large_in));
    CHECK_OK(e->word_in, rclose(e->word_in));
    CHECK_OK(NULL, rstream_close(e->of_large));
    if (e->of_words != NULL)
        CHECK_OK(NULL, rstream_close(e->of_words));
}

/* ---- turns ---- */

struct turn {
    const struct ends *ends;
    uint64_t key;
};

static void *turn_write(void *of)
{
    const struct turn *t = of;

    mp_send(t->ends->large_out, LARGE, t->key);
    return NULL;
}

/* By a thread that has ended, and makes no further call; or by this one. */
static void turn_write_by(struct turn *t, bool other_thread)
{
    pthread_t thread;

    if (!other_thread) {
        (void)turn_write(t);
        return;
    }
    CHECK(NULL, pthread_create(&thread, NULL, turn_write, t) == 0);
    CHECK(NULL, pthread_join(thread, NULL) == 0);
}

static void turns(struct ends *e, uint64_t context, bool other_thread)
{
    for (int i = 0; i < TURNS; i++) {
        struct turn t = {e, mp_key(i % 2, 1 - i % 2, (uint32_t)context, (uint64_t)i)};
        int ready = 0;

        if (i % 2 != mp_rank) {
            mp_read_free(e->large_in, LARGE, t.key);
            word_send(e, t.key);
            continue;
        }
        turn_write_by(&t, other_thread);
        if (i % 4 >= 2) /* many pipes have a wait of their own */
            CHECK_OK(e->word_in, rpoll(&e->word_in, 1, &ready, (int)CHECK_LATE_MS));
        word_await(e, t.key);
    }
}

static void run(uint64_t context, bool words_in_stream, bool other_thread)
{
    struct ends e = {.of_words = NULL};

    ends_open(&e, context, words_in_stream);
    service_hold(true);
    turns(&e, context, other_thread);
    service_hold(false);
    ends_close(&e);
}

int main(int argc, char **argv)
{
    mp_begin(argc, argv, 2);
    CHECK(NULL, mp_ranks == 2);
    for (int way = 0; way < 4; way++)
        run(10 + 2 * (uint64_t)way, way % 2 == 0, way / 2 == 1);
    return mp_end();
}
