# SPDX-License-Identifier: BSD-3-Clause
#
# programs.mk: the benchmarks.

# benchmarks

noinst_PROGRAMS += bench/compose bench/copies bench/pingpong bench/ring bench/sockets bench/startup bench/vmem_pair
bench_compose_LDADD = $(public)
bench_copies_LDADD =
bench_pingpong_SOURCES = bench/pingpong.c bench/two_cores.h
bench_pingpong_LDADD =
bench_ring_SOURCES = bench/ring.c bench/two_cores.h
bench_ring_LDADD =
noinst_PROGRAMS += bench/streams bench/threads
bench_streams_LDADD = $(public)
bench_threads_LDADD = $(public)
noinst_PROGRAMS += bench/device
bench_device_SOURCES = $(gpu_sources) bench/device.c bench/two_cores.h
bench_device_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/contrib/gpu
bench_device_LDADD = $(public)
bench_sockets_SOURCES = bench/sockets.c bench/two_cores.h
bench_sockets_LDADD =
if HAVE_VERBS
noinst_PROGRAMS += bench/verbs_pair
endif
bench_verbs_pair_SOURCES = bench/two_cores.h bench/verbs_pair.c
bench_verbs_pair_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
bench_verbs_pair_LDADD = $(IBVERBS_LIBS)
bench_startup_SOURCES = bench/proc.h bench/startup.c
# what bench/evaluation compares with the setup of UCX
noinst_PROGRAMS += bench/setup
bench_setup_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS)
bench_setup_LDADD = $(public) $(UCX_LIBS)
bench_startup_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
bench_startup_LDADD = $(public) $(PMIX_LIBS) -lm
bench_vmem_pair_LDADD = $(public) $(MIMALLOC_LIBS)
# what bench/exchange runs, besides bench/mpi_exchange
noinst_PROGRAMS += bench/exchange_bare bench/exchange_pipes
bench_exchange_bare_SOURCES = bench/by_hand.c bench/by_hand.h bench/exchange_bare.c bench/exchange_ring.c bench/exchange_ring.h
bench_exchange_bare_LDADD =
bench_exchange_pipes_SOURCES = bench/exchange_pipes.c bench/exchange_ring.c bench/exchange_ring.h
bench_exchange_pipes_LDADD = $(public)
# what bench/compare_coll runs, besides bench/mpi_coll and bench/mpich_coll
noinst_PROGRAMS += bench/coll_bare bench/coll_ours bench/coll_views
bench_coll_bare_SOURCES = bench/by_hand.c bench/by_hand.h bench/coll_bare.c bench/coll_loop.c bench/coll_loop.h
bench_coll_bare_LDADD =
bench_coll_ours_SOURCES = bench/coll_loop.c bench/coll_loop.h bench/coll_ours.c
bench_coll_ours_LDADD = $(public)
bench_coll_views_SOURCES = bench/coll_loop.c bench/coll_loop.h bench/coll_views.c
bench_coll_views_LDADD = $(public)
# what bench/compare_msg runs, besides bench/mpi_msg and bench/mpich_msg
noinst_PROGRAMS += bench/msg_ours
bench_msg_ours_SOURCES = bench/msg_loop.c bench/msg_loop.h bench/msg_ours.c
bench_msg_ours_LDADD = $(public)
# what bench/scaling runs, besides bench/startup
noinst_PROGRAMS += bench/scale_channels
bench_scale_channels_SOURCES = bench/proc.h bench/scale_channels.c
bench_scale_channels_LDADD = $(public)
EXTRA_DIST += bench/scaling
dist_noinst_SCRIPTS += bench/alloc bench/apps bench/btl_mpi bench/compare bench/compare_coll bench/compare_hpcc bench/compare_msg bench/compare_net bench/compare_rma bench/compare_sim bench/evaluation bench/exchange bench/guest bench/model bench/speed bench/track

# what bench/alloc runs
noinst_PROGRAMS += bench/alloc_local bench/alloc_pipe bench/alloc_threads
bench_alloc_local_SOURCES = \
	bench/alloc_allocators.c \
	bench/alloc_bench.h \
	bench/alloc_local.c \
	bench/alloc_trace.c
bench_alloc_local_LDADD = $(public) -lm
bench_alloc_pipe_SOURCES = bench/alloc_bench.h bench/alloc_pipe.c
bench_alloc_pipe_LDADD = $(public)
bench_alloc_threads_SOURCES = \
	bench/alloc_allocators.c \
	bench/alloc_bench.h \
	bench/alloc_threads.c
bench_alloc_threads_LDADD = $(public) -lm
EXTRA_DIST += bench/alloc_plots.py bench/alloc_thesis.py

# the peers of bench/compare, bench/compare_coll, bench/compare_msg, bench/compare_net, bench/compare_rma and bench/exchange
if HAVE_MPI
noinst_PROGRAMS += bench/mpi_coll bench/mpi_exchange bench/mpi_msg bench/mpi_peer bench/mpi_rma
endif
if HAVE_MPICH
noinst_PROGRAMS += bench/mpich_coll bench/mpich_msg bench/mpich_rma
endif
bench_mpich_rma_SOURCES = bench/mpi_rma.c
bench_mpich_rma_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
bench_mpich_rma_LDADD = $(MPICH_LIBS)
bench_mpich_msg_SOURCES = bench/mpi_msg.c bench/msg_loop.c bench/msg_loop.h
# MPICH's MPI_STATUSES_IGNORE is the address 1, which gcc takes for an array that is too short
bench_mpich_msg_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) -Wno-stringop-overflow
bench_mpich_msg_LDADD = $(MPICH_LIBS)
bench_mpich_coll_SOURCES = bench/coll_loop.c bench/coll_loop.h bench/mpi_coll.c
bench_mpich_coll_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
bench_mpich_coll_LDADD = $(MPICH_LIBS)
bench_mpi_coll_SOURCES = bench/coll_loop.c bench/coll_loop.h bench/mpi_coll.c
bench_mpi_coll_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
bench_mpi_coll_LDADD = $(MPI_LIBS)
bench_mpi_msg_SOURCES = bench/mpi_msg.c bench/msg_loop.c bench/msg_loop.h
bench_mpi_msg_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
bench_mpi_msg_LDADD = $(MPI_LIBS)
bench_mpi_exchange_SOURCES = bench/exchange_ring.c bench/exchange_ring.h bench/mpi_exchange.c
bench_mpi_exchange_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
bench_mpi_exchange_LDADD = $(MPI_LIBS)
bench_mpi_peer_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
bench_mpi_peer_LDADD = $(MPI_LIBS)
bench_mpi_rma_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
bench_mpi_rma_LDADD = $(MPI_LIBS)

EXTRA_DIST += bench/README.md bench/evaluation.json examples/README.md
