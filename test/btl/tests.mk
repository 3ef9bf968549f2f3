# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the conformance suite of backends.

# Networks: does a backend do what btl.h specifies? conform BACKEND SEED; test/btl/conform-BACKEND runs it in several ways.
check_PROGRAMS += test/btl/conform
test_btl_conform_SOURCES = \
	test/btl/conform.c \
	test/btl/conform.h \
	test/btl/conform_host.c \
	test/btl/conform_lines.c \
	test/btl/conform_target.c \
	test/btl/conform_transfers.c
test_btl_conform_LDADD = lib/libutil.la
network_scripts = \
	test/btl/conform-defects \
	test/btl/conform-mpi \
	test/btl/conform-ofi \
	test/btl/conform-sim \
	test/btl/conform-tcp \
	test/btl/conform-verbs
dist_check_SCRIPTS += $(network_scripts) test/run-sim
test/btl/conform-defects.log test/btl/conform-mpi.log test/btl/conform-ofi.log test/btl/conform-sim.log test/btl/conform-tcp.log test/btl/conform-verbs.log: test/btl/conform$(EXEEXT) $(fake_programs) $(check_LTLIBRARIES)
# unit tests of pipes over the simulated network, or over the sockets of this host
sim_tests = \
	test/unit/test_growth-0+device.sim \
	test/unit/test_growth-1-0+device_tcp.sim \
	test/unit/test_modes-0+device.sim \
	test/unit/test_modes-1-0+device_tcp.sim \
	test/unit/test_pipe_lives-0+device.sim \
	test/unit/test_pipe_lives-1-0+device_tcp.sim \
	test/unit/test_pipe_misuse-0+device.sim \
	test/unit/test_pipe_misuse-1-0+device_tcp.sim \
	test/unit/test_pipe_single-0+device.sim \
	test/unit/test_pipe_single-1-0+device_tcp.sim \
	test/unit/test_pipe_stale-0+device.sim \
	test/unit/test_pipe_stale-1-0+device_tcp.sim \
	test/unit/test_pipe_threads-0+device.sim \
	test/unit/test_pipe_threads-1-0+device_tcp.sim \
	test/unit/test_pipe_waiting-0+device.sim \
	test/unit/test_pipe_waiting-1-0+device_tcp.sim \
	test/unit/test_region-0+device.sim \
	test/unit/test_region-1+device_tcp.sim \
	test/unit/test_region_end-0+device.sim \
	test/unit/test_region_end-1+device_tcp.sim \
	test/unit/test_region_tag-0+device.sim \
	test/unit/test_region_tag-1+device_tcp.sim \
	test/unit/test_region_threads-0+device.sim \
	test/unit/test_region_threads-1+device_tcp.sim \
	test/unit/test_rfree_queues-0+device.sim \
	test/unit/test_rfree_queues-1+device_tcp.sim \
	test/faults/device_violations-1.sim \
	test/faults/given_back-1.sim \
	test/faults/violations-1.sim \
	test/faults/violations_above-1.sim \
	test/unit/test_cork-1.sim \
	test/unit/test_cork-1+tcp.sim \
	test/unit/test_device-1.sim \
	test/unit/test_device-1+tcp.sim \
	test/unit/test_device_region-1.sim \
	test/unit/test_device_region-1+tcp.sim \
	test/unit/test_device_window-1.sim \
	test/unit/test_device_window-1+tcp.sim \
	test/unit/test_device_window_end-1.sim \
	test/unit/test_eager-1+tcp.sim \
	test/unit/test_growth-1-0.sim \
	test/unit/test_growth-1+tcp.sim \
	test/unit/test_modes-2-2.sim \
	test/unit/test_modes-1+tcp.sim \
	test/unit/test_pipe_lives-1-0.sim \
	test/unit/test_pipe_lives-1-5.sim \
	test/unit/test_pipe_misuse-1.sim \
	test/unit/test_pipe_overrun-1.sim \
	test/unit/test_pipe_single-1-0.sim \
	test/unit/test_pipe_single-1-5.sim \
	test/unit/test_pipe_single-1-0+tcp.sim \
	test/unit/test_pipe_stale-1.sim \
	test/unit/test_pipe_waiting-1.sim \
	test/unit/test_pipe_waiting-1+tcp.sim \
	test/unit/test_region-1.sim \
	test/unit/test_region-2.sim \
	test/unit/test_region-1+tcp.sim \
	test/unit/test_region_end-1.sim \
	test/unit/test_region_end-2.sim \
	test/unit/test_region_tag-1.sim \
	test/unit/test_rfree_queues-1.sim \
	test/unit/test_region_threads-1.sim \
	test/unit/test_region_threads-1+tcp.sim \
	test/unit/test_stream-1.sim \
	test/unit/test_stream-1+tcp.sim \
	test/unit/test_stream-1-0+ofi.sim \
	test/unit/test_stream-1-3+ofi.sim \
	test/unit/test_stream_contexts-1+tcp.sim \
	test/unit/test_window-1.sim \
	test/unit/test_window-2.sim \
	test/unit/test_window-1+tcp.sim
