# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the multi-process programs and how they run.

# Multi-process programs, and how they are run: PROGRAM-3.mpi is PROGRAM with 3 processes, PROGRAM-3-get.mpi gives it -get,
# PROGRAM-3+ofi.mpi runs it over that network.
mpi_programs = \
	test/mpi/mp_am \
	test/mpi/mp_am_recovery \
	test/mpi/mp_atomic \
	test/mpi/mp_board \
	test/mpi/mp_board_recovery \
	test/mpi/mp_cast \
	test/mpi/mp_mcast \
	test/mpi/mp_mcast_recovery \
	test/mpi/mp_bootstrap \
	test/mpi/mp_coll \
	test/mpi/mp_coll_alone \
	test/mpi/mp_coll_dump \
	test/mpi/mp_coll_mismatch \
	test/mpi/mp_coll_recovery \
	test/mpi/mp_coll_threads \
	test/mpi/mp_compose \
	test/mpi/mp_contexts \
	test/mpi/mp_compose_recovery \
	test/mpi/mp_death_recovery \
	test/mpi/mp_device \
	test/mpi/mp_eager \
	test/mpi/mp_event \
	test/mpi/mp_events \
	test/mpi/mp_gpu \
	test/mpi/mp_graph \
	test/mpi/mp_modules_loaded \
	test/mpi/mp_peer_left \
	test/mpi/mp_many \
	test/mpi/mp_master \
	test/mpi/mp_mismatch \
	test/mpi/mp_modes \
	test/mpi/mp_msg \
	test/mpi/mp_msg_blocking \
	test/mpi/mp_msg_recovery \
	test/mpi/mp_network \
	test/mpi/mp_observe \
	test/mpi/mp_pipe \
	test/mpi/mp_recovery \
	test/mpi/mp_region \
	test/mpi/mp_reopen \
	test/mpi/mp_round \
	test/mpi/mp_soak \
	test/mpi/mp_streams \
	test/mpi/mp_threads \
	test/mpi/mp_window \
	test/mpi/mp_wait
