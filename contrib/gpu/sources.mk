# SPDX-License-Identifier: BSD-3-Clause
#
# sources.mk: memory of GPUs. It is made of public headers alone; programs that use it compile its sources, which are installed beside
# the examples.

gpu_sources = \
	contrib/gpu/driver.c \
	contrib/gpu/driver.h \
	contrib/gpu/rgpu.c \
	contrib/gpu/rgpu.h
gpudir = $(docdir)/contrib/gpu
dist_gpu_DATA = $(gpu_sources) contrib/gpu/README.md