network_tests = $(network_scripts)
if HAVE_CMOCKA
network_tests += $(sim_tests)
$(sim_tests): $(fault_tests) $(unit_tests) $(check_LTLIBRARIES)
	@$(MKDIR_P) $(@D) && : >$@
endif

# Needs an RDMA device: run by test/hosts/guests.
if HAVE_VERBS
check_PROGRAMS += test/btl/verbs_counts test/btl/verbs_errors test/mpi/mp_connection_error
endif

# Both ends of a connection, with a stream at one of them.
stream_pair = test/btl/conform.h test/btl/conform_host.c test/btl/stream_pair.c test/btl/stream_pair.h

# What streams request of libfabric, counted; over a provider of sockets, which may have less than it has.
if HAVE_FABRIC
check_PROGRAMS += test/btl/ofi_streams
network_tests += test/btl/ofi_streams
endif
test_btl_ofi_streams_SOURCES = $(stream_pair) test/btl/ofi_streams.c
test_btl_ofi_streams_CFLAGS = $(AM_CFLAGS) $(FABRIC_CFLAGS)
test_btl_ofi_streams_LDADD = lib/libutil.la $(FABRIC_LIBS)
test_btl_ofi_streams_LDFLAGS = $(AM_LDFLAGS) -export-dynamic

# Memory of devices over libfabric: with a provider that has FI_HMEM for the device of the tests (test/btl/fake_hmem.h).
fake_hmem = test/btl/fake_hmem.c test/btl/fake_hmem.h
hmem_tests =
if HAVE_FABRIC
if HAVE_CMOCKA
hmem_tests += test/btl/hmem_device test/btl/hmem_device_region test/btl/hmem_device_window test/btl/ofi_hmem
endif
endif
check_PROGRAMS += $(hmem_tests)
network_tests += $(hmem_tests)
hmem_flags = $(AM_CFLAGS) $(FABRIC_CFLAGS)
hmem_libraries = $(public) $(CMOCKA_LIBS) $(FABRIC_LIBS)
test_btl_hmem_device_SOURCES = test/unit/test_device.c $(fake_hmem)
test_btl_hmem_device_CFLAGS = $(hmem_flags)
test_btl_hmem_device_LDADD = $(hmem_libraries)
test_btl_hmem_device_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_hmem_device_region_SOURCES = test/unit/test_device_region.c $(fake_hmem)
test_btl_hmem_device_region_CFLAGS = $(hmem_flags)
test_btl_hmem_device_region_LDADD = $(hmem_libraries)
test_btl_hmem_device_region_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_hmem_device_window_SOURCES = test/unit/test_device_window.c $(fake_hmem)
test_btl_hmem_device_window_CFLAGS = $(hmem_flags)
test_btl_hmem_device_window_LDADD = $(hmem_libraries)
test_btl_hmem_device_window_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_ofi_hmem_SOURCES = test/btl/ofi_hmem.c $(fake_hmem)
test_btl_ofi_hmem_CFLAGS = $(hmem_flags)
test_btl_ofi_hmem_LDADD = $(hmem_libraries)
test_btl_ofi_hmem_LDFLAGS = $(AM_LDFLAGS) -export-dynamic

