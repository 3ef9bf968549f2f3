# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: tests and examples in C++, of include/rpipe.hpp. They are built by a rule of their own: the C++ compiler (TEST_CXX) may
# be missing, and then each is a script that is skipped, with the reason.

cxx_examples = \
	examples/cpp/halo \
	examples/cpp/ping \
	examples/cpp/roots
cxx_programs = $(cxx_examples) test/cpp/ownership test/cpp/teams
cxx_tests = \
	test/cpp/headers \
	test/cpp/ownership \
	test/cpp/zero_cost
noinst_DATA = $(cxx_examples)
check_DATA = test/cpp/teams
dist_check_SCRIPTS += test/cpp/headers test/cpp/zero_cost
EXTRA_DIST += \
	test/cpp/ownership.cc \
	test/cpp/teams.cc \
	test/cpp/zero_cost.cc

if HAVE_CXX
cxx_flags = -std=c++17 -O2 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow $(findstring -Werror,$(WARN_CFLAGS))
$(cxx_programs): %: $(srcdir)/%.cc $(srcdir)/include/rpipe.hpp $(srcdir)/include/rpipe_error.hpp \
		$(srcdir)/include/rpipe_objects.hpp $(srcdir)/include/rcoll.hpp $(public)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(LIBTOOL) --silent --tag=CC --mode=link $(TEST_CXX) $(cxx_flags) $(SANITIZE_CFLAGS) \
		-I$(srcdir)/include -o $@ $< $(public)
else
$(cxx_programs):
	@$(MKDIR_P) $(@D)
	@printf '#!/bin/sh\necho "skipped: no C++ compiler (Debian: g++)"\nexit 77\n' >$@ && chmod +x $@
endif

clean-cxx:
	rm -rf $(addsuffix .libs,$(sort $(dir $(cxx_programs))))
clean-local: clean-cxx
.PHONY: clean-cxx
