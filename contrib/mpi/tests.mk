# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the tests of the subset of MPI. They are programs of MPI, which contrib/mpi/test/run builds with rmpicc.

rmpi_tests = \
	contrib/mpi/test/collectives-1.rmpi \
	contrib/mpi/test/collectives-2.rmpi \
	contrib/mpi/test/collectives-3.rmpi \
	contrib/mpi/test/collectives-5.rmpi \
	contrib/mpi/test/communicators-1.rmpi \
	contrib/mpi/test/communicators-4.rmpi \
	contrib/mpi/test/communicators-6.rmpi \
	contrib/mpi/test/limits-2.rmpi \
	contrib/mpi/test/messages-1.rmpi \
	contrib/mpi/test/messages-2.rmpi \
	contrib/mpi/test/messages-5.rmpi \
	contrib/mpi/test/twins.rmpi \
	contrib/mpi/test/types-1.rmpi \
	contrib/mpi/test/types-3.rmpi \
	contrib/mpi/test/wrappers.rmpi
RMPI_LOG_COMPILER = $(SHELL) $(top_srcdir)/contrib/mpi/test/run
if MPI_SUBSET
TESTS += $(rmpi_tests)
endif
CLEANFILES += $(rmpi_tests)
$(rmpi_tests): contrib/mpi/librmpi.la contrib/mpi/test/run
	@$(MKDIR_P) $(@D) && touch $@

dist_check_SCRIPTS += contrib/mpi/test/hpcc contrib/mpi/test/run
EXTRA_DIST += \
	contrib/mpi/test/Make.rmpi \
	contrib/mpi/test/check.h \
	contrib/mpi/test/collectives.c \
	contrib/mpi/test/communicators.c \
	contrib/mpi/test/limits.c \
	contrib/mpi/test/messages.c \
	contrib/mpi/test/types.c
