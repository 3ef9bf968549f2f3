# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the unit tests.

# Unit tests: cmocka programs.
unit_tests = \
	test/unit/test_am \
	test/unit/test_am_context \
	test/unit/test_backend_choice \
	test/unit/test_biased \
	test/unit/test_board \
	test/unit/test_cast \
	test/unit/test_cast_nak \
	test/unit/test_cells \
	test/unit/test_check \
	test/unit/test_close_exit \
	test/unit/test_coll_cell \
	test/unit/test_coll_choice \
	test/unit/test_coll_graph \
	test/unit/test_coll_names \
	test/unit/test_coll_plans \
	test/unit/test_coll_ring \
	test/unit/test_coll_sim \
	test/unit/test_collective \
	test/unit/test_config \
	test/unit/test_connection \
	test/unit/test_control \
	test/unit/test_cork \
	test/unit/test_control_end \
	test/unit/test_control_unauthenticated \
	test/unit/test_desc \
	test/unit/test_device \
	test/unit/test_device_region \
	test/unit/test_device_window \
	test/unit/test_device_window_end \
	test/unit/test_gpu \
	test/unit/test_desc_handles \
	test/unit/test_neighbors \
	test/unit/test_eager \
	test/unit/test_errors \
	test/unit/test_greeting \
	test/unit/test_fold \
	test/unit/test_growth \
	test/unit/test_hash \
	test/unit/test_heap \
	test/unit/test_heap_million \
	test/unit/test_heap_exhaustive \
	test/unit/test_heap_growth \
	test/unit/test_heap_model \
	test/unit/test_heap_model_deep \
	test/unit/test_heap_shrink \
	test/unit/test_heap_walk \
	test/unit/test_holding \
	test/unit/test_index \
	test/unit/test_index_deep \
	test/unit/test_init \
	test/unit/test_job \
	test/unit/test_lowest \
	test/unit/test_lowest_deep \
	test/unit/test_one_thread \
	test/unit/test_overcommit \
	test/unit/test_path_failure \
	test/unit/test_mapping \
	test/unit/test_model \
	test/unit/test_modes \
	test/unit/test_msg_cell \
	test/unit/test_msg_match \
	test/unit/test_msg_places \
	test/unit/test_msg_wire \
	test/unit/test_next_fit \
	test/unit/test_observe \
	test/unit/test_pending \
	test/unit/test_pipe_lives \
	test/unit/test_pipe_misuse \
	test/unit/test_pipe_overrun \
	test/unit/test_pipe_single \
	test/unit/test_pipe_stale \
	test/unit/test_pipe_threads \
	test/unit/test_pipe_waiting \
	test/unit/test_slab \
	test/unit/test_seal \
	test/unit/test_reclaim \
	test/unit/test_reduce \
	test/unit/test_redux \
	test/unit/test_region \
	test/unit/test_region_end \
	test/unit/test_region_tag \
	test/unit/test_rfree_queues \
	test/unit/test_region_threads \
	test/unit/test_push \
	test/unit/test_received_fd \
	test/unit/test_report \
	test/unit/test_scatter \
	test/unit/test_segment \
	test/unit/test_send \
	test/unit/test_sizes \
	test/unit/test_shadow \
	test/unit/test_size_class \
	test/unit/test_startup \
	test/unit/test_strings \
	test/unit/test_tag \
	test/unit/test_thread_errors \
	test/unit/test_thread_misuse \
	test/unit/test_thread_nested \
	test/unit/test_stream \
	test/unit/test_stream_contexts \
	test/unit/test_trace \
	test/unit/test_segregated_fit \
	test/unit/test_tree_fit \
	test/unit/test_tree_fit_memory \
	test/unit/test_tree_fit_walk \
	test/unit/test_tcp \
	test/unit/test_window \
	test/unit/test_vmem \
	test/unit/test_vmem_debug \
	test/unit/test_vmem_of_pipe \
	test/unit/test_yield_policy
