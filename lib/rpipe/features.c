/* SPDX-License-Identifier: BSD-3-Clause */
/* features.c: the table of feature.h: which features ends have. Only this file names all of them. */
#include "rpipe/end/feature.h"

#include "cast/cast_feature.h"
#include "cells/cells.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/grow/grow.h"
#include "rpipe/region/region.h"
#include "rpipe/window/window.h"

const struct end_feature *const end_features[] = {
    &debug_check_feature, &cells_feature, &growth_feature, &region_feature, &window_feature,
    &cast_feature,        NULL,
};
