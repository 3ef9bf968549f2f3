# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: tests and examples in Fortran, of bindings/fortran/rpipe.f90. They are built by a rule of their own: the compiler (TEST_FC,
# MPIFORT) may be missing, and then each is a script that is skipped, with the reason. Each program compiles the module for itself, into
# a folder of its own.

fortran_examples = \
	examples/fortran/halo \
	examples/fortran/mpi_halo
fortran_programs = $(fortran_examples) test/fortran/layout test/fortran/messages
fortran_tests = \
	test/fortran/layout \
	test/fortran/messages \
	test/fortran/twins
noinst_DATA += $(fortran_examples)
dist_check_SCRIPTS += test/fortran/twins
EXTRA_DIST += \
	test/fortran/layout.f90 \
	test/fortran/layout_c.c \
	test/fortran/messages.f90

# the module, for programs to compile: module files belong to one compiler
fortrandir = $(datadir)/rmalloc/fortran
dist_fortran_DATA = bindings/fortran/rpipe.f90 bindings/fortran/rpipe_arrays.inc
fortran_module = $(srcdir)/bindings/fortran/rpipe.f90

# by way of variables: each has a rule below, which automake must not take for a second one
fortran_halo = examples/fortran/halo
fortran_mpi_halo = examples/fortran/mpi_halo
fortran_layout = test/fortran/layout
fortran_layout_c = test/fortran/layout_c.o
fortran_messages = test/fortran/messages
fortran_mpi_sources = $(srcdir)/examples/fortran/heat.f90 $(srcdir)/examples/fortran/mpi_halo.f90
fortran_twins = test/fortran/twins
$(fortran_layout): $(srcdir)/test/fortran/layout.f90 $(fortran_layout_c)
$(fortran_messages): $(srcdir)/test/fortran/messages.f90
$(fortran_halo): $(srcdir)/examples/fortran/heat.f90 $(srcdir)/examples/fortran/halo.f90
$(fortran_twins).log: $(fortran_halo) $(fortran_mpi_halo) $(fortran_messages)

# the flags of C are for the library: those of coverage would need more than the Fortran compiler links
$(fortran_layout_c): $(srcdir)/test/fortran/layout_c.c $(srcdir)/include/rpipe.h
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(CC) -std=c11 -Wall -Wextra $(findstring -Werror,$(WARN_CFLAGS)) -I$(srcdir)/include -c -o $@ $<

# sources in the order of their modules; in the source tree make leaves the ./ of srcdir out in $^
fortran_flags = -std=f2018 -O2 -g -Wall -Wextra -Wno-compare-reals -Wno-function-elimination $(findstring -Werror,$(WARN_CFLAGS))
if HAVE_FC
$(fortran_layout) $(fortran_messages) $(fortran_halo): $(fortran_module) $(srcdir)/bindings/fortran/rpipe_arrays.inc $(public)
	@$(MKDIR_P) $@.mod
	$(AM_V_GEN)$(LIBTOOL) --silent --tag=CC --mode=link $(TEST_FC) $(fortran_flags) $(SANITIZE_CFLAGS) -J$@.mod -o $@ \
		$(fortran_module) $(filter-out %rpipe.f90,$(filter %.f90,$^)) $(filter %.o,$^) $(public)
else
$(fortran_layout) $(fortran_messages) $(fortran_halo):
	@$(MKDIR_P) $(@D)
	@printf '#!/bin/sh\necho "skipped: no Fortran compiler (Debian: gfortran)"\nexit 77\n' >$@ && chmod +x $@
endif
if HAVE_MPIFORT
$(fortran_mpi_halo): $(fortran_mpi_sources)
	@$(MKDIR_P) $@.mod
	$(AM_V_GEN)$(MPIFORT) $(fortran_flags) -J$@.mod -o $@ $(filter %.f90,$^)
else
$(fortran_mpi_halo): $(fortran_mpi_sources)
	@$(MKDIR_P) $(@D)
	@printf '#!/bin/sh\necho "skipped: no Fortran compiler of an MPI (Debian: gfortran, libopenmpi-dev)"\nexit 77\n' >$@ && chmod +x $@
endif

clean-fortran:
	rm -rf $(fortran_programs:=.mod) $(fortran_layout_c) $(addsuffix .libs,$(sort $(dir $(fortran_programs))))
clean-local: clean-fortran
.PHONY: clean-fortran
