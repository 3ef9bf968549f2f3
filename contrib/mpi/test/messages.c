/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * messages.c: sends, receives, requests, probes, cancel. Each process exchanges with the next and the previous one of a ring,
 * which with one process are itself.
 */
#include "check.h"

#define MOST (1 << 18) /* ints of the largest message */

static int next, previous;
static int *out, *in;

static void fill(int *data, int n, int from, int salt)
{
    for (int i = 0; i < n; i++)
        data[i] = from * 1000003 + salt * 7919 + i;
}

static void verify(const int *data, int n, int from, int salt)
{
    for (int i = 0; i < n; i++)
        CHECK(data[i] == from * 1000003 + salt * 7919 + i);
}

static void check_status(const MPI_Status *status, int source, int tag, int n)
{
    int count;

    MPI_Get_count(status, MPI_INT, &count);
    CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag && count == n);
}

/* All modes of sends, all sizes; the receive is posted before or after. */
static void modes(void)
{
    static const int sizes[] = {0, 1, 10, 11, 1000, 4096, 5000, 20000, MOST};
    char *attached = malloc(8 * MOST * sizeof(int));
    MPI_Status status;
    MPI_Request r[2];
    void *back;
    int bytes;

    MPI_Buffer_attach(attached, (int)(8 * MOST * sizeof(int)));
    for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (int mode = 0; mode < 5; mode++)
            for (int early = 0; early < 2; early++) {
                int n = sizes[s], tag = mode * 2 + early;

                fill(out, n, check_rank, tag);
                memset(in, 0x55, sizeof(int) * (size_t)n);
                if (early || mode == 3)
                    MPI_Irecv(in, n, MPI_INT, previous, tag, MPI_COMM_WORLD, &r[1]);
                if (mode == 3)
                    MPI_Barrier(MPI_COMM_WORLD); /* a ready send needs its receive */
                switch (mode) {
                case 0:
                    MPI_Isend(out, n, MPI_INT, next, tag, MPI_COMM_WORLD, &r[0]);
                    break;
                case 1:
                    MPI_Issend(out, n, MPI_INT, next, tag, MPI_COMM_WORLD, &r[0]);
                    break;
                case 2:
                    MPI_Bsend(out, n, MPI_INT, next, tag, MPI_COMM_WORLD);
                    memset(out, 0, sizeof(int) * (size_t)n);
                    r[0] = MPI_REQUEST_NULL;
                    break;
                case 3:
                    MPI_Rsend(out, n, MPI_INT, next, tag, MPI_COMM_WORLD);
                    r[0] = MPI_REQUEST_NULL;
                    break;
                default:
                    MPI_Ibsend(out, n, MPI_INT, next, tag, MPI_COMM_WORLD, &r[0]);
                }
                if (early || mode == 3)
                    MPI_Wait(&r[1], &status);
                else
                    MPI_Recv(in, n, MPI_INT, previous, tag, MPI_COMM_WORLD, &status);
                MPI_Wait(&r[0], MPI_STATUS_IGNORE);
                check_status(&status, previous, tag, n);
                verify(in, n, previous, tag);
                CHECK(r[0] == MPI_REQUEST_NULL && (!early || r[1] == MPI_REQUEST_NULL));
            }
    MPI_Buffer_detach(&back, &bytes);
    CHECK(back == attached && bytes == (int)(8 * MOST * sizeof(int)));
    free(attached);
}