mpi_tests = \
	examples/am_ping-2.mpi \
	examples/cpp/halo-1.mpi \
	examples/cpp/halo-3.mpi \
	examples/cpp/halo-3+ofi.mpi \
	examples/cpp/ping-2.mpi \
	examples/cpp/roots-2.mpi \
	test/cpp/teams-1.mpi \
	test/cpp/teams-3.mpi \
	examples/fortran/halo-1.mpi \
	examples/fortran/halo-3.mpi \
	examples/fortran/halo-3+ofi.mpi \
	examples/fortran/mpi_halo-3.mpi \
	examples/cg-1-quick.mpi \
	examples/cg-3-quick.mpi \
	examples/cg-3-quick+hosts.mpi \
	examples/cg-3-quick+tcp.mpi \
	examples/cg-4-pipelined.mpi \
	examples/event_loop-3.mpi \
	examples/heat2d-3.mpi \
	examples/device_pipe-2.mpi \
	examples/device_pipe-2-oget.mpi \
	examples/device_pipe-2+hosts.mpi \
	examples/device_pipe-2-oget+tcp.mpi \
	examples/dht-1-quick.mpi \
	examples/dht-4-quick.mpi \
	examples/elastic-2-quick.mpi \
	examples/elastic-5-quick.mpi \
	examples/em3d-1-quick.mpi \
	examples/em3d-3-quick.mpi \
	examples/em3d-3-windows.mpi \
	examples/heat2d-1-quick.mpi \
	examples/heat2d-3-quick.mpi \
	examples/heat2d-6-quick.mpi \
	examples/heat2d-3-windows+tcp.mpi \
	examples/heat2d-4-windows.mpi \
	examples/kmeans-1-quick.mpi \
	examples/kmeans-3-quick+hosts.mpi \
	examples/kmeans-4-quick.mpi \
	examples/md-1-quick.mpi \
	examples/md-2-quick.mpi \
	examples/md-3-quick+ofi.mpi \
	examples/md-4-quick.mpi \
	examples/md-8-quick.mpi \
	examples/listing_5_1_zero_copy-1.mpi \
	examples/listing_5_1_zero_copy-2.mpi \
	examples/listing_5_2_halo-3.mpi \
	examples/listing_5_3_dht-5.mpi \
	examples/listing_5_10_reduce-1.mpi \
	examples/listing_5_10_reduce-5.mpi \
	examples/listing_b_2_symmetric-2-get.mpi \
	examples/listing_b_2_symmetric-2-put.mpi \
	examples/listing_b_3_ring-3.mpi \
	examples/listing_b_3_ring-8.mpi \
	test/mpi/mp_am-2.mpi \
	test/mpi/mp_am-3.mpi \
	test/mpi/mp_am-3+tcp.mpi \
	test/mpi/mp_am-5.mpi \
	test/mpi/mp_am_recovery-3.mpi \
	test/mpi/mp_am_recovery-5.mpi \
	test/mpi/mp_atomic-1.mpi \
	test/mpi/mp_atomic-3.mpi \
	examples/pagerank-1-quick.mpi \
	examples/pagerank-3-quick+hosts.mpi \
	examples/pagerank-4-quick.mpi \
	examples/pipeline-2-quick.mpi \
	examples/pipeline-4-quick.mpi \
	examples/quotes-2.mpi \
	examples/quotes-4.mpi \
	examples/sample_sort-1-quick.mpi \
	examples/sample_sort-3-quick+hosts.mpi \
	examples/sample_sort-4-quick.mpi \
	examples/sample_sort-8-quick.mpi \
	examples/sgd-1-quick.mpi \
	examples/sgd-3-quick.mpi \
	examples/sgd-3-quick+hosts.mpi \
	examples/sgd-5-ordered.mpi \
	examples/tagged_queue-1-quick.mpi \
	examples/tagged_queue-3-quick+tcp.mpi \
	examples/tagged_queue-4-quick.mpi \
	examples/work_queue-1-quick.mpi \
	examples/work_queue-3-quick+ofi.mpi \
	examples/work_queue-4-quick.mpi \
	test/faults/resource_failure_pair-2-8+ofi.mpi \
	test/faults/resource_failure_pair-2-8+tcp.mpi \
	test/faults/resource_failure_pair-2-12.mpi \
	test/mpi/mp_board-1.mpi \
	test/mpi/mp_board-2.mpi \
	test/mpi/mp_board-3-apart.mpi \
	test/mpi/mp_board-5.mpi \
	test/mpi/mp_board-8.mpi \
	test/mpi/mp_board_recovery-4.mpi \
	test/mpi/mp_board_recovery-4-apart.mpi \
	test/mpi/mp_cast-2.mpi \
	test/mpi/mp_cast-2-apart.mpi \
	test/mpi/mp_cast-4.mpi \
	test/mpi/mp_cast-8.mpi \
	test/mpi/mp_mcast-2+hosts.mpi \
	test/mpi/mp_mcast-3-5+hosts.mpi \
	test/mpi/mp_mcast-3-direct+hosts.mpi \
	test/mpi/mp_mcast-3-30+hosts.mpi \
	test/mpi/mp_mcast-6-10+hosts.mpi \
	test/mpi/mp_mcast_recovery-4+hosts.mpi \
	test/mpi/mp_mcast_recovery-7+hosts.mpi \
	test/mpi/mp_bootstrap-2.mpi \
	test/mpi/mp_bootstrap-3.mpi \
	test/mpi/mp_bootstrap-5.mpi \
	test/mpi/mp_bootstrap-8.mpi \
	test/mpi/mp_coll-1.mpi \
	test/mpi/mp_coll-2.mpi \
	test/mpi/mp_coll-2-apart.mpi \
	test/mpi/mp_coll-2-apart+mpich.mpi \
	test/mpi/mp_coll-3.mpi \
	test/mpi/mp_coll-3-apart.mpi \
	test/mpi/mp_coll-3-cast+hosts.mpi \
	test/mpi/mp_coll-4.mpi \
	test/mpi/mp_coll-4-fetch.mpi \
	test/mpi/mp_coll-3-apart+ofi.mpi \
	test/mpi/mp_coll-3-apart+openmpi.mpi \
	test/mpi/mp_coll-8.mpi \
	test/mpi/mp_coll-8-apart.mpi \
	test/mpi/mp_coll-16.mpi \
	test/mpi/mp_coll-16-apart+ofi.mpi \
	test/mpi/mp_coll-16-apart+tcp.mpi \
	test/mpi/mp_coll-16-spread+tcp.mpi \
	test/mpi/mp_coll_alone-1.mpi \
	test/mpi/mp_coll_alone-2.mpi \
	test/mpi/mp_coll_alone-3.mpi \
	test/mpi/mp_coll_alone-8.mpi \
	test/mpi/mp_coll_alone-4-bound.mpi \
	test/mpi/mp_coll_alone-8-bound.mpi \
	test/mpi/mp_coll_dump-5.mpi \
	test/mpi/mp_coll_mismatch-2-apart.mpi \
	test/mpi/mp_coll_mismatch-3.mpi \
	test/mpi/mp_coll_mismatch-3-apart.mpi \
	test/mpi/mp_coll_mismatch-4-apart.mpi \
	test/mpi/mp_coll_mismatch-5-apart.mpi \
	test/mpi/mp_coll_recovery-3.mpi \
	test/mpi/mp_coll_recovery-3-apart.mpi \
	test/mpi/mp_coll_recovery-3-async.mpi \
	test/mpi/mp_coll_recovery-3-fetch.mpi \
	test/mpi/mp_coll_recovery-3-withdrawn.mpi \
	test/mpi/mp_coll_recovery-3-cast+hosts.mpi \
	test/mpi/mp_coll_recovery-4.mpi \
	test/mpi/mp_coll_recovery-16-apart+tcp.mpi \
	test/mpi/mp_coll_threads-2.mpi \
	test/mpi/mp_coll_threads-2-apart.mpi \
	test/mpi/mp_coll_threads-2-left.mpi \
	test/mpi/mp_coll_threads-3.mpi \
	test/mpi/mp_compose-2.mpi \
	test/mpi/mp_compose-3.mpi \
	test/mpi/mp_compose-3+ofi.mpi \
	test/mpi/mp_compose-3+tcp.mpi \
	test/mpi/mp_compose-4.mpi \
	test/mpi/mp_contexts-2.mpi \
	test/mpi/mp_contexts-2+hosts.mpi \
	test/mpi/mp_contexts-2+ofi.mpi \
	test/mpi/mp_contexts-2+tcp.mpi \
	test/mpi/mp_compose_recovery-3.mpi \
	test/mpi/mp_compose_recovery-5.mpi \
	test/mpi/mp_death_recovery-3.mpi \
	test/mpi/mp_death_recovery-5.mpi \
	test/mpi/mp_eager-1.mpi \
	test/mpi/mp_eager-3.mpi \
	test/mpi/mp_eager-3+ofi.mpi \
	test/mpi/mp_eager-3+ofi_steps.mpi \
	test/mpi/mp_eager-3+tcp.mpi \
	test/mpi/mp_device-2.mpi \
	test/mpi/mp_device-2+ofi.mpi \
	test/mpi/mp_device-2+ofi_steps.mpi \
	test/mpi/mp_device-2+tcp.mpi \
	test/mpi/mp_event-2+ofi.mpi \
	test/mpi/mp_event-2+tcp.mpi \
	test/mpi/mp_event-2.mpi \
	test/mpi/mp_event-5.mpi \
	test/mpi/mp_events-2.mpi \
	test/mpi/mp_events-2+ofi.mpi \
	test/mpi/mp_events-3.mpi \
	test/mpi/mp_gpu-2-cuda.mpi \
	test/mpi/mp_gpu-2-cuda+tcp.mpi \
	test/mpi/mp_gpu-2-hip.mpi \
	test/mpi/mp_graph-2.mpi \
	test/mpi/mp_graph-3+device.mpi \
	test/mpi/mp_graph-3+ofi.mpi \
	test/mpi/mp_graph-3+tcp.mpi \
	test/mpi/mp_graph-3.mpi \
	test/mpi/mp_graph-5.mpi \
	test/mpi/mp_graph-8.mpi \
	test/mpi/mp_modules_loaded-3.mpi \
	test/mpi/mp_peer_left-2.mpi \
	test/mpi/mp_peer_left-3+ofi.mpi \
	test/mpi/mp_peer_left-3+tcp.mpi \
	test/mpi/mp_peer_left-3.mpi \
	test/mpi/mp_many-2+ofi.mpi \
	test/mpi/mp_many-2+tcp.mpi \
	test/mpi/mp_many-2.mpi \
	test/mpi/mp_many-5.mpi \
	test/mpi/mp_master-2.mpi \
	test/mpi/mp_master-4.mpi \
	test/mpi/mp_mismatch-2.mpi \
	test/mpi/mp_modes-2-sleep.mpi \
	test/mpi/mp_modes-2+device.mpi \
	test/mpi/mp_modes-2.mpi \
	test/mpi/mp_msg-1.mpi \
	test/mpi/mp_msg-1-brief+sim.mpi \
	test/mpi/mp_msg-2-small.mpi \
	test/mpi/mp_msg-2+ofi.mpi \
	test/mpi/mp_msg-3.mpi \
	test/mpi/mp_msg-3-advertise.mpi \
	test/mpi/mp_msg-3+tcp.mpi \
	test/mpi/mp_msg-4.mpi \
	test/mpi/mp_msg_blocking-1.mpi \
	test/mpi/mp_msg_blocking-3.mpi \
	test/mpi/mp_msg_recovery-3.mpi \
	test/mpi/mp_msg_recovery-3+tcp.mpi \
	test/mpi/mp_network-1.mpi \
	test/mpi/mp_network-2.mpi \
	test/mpi/mp_network-3.mpi \
	test/mpi/mp_network-8.mpi \
	test/mpi/mp_observe-2+ofi.mpi \
	test/mpi/mp_observe-3.mpi \
	test/mpi/mp_pipe-2+device.mpi \
	test/mpi/mp_pipe-2+device_tcp.mpi \
	test/mpi/mp_pipe-2+openmpi.mpi \
	test/mpi/mp_pipe-2+ofi.mpi \
	test/mpi/mp_pipe-2+ofi_operations.mpi \
	test/mpi/mp_pipe-2+ofi_steps.mpi \
	test/mpi/mp_pipe-2+tcp.mpi \
	test/mpi/mp_pipe-2.mpi \
	test/mpi/mp_recovery-3.mpi \
	test/mpi/mp_recovery-3+tcp.mpi \
	test/mpi/mp_recovery-5.mpi \
	test/mpi/mp_recovery-8.mpi \
	test/mpi/mp_region-1.mpi \
	test/mpi/mp_region-2+device.mpi \
	test/mpi/mp_region-2+device_tcp.mpi \
	test/mpi/mp_region-2+openmpi.mpi \
	test/mpi/mp_region-2+mpich.mpi \
	test/mpi/mp_region-2+ofi.mpi \
	test/mpi/mp_region-2+ofi_steps.mpi \
	test/mpi/mp_region-2+tcp.mpi \
	test/mpi/mp_region-3.mpi \
	test/mpi/mp_reopen-2+device.mpi \
	test/mpi/mp_reopen-2+device_tcp.mpi \
	test/mpi/mp_reopen-2+ofi.mpi \
	test/mpi/mp_reopen-2+tcp.mpi \
	test/mpi/mp_reopen-2.mpi \
	test/mpi/mp_reopen-3+ofi_steps.mpi \
	test/mpi/mp_reopen-3.mpi \
	test/mpi/mp_reopen-8.mpi \
	test/mpi/mp_round-2.mpi \
	test/mpi/mp_round-2+ofi.mpi \
	test/mpi/mp_round-2+ofi_steps.mpi \
	test/mpi/mp_round-2+tcp.mpi \
	test/mpi/mp_soak-2+device.mpi \
	test/mpi/mp_soak-2+device_tcp.mpi \
	test/mpi/mp_soak-2+openmpi.mpi \
	test/mpi/mp_soak-2+mpich.mpi \
	test/mpi/mp_soak-2+ofi.mpi \
	test/mpi/mp_soak-2+tcp.mpi \
	test/mpi/mp_soak-2.mpi \
	test/mpi/mp_soak-3-signals.mpi \
	test/mpi/mp_soak-5-threads.mpi \
	test/mpi/mp_soak-8.mpi \
	test/mpi/mp_streams-2.mpi \
	test/mpi/mp_streams-2+ofi.mpi \
	test/mpi/mp_streams-2+ofi_steps.mpi \
	test/mpi/mp_streams-2+tcp.mpi \
	test/mpi/mp_streams-3+tcp.mpi \
	test/mpi/mp_threads-2.mpi \
	test/mpi/mp_threads-2+tcp.mpi \
	test/mpi/mp_threads-5.mpi \
	test/mpi/mp_window-1.mpi \
	test/mpi/mp_window-2.mpi \
	test/mpi/mp_window-2+openmpi.mpi \
	test/mpi/mp_window-2+mpich.mpi \
	test/mpi/mp_window-2+ofi.mpi \
	test/mpi/mp_window-2+ofi_steps.mpi \
	test/mpi/mp_window-3+tcp.mpi \
	test/mpi/mp_wait-2-adaptive.mpi \
	test/mpi/mp_wait-2-sleep.mpi \
	test/mpi/mp_wait-2-spin.mpi \
	test/mpi/mp_wait-2-yield.mpi \
	test/mpi/mp_wait-3-spin.mpi \
	test/mpi/mp_wait-8-adaptive.mpi \
	test/mpi/mp_wait-8-sleep.mpi
