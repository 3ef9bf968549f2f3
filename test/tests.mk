# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: tests of the whole, and the environment of all tests.

# An example that needs no launcher.
example_tests = examples/device_pool

# A test that hangs fails.
# RMALLOC_TEST_UNDER is what runs a program: valgrind, by libtool.
LOG_COMPILER = timeout --kill-after=5 $${RMALLOC_TEST_TIMEOUT:-120} $${RMALLOC_TEST_UNDER:-}
MPI_LOG_COMPILER = $(SHELL) $(top_srcdir)/test/run-mpi
SIM_LOG_COMPILER = $(SHELL) $(top_srcdir)/test/run-sim

# Tests of the whole: scripts, and a program that is linked with librdmacm too.
whole_scripts = \
	test/abi \
	test/apps \
	test/bench \
	test/bench_tables \
	test/elastic_twin \
	test/exports \
	test/faults/namespaces \
	test/fuzz/replay \
	test/hybrid \
	test/install \
	test/instructions \
	test/layers \
	test/manual \
	test/mpi_backend \
	test/mpi_job \
	test/second_try \
	test/observe \
	test/python \
	test/received \
	test/spack \
	test/tarball \
	test/tools \
	test/trace \
	test/troubleshooting \
	test/tutorial \
	test/usage \
	test/wraparound
whole_tests = $(whole_scripts)
if HAVE_RDMACM
whole_tests += test/names
check_PROGRAMS += test/names
endif
test_names_CFLAGS = $(AM_CFLAGS) $(RDMACM_CFLAGS)
test_names_LDADD = $(public) $(RDMACM_LIBS)
dist_check_SCRIPTS += $(whole_scripts) test/run-mpi

# what test/instructions runs
check_PROGRAMS += test/instruction_calls test/instruction_messages test/instruction_pairs test/instruction_plans
test_instruction_calls_LDADD = $(public)
test_instruction_messages_LDADD = $(public)
test_instruction_pairs_LDADD = $(public)
test_instruction_plans_LDADD = $(public)

# It has libraries linked anew where the others load them from, so it comes last, and alone.
last_test = test/install
$(last_test).log: $(filter-out $(last_test).log,$(TEST_LOGS))

AM_TESTS_ENVIRONMENT = \
	RPIPE_MODULE_PATH='$(abs_top_builddir)/lib/.libs'; export RPIPE_MODULE_PATH; \
	MPIRUN='$(MPIRUN)'; CC='$(CC)'; TEST_CXX='$(TEST_CXX)'; TEST_FC='$(TEST_FC)'; SANITIZE_CFLAGS='$(SANITIZE_CFLAGS)'; \
	LSAN_OPTIONS='suppressions=$(abs_top_srcdir)/test/lsan.supp:print_suppressions=0'; \
	UBSAN_OPTIONS=print_stacktrace=1; \
	export MPIRUN CC TEST_CXX TEST_FC SANITIZE_CFLAGS LSAN_OPTIONS UBSAN_OPTIONS;

EXTRA_DIST += test/README.md test/lsan.supp test/valgrind.supp

# what programs were linked with so far, and a recipe for Spack
EXTRA_DIST += \
	abi/librmalloc.abi \
	packaging/spack/package.py

# Debian's packages, and the test of them
EXTRA_DIST += \
	debian/changelog \
	debian/control \
	debian/copyright \
	debian/librmalloc-dev.install \
	debian/librmalloc-mpich.install \
	debian/librmalloc-ofi.install \
	debian/librmalloc-openmpi.install \
	debian/librmalloc-pmix.install \
	debian/librmalloc-verbs.install \
	debian/librmalloc1.install \
	debian/librmalloc1.symbols \
	debian/rmalloc-tools.install \
	debian/rules \
	debian/source/format
dist_noinst_SCRIPTS += test/packages
