# SPDX-License-Identifier: BSD-3-Clause
#
# programs.mk: the examples; and their sources as an installed program has them, with a Makefile and a CMakeLists.txt that use the
# installed library.

exampledir = $(docdir)/examples
dist_example_DATA = $(wildcard $(srcdir)/examples/*.[ch]) \
	examples/CMakeLists.txt examples/Makefile examples/README.md \
	$(gpu_sources)
example_cppdir = $(exampledir)/cpp
dist_example_cpp_DATA = $(wildcard $(srcdir)/examples/cpp/*.cc)
example_fortrandir = $(exampledir)/fortran
dist_example_fortran_DATA = $(wildcard $(srcdir)/examples/fortran/*.f90)
example_pythondir = $(exampledir)/python
dist_example_python_DATA = examples/python/frames.py examples/python/latency.c examples/python/latency.py

noinst_PROGRAMS += examples/heat2d
examples_heat2d_SOURCES = \
	examples/animation.c \
	examples/animation.h \
	examples/app.c \
	examples/app.h \
	examples/app_pipes.h \
	examples/heat2d.c \
	examples/heat_grid.c \
	examples/heat_grid.h \
	examples/must.h \
	examples/picture.c \
	examples/picture.h
examples_heat2d_LDADD = $(public) $(PNG_LIBS) -lm

noinst_PROGRAMS += examples/dht
examples_dht_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_pipes.h \
	examples/dht.c \
	examples/dht_table.h \
	examples/must.h
examples_dht_LDADD = $(public)

noinst_PROGRAMS += examples/em3d
examples_em3d_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_pipes.h \
	examples/em3d.c \
	examples/em3d_graph.c \
	examples/em3d_graph.h \
	examples/must.h
examples_em3d_LDADD = $(public)

noinst_PROGRAMS += examples/md
examples_md_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_pipes.h \
	examples/md.c \
	examples/md_atoms.c \
	examples/md_atoms.h \
	examples/md_draw.c \
	examples/md_draw.h \
	examples/md_force.c \
	examples/must.h \
	examples/picture.c \
	examples/picture.h
examples_md_LDADD = $(public) $(PNG_LIBS) -lm

noinst_PROGRAMS += examples/pipeline
examples_pipeline_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_pipes.h \
	examples/must.h \
	examples/pipeline.c \
	examples/pipeline_stage.h
examples_pipeline_LDADD = $(public)

noinst_PROGRAMS += examples/tagged_queue
examples_tagged_queue_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_pipes.h \
	examples/must.h \
	examples/queens.h \
	examples/tagged_queue.c
examples_tagged_queue_LDADD = $(public)

noinst_PROGRAMS += examples/work_queue
examples_work_queue_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_pipes.h \
	examples/must.h \
	examples/queens.h \
	examples/work_queue.c
examples_work_queue_LDADD = $(public)

noinst_PROGRAMS += examples/cg
examples_cg_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_draw.h \
	examples/app_pipes.h \
	examples/cg.c \
	examples/cg_grid.c \
	examples/cg_grid.h \
	examples/must.h \
	examples/picture.c \
	examples/picture.h
examples_cg_LDADD = $(public) $(PNG_LIBS) -lm

noinst_PROGRAMS += examples/sgd
examples_sgd_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_draw.h \
	examples/app_pipes.h \
	examples/must.h \
	examples/picture.c \
	examples/picture.h \
	examples/sgd.c \
	examples/sgd_net.c \
	examples/sgd_net.h
examples_sgd_LDADD = $(public) $(PNG_LIBS) -lm

noinst_PROGRAMS += examples/kmeans
examples_kmeans_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_draw.h \
	examples/app_pipes.h \
	examples/kmeans.c \
	examples/kmeans_points.c \
	examples/kmeans_points.h \
	examples/must.h \
	examples/picture.c \
	examples/picture.h
examples_kmeans_LDADD = $(public) $(PNG_LIBS)

noinst_PROGRAMS += examples/pagerank
examples_pagerank_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_draw.h \
	examples/app_pipes.h \
	examples/must.h \
	examples/pagerank.c \
	examples/pagerank_graph.c \
	examples/pagerank_graph.h \
	examples/picture.c \
	examples/picture.h
examples_pagerank_LDADD = $(public) $(PNG_LIBS) -lm

noinst_PROGRAMS += examples/sample_sort
examples_sample_sort_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_draw.h \
	examples/app_pipes.h \
	examples/must.h \
	examples/picture.c \
	examples/picture.h \
	examples/sample_sort.c \
	examples/sort_keys.c \
	examples/sort_keys.h
examples_sample_sort_LDADD = $(public) $(PNG_LIBS)

noinst_PROGRAMS += examples/elastic
examples_elastic_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/app_draw.h \
	examples/elastic.c \
	examples/elastic_run.c \
	examples/elastic_run.h \
	examples/must.h \
	examples/picture.c \
	examples/picture.h \
	examples/sgd_net.c \
	examples/sgd_net.h
examples_elastic_LDADD = $(public) $(PNG_LIBS) -lm

# the same applications over MPI, for bench/apps
if HAVE_MPI
noinst_PROGRAMS += \
	examples/mpi/mpi_cg \
	examples/mpi/mpi_dht \
	examples/mpi/mpi_em3d \
	examples/mpi/mpi_heat2d \
	examples/mpi/mpi_kmeans \
	examples/mpi/mpi_md \
	examples/mpi/mpi_pagerank \
	examples/mpi/mpi_pipeline \
	examples/mpi/mpi_sample_sort \
	examples/mpi/mpi_sgd \
	examples/mpi/mpi_work_queue
endif
examples_mpi_mpi_cg_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/cg_grid.c \
	examples/cg_grid.h \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_cg.c \
	examples/picture.c \
	examples/picture.h
examples_mpi_mpi_cg_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_cg_LDADD = $(MPI_LIBS) $(PNG_LIBS) -lm
examples_mpi_mpi_dht_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/dht_table.h \
	examples/mpi/mpi_dht.c \
	examples/mpi/notify.h
examples_mpi_mpi_dht_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_dht_LDADD = $(MPI_LIBS)
examples_mpi_mpi_em3d_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/em3d_graph.c \
	examples/em3d_graph.h \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_em3d.c \
	examples/mpi/notify.h
examples_mpi_mpi_em3d_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_em3d_LDADD = $(MPI_LIBS)
examples_mpi_mpi_heat2d_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/heat_grid.c \
	examples/heat_grid.h \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_heat2d.c \
	examples/mpi/notify.h \
	examples/picture.c \
	examples/picture.h
examples_mpi_mpi_heat2d_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_heat2d_LDADD = $(MPI_LIBS) $(PNG_LIBS) -lm
examples_mpi_mpi_kmeans_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/kmeans_points.c \
	examples/kmeans_points.h \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_kmeans.c \
	examples/picture.c \
	examples/picture.h
examples_mpi_mpi_kmeans_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_kmeans_LDADD = $(MPI_LIBS) $(PNG_LIBS)
examples_mpi_mpi_md_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/md_atoms.c \
	examples/md_atoms.h \
	examples/md_force.c \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_md.c \
	examples/mpi/notify.h
examples_mpi_mpi_md_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_md_LDADD = $(MPI_LIBS) -lm

examples_mpi_mpi_pagerank_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_pagerank.c \
	examples/pagerank_graph.c \
	examples/pagerank_graph.h
examples_mpi_mpi_pagerank_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_pagerank_LDADD = $(MPI_LIBS) -lm

examples_mpi_mpi_pipeline_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_pipeline.c \
	examples/mpi/notify.h \
	examples/pipeline_stage.h
examples_mpi_mpi_pipeline_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_pipeline_LDADD = $(MPI_LIBS)

examples_mpi_mpi_sample_sort_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_sample_sort.c \
	examples/sort_keys.c \
	examples/sort_keys.h
examples_mpi_mpi_sample_sort_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_sample_sort_LDADD = $(MPI_LIBS)

examples_mpi_mpi_sgd_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/mpi/laps.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_sgd.c \
	examples/picture.c \
	examples/picture.h \
	examples/sgd_net.c \
	examples/sgd_net.h
examples_mpi_mpi_sgd_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_sgd_LDADD = $(MPI_LIBS) $(PNG_LIBS) -lm

examples_mpi_mpi_work_queue_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/mpi/mpi_work_queue.c \
	examples/queens.h
examples_mpi_mpi_work_queue_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_mpi_mpi_work_queue_LDADD = $(MPI_LIBS)

# three of them over MPICH too, for whose MPI_STATUSES_IGNORE gcc reports an overflow
if HAVE_MPICH
noinst_PROGRAMS += examples/mpi/mpich_dht examples/mpi/mpich_em3d examples/mpi/mpich_heat2d
endif
examples_mpi_mpich_dht_SOURCES = $(examples_mpi_mpi_dht_SOURCES)
examples_mpi_mpich_dht_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) -Wno-error
examples_mpi_mpich_dht_LDADD = $(MPICH_LIBS)
examples_mpi_mpich_em3d_SOURCES = $(examples_mpi_mpi_em3d_SOURCES)
examples_mpi_mpich_em3d_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) -Wno-error
examples_mpi_mpich_em3d_LDADD = $(MPICH_LIBS)
examples_mpi_mpich_heat2d_SOURCES = $(examples_mpi_mpi_heat2d_SOURCES)
examples_mpi_mpich_heat2d_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) -Wno-error
examples_mpi_mpich_heat2d_LDADD = $(MPICH_LIBS) $(PNG_LIBS) -lm

# what happens when a process dies depends on the launcher, so this one is for MPICH's
if HAVE_MPICH
noinst_PROGRAMS += examples/mpi/mpich_elastic
endif
examples_mpi_mpich_elastic_SOURCES = \
	examples/app.c \
	examples/app.h \
	examples/elastic_run.c \
	examples/elastic_run.h \
	examples/mpi/memory.h \
	examples/mpi/mpi_elastic.c \
	examples/mpi/survive.h \
	examples/picture.c \
	examples/picture.h \
	examples/sgd_net.c \
	examples/sgd_net.h
examples_mpi_mpich_elastic_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) -Wno-stringop-overflow
examples_mpi_mpich_elastic_LDADD = $(MPICH_LIBS) $(PNG_LIBS) -lm

# pipes inside an MPI program
if HAVE_MPI
noinst_PROGRAMS += examples/hybrid
endif
examples_hybrid_SOURCES = examples/hybrid.c examples/must.h
examples_hybrid_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
examples_hybrid_LDADD = $(public) $(MPI_LIBS)

noinst_PROGRAMS += examples/quotes
examples_quotes_SOURCES = examples/quotes.c examples/must.h
examples_quotes_LDADD = $(public)

noinst_PROGRAMS += examples/event_loop
examples_event_loop_SOURCES = examples/event_loop.c examples/must.h
examples_event_loop_LDADD = $(public)

noinst_PROGRAMS += examples/device_pool
examples_device_pool_SOURCES = \
	examples/device_pool.c \
	examples/device_sim.c \
	examples/device_sim.h
examples_device_pool_LDADD = $(public)

noinst_PROGRAMS += examples/device_pipe
examples_device_pipe_SOURCES = \
	$(gpu_sources) \
	examples/device_pipe.c \
	examples/gpu.c \
	examples/gpu.h \
	examples/gpu_simulated.c \
	examples/must.h
examples_device_pipe_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/contrib/gpu
examples_device_pipe_LDADD = $(public)

noinst_PROGRAMS += examples/am_ping
examples_am_ping_SOURCES = \
	examples/am_ping.c \
	examples/app.c \
	examples/app.h \
	examples/must.h
examples_am_ping_LDADD = $(public)

# listings of the thesis: each a program of one file, and a test of itself
listings = \
	examples/listing_5_1_zero_copy \
	examples/listing_5_2_halo \
	examples/listing_5_3_dht \
	examples/listing_5_10_reduce \
	examples/listing_b_2_symmetric \
	examples/listing_b_3_ring
noinst_PROGRAMS += $(listings)
examples_listing_5_1_zero_copy_LDADD = $(public)
examples_listing_5_2_halo_LDADD = $(public)
examples_listing_5_3_dht_LDADD = $(public)
examples_listing_5_10_reduce_LDADD = $(public)
examples_listing_b_2_symmetric_LDADD = $(public)
examples_listing_b_3_ring_LDADD = $(public)
