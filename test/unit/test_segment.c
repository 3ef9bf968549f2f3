/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_segment.c: what a peer passes as shared memory, where fstatfs(2) is refused: ordinary memory is mapped also where its blocks are
 * those of transparent huge pages, and a file of huge pages is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26) /* linux/memfd.h */
#endif
#define HUGE ((size_t)2 << 20)
#define SMALL ((size_t)12 << 10)

static bool huge_blocks; /* as with shmem_enabled = always */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): instead of libc's */
int fstatfs(int fd, struct statfs *fs)
{
    (void)fd, (void)fs;
    errno = EPERM;
    return -1;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): instead of libc's */
int fstat(int fd, struct stat *st)
{
    int rc = fstatat(fd, "", st, AT_EMPTY_PATH);

    if (huge_blocks)
        st->st_blksize = (blksize_t)HUGE;
    return rc;
}

static void seal(int fd)
{
    assert_return_code(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
                       errno);
}

static void test_ordinary_memory(void **state)
{
    struct error err = {""};
    struct segment s = {0};
    int fd;

    (void)state;
    for (int i = 0; i < 2; i++) {
        huge_blocks = i == 1;
        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_return_code(fallocate(fd, 0, 0, (off_t)SMALL), errno);
        seal(fd);
        assert_int_equal(segment_map(fd, SMALL, false, &s, &err), 0);
        assert_false(s.huge);
        segment_unmap(&s);
        assert_int_equal(segment_map(fd, SMALL - 100, false, &s, &err), -EPROTO);
        close(fd);
    }
    huge_blocks = false;
}

static void test_huge_pages(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
    struct error err = {""};
    struct segment s = {0};

    (void)state;
    if (fd < 0)
        skip(); /* a kernel without them */
    assert_return_code(ftruncate(fd, (off_t)(2 * HUGE)), errno);
    seal(fd);
    assert_int_equal(segment_map(fd, HUGE + SMALL, false, &s, &err), -EPROTO);
    assert_non_null(strstr(err.text, "whole pages of 2097152 bytes"));
    assert_null(s.base);
    close(fd);
}

/* Pages that are allocated later: a receiver expects the others to be there, and reads the late ones when they are. */
static void test_late_memory(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct segment_late late = {.at = page, .bytes = 6 * page};
    struct error err = {""};
    struct segment own = {0}, theirs = {0};
    struct stat st;
    int fd = -1;

    (void)state;
    if (!segment_has_late())
        skip(); /* a kernel before 5.14 */
    assert_int_equal(segment_make_late(8 * page, late, &own, &fd, &err), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_blocks * 512, 2 * page);
    assert_int_equal(segment_map(fd, 8 * page, false, &theirs, &err), -EPROTO);
    assert_int_equal(segment_map_late(fd, 8 * page, late.bytes, &theirs, &err), 0);
    assert_int_equal(segment_allocate_late((char *)own.base + late.at, late.bytes), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_blocks * 512, 8 * page);
    ((char *)own.base)[late.at] = 7;
    assert_int_equal(((const char *)theirs.base)[late.at], 7);
    segment_unmap(&own);
    segment_unmap(&theirs);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary_memory),
        cmocka_unit_test(test_huge_pages),
        cmocka_unit_test(test_late_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
