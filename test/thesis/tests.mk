# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the listings of the thesis as printed, and every name of its Appendix B, against rmalloc_thesis.h.

thesis_listings = test/thesis/listing_5_1 test/thesis/listing_5_2 test/thesis/listing_5_3 test/thesis/listing_5_9 \
	test/thesis/listing_5_10 test/thesis/listing_b_2 test/thesis/listing_b_3 test/thesis/appendix_b
check_PROGRAMS += $(thesis_listings)
EXTRA_DIST += test/thesis/basic_cfg.h test/thesis/basic_config.h test/thesis/nbc.h
# As printed: without the warnings that hold for the project's own sources.
thesis_cflags = -std=gnu11 -pthread $(SANITIZE_CFLAGS)
test_thesis_listing_5_1_CFLAGS = $(thesis_cflags)
test_thesis_listing_5_1_LDADD = $(public)
test_thesis_listing_5_2_CFLAGS = $(thesis_cflags)
test_thesis_listing_5_2_LDADD = $(public)
test_thesis_listing_5_3_CFLAGS = $(thesis_cflags)
test_thesis_listing_5_3_LDADD = $(public)
test_thesis_listing_5_9_CFLAGS = $(thesis_cflags)
test_thesis_listing_5_9_LDADD = $(public)
test_thesis_listing_5_10_CFLAGS = $(thesis_cflags)
test_thesis_listing_5_10_LDADD = $(public)
test_thesis_listing_b_2_CFLAGS = $(thesis_cflags)
test_thesis_listing_b_2_LDADD = $(public)
test_thesis_listing_b_3_CFLAGS = $(thesis_cflags)
test_thesis_listing_b_3_LDADD = $(public)
test_thesis_appendix_b_CFLAGS = $(thesis_cflags)
test_thesis_appendix_b_LDADD = $(public)
mpi_tests += \
	test/thesis/appendix_b-2.mpi \
	test/thesis/appendix_b-2+tcp.mpi \
	test/thesis/listing_5_1-1.mpi \
	test/thesis/listing_5_1-3.mpi \
	test/thesis/listing_5_2-3.mpi \
	test/thesis/listing_5_3-3.mpi \
	test/thesis/listing_5_9-1.mpi \
	test/thesis/listing_5_9-3.mpi \
	test/thesis/listing_5_9-5.mpi \
	test/thesis/listing_5_10-3.mpi \
	test/thesis/listing_5_10-5.mpi \
	test/thesis/listing_b_2-2.mpi \
	test/thesis/listing_b_3-4.mpi
