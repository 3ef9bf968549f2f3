# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the tests of faults.

# Faults: programs that start, kill, stop, starve and deceive their processes themselves.
fault_tests = \
	test/faults/anywhere \
	test/faults/death \
	test/faults/exit_threads \
	test/faults/fork \
	test/faults/handshake \
	test/faults/hostile \
	test/faults/leaks \
	test/faults/leaving \
	test/faults/leftovers \
	test/faults/liar \
	test/faults/liar_above \
	test/faults/limits \
	test/faults/network \
	test/faults/plugins \
	test/faults/region_stop \
	test/faults/scarce \
	test/faults/scarce_pair \
	test/faults/signals \
	test/faults/steps \
	test/faults/stops \
	test/faults/strangers
check_PROGRAMS += $(fault_tests) test/faults/apart
# the layers that have steps (lib/util/failpoint.h), with them
check_LTLIBRARIES += lib/libsteps.la
lib_libsteps_la_SOURCES = $(lib_librpipe_la_SOURCES) $(lib_libsync_la_SOURCES) $(lib_libcontrol_la_SOURCES) \
	$(lib_libbootstrap_la_SOURCES)
lib_libsteps_la_CPPFLAGS = $(AM_CPPFLAGS) -DRPIPE_FAILPOINTS
with_steps = lib/libsteps.la lib/libbtl.la lib/liballoc.la lib/libutil.la
# and a copy of the backend of networks, which programs load that have the steps
if HAVE_FABRIC
check_LTLIBRARIES += test/faults/btl_ofi.la
EXTRA_test_faults_network_DEPENDENCIES = test/faults/btl_ofi.la
endif
test_faults_btl_ofi_la_SOURCES = $(lib_btl_ofi_la_SOURCES) test/faults/step_module.c
test_faults_btl_ofi_la_CPPFLAGS = $(lib_libsteps_la_CPPFLAGS)
test_faults_btl_ofi_la_CFLAGS = $(lib_btl_ofi_la_CFLAGS)
test_faults_btl_ofi_la_LIBADD = $(lib_btl_ofi_la_LIBADD)
test_faults_btl_ofi_la_LDFLAGS = $(lib_btl_ofi_la_LDFLAGS) -rpath /nowhere
played = test/faults/job.c test/faults/judge.c test/faults/scenario.c test/faults/scenes.c \
	test/faults/scenes_region.c
stepped = test/faults/resume.c test/faults/step.c test/faults/survey.c $(played)
test_faults_anywhere_SOURCES = test/faults/anywhere.c $(played)
test_faults_apart_SOURCES = test/faults/apart.c test/faults/job.c
test_faults_death_SOURCES = test/faults/death.c test/faults/job.c
test_faults_exit_threads_SOURCES = test/faults/exit_threads.c test/faults/job.c
test_faults_fork_SOURCES = test/faults/fork.c test/faults/job.c
test_faults_handshake_SOURCES = test/faults/handshake.c test/faults/job.c
test_faults_hostile_SOURCES = \
	test/faults/hostile.c \
	test/faults/hostile.h \
	test/faults/hostile_am.c \
	test/faults/hostile_memory.c \
	test/faults/hostile_message.c \
	test/faults/hostile_remote.c \
	test/faults/hostile_use.c \
	test/faults/hostile_victim.c \
	test/faults/hostile_wire.c \
	test/faults/job.c \
	test/faults/nonsense_am.h
test_faults_leaks_SOURCES = test/faults/leaks.c test/faults/job.c
test_faults_leaving_SOURCES = test/faults/leaving.c test/faults/job.c
test_faults_leftovers_SOURCES = test/faults/island.c test/faults/leftovers.c $(played)
test_faults_liar_SOURCES = \
	test/faults/job.c \
	test/faults/liar.c \
	test/faults/liar.h \
	test/faults/liar_control.c \
	test/faults/liar_growth.c \
	test/faults/liar_memory.c \
	test/faults/liar_pair.c
test_faults_liar_above_SOURCES = \
	test/faults/job.c \
	test/faults/liar.h \
	test/faults/liar_above.c \
	test/faults/liar_am.c \
	test/faults/liar_compose.c \
	test/faults/liar_memory.c \
	test/faults/liar_pair.c \
	test/faults/liar_region.c \
	test/faults/nonsense_am.h
test_faults_limits_SOURCES = test/faults/limits.c test/faults/job.c
test_faults_network_SOURCES = test/faults/network.c $(stepped)
test_faults_network_LDADD = $(with_steps)
test_faults_network_LDFLAGS = -rdynamic
# a program that does not know the library, and a plugin that does
check_LTLIBRARIES += test/faults/plugin.la
test_faults_plugin_la_SOURCES = test/faults/plugin.c
test_faults_plugin_la_LDFLAGS = $(module_flags) -rpath /nowhere
test_faults_plugin_la_LIBADD = $(public)
test_faults_plugins_LDADD =
EXTRA_test_faults_plugins_DEPENDENCIES = test/faults/plugin.la
test_faults_region_stop_SOURCES = test/faults/region_stop.c test/faults/job.c
test_faults_scarce_SOURCES = test/faults/scarce.c test/faults/scarce_calls.c test/faults/job.c
test_faults_scarce_LDFLAGS = -rdynamic
test_faults_scarce_pair_SOURCES = test/faults/scarce_pair.c test/faults/scarce_calls.c test/faults/job.c
test_faults_scarce_pair_LDFLAGS = -rdynamic
test_faults_signals_SOURCES = test/faults/signals.c test/faults/job.c
test_faults_steps_SOURCES = test/faults/steps.c $(stepped)
test_faults_steps_LDADD = $(with_steps)
test_faults_stops_SOURCES = test/faults/stops.c $(stepped)
test_faults_stops_LDADD = $(with_steps)
test_faults_strangers_SOURCES = test/faults/strangers.c test/faults/job.c
