# SPDX-License-Identifier: BSD-3-Clause
#
# sources.mk: memory of GPUs. It is made of public headers alone; a program that uses it compiles its sources, which are installed in
# the folder of the examples.

EXTRA_DIST += contrib/gpu/README.md

gpu_sources = \
	contrib/gpu/rgpu.c \
	contrib/gpu/rgpu.h \
	contrib/gpu/rgpu_driver.c \
	contrib/gpu/rgpu_driver.h