# Needs no device: programs with one of their own (test/btl/fake_verbs.h).
fake_verbs = test/btl/fake_verbs.c test/btl/fake_verbs.h test/btl/fake_verbs_cm.c
fake_flags = $(AM_CFLAGS) $(IBVERBS_CFLAGS) $(RDMACM_CFLAGS)
fake_tests =
fake_programs =
if HAVE_VERBS
fake_tests += test/btl/fake_counts test/btl/fake_errors test/btl/verbs_streams
fake_programs += test/btl/fake_conform
if HAVE_CMOCKA
fake_tests += test/btl/fake_cork test/btl/fake_device test/btl/fake_device_region test/btl/fake_device_window test/btl/fake_gpu_verbs test/btl/fake_stream test/btl/fake_stream_contexts
fake_tests += test/btl/fake_device_everywhere test/btl/fake_growth test/btl/fake_region test/btl/fake_window
endif
endif
check_PROGRAMS += $(fake_tests) $(fake_programs)
network_tests += $(fake_tests)
test_btl_fake_conform_SOURCES = $(test_btl_conform_SOURCES) $(fake_verbs)
test_btl_fake_conform_CFLAGS = $(fake_flags)
test_btl_fake_conform_LDADD = lib/libutil.la $(IBVERBS_LIBS)
test_btl_fake_conform_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_counts_SOURCES = test/btl/verbs_counts.c $(fake_verbs)
test_btl_fake_counts_CFLAGS = $(fake_flags)
test_btl_fake_counts_LDADD = lib/libutil.la $(IBVERBS_LIBS)
test_btl_fake_counts_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_errors_SOURCES = $(test_btl_verbs_errors_SOURCES) $(fake_verbs)
test_btl_fake_errors_CFLAGS = $(fake_flags)
test_btl_fake_errors_LDADD = lib/libutil.la $(IBVERBS_LIBS)
test_btl_fake_errors_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_verbs_streams_SOURCES = $(stream_pair) test/btl/verbs_streams.c $(fake_verbs)
test_btl_verbs_streams_CFLAGS = $(fake_flags)
test_btl_verbs_streams_LDADD = lib/libutil.la $(IBVERBS_LIBS)
test_btl_verbs_streams_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_cork_SOURCES = test/unit/test_cork.c $(fake_verbs)
test_btl_fake_cork_CFLAGS = $(fake_flags)
test_btl_fake_cork_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_cork_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_device_SOURCES = test/unit/test_device.c $(fake_verbs)
test_btl_fake_device_CFLAGS = $(fake_flags)
test_btl_fake_device_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_device_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_device_region_SOURCES = test/unit/test_device_region.c $(fake_verbs)
test_btl_fake_device_region_CFLAGS = $(fake_flags)
test_btl_fake_device_region_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_device_region_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_device_window_SOURCES = test/unit/test_device_window.c $(fake_verbs)
test_btl_fake_device_window_CFLAGS = $(fake_flags)
test_btl_fake_device_window_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_device_window_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_gpu_verbs_SOURCES = $(gpu_sources) test/unit/test_gpu.c $(fake_verbs)
test_btl_fake_gpu_verbs_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/contrib/gpu
test_btl_fake_gpu_verbs_CFLAGS = $(fake_flags)
test_btl_fake_gpu_verbs_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_gpu_verbs_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
EXTRA_test_btl_fake_gpu_verbs_DEPENDENCIES = test/lib/fake_cuda.la test/lib/fake_hip.la
test_btl_fake_stream_SOURCES = test/unit/test_stream.c $(fake_verbs)
test_btl_fake_stream_CFLAGS = $(fake_flags)
test_btl_fake_stream_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_stream_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_stream_contexts_SOURCES = test/unit/test_stream_contexts.c $(fake_verbs)
test_btl_fake_stream_contexts_CFLAGS = $(fake_flags)
test_btl_fake_stream_contexts_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_stream_contexts_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
# With a context of the device for all writers, and another one for all readers.
fake_everywhere = $(fake_verbs) test/btl/fake_everywhere.c
test_btl_fake_device_everywhere_SOURCES = test/unit/test_device.c $(fake_everywhere)
test_btl_fake_device_everywhere_CFLAGS = $(fake_flags)
test_btl_fake_device_everywhere_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_device_everywhere_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_growth_SOURCES = test/unit/test_growth.c $(fake_everywhere)
test_btl_fake_growth_CFLAGS = $(fake_flags)
test_btl_fake_growth_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_growth_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_region_SOURCES = test/unit/test_region.c $(fake_everywhere)
test_btl_fake_region_CFLAGS = $(fake_flags)
test_btl_fake_region_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_region_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_fake_window_SOURCES = test/unit/test_window.c $(fake_everywhere)
test_btl_fake_window_CFLAGS = $(fake_flags)
test_btl_fake_window_LDADD = $(public) $(CMOCKA_LIBS)
test_btl_fake_window_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_btl_verbs_counts_LDADD = lib/libutil.la
test_btl_verbs_errors_SOURCES = test/btl/conform.h test/btl/conform_host.c test/btl/verbs_errors.c
test_btl_verbs_errors_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) $(RDMACM_CFLAGS)
test_btl_verbs_errors_LDADD = lib/libutil.la $(IBVERBS_LIBS)
test_mpi_mp_connection_error_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) $(RDMACM_CFLAGS)
test_mpi_mp_connection_error_LDADD = $(public) $(IBVERBS_LIBS)
test_mpi_mp_connection_error_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
