# SPDX-License-Identifier: BSD-3-Clause
"""The extension, built against the library that pkg-config finds (PKG_CONFIG_PATH)."""

import glob
import os
import shlex
import subprocess
import sys

from setuptools import Extension, setup


def pkg_config(*arguments):
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *arguments, "rmalloc"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(
            f"rpipe: {' '.join(command)} failed: {getattr(error, 'stderr', '') or error}\n"
            "Install rmalloc first, and set PKG_CONFIG_PATH to the folder of rmalloc.pc."
        )


def run_path():
    """Where the library is loaded from at run time, if the system does not search there."""
    if os.environ.get("PKG_CONFIG_SYSROOT_DIR"):
        return []
    folder = pkg_config("--variable=libdir")
    return [] if folder.startswith(("/usr/lib", "/lib")) else [f"-Wl,-rpath,{folder}"]


setup(
    ext_modules=[
        Extension(
            "rpipe._rpipe",
            sources=sorted(glob.glob("src/*.c")),
            depends=glob.glob("src/*.h"),
            extra_compile_args=["-std=c11", "-D_GNU_SOURCE", *shlex.split(pkg_config("--cflags"))],
            extra_link_args=[*shlex.split(pkg_config("--libs")), *run_path()],
        )
    ]
)
