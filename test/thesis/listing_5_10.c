/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * listing_5_10.c: thesis listing 5.10 as printed: a reduction that is executed again and again. Declarations of rank, nprocs, i and flag are
 * not printed; the check of the result, rexit and the input that differs from iteration to iteration are added.
 */
#include <rmalloc_thesis.h>
#include <stdio.h>

#define STEPS 4
#define ITERS 100
#define SOME_VAL (10 * rank + i)

static int rank, nprocs, i, flag, wrong;

static void verify(rcoll_handle_t handle)
{
    int sum = 0;

    for (int r = 0; r < nprocs; r++)
        sum += 10 * r + i;
    wrong += rank == 0 && *(int *)rthesis_coll_result(handle) != sum;
}

/* ---- listing 5.10 ---- */
int reduce_input(void *input, size_t sz, int offset, void *args) {
  int *in = input;
  *in = SOME_VAL;
  return 0;
}

rcoll_params_t p = {
    .type = REDUCE,
    .count = 1,
    .datatype = MPI_INT,
    .op       = MPI_SUM,
    .root     = 0,
    .rdma_op  = RDMA_PUT,
    .steps    = STEPS
};

int main(){
  rcoll_handle_t coll_handle;
  rinit(&rank, &nprocs);
  int ret = rcoll_init(&coll_handle, p, reduce_input, NULL);
  network_barrier();
  for (i = 0; i < ITERS; ++i) {
    while (!flag) {
      rcoll_nb(coll_handle, &flag);
    }
    verify(coll_handle); /* not printed */
    rcoll_reset(coll_handle);
  }
  rcoll_free(coll_handle);
  /* ---- return ret; is printed here ---- */
  if (rexit() != R_SUCCESS || wrong > 0)
    return 1;
  return ret;
}
