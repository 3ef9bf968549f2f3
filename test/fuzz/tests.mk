# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the fuzzers.

# Fuzzers: with libFuzzer by test/fuzz/run; here as programs that replay the corpus.
check_PROGRAMS += \
	test/fuzz/fuzz_am \
	test/fuzz/fuzz_cast \
	test/fuzz/fuzz_coll \
	test/fuzz/fuzz_control \
	test/fuzz/fuzz_heap \
	test/fuzz/fuzz_msg \
	test/fuzz/fuzz_pipe \
	test/fuzz/fuzz_reclaim \
	test/fuzz/fuzz_tcp \
	test/fuzz/fuzz_vmem \
	test/fuzz/fuzz_wire
test_fuzz_fuzz_am_SOURCES = test/fuzz/fuzz_am.c test/fuzz/input.h test/fuzz/driver.c
test_fuzz_fuzz_am_LDADD = lib/libam.la lib/libutil.la $(public)
test_fuzz_fuzz_cast_SOURCES = test/fuzz/fuzz_cast.c test/fuzz/input.h test/fuzz/driver.c
test_fuzz_fuzz_cast_LDADD = lib/libnak.la lib/libutil.la
test_fuzz_fuzz_coll_SOURCES = test/fuzz/fuzz_coll.c test/fuzz/input.h test/fuzz/driver.c
test_fuzz_fuzz_control_SOURCES = test/fuzz/fuzz_control.c test/fuzz/input.h test/fuzz/driver.c test/fuzz/victim.h
test_fuzz_fuzz_heap_SOURCES = test/fuzz/fuzz_heap.c test/fuzz/input.h test/fuzz/driver.c $(heap_model)
test_fuzz_fuzz_msg_SOURCES = test/fuzz/fuzz_msg.c test/fuzz/input.h test/fuzz/driver.c
test_fuzz_fuzz_msg_LDADD = lib/libmsg.la lib/libutil.la $(public)
test_fuzz_fuzz_pipe_SOURCES = test/fuzz/fuzz_pipe.c test/fuzz/input.h test/fuzz/driver.c test/fuzz/victim.h
test_fuzz_fuzz_reclaim_SOURCES = test/fuzz/fuzz_reclaim.c test/fuzz/input.h test/fuzz/driver.c test/unit/reclaim_pair.h
test_fuzz_fuzz_tcp_SOURCES = test/fuzz/fuzz_tcp.c test/fuzz/input.h test/fuzz/driver.c $(lib_btl_tcp_la_SOURCES)
test_fuzz_fuzz_tcp_CFLAGS = $(AM_CFLAGS)
test_fuzz_fuzz_tcp_LDADD = lib/libslab.la lib/libutil.la
test_fuzz_fuzz_vmem_SOURCES = test/fuzz/fuzz_vmem.c test/fuzz/input.h test/fuzz/driver.c $(heap_model)
test_fuzz_fuzz_wire_SOURCES = test/fuzz/fuzz_wire.c test/fuzz/input.h test/fuzz/driver.c
fuzz_corpus = $(wildcard $(srcdir)/test/fuzz/corpus/*/*)
EXTRA_DIST += test/fuzz/README.md test/fuzz/run $(fuzz_corpus)
