/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count_locks.h: counts the locks that a thread takes, by the library that takes them: this one with its modules, or others (the provider of a
 * device). The functions are defined in the program, which exports them (-export-dynamic): so every library calls these. Include it in one
 * file of a program.
 */
#ifndef TEST_LIB_COUNT_LOCKS_H
#define TEST_LIB_COUNT_LOCKS_H

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct lock_counts {
    uint64_t ours, others;
};

static _Thread_local struct lock_counts lock_counts;
static _Thread_local bool lock_counting;

#define LOCK_OBJECTS 16
static struct {
    uintptr_t first, last;
} lock_object[LOCK_OBJECTS];
static int lock_objects;

static int lock_find_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    uintptr_t last = 0;

    (void)size;
    (void)unused;
    if (strstr(info->dlpi_name, "librmalloc") == NULL && strstr(info->dlpi_name, "btl_") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > last)
            last = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (lock_objects < LOCK_OBJECTS) {
        lock_object[lock_objects].first = info->dlpi_addr;
        lock_object[lock_objects++].last = info->dlpi_addr + last;
    }
    return 0;
}

/* Once, when the modules are loaded, before threads count. Returns how many objects are ours. */
static inline int lock_count_init(void)
{
    lock_objects = 0;
    (void)dl_iterate_phdr(lock_find_object, NULL);
    return lock_objects;
}

static inline void lock_count_begin(void)
{
    lock_counts = (struct lock_counts){0, 0};
    lock_counting = true;
}

static inline struct lock_counts lock_count_end(void)
{
    lock_counting = false;
    return lock_counts;
}

static void lock_count(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;

    if (!lock_counting)
        return;
    for (int i = 0; i < lock_objects; i++)
        if (at >= lock_object[i].first && at < lock_object[i].last) {
            lock_counts.ours++;
            return;
        }
    lock_counts.others++;
}

#define LOCK_COUNTED(name, type)                                                                   \
    __attribute__((visibility("default"))) int name(type *lock);                                   \
    int name(type *lock)                                                                           \
    {                                                                                              \
        static int (*real)(type *);                                                                \
        int (*call)(type *) = __atomic_load_n(&real, __ATOMIC_RELAXED);                            \
                                                                                                   \
        if (call == NULL) {                                                                        \
            *(void **)&call = dlsym(RTLD_NEXT, #name);                                             \
            __atomic_store_n(&real, call, __ATOMIC_RELAXED);                                       \
        }                                                                                          \
        lock_count(__builtin_return_address(0));                                                   \
        return call(lock);                                                                         \
    }
LOCK_COUNTED(pthread_mutex_lock, pthread_mutex_t)
LOCK_COUNTED(pthread_mutex_trylock, pthread_mutex_t)
LOCK_COUNTED(pthread_spin_lock, pthread_spinlock_t)
LOCK_COUNTED(pthread_spin_trylock, pthread_spinlock_t)
LOCK_COUNTED(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCK_COUNTED(pthread_rwlock_wrlock, pthread_rwlock_t)

#endif
