/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork_fds.h: the descriptors of the control network, so that the child of a fork can close them.
 *
 * One bit per descriptor, set and cleared by atomic operations. The child finds every bit as it was
 * at the moment of the fork, whatever list or lock another thread of the parent was working on: so
 * it needs neither. Descriptors beyond the last bit are not recorded; they are still close-on-exec.
 */
#ifndef UTIL_FORK_FDS_H
#define UTIL_FORK_FDS_H

void fork_fds_add(int fd);    /* a negative fd is ignored, here and below */
void fork_fds_forget(int fd); /* is owned elsewhere from now on */
void fork_fds_close(int fd);
void fork_fds_close_all(void);

#endif
