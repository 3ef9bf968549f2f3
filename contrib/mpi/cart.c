/* SPDX-License-Identifier: BSD-3-Clause */
/* cart.c: cartesian grids. Ranks are in row-major order, and are not reordered. */
#include "rmpi.h"

static struct rmpi_cart *cart_make(int ndims, const int *dims, const int *periods)
{
    struct rmpi_cart *c = malloc(sizeof(*c) + 2 * (size_t)ndims * sizeof(int));

    if (c == NULL)
        return NULL;
    c->ndims = ndims;
    c->dims = (int *)(void *)(c + 1);
    c->periods = c->dims + ndims;
    for (int i = 0; i < ndims; i++) {
        c->dims[i] = dims[i];
        c->periods[i] = periods[i] != 0;
    }
    return c;
}

void rmpi_cart_free(struct rmpi_comm *comm)
{
    free(comm->cart);
    comm->cart = NULL;
}

int rmpi_cart_copy(const struct rmpi_comm *from, struct rmpi_comm *to)
{
    if (from->cart == NULL)
        return MPI_SUCCESS;
    to->cart = cart_make(from->cart->ndims, from->cart->dims, from->cart->periods);
    return to->cart != NULL ? MPI_SUCCESS
                            : rmpi_fail(to, MPI_ERR_NO_MEM, "MPI_Comm_dup", "no memory");
}

static int cart_check(const char *call, MPI_Comm grid)
{
    int rc = rmpi_check_comm(call, grid);

    if (rc != MPI_SUCCESS || grid->cart != NULL)
        return rc;
    return rmpi_fail(grid, MPI_ERR_TOPOLOGY, call, "the communicator is no grid");
}

int MPI_Cart_create(MPI_Comm comm, int ndims, const int *dims, const int *periods, int reorder,
                    MPI_Comm *grid)
{
    int rc = rmpi_check_comm("MPI_Cart_create", comm);
    long nodes = 1;

    (void)reorder;
    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < ndims; i++)
        nodes = dims[i] < 1 || nodes > comm->size ? comm->size + 1L : nodes * dims[i];
    if (ndims < 0 || nodes > comm->size)
        return rmpi_fail(comm, MPI_ERR_DIMS, "MPI_Cart_create",
                         "the grid has a dimension below 1, or more than %d nodes", comm->size);
    rc = MPI_Comm_split(comm, comm->rank < nodes ? 0 : MPI_UNDEFINED, comm->rank, grid);
    if (rc != MPI_SUCCESS || *grid == MPI_COMM_NULL)
        return rc;
    (*grid)->cart = cart_make(ndims, dims, periods);
    return (*grid)->cart != NULL ? MPI_SUCCESS
                                 : rmpi_fail(comm, MPI_ERR_NO_MEM, "MPI_Cart_create", "no memory");
}

int MPI_Cartdim_get(MPI_Comm grid, int *ndims)
{
    int rc = cart_check("MPI_Cartdim_get", grid);

    if (rc == MPI_SUCCESS)
        *ndims = grid->cart->ndims;
    return rc;
}

int MPI_Cart_get(MPI_Comm grid, int most, int *dims, int *periods, int *coords)
{
    int rc = cart_check("MPI_Cart_get", grid);

    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < grid->cart->ndims && i < most; i++) {
        dims[i] = grid->cart->dims[i];
        periods[i] = grid->cart->periods[i];
    }
    return MPI_Cart_coords(grid, grid->rank, most, coords);
}

int MPI_Cart_rank(MPI_Comm grid, const int *coords, int *rank)
{
    int rc = cart_check("MPI_Cart_rank", grid), r = 0;

    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < grid->cart->ndims; i++) {
        int d = grid->cart->dims[i], at = coords[i];

        if (grid->cart->periods[i])
            at = (at % d + d) % d;
        else if (at < 0 || at >= d)
            return rmpi_fail(grid, MPI_ERR_ARG, "MPI_Cart_rank",
                             "coordinate %d is %d, and that dimension has %d", i, at, d);
        r = r * d + at;
    }
    *rank = r;
    return MPI_SUCCESS;
}

int MPI_Cart_coords(MPI_Comm grid, int rank, int most, int *coords)
{
    int rc = cart_check("MPI_Cart_coords", grid);

    if (rc != MPI_SUCCESS)
        return rc;
    if (rank < 0 || rank >= grid->size)
        return rmpi_fail(grid, MPI_ERR_RANK, "MPI_Cart_coords", "rank %d of %d", rank, grid->size);
    for (int i = grid->cart->ndims - 1; i >= 0; i--) {
        if (i < most)
            coords[i] = rank % grid->cart->dims[i];
        rank /= grid->cart->dims[i];
    }
    return MPI_SUCCESS;
}

