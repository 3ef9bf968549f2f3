/* SPDX-License-Identifier: BSD-3-Clause */
/* cast_remote.c: the path to readers of other hosts. There is none yet: a cast over several hosts is -ENOTSUP. */
#include "cast/cast.h"

const struct cast_path_ops *const cast_remote_ops = NULL;
