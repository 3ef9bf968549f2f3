/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * instruction_calls.c: messages through a pipe of this process to itself, for test/instructions, which counts what the calls of
 * the data path execute. Half a ring is sent, then received, so that no call waits. `full`: as `write`, in laps that fill the heap.
 *
 * usage: instruction_calls put|get write|full|send|post BYTES
 */
#include <rpipe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAPS 2000
#define HALF 32 /* of the 64 slots of the ring */
#define FULL 4  /* messages in the heap */

static void check(const char *what, int code)
{
    if (code == 0)
        return;
    fprintf(stderr, "instruction_calls: %s: %d\n", what, code);
    exit(1);
}

static void by_write(rch_t out, rch_t in, size_t bytes, int messages)
{
    raddr_t d;
    size_t size;

    for (int i = 0; i < messages; i++) {
        d = rmalloc(out, bytes);
        check("rmalloc", d == ADDR_NULL);
        *(char *)rmem(out, d) = (char)i;
        check("rwrite", rwrite(out, d));
    }
    for (int i = 0; i < messages; i++) {
        check("rread", rread(in, &d, &size));
        check("the message", size != bytes || *(char *)rmem(in, d) != (char)i);
        check("rfree", rfree(in, d));
    }
}

static void by_send(rch_t out, rch_t in, size_t bytes)
{
    char buffer[4096] = {0};
    size_t size;

    for (int i = 0; i < HALF; i++) {
        buffer[0] = (char)i;
        check("rsend", rsend(out, buffer, bytes, 0));
    }
    for (int i = 0; i < HALF; i++) {
        check("rrecv", rrecv(in, buffer, sizeof(buffer), &size, 0));
        check("the message", size != bytes || buffer[0] != (char)i);
    }
}

static void by_post(rch_t out, rch_t in, size_t bytes)
{
    char buffer[4096] = {0};
    rtaken_t m;

    for (int i = 0; i < HALF; i++) {
        buffer[0] = (char)i;
        check("rpost", rpost(out, buffer, bytes, (uint64_t)i));
    }
    for (int i = 0; i < HALF; i++) {
        check("rtake", rtake(in, &m));
        check("the message", m.bytes != bytes || *(char *)m.mem != (char)i || m.tag != (uint64_t)i);
        if (m.d != ADDR_NULL)
            check("rfree", rfree(in, m.d));
    }
}

int main(int argc, char **argv)
{
    rpipe_config_t cfg = {.slots = 2 * HALF};
    rch_t out, in;
    int rank;
    long bytes = argc == 4 ? strtol(argv[3], NULL, 10) : 0;

    if (bytes < 1 || bytes > 4096) {
        fprintf(stderr, "usage: instruction_calls put|get write|full|send|post BYTES\n");
        return 2;
    }
    check("rinit", rinit(&rank, NULL));
    cfg.op = strcmp(argv[1], "get") == 0 ? RPIPE_GET : RPIPE_PUT;
    cfg.peer = rank;
    if (strcmp(argv[2], "full") == 0)
        cfg.heap_bytes = FULL * (uint64_t)bytes;
    cfg.role = RPIPE_WRITER;
    check("rpipe", rpipe(&out, &cfg));
    cfg.role = RPIPE_READER;
    check("rpipe", rpipe(&in, &cfg));
    check("rwait", rwait(out));
    for (int i = 0; i < LAPS; i++) {
        if (strcmp(argv[2], "send") == 0)
            by_send(out, in, (size_t)bytes);
        else if (strcmp(argv[2], "post") == 0)
            by_post(out, in, (size_t)bytes);
        else if (strcmp(argv[2], "full") == 0)
            for (int lap = 0; lap < HALF / FULL; lap++)
                by_write(out, in, (size_t)bytes, FULL);
        else
            by_write(out, in, (size_t)bytes, HALF);
    }
    check("rclose", rclose(out));
    check("rclose", rclose(in));
    check("rexit", rexit());
    return 0;
}