/* A large send is active while all wait in a collective operation: the barrier has to advance it, and the other way round. */
static void progress(void)
{
    MPI_Request r, b;
    int flag;

    fill(out, MOST, check_rank, 3);
    if (check_rank % 2 == 0 && check_size > 1) {
        if (check_rank + 1 < check_size)
            MPI_Isend(out, MOST, MPI_INT, check_rank + 1, 5, MPI_COMM_WORLD, &r);
        else
            r = MPI_REQUEST_NULL;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        if (check_size > 1) {
            MPI_Recv(in, MOST, MPI_INT, check_rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify(in, MOST, check_rank - 1, 3);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* a receive waits for a message that is sent after the operation is over */
    MPI_Ibarrier(MPI_COMM_WORLD, &b);
    if (check_rank == 0 && check_size > 1) {
        MPI_Recv(in, 1, MPI_INT, check_size - 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&b, MPI_STATUS_IGNORE);
    } else {
        MPI_Wait(&b, MPI_STATUS_IGNORE);
        if (check_rank == check_size - 1 && check_size > 1)
            MPI_Send(out, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    }
    CHECK(b == MPI_REQUEST_NULL);
    MPI_Test(&b, &flag, MPI_STATUS_IGNORE);
    CHECK(flag);
}

/* Any source, any tag; messages of one source keep their order. */
static void wildcards(void)
{
    int *seen = calloc((size_t)check_size, sizeof(int)), count;
    MPI_Status status;

    if (check_rank == 0) {
        for (int i = 0; i < 20 * (check_size - 1); i++) {
            MPI_Recv(in, MOST, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_INT, &count);
            CHECK(status.MPI_TAG == seen[status.MPI_SOURCE] && count == 1 + 300 * status.MPI_TAG);
            verify(in, count, status.MPI_SOURCE, status.MPI_TAG);
            seen[status.MPI_SOURCE]++;
        }
    } else {
        for (int i = 0; i < 20; i++) {
            fill(out, 1 + 300 * i, check_rank, i);
            MPI_Send(out, 1 + 300 * i, MPI_INT, 0, i, MPI_COMM_WORLD);
        }
    }
    free(seen);
}

static void several(void)
{
    MPI_Request r[8];
    MPI_Status statuses[8];
    int index, flag, done, indices[8], left = 8, value[8], sent[8];

    for (int i = 0; i < 8; i++)
        MPI_Irecv(&value[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &r[i]);
    MPI_Testany(8, r, &index, &flag, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (flag) {
        fprintf(stderr, "a receive was over before its message was sent\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 7; i >= 0; i--) {
        sent[i] = i * i;
        MPI_Send(&sent[i], 1, MPI_INT, next, i, MPI_COMM_WORLD);
    }
    MPI_Waitany(8, r, &index, &statuses[0]);
    CHECK(index >= 0 && index < 8 && value[index] == index * index);
    CHECK(statuses[0].MPI_TAG == index && r[index] == MPI_REQUEST_NULL);
    left--;
    while (left > 0) {
        if (left % 2 == 0)
            MPI_Waitsome(8, r, &done, indices, statuses);
        else
            MPI_Testsome(8, r, &done, indices, statuses);
        CHECK(done != MPI_UNDEFINED);
        for (int i = 0; i < done; i++)
            CHECK(value[indices[i]] == indices[i] * indices[i] &&
                  statuses[i].MPI_TAG == indices[i]);
        left -= done;
    }
    MPI_Waitsome(8, r, &done, indices, statuses);
    CHECK(done == MPI_UNDEFINED);
    MPI_Waitany(8, r, &index, MPI_STATUS_IGNORE);
    CHECK(index == MPI_UNDEFINED);
    MPI_Testall(8, r, &flag, statuses);
    CHECK(flag);
}

static void persistent(void)
{
    MPI_Request r[2];
    MPI_Status status[2];
    int value, got;

    MPI_Send_init(&value, 1, MPI_INT, next, 9, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(&got, 1, MPI_INT, previous, 9, MPI_COMM_WORLD, &r[1]);
    for (int i = 0; i < 50; i++) {
        value = i + check_rank;
        MPI_Startall(2, r);
        MPI_Waitall(2, r, status);
        CHECK(r[0] != MPI_REQUEST_NULL && r[1] != MPI_REQUEST_NULL && got == i + previous);
        check_status(&status[1], previous, 9, 1);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    CHECK(r[0] == MPI_REQUEST_NULL);
}

static void probes(void)
{
    MPI_Status status;
    MPI_Message message;
    int flag = 0, count;

    MPI_Iprobe(previous, 77, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag);
    fill(out, 7000, check_rank, 1);
    MPI_Request r;
    MPI_Isend(out, 7000, MPI_INT, next, 11, MPI_COMM_WORLD, &r);
    MPI_Probe(MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &status);
    check_status(&status, previous, 11, 7000);
    MPI_Recv(in, 7000, MPI_INT, status.MPI_SOURCE, 11, MPI_COMM_WORLD, &status);
    verify(in, 7000, previous, 1);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        MPI_Isend(out, 100, MPI_INT, next, 12, MPI_COMM_WORLD, &r);
        if (i == 0)
            MPI_Mprobe(previous, 12, MPI_COMM_WORLD, &message, &status);
        else
            do
                MPI_Improbe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
            while (!flag);
        check_status(&status, previous, 12, 100);
        MPI_Mrecv(in, 100, MPI_INT, &message, &status);
        check_status(&status, previous, 12, 100);
        CHECK(message == MPI_MESSAGE_NULL);
        verify(in, 100, previous, 1);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && count == 0);
}

static void cancelled(void)
{
    MPI_Request r;
    MPI_Status status;
    int flag, value = 0;

    MPI_Irecv(&value, 1, MPI_INT, previous, 99, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Irecv(in, MOST, MPI_INT, previous, 98, MPI_COMM_WORLD,
              &r); /* large: the sender is informed */
    MPI_Cancel(&r);
    MPI_Wait(&r, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Barrier(MPI_COMM_WORLD);
    /* the next message goes to the next receive */
    MPI_Sendrecv(&check_rank, 1, MPI_INT, next, 99, &value, 1, MPI_INT, previous, 99,
                 MPI_COMM_WORLD, &status);
    CHECK(value == previous);
}

static void errors(void)
{
    MPI_Request r;
    MPI_Status status;
    int rc, error_class, len;
    char text[MPI_MAX_ERROR_STRING];

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fill(out, 100, check_rank, 0);
    MPI_Isend(out, 100, MPI_INT, next, 1, MPI_COMM_WORLD, &r);
    rc = MPI_Recv(in, 10, MPI_INT, previous, 1, MPI_COMM_WORLD, &status);
    MPI_Error_class(rc, &error_class);
    CHECK(error_class == MPI_ERR_TRUNCATE);
    MPI_Error_string(rc, text, &len);
    CHECK(len > 0 && (int)strlen(text) == len);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    rc = MPI_Send(out, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD);
    MPI_Error_class(rc, &error_class);
    CHECK(error_class == MPI_ERR_RANK);
    rc = MPI_Send(out, 1, MPI_INT, 0, -5, MPI_COMM_WORLD);
    MPI_Error_class(rc, &error_class);
    CHECK(error_class == MPI_ERR_TAG);
    rc = MPI_Send(out, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Error_class(rc, &error_class);
    CHECK(error_class == MPI_ERR_COUNT);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void exchanges(void)
{
    MPI_Status status;
    int n = 30000;

    fill(out, n, check_rank, 2);
    MPI_Sendrecv_replace(out, n, MPI_INT, next, 3, previous, 3, MPI_COMM_WORLD, &status);
    check_status(&status, previous, 3, n);
    verify(out, n, previous, 2);
    fill(out, MOST, check_rank, 4);
    MPI_Sendrecv(out, MOST, MPI_INT, next, 4, in, MOST, MPI_INT, previous, 4, MPI_COMM_WORLD,
                 &status);
    verify(in, MOST, previous, 4);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    next = (check_rank + 1) % check_size;
    previous = (check_rank + check_size - 1) % check_size;
    out = malloc(MOST * sizeof(int));
    in = malloc(MOST * sizeof(int));
    modes();
    progress();
    wildcards();
    several();
    persistent();
    probes();
    cancelled();
    exchanges();
    errors();
    free(out);
    free(in);
    return check_end("messages");
}
