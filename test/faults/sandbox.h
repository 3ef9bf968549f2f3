/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sandbox.h: a process that is alone with its children, so that whatever there is, is theirs.
 *
 * It has a network, System V IPC, /tmp, /var/tmp and /dev/shm of its own (unshare(2)); an orphan becomes its child.
 * So others on the machine neither disturb it nor are blamed: what is found here was left by a process that was started here.
 */
#ifndef TEST_FAULTS_SANDBOX_H
#define TEST_FAULTS_SANDBOX_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>

/* False, and why: namespaces cannot be made here. Goes to an empty directory; of /tmp there is left what programs are loaded from. */
bool island_enter(struct error *err);

/*
 * A line for each file, for each socket but those that wait for late packets (TIME_WAIT), for each System V object and each child
 * that runs; those that have ended it buries. Returns how many lines.
 */
unsigned island_list(char *text, size_t text_bytes);

#endif
