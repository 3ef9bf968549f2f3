# SPDX-License-Identifier: BSD-3-Clause
#
# sources.mk: the subset of MPI, with --enable-mpi-subset. It is made of public headers alone, and is not installed.

EXTRA_DIST += contrib/mpi/README.md

if MPI_SUBSET
noinst_LTLIBRARIES += contrib/mpi/librmpi.la
endif
contrib_mpi_librmpi_la_SOURCES = \
	contrib/mpi/attr.c \
	contrib/mpi/cart.c \
	contrib/mpi/check.c \
	contrib/mpi/coll.c \
	contrib/mpi/coll_v.c \
	contrib/mpi/comm.c \
	contrib/mpi/error.c \
	contrib/mpi/group.c \
	contrib/mpi/init.c \
	contrib/mpi/mpi.h \
	contrib/mpi/op.c \
	contrib/mpi/op_basic.c \
	contrib/mpi/persistent.c \
	contrib/mpi/plan.c \
	contrib/mpi/probe.c \
	contrib/mpi/progress.c \
	contrib/mpi/recv.c \
	contrib/mpi/reduce.c \
	contrib/mpi/request.c \
	contrib/mpi/rmpi.h \
	contrib/mpi/send.c \
	contrib/mpi/type.c \
	contrib/mpi/type_make.c \
	contrib/mpi/wait.c \
	contrib/mpi/walk.c
contrib_mpi_librmpi_la_CPPFLAGS = -I$(top_srcdir)/contrib/mpi -I$(top_srcdir)/include -D_GNU_SOURCE