/* The rank at `at` of dimension d, and my coordinates otherwise; MPI_PROC_NULL beyond an edge. */
static int cart_neighbor(MPI_Comm grid, int d, int at)
{
    const struct rmpi_cart *c = grid->cart;
    int below = 1, mine;

    for (int i = d + 1; i < c->ndims; i++)
        below *= c->dims[i];
    mine = grid->rank / below % c->dims[d];
    if (c->periods[d])
        at = (at % c->dims[d] + c->dims[d]) % c->dims[d];
    else if (at < 0 || at >= c->dims[d])
        return MPI_PROC_NULL;
    return grid->rank + (at - mine) * below;
}

int MPI_Cart_shift(MPI_Comm grid, int direction, int disp, int *source, int *dest)
{
    int rc = cart_check("MPI_Cart_shift", grid), below = 1, mine;

    if (rc != MPI_SUCCESS)
        return rc;
    if (direction < 0 || direction >= grid->cart->ndims)
        return rmpi_fail(grid, MPI_ERR_ARG, "MPI_Cart_shift", "direction %d of %d", direction,
                         grid->cart->ndims);
    for (int i = direction + 1; i < grid->cart->ndims; i++)
        below *= grid->cart->dims[i];
    mine = grid->rank / below % grid->cart->dims[direction];
    *source = cart_neighbor(grid, direction, mine - disp);
    *dest = cart_neighbor(grid, direction, mine + disp);
    return MPI_SUCCESS;
}

int MPI_Cart_sub(MPI_Comm grid, const int *remain, MPI_Comm *part)
{
    int rc = cart_check("MPI_Cart_sub", grid), color = 0, kept = 0, rank = 0;
    int *dims, *periods, *coords;

    if (rc != MPI_SUCCESS)
        return rc;
    dims = malloc((3 * (size_t)grid->cart->ndims + 1) * sizeof(*dims));
    if (dims == NULL)
        return rmpi_fail(grid, MPI_ERR_NO_MEM, "MPI_Cart_sub", "no memory");
    periods = dims + grid->cart->ndims;
    coords = periods + grid->cart->ndims;
    (void)MPI_Cart_coords(grid, grid->rank, grid->cart->ndims, coords);
    for (int i = 0; i < grid->cart->ndims; i++) {
        if (remain[i]) {
            rank = rank * grid->cart->dims[i] + coords[i];
            dims[kept] = grid->cart->dims[i];
            periods[kept++] = grid->cart->periods[i];
        } else {
            color = color * grid->cart->dims[i] + coords[i];
        }
    }
    rc = MPI_Comm_split(grid, color, rank, part);
    if (rc == MPI_SUCCESS) {
        (*part)->cart = cart_make(kept, dims, periods);
        if ((*part)->cart == NULL)
            rc = rmpi_fail(grid, MPI_ERR_NO_MEM, "MPI_Cart_sub", "no memory");
    }
    free(dims);
    return rc;
}

int MPI_Topo_test(MPI_Comm comm, int *status)
{
    int rc = rmpi_check_comm("MPI_Topo_test", comm);

    if (rc == MPI_SUCCESS)
        *status = comm->cart != NULL ? MPI_CART : MPI_UNDEFINED;
    return rc;
}

/* The smallest divisor of n whose power reaches n: the largest of `dims` factors that are as equal as they can be. */
static int cart_factor(int n, int dims)
{
    for (int f = 1; f < n; f++) {
        double power = 1;

        for (int k = 0; k < dims; k++)
            power *= f;
        if (power >= n && n % f == 0)
            return f;
    }
    return n;
}

/* Fills the dimensions that are 0, in descending order. */
static void cart_fill(int left, int ndims, int *dims, int open)
{
    for (int i = 0; i < ndims; i++) {
        if (dims[i] != 0)
            continue;
        dims[i] = -cart_factor(left, open--); /* negative: filled here */
        left /= -dims[i];
    }
    for (int i = 0; i < ndims; i++)
        for (int k = i + 1; k < ndims; k++)
            if (dims[i] < 0 && dims[k] < dims[i]) {
                int swap = dims[i];

                dims[i] = dims[k];
                dims[k] = swap;
            }
    for (int i = 0; i < ndims; i++)
        dims[i] = dims[i] < 0 ? -dims[i] : dims[i];
}

int MPI_Dims_create(int nodes, int ndims, int *dims)
{
    int open = 0, left = nodes;

    for (int i = 0; i < ndims; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && left % dims[i] != 0))
            return rmpi_fail(NULL, MPI_ERR_DIMS, "MPI_Dims_create",
                             "dimension %d is %d, and there are %d nodes", i, dims[i], nodes);
        left = dims[i] > 0 ? left / dims[i] : left;
        open += dims[i] == 0;
    }
    if (nodes < 1 || (open == 0 && left != 1))
        return rmpi_fail(NULL, MPI_ERR_DIMS, "MPI_Dims_create", "%d nodes do not fit the grid",
                         nodes);
    cart_fill(left, ndims, dims, open);
    return MPI_SUCCESS;
}
