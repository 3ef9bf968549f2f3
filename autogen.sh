#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes ./configure, which a clone lacks and a release contains.
set -e
cd "$(dirname "$0")"
mkdir -p m4
exec autoreconf --install "$@"
