/* SPDX-License-Identifier: BSD-3-Clause */
/* block_table.c: see block_table.h. */
#include "sync/block_table.h"

#include <errno.h>
#include <stdlib.h>

int block_table_create(struct block_table *t, uint32_t size)
{
    uint32_t i;

    t->entry = malloc(size * sizeof(t->entry[0]));
    if (t->entry == NULL)
        return -ENOMEM;
    t->size = size;
    t->free = 0;
    for (i = 0; i < size; i++)
        t->entry[i] = (uintptr_t)(i + 1 < size ? i + 1 : BLOCK_TABLE_NONE) << 1 | 1;
    return 0;
}

void block_table_destroy(struct block_table *t)
{
    free(t->entry);
    *t = (struct block_table){0};
}
