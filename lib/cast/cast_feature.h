/* SPDX-License-Identifier: BSD-3-Clause */
/* cast_feature.h: the messages of casts on the control network, for the table of lib/rpipe/features.c. */
#ifndef CAST_CAST_FEATURE_H
#define CAST_CAST_FEATURE_H

#include "rpipe/end/feature.h"

extern const struct end_feature cast_feature;

#endif
