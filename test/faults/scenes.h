/* SPDX-License-Identifier: BSD-3-Clause */
/* scenes.h: the parts that the ranks of scenario.c play. */
#ifndef TEST_FAULTS_SCENES_H
#define TEST_FAULTS_SCENES_H

#include "scenario.h"

void scene_close_all(struct player *p);

int scene_stream(struct player *p);  /* small messages and blocks; a full ring, a full heap, an empty ring */
int scene_growth(struct player *p);  /* a heap that has to grow */
int scene_reopen(struct player *p);  /* the same id several times */
int scene_late(struct player *p);    /* closed by one end before the other has opened */
int scene_event(struct player *p);   /* rpipe_fd */
int scene_atomic(struct player *p);  /* cells */
int scene_control(struct player *p); /* network_... */
int scene_compose(struct player *p); /* scatter and redux */

#endif