if HAVE_FABRIC
unit_tests += test/unit/test_ofi
endif
if HAVE_MPICH
unit_tests += test/unit/test_rma
endif
test_unit_test_rma_SOURCES = test/unit/test_rma.c test/unit/fake_mpi.c test/unit/fake_mpi.h $(btl_mpi_sources)
test_unit_test_rma_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
test_unit_test_rma_LDADD = lib/libslab.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_tcp_SOURCES = test/unit/test_tcp.c $(lib_btl_tcp_la_SOURCES)
test_unit_test_tcp_CFLAGS = $(AM_CFLAGS)
test_unit_test_tcp_LDADD = lib/libslab.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_ofi_SOURCES = test/unit/test_ofi.c $(lib_btl_ofi_la_SOURCES)
test_unit_test_ofi_CFLAGS = $(AM_CFLAGS) $(FABRIC_CFLAGS)
test_unit_test_ofi_LDADD = lib/libslab.la lib/libutil.la $(FABRIC_LIBS) $(CMOCKA_LIBS)
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
endif
# the same test, of an index with nodes so small that a few blocks make a deep tree
test_unit_test_index_deep_SOURCES = test/unit/test_index.c \
	lib/alloc/index.c lib/alloc/index_check.c lib/alloc/index_pool.c
test_unit_test_index_deep_CPPFLAGS = $(AM_CPPFLAGS) -DINDEX_FANOUT=4
# likewise of lists
test_unit_test_lowest_deep_SOURCES = test/unit/test_lowest.c lib/alloc/lowest.c
test_unit_test_lowest_deep_CPPFLAGS = $(AM_CPPFLAGS) -DLOWEST_FANOUT=3u
# over a fake driver: CUDA's names, and those of HIP
check_LTLIBRARIES += test/lib/fake_cuda.la test/lib/fake_hip.la
test_lib_fake_cuda_la_SOURCES = test/lib/fake_gpu.c
test_lib_fake_cuda_la_LDFLAGS = $(module_flags) -rpath /nowhere
test_lib_fake_hip_la_SOURCES = test/lib/fake_gpu.c
test_lib_fake_hip_la_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_HIP
test_lib_fake_hip_la_LDFLAGS = $(module_flags) -rpath /nowhere
test_unit_test_gpu_SOURCES = $(gpu_sources) test/unit/test_gpu.c
test_unit_test_gpu_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/contrib/gpu
EXTRA_test_unit_test_gpu_DEPENDENCIES = test/lib/fake_cuda.la test/lib/fake_hip.la
test_unit_test_cast_nak_LDADD = lib/libnak.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_coll_plans_SOURCES = test/unit/test_coll_plans.c test/unit/coll_case.c test/unit/coll_case.h test/unit/coll_value.c \
	test/unit/coll_run.c test/unit/coll_run.h
test_unit_test_coll_graph_SOURCES = test/unit/test_coll_graph.c test/unit/coll_case.c test/unit/coll_case.h test/unit/coll_value.c \
	test/unit/coll_run.c test/unit/coll_run.h
test_unit_test_coll_choice_SOURCES = test/unit/test_coll_choice.c test/unit/coll_case.c test/unit/coll_case.h test/unit/coll_value.c
test_unit_test_coll_choice_LDADD = lib/libcoll.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_coll_sim_SOURCES = test/unit/test_coll_sim.c test/unit/coll_case.c test/unit/coll_case.h test/unit/coll_value.c
test_unit_test_coll_sim_LDADD = tools/libsim.la lib/libcoll.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_coll_graph_LDADD = lib/libcoll.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_coll_plans_LDADD = lib/libcoll.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_one_thread_LDADD = lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_biased_LDADD = lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_biased_LDFLAGS = -Wl,--wrap=pthread_mutex_lock -Wl,--wrap=pthread_mutex_unlock
test_unit_test_mapping_LDADD = lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_msg_cell_LDADD = $(CMOCKA_LIBS)
test_unit_test_msg_match_LDADD = lib/libmsg.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_msg_places_LDADD = lib/libmsg.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_msg_wire_LDADD = lib/libmsg.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_model_SOURCES = test/unit/test_model.c tools/model.h tools/model_compare.c tools/model_equations.c tools/model_output.c tools/model_parts.c \
	tools/model_what_if.c
