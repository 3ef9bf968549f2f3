# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the tests of faults.

# Faults: programs that start, kill, stop, starve and deceive their processes themselves.
fault_tests = \
	test/faults/kill_anywhere \
	test/faults/kill_during_wait \
	test/faults/exit_during_calls \
	test/faults/fork \
	test/faults/kill_during_startup \
	test/faults/kill_during_connect \
	test/faults/byzantine \
	test/faults/altered \
	test/faults/byzantine_board \
	test/faults/byzantine_coll \
	test/faults/byzantine_cast \
	test/faults/byzantine_message_peer \
	test/faults/forged_windows \
	test/faults/given_back \
	test/faults/close_without_memory \
	test/faults/kept_handshakes \
	test/faults/leaks \
	test/faults/message_close \
	test/faults/message_crossings \
	test/faults/message_peers \
	test/faults/passed_descriptors \
	test/faults/closing_threads \
	test/faults/peer_in_rexit \
	test/faults/process_exit \
	test/faults/cleanup_after_kill \
	test/faults/debug_one_end \
	test/faults/device_violations \
	test/faults/violations \
	test/faults/violations_above \
	test/faults/resource_exhaustion \
	test/faults/resource_limits \
	test/faults/failpoint_remote \
	test/faults/plugins \
	test/faults/region_peer_stopped \
	test/faults/resource_failure \
	test/faults/resource_failure_pair \
	test/faults/interrupted_calls \
	test/faults/failpoint_hosts \
	test/faults/failpoint_kill \
	test/faults/failpoint_stop \
	test/faults/refused_calls \
	test/faults/silent_clients \
	test/faults/unauthenticated_clients
check_PROGRAMS += $(fault_tests) test/faults/namespace_rank
# the layers that have steps (lib/util/failpoint.h), with them
check_LTLIBRARIES += lib/libsteps.la
lib_libsteps_la_SOURCES = $(lib_librpipe_la_SOURCES) $(lib_libsync_la_SOURCES) $(lib_libcontrol_la_SOURCES) \
	$(lib_libbootstrap_la_SOURCES) $(lib_libcollengine_la_SOURCES) $(lib_libmsg_la_SOURCES)
lib_libsteps_la_CPPFLAGS = $(AM_CPPFLAGS) $(long_names) -DRPIPE_FAILPOINTS
with_steps = lib/libsteps.la lib/libcoll.la lib/libnak.la lib/libbtl.la lib/liballoc.la lib/libutil.la
# and a copy of the backend of networks, which programs load that have the steps
if HAVE_FABRIC
check_LTLIBRARIES += test/faults/btl_ofi.la
EXTRA_test_faults_failpoint_remote_DEPENDENCIES = test/faults/btl_ofi.la
endif
test_faults_btl_ofi_la_SOURCES = $(lib_btl_ofi_la_SOURCES) test/faults/failpoint_module.c
test_faults_btl_ofi_la_CPPFLAGS = $(lib_libsteps_la_CPPFLAGS)
test_faults_btl_ofi_la_CFLAGS = $(lib_btl_ofi_la_CFLAGS)
test_faults_btl_ofi_la_LIBADD = $(lib_btl_ofi_la_LIBADD)
test_faults_btl_ofi_la_LDFLAGS = $(lib_btl_ofi_la_LDFLAGS) -rpath /nowhere
played = test/lib/job.c test/faults/kill_job.c test/faults/scenario.c test/faults/scenario_ends.c \
	test/faults/scenario_board.c test/faults/scenario_cast.c test/faults/scenario_copy.c test/faults/scenario_device.c \
	test/faults/scenario_hosts.c test/faults/scenario_messages.c \
	test/faults/scenario_regions.c \
	test/faults/scenario_team.c test/faults/scenario_windows.c
stepped = test/faults/stop_job.c test/faults/failpoint.c test/faults/failpoint_survey.c $(played)
test_faults_kill_anywhere_SOURCES = test/faults/kill_anywhere.c $(played)
test_faults_namespace_rank_SOURCES = test/faults/namespace_rank.c test/lib/job.c
test_faults_kill_during_wait_SOURCES = test/faults/kill_during_wait.c test/lib/job.c
test_faults_exit_during_calls_SOURCES = test/faults/exit_during_calls.c test/lib/job.c
test_faults_device_violations_SOURCES = test/faults/device_violations.c test/lib/job.c
test_faults_debug_one_end_SOURCES = test/faults/debug_one_end.c test/lib/job.c
test_faults_fork_SOURCES = test/faults/fork.c test/lib/job.c
test_faults_peer_in_rexit_SOURCES = test/faults/peer_in_rexit.c test/lib/job.c
test_faults_kill_during_startup_SOURCES = test/faults/kill_during_startup.c test/lib/job.c
test_faults_kill_during_connect_SOURCES = test/faults/kill_during_connect.c test/lib/job.c
test_faults_byzantine_SOURCES = \
	test/faults/byzantine.c \
	test/faults/byzantine.h \
	test/faults/byzantine_am.c \
	test/faults/byzantine_memory.c \
	test/faults/byzantine_message.c \
	test/faults/byzantine_remote.c \
	test/faults/byzantine_use.c \
	test/faults/byzantine_victim.c \
	test/faults/byzantine_wire.c \
	test/faults/peer_codes.h \
	test/lib/job.c \
	test/faults/random_am.h
