/* SPDX-License-Identifier: BSD-3-Clause */
/* board_message.h: the messages of boards (doc/boards.md "Messages"). */
#ifndef RPIPE_BOARD_BOARD_MESSAGE_H
#define RPIPE_BOARD_BOARD_MESSAGE_H

#include "rpipe/board/board.h"

#include <assert.h>

/* On the wire. */
enum board_message_kind { BOARD_OPEN = 1, BOARD_CLOSED, BOARD_LOST, BOARD_WORD };
struct board_message {
    uint32_t bytes; /* of this structure */
    uint16_t kind;
    uint16_t flags;
    uint64_t context, ranks, number; /* which board */
    uint32_t members;                /* how many there are */
    uint32_t zero;
    uint64_t board_bytes; /* OPEN: as configured */
    int32_t code;         /* LOST */
    uint32_t lost;        /* LOST: the member */
    union {
        uint64_t got;  /* OPEN with BOARD_COUNTED: struct board_member */
        uint64_t word; /* WORD */
    };
};
static_assert(sizeof(struct board_message) == 64, "on the wire");
#define BOARD_ANSWER 1u /* flags of OPEN: the receiver's memory is requested, */
#define BOARD_COUNTED                                                                              \
    2u /* unless its OPEN is beyond the first `got` of the receiver's: it has come, or will */

void board_message_start(void);
/* Lock held. The board has been registered: losses of it that came before count now. */
void board_take_early(struct rboard *b);
/* Lock held. OPEN, with the descriptor, to one member: 0, or as control_post(). */
int board_send_open(struct rboard *b, int member, bool request);
/* WORD to another member: 0, R_PENDING while too many messages wait for it, or as control_post(). */
int board_send_word(const struct rboard *b, int member, uint64_t word);
/* LOST to the other members of this host, of other hosts, or both. */
void board_send_lost(struct rboard *b, bool to_here, bool to_others);

#endif
