/* SPDX-License-Identifier: BSD-3-Clause */
/* failpoint.c: see failpoint.h. */
#define RPIPE_FAILPOINTS /* what the library that is tested is built with */
#include "failpoint.h"

#include "util/failpoint.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>

extern struct failpoint __start_rpipe_failpoints[],
    __stop_rpipe_failpoints[]; /* NOLINT(bugprone-reserved-identifier): the linker's */

static struct {
    struct failpoint *from, *to;
} of_module;

static const char *names[STEPS_MOST];
static unsigned count;

static struct {
    struct step_table *table;
    struct board *board;
    int rank, sig;
    unsigned number;
    uint32_t nth;
} armed;

static unsigned number_of(const char *name)
{
    unsigned i;

    for (i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    if (count == STEPS_MOST) {
        printf("more than %d steps\n", STEPS_MOST);
        exit(99);
    }
    names[count] = name;
    return count++;
}

struct step_table *step_prepare(void)
{
    struct step_table *t =
        mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t n = ((uintptr_t)__stop_rpipe_failpoints - (uintptr_t)__start_rpipe_failpoints) /
               sizeof(struct failpoint),
           i;
    struct failpoint *s;

    if (t == MAP_FAILED) {
        perror("the table of steps");
        exit(99);
    }
    for (i = 0; i < n; i++)
        __start_rpipe_failpoints[i].number = number_of(__start_rpipe_failpoints[i].name);
    for (s = of_module.from; s != of_module.to; s++)
        s->number = number_of(s->name);
    return t;
}

/* It stays: the ranks, which are forked, find it loaded, and its steps numbered. */
const void *step_add_module(const char *path, const char *symbol)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    step_range_function range = NULL;
    const void *found = NULL;

    if (module != NULL && (found = dlsym(module, symbol)) != NULL)
        *(void **)&range = dlsym(module, STEP_RANGE);
    if (range == NULL) {
        printf("%s: %s\n", path, dlerror());
        return NULL;
    }
    range(&of_module.from, &of_module.to);
    return found;
}

void step_clear(struct step_table *t) { memset(t, 0, sizeof(*t)); }
unsigned step_count(void) { return count; }
const char *step_name(unsigned number) { return names[number]; }

void step_arm(struct step_table *t, struct board *board, int rank, unsigned number, uint32_t nth,
              int sig)
{
    armed.board = board;
    armed.rank = rank;
    armed.number = number;
    armed.nth = nth;
    armed.sig = sig;
    armed.table = t;
}

/* Any thread. A signal that a process sends to itself has come when kill(2) returns, at the latest. */
void failpoint_reached(const struct failpoint *failpoint)
{
    struct step_table *t = armed.table;
    uint32_t n;

    if (t == NULL)
        return;
    n = atomic_fetch_add(&t->count[armed.rank][failpoint->number], 1) + 1;
    if (failpoint->number != armed.number || n != armed.nth)
        return;
    if (armed.sig == SIGKILL)
        atomic_store(&armed.board->killed, clock_now());
    atomic_store(&t->happened, clock_now());
    kill(getpid(), armed.sig);
}