check_PROGRAMS += $(mpi_programs)
# MPI and we in one process
if HAVE_MPI
mpi_tests += examples/hybrid-2-first.mpi examples/hybrid-3.mpi
mpi_tests += test/mpi/mp_with_mpi-2-crossed.mpi test/mpi/mp_with_mpi-2-inner.mpi test/mpi/mp_with_mpi-3.mpi
check_PROGRAMS += test/mpi/mp_with_mpi
endif
test_mpi_mp_with_mpi_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
test_mpi_mp_with_mpi_LDADD = $(public) $(MPI_LIBS)
test_mpi_mp_gpu_SOURCES = $(gpu_sources) examples/gpu.c examples/gpu.h test/mpi/mp_gpu.c
test_mpi_mp_gpu_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/contrib/gpu
EXTRA_test_mpi_mp_gpu_DEPENDENCIES = test/lib/fake_cuda.la test/lib/fake_hip.la
test_mpi_mp_compose_LDADD = $(public)
test_mpi_mp_compose_recovery_LDADD = $(public)
test_mpi_mp_contexts_LDADD = $(public)
test_mpi_mp_contexts_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_mpi_mp_am_LDADD = $(public)
test_mpi_mp_am_recovery_LDADD = $(public)
test_mpi_mp_msg_LDADD = $(public)
test_mpi_mp_msg_blocking_LDADD = $(public)
test_mpi_mp_msg_recovery_LDADD = $(public)
test_mpi_mp_atomic_LDADD = $(public)
test_mpi_mp_death_recovery_LDADD = $(public)
test_mpi_mp_board_LDADD = $(public)
test_mpi_mp_board_recovery_LDADD = $(public)
test_mpi_mp_cast_LDADD = $(public)
test_mpi_mp_mcast_LDADD = $(public)
test_mpi_mp_mcast_recovery_LDADD = $(public)
test_mpi_mp_coll_LDADD = $(public)
test_mpi_mp_coll_alone_LDADD = $(public)
test_mpi_mp_coll_dump_LDADD = $(public)
test_mpi_mp_coll_mismatch_LDADD = $(public)
test_mpi_mp_coll_recovery_LDADD = $(public)
test_mpi_mp_coll_threads_LDADD = $(public)
test_mpi_mp_event_LDADD = $(public)
test_mpi_mp_events_LDADD = $(public)
test_mpi_mp_graph_LDADD = $(public)
test_mpi_mp_modules_loaded_LDADD = $(public)
test_mpi_mp_peer_left_LDADD = $(public)
test_mpi_mp_many_LDADD = $(public)
test_mpi_mp_master_LDADD = $(public)
test_mpi_mp_mismatch_LDADD = $(public)
test_mpi_mp_modes_LDADD = $(public)
test_mpi_mp_network_LDADD = $(public)
test_mpi_mp_observe_LDADD = $(public)
test_mpi_mp_pipe_LDADD = $(public)
test_mpi_mp_region_LDADD = $(public)
test_mpi_mp_reopen_LDADD = $(public)
test_mpi_mp_round_LDADD = $(public)
test_mpi_mp_round_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_mpi_mp_soak_LDADD = $(public)
test_mpi_mp_streams_LDADD = $(public)
test_mpi_mp_threads_LDADD = $(public)
test_mpi_mp_window_LDADD = $(public)
test_mpi_mp_wait_LDADD = $(public)

# each needs the program whose name it begins with
.SECONDEXPANSION:
$(mpi_tests): $$(firstword $$(subst -, ,$$@))
	@$(MKDIR_P) $(@D) && : >$@
