/* SPDX-License-Identifier: BSD-3-Clause */
/* scenario_ends.h: the parts that the ranks of scenario.c play. */
#ifndef TEST_FAULTS_SCENARIO_ENDS_H
#define TEST_FAULTS_SCENARIO_ENDS_H

#include "scenario.h"
#include "test/lib/on_device.h"

/* ---- what parts are made of ---- */
bool scene_once_more(struct player *p,
                     int rc); /* a deadline has passed, and the call is to be made again */
#define SCENE_LONGEST 3000    /* of scene_send and scene_receive */
int scene_send(struct player *p, rch_t ch, uint64_t i, size_t bytes);
int scene_receive(struct player *p, rch_t ch, uint64_t i, size_t expected);
rpipe_config_t scene_config(const struct player *p, int peer, uint32_t ctx, bool writer);
rch_t scene_open(struct player *p, const rpipe_config_t *cfg);
int scene_wait_joined(struct player *p, rch_t ch);
void scene_close_all(struct player *p); /* ends, then regions */

/* ---- parts ---- */

int scene_stream(
    struct player *p); /* small messages and blocks; a full ring, a full heap, an empty ring */
int scene_growth(struct player *p);  /* a heap that has to grow */
int scene_reopen(struct player *p);  /* the same id several times */
int scene_late(struct player *p);    /* closed by one end before the other has opened */
int scene_event(struct player *p);   /* rfd */
int scene_atomic(struct player *p);  /* cells */
int scene_control(struct player *p); /* network_... */
int scene_compose(struct player *p); /* scatter and redux */
int scene_region(
    struct player
        *p); /* memory of the program's, and of the pipe, and into such: scenario_regions.c */
int scene_window(
    struct player *p); /* windows of one end, written by the other: scenario_windows.c */
int scene_board(struct player *p);    /* a board of the two ends: scenario_board.c */
int scene_copy(struct player *p);     /* messages by copy: scenario_copy.c */
int scene_device(struct player *p);   /* messages in memory of a device: scenario_device.c */
int scene_cast(struct player *p);     /* casts of all three ranks: scenario_cast.c */
int scene_messages(struct player *p); /* messages by tag: scenario_messages.c */
int scene_team(struct player *p);     /* collectives of the two ends: scenario_team.c */
int scene_hosts(struct player *p); /* and of three ranks on two or three hosts: scenario_hosts.c */
int scene_probes(
    struct player *p); /* which wait for each other so long that they ask: scenario_hosts.c */

#endif
