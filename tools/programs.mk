# SPDX-License-Identifier: BSD-3-Clause
#
# programs.mk: the tools, and their completion in bash, which is loaded by the name of a tool.

completiondir = $(datadir)/bash-completion/completions
dist_completion_DATA = tools/completion/rmalloc_tools
install-data-hook:
	cd "$(DESTDIR)$(completiondir)" && for tool in info model perf stat trace; do ln -sf rmalloc_tools rmalloc_$$tool || exit 1; done
uninstall-hook:
	cd "$(DESTDIR)$(completiondir)" && rm -f rmalloc_info rmalloc_model rmalloc_perf rmalloc_stat rmalloc_trace

bin_PROGRAMS += tools/rmalloc_info tools/rmalloc_model tools/rmalloc_perf tools/rmalloc_stat tools/rmalloc_trace
tools_rmalloc_info_SOURCES = tools/info.h tools/info_peers.c tools/rmalloc_info.c
tools_rmalloc_info_LDADD = $(public)
tools_rmalloc_model_SOURCES = \
	tools/gnuplot.c \
	tools/gnuplot.h \
	tools/model.h \
	tools/model_compare.c \
	tools/model_equations.c \
	tools/model_output.c \
	tools/model_parts.c \
	tools/model_plot.c \
	tools/model_what_if.c \
	tools/rmalloc_model.c
tools_rmalloc_model_LDADD = $(public) -lm
tools_rmalloc_perf_SOURCES = \
	tools/gnuplot.c \
	tools/gnuplot.h \
	tools/perf.h \
	tools/perf_launch.c \
	tools/perf_link.c \
	tools/perf_machine.c \
	tools/perf_measure.c \
	tools/perf_message.h \
	tools/perf_model.c \
	tools/perf_model.h \
	tools/perf_model_network.c \
	tools/perf_options.c \
	tools/perf_output.c \
	tools/perf_parts.c \
	tools/perf_parts.h \
	tools/perf_parts_memory.c \
	tools/perf_parts_network.c \
	tools/perf_parts_sockets.c \
	tools/perf_plot.c \
	tools/rmalloc_perf.c
tools_rmalloc_perf_LDADD = $(public) -lm
tools_rmalloc_stat_LDADD = $(public)
tools_rmalloc_trace_SOURCES = \
	tools/rmalloc_trace.c \
	tools/trace_align.c \
	tools/trace_align.h \
	tools/trace_summary.c \
	tools/trace_summary.h
tools_rmalloc_trace_LDADD = $(public)

# simulates the plans of lib/coll, which are not yet part of the library: so it is not installed
noinst_LTLIBRARIES += tools/libsim.la
tools_libsim_la_SOURCES = \
	tools/sim/blocks.c \
	tools/sim/cache.c \
	tools/sim/cast.c \
	tools/sim/check.c \
	tools/sim/data.c \
	tools/sim/data.h \
	tools/sim/events.c \
	tools/sim/events.h \
	tools/sim/execute.c \
	tools/sim/repeat.c \
	tools/sim/run.c \
	tools/sim/sim.h \
	tools/sim/start.c \
	tools/sim/state.h \
	tools/sim/window.c
noinst_PROGRAMS += tools/sim/rcoll_sim
tools_sim_rcoll_sim_SOURCES = tools/sim/options.c tools/sim/options.h tools/sim/rcoll_sim.c
tools_sim_rcoll_sim_LDADD = tools/libsim.la lib/libcoll.la lib/libutil.la
