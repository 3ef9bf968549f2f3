# SPDX-License-Identifier: BSD-3-Clause
#
# A Spack package: copy this into packages/rmalloc/ of a repository of your own (spack repo create), and set where the sources are:
# `spack develop` or the attribute git. There is no release to download yet, so the version is that of a checkout.

from spack.package import *


class Rmalloc(AutotoolsPackage):
    """Memory in another process, and pipes to hand it over: the writer allocates
    a message in the reader's memory, fills it there, and hands it over."""

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("pmix", default=True, description="Start under mpirun, srun and prun")
    variant("ofi", default=True, description="Between machines over libfabric")
    variant("verbs", default=False, description="Between machines over libibverbs and librdmacm")
    variant("plots", default=False, description="Pictures by rmalloc_perf --plot")

    depends_on("autoconf@2.71:", type="build")
    depends_on("automake@1.16:", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("pmix@4:", when="+pmix")
    depends_on("libfabric@1.14:", when="+ofi")
    depends_on("rdma-core", when="+verbs")
    depends_on("gnuplot", type="run", when="+plots")
    depends_on("cmocka", type="test")

    conflicts("platform=darwin", msg="Linux only: memfd, futex, epoll")
    conflicts("platform=windows", msg="Linux only: memfd, futex, epoll")

    # A feature that is not requested is not searched for: pkg-config finds what the dependencies bring, and nothing else.
    def configure_args(self):
        return []

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def look_at_it(self):
        Executable(join_path(self.prefix.bin, "rmalloc_info"))()
