# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: a job of processes with different builds of the library. The newer one is a second build of the layers whose
# structures processes exchange (lib/util/layout.h).

mixed_tests = test/mixed/mixed
check_PROGRAMS += $(mixed_tests) test/mixed/mixed_old test/mixed/mixed_new
check_LTLIBRARIES += lib/libnewer.la
lib_libnewer_la_SOURCES = $(lib_libam_la_SOURCES) $(lib_librpipe_la_SOURCES) $(lib_libcontrol_la_SOURCES) \
	$(lib_libbootstrap_la_SOURCES) lib/util/layout.c lib/util/layout.h
lib_libnewer_la_CPPFLAGS = $(AM_CPPFLAGS) $(long_names) -DRPIPE_TEST_NEWER
test_mixed_mixed_SOURCES = test/mixed/mixed.c
test_mixed_mixed_LDADD =
EXTRA_test_mixed_mixed_DEPENDENCIES = test/mixed/mixed_old test/mixed/mixed_new
test_mixed_mixed_old_SOURCES = test/mixed/mixed_rank.c
test_mixed_mixed_old_LDADD = $(layers)
test_mixed_mixed_new_SOURCES = test/mixed/mixed_rank.c
test_mixed_mixed_new_LDADD = lib/libnewer.la lib/libnak.la lib/libbtl.la lib/libsync.la lib/liballoc.la lib/libutil.la