test_faults_altered_SOURCES = \
	test/faults/altered.c \
	test/faults/altered.h \
	test/faults/altered_cases.c \
	test/faults/altered_descriptor.c \
	test/faults/altered_honest.c \
	test/faults/altered_layouts.h \
	test/faults/altered_memory.c \
	test/faults/altered_message.c \
	test/faults/altered_peer.c \
	test/faults/altered_time.c \
	test/faults/altered_victim.c \
	test/faults/passed_descriptors_wire.c \
	test/faults/peer_codes.h \
	test/lib/job.c
test_faults_byzantine_board_SOURCES = test/faults/byzantine_board.c test/lib/job.c
test_faults_byzantine_coll_SOURCES = test/faults/byzantine_coll.c test/lib/job.c
test_faults_byzantine_cast_SOURCES = test/faults/byzantine_cast.c test/lib/job.c
test_faults_byzantine_message_peer_SOURCES = test/faults/byzantine_message_peer.c test/lib/job.c
test_faults_leaks_SOURCES = test/faults/leaks.c test/lib/job.c
test_faults_message_close_SOURCES = test/faults/message_close.c test/lib/job.c
test_faults_message_crossings_SOURCES = test/faults/message_crossings.c test/lib/job.c
test_faults_message_crossings_LDADD = $(with_steps)
test_faults_message_peers_SOURCES = test/faults/message_peers.c test/lib/job.c
test_faults_message_peers_LDFLAGS = -rdynamic
test_faults_passed_descriptors_SOURCES = test/faults/passed_descriptors.c test/faults/passed_descriptors_wire.c \
	test/lib/job.c
test_faults_closing_threads_SOURCES = test/faults/closing_threads.c test/lib/job.c
test_faults_process_exit_SOURCES = test/faults/process_exit.c test/lib/job.c
test_faults_cleanup_after_kill_SOURCES = test/faults/sandbox.c test/faults/cleanup_after_kill.c $(played)
test_faults_violations_SOURCES = \
	test/lib/job.c \
	test/faults/violations.c \
	test/faults/violations.h \
	test/faults/violations_control.c \
	test/faults/violations_growth.c \
	test/faults/violations_memory.c \
	test/faults/violations_pair.c
test_faults_violations_above_SOURCES = \
	test/lib/job.c \
	test/faults/violations.h \
	test/faults/violations_above.c \
	test/faults/violations_am.c \
	test/faults/violations_group.c \
	test/faults/violations_memory.c \
	test/faults/violations_pair.c \
	test/faults/violations_region.c \
	test/faults/random_am.h
test_faults_resource_exhaustion_SOURCES = test/faults/resource_exhaustion.c test/faults/resource_limits.h test/lib/job.c
test_faults_resource_limits_SOURCES = test/faults/resource_limits.c test/faults/resource_limits.h test/lib/job.c
test_faults_failpoint_remote_SOURCES = test/faults/failpoint_remote.c $(stepped)
test_faults_failpoint_remote_LDADD = $(with_steps)
test_faults_failpoint_remote_LDFLAGS = -rdynamic
# a program that does not use the library, and a plugin that does
check_LTLIBRARIES += test/faults/plugin.la
test_faults_plugin_la_SOURCES = test/faults/plugin.c
test_faults_plugin_la_LDFLAGS = $(module_flags) -rpath /nowhere
test_faults_plugin_la_LIBADD = $(public)
test_faults_plugins_LDADD =
EXTRA_test_faults_plugins_DEPENDENCIES = test/faults/plugin.la
test_faults_forged_windows_SOURCES = test/faults/forged_windows.c test/lib/job.c
test_faults_region_peer_stopped_SOURCES = test/faults/region_peer_stopped.c test/lib/job.c
test_faults_close_without_memory_SOURCES = test/faults/close_without_memory.c test/faults/failing_calls.c test/lib/job.c
test_faults_close_without_memory_LDFLAGS = -rdynamic
test_faults_kept_handshakes_SOURCES = test/faults/kept_handshakes.c test/faults/failing_calls.c test/lib/job.c
test_faults_kept_handshakes_LDFLAGS = -rdynamic
test_faults_resource_failure_SOURCES = test/faults/resource_failure.c test/faults/failing_calls.c test/lib/job.c
test_faults_resource_failure_LDFLAGS = -rdynamic
test_faults_resource_failure_pair_SOURCES = test/faults/resource_failure_pair.c test/faults/failing_calls.c test/lib/job.c
test_faults_resource_failure_pair_LDFLAGS = -rdynamic
test_faults_interrupted_calls_SOURCES = test/faults/interrupted_calls.c test/lib/job.c
test_faults_failpoint_hosts_SOURCES = test/faults/failpoint_hosts.c $(stepped)
test_faults_failpoint_hosts_LDADD = $(with_steps)
test_faults_failpoint_kill_SOURCES = test/faults/failpoint_kill.c $(stepped)
test_faults_failpoint_kill_LDADD = $(with_steps)
test_faults_failpoint_stop_SOURCES = test/faults/failpoint_stop.c $(stepped)
test_faults_failpoint_stop_LDADD = $(with_steps)
test_faults_unauthenticated_clients_SOURCES = test/faults/unauthenticated_clients.c test/lib/job.c
test_faults_refused_calls_SOURCES = test/faults/refused_calls.c test/lib/job.c
test_faults_silent_clients_SOURCES = test/faults/silent_clients.c test/lib/job.c