test_unit_test_model_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tools
test_unit_test_model_LDADD = $(CMOCKA_LIBS) -lm
# these are written against the manual, and see the public interface alone
test_unit_test_am_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_am_context_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_config_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_board_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_cast_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_cells_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_check_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_close_exit_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_path_failure_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_modes_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_init_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_pending_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_growth_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_pipe_lives_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_pipe_misuse_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_pipe_overrun_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_pipe_single_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_pipe_stale_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_pipe_threads_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_cork_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_stream_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_stream_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_unit_test_stream_contexts_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_stream_contexts_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_unit_test_pipe_waiting_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_neighbors_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_reduce_LDADD = $(public) $(CMOCKA_LIBS) -lm
test_unit_test_redux_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_region_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_vmem_of_pipe_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_window_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_region_end_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_region_tag_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_rfree_queues_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_region_threads_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_scatter_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_send_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_sizes_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_startup_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_eager_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_errors_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_strings_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_fold_LDADD = lib/libutil.la $(CMOCKA_LIBS) -lm
test_unit_test_received_fd_LDADD = lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_segment_SOURCES = test/unit/test_segment.c
test_unit_test_segment_LDADD = lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_slab_LDADD = lib/libslab.la lib/libutil.la $(CMOCKA_LIBS)
test_unit_test_tag_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_thread_errors_LDADD = $(public) $(CMOCKA_LIBS)
test_unit_test_thread_misuse_LDADD = $(public) $(CMOCKA_LIBS)

# Those that fork ranks.
test_unit_test_collective_SOURCES = test/unit/test_collective.c test/lib/job.c
test_unit_test_control_SOURCES = test/unit/test_control.c test/lib/job.c
test_unit_test_control_end_SOURCES = test/unit/test_control_end.c test/lib/job.c
test_unit_test_control_end_LDFLAGS = -Wl,--wrap=job_card
test_unit_test_control_unauthenticated_SOURCES = test/unit/test_control_unauthenticated.c test/lib/job.c
test_unit_test_greeting_SOURCES = test/unit/test_greeting.c test/lib/job.c
test_unit_test_job_SOURCES = test/unit/test_job.c test/lib/job.c

# The allocator beside a model. "deep": with 4 or 3 keys to a node, so that few blocks make deep trees.
heap_model = test/unit/heap_model.c test/unit/heap_model.h test/unit/heap_twins.c
test_unit_test_heap_exhaustive_SOURCES = test/unit/test_heap_exhaustive.c $(heap_model)
test_unit_test_heap_model_SOURCES = test/unit/test_heap_model.c $(heap_model)
test_unit_test_heap_model_LDADD = $(LDADD) -lm
test_unit_test_heap_model_deep_SOURCES = test/unit/test_heap_model.c $(heap_model) $(lib_liballoc_la_SOURCES)
test_unit_test_heap_model_deep_CPPFLAGS = $(AM_CPPFLAGS) -DINDEX_FANOUT=4 -DLOWEST_FANOUT=3u \
	-DCHUNKS_OF_THE_LIBRARY
test_unit_test_heap_model_deep_LDADD = lib/libutil.la $(CMOCKA_LIBS) -lm

# The backends that test_backend_choice chooses from: one module under three names. -rpath: a module is made only for what is installed.
if HAVE_CMOCKA
check_LTLIBRARIES += test/unit/fake_btl.la
endif
test_unit_fake_btl_la_SOURCES = test/unit/fake_btl.c
test_unit_fake_btl_la_LIBADD = lib/libutil.la
test_unit_fake_btl_la_LDFLAGS = $(module_flags) -rpath /nowhere

# Headers that tests share.
noinst_HEADERS = \
	test/faults/sandbox.h \
	test/lib/job.h \
	test/lib/lingering.h \
	test/faults/failing_calls.h \
	test/faults/scenario.h \
	test/faults/scenario_ends.h \
	test/faults/failpoint.h \
	test/faults/failpoint_survey.h \
	test/lib/mp_check.h \
	test/unit/control_ranks.h \
	test/lib/allocation_failure.h \
	test/lib/count_locks.h \
	test/lib/fake_device.h \
	test/lib/on_device.h \
	test/lib/am.h \
	test/lib/descriptor_limit.h \
	test/lib/cells.h \
	test/lib/check.h \
	test/lib/clock_ms.h \
	test/lib/contexts.h \
	test/lib/pattern.h \
	test/lib/port.h \
	test/lib/counts.h \
	test/lib/pipe_load.h \
	test/lib/random.h \
	test/lib/resources.h \
	test/lib/group.h \
	test/lib/group_pair.h \
	test/unit/heap_checks.h \
	test/lib/pipe_modes.h \
	test/unit/next_fit_heap.h \
	test/lib/pair.h \
	test/lib/ranks.h \
	test/unit/device_pair.h \
	test/unit/device_window.h \
	test/unit/region_pair.h \
	test/unit/reclaim_pair.h \
	test/unit/tree_fit_heap.h \
	test/unit/vmem.h
