# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: litmus tests of the rules of execution, over shared memory, sockets and a simulated network.

litmus_tests = \
	test/litmus/rule_1 \
	test/litmus/rule_2 \
	test/litmus/rule_3 \
	test/litmus/rule_4 \
	test/litmus/rule_5 \
	test/litmus/rule_6
check_PROGRAMS += $(litmus_tests)
noinst_HEADERS += test/litmus/litmus.h
test_litmus_rule_1_LDADD = $(public)
test_litmus_rule_2_LDADD = $(public)
test_litmus_rule_3_LDADD = $(public)
test_litmus_rule_4_LDADD = $(public)
test_litmus_rule_5_LDADD = $(public)
test_litmus_rule_6_LDADD = $(public)
mpi_tests += \
	test/litmus/rule_1-2.mpi \
	test/litmus/rule_1-2+tcp.mpi \
	test/litmus/rule_2-2.mpi \
	test/litmus/rule_2-2+tcp.mpi \
	test/litmus/rule_3-2.mpi \
	test/litmus/rule_3-2+tcp.mpi \
	test/litmus/rule_4-2.mpi \
	test/litmus/rule_4-2+tcp.mpi \
	test/litmus/rule_5-2.mpi \
	test/litmus/rule_5-2+tcp.mpi \
	test/litmus/rule_6-2.mpi \
	test/litmus/rule_6-2+tcp.mpi
litmus_sims = \
	test/litmus/rule_1-1.sim \
	test/litmus/rule_2-1.sim \
	test/litmus/rule_3-1.sim \
	test/litmus/rule_4-1.sim \
	test/litmus/rule_5-1.sim \
	test/litmus/rule_6-1.sim
network_tests += $(litmus_sims)
CLEANFILES += $(litmus_sims)
$(litmus_sims): $(litmus_tests) $(check_LTLIBRARIES)
	@$(MKDIR_P) $(@D) && : >$@
