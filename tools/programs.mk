# SPDX-License-Identifier: BSD-3-Clause
#
# programs.mk: the tools.

# tools

bin_PROGRAMS += tools/rmalloc_info tools/rmalloc_perf tools/rmalloc_stat tools/rmalloc_trace
tools_rmalloc_info_SOURCES = tools/info.h tools/info_peers.c tools/rmalloc_info.c
tools_rmalloc_info_LDADD = $(public)
tools_rmalloc_perf_SOURCES = \
	tools/perf.h \
	tools/perf_launch.c \
	tools/perf_link.c \
	tools/perf_machine.c \
	tools/perf_measure.c \
	tools/perf_message.h \
	tools/perf_options.c \
	tools/perf_output.c \
	tools/perf_plot.c \
	tools/rmalloc_perf.c
tools_rmalloc_perf_LDADD = $(public) -lm
tools_rmalloc_stat_LDADD = $(public)
tools_rmalloc_trace_SOURCES = tools/rmalloc_trace.c tools/trace_align.c tools/trace_align.h
tools_rmalloc_trace_LDADD = $(public)
