# SPDX-License-Identifier: BSD-3-Clause
#
# tests.mk: the tests on several hosts.

# Several hosts: what test/hosts/namespaces and test/hosts/guests run beside the multi-process programs. The scripts are not part of
# make check: they take minutes, and the right to make network namespaces, or QEMU.
check_PROGRAMS += test/hosts/cable test/hosts/cut
test_hosts_cable_LDADD =
test_hosts_cut_LDADD = $(public)
dist_check_SCRIPTS += test/hosts/namespaces test/hosts/slurm

dist_check_SCRIPTS += test/hosts/guests test/hosts/namespaces test/hosts/rdma-vm
# Random traffic for as long as one likes, beside processes that die; does anything grow? A job of .ci/run.
dist_check_SCRIPTS += test/soak
