! SPDX-License-Identifier: BSD-3-Clause
!
! mpi_halo.f90: halo.f90 over MPI, for comparison: columns of the neighbors are received into buffers and sent from the band.
program mpi_halo
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use heat
  implicit none

  integer :: rank, ranks, peers(2)
  integer(int64) :: mine, together

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  peers(left) = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  peers(right) = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
  mine = run(first_of(rank, ranks), first_of(rank + 1, ranks) - first_of(rank, ranks))

  call MPI_Reduce(mine, together, 1, MPI_INTEGER8, MPI_BXOR, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(a, z16.16)', 'halo: checksum ', together
  call MPI_Finalize()

contains

  ! All steps of a band; its checksum.
  integer(int64) function run(first, columns)
    integer, intent(in) :: first, columns
    real(real64), allocatable :: now(:, :), next(:, :)
    integer :: step
    allocate (now(n, columns), next(n, columns))
    call start(now, first)
    do step = 1, steps
      call advance(next, now)
      now = next
    end do
    run = checksum(now, first)
  end function

  subroutine advance(next, now)
    real(real64), intent(inout) :: next(:, :)
    real(real64), intent(in) :: now(:, :)
    real(real64) :: column(n), from(n, 2)
    integer :: i, x
    from = 0
    do i = left, right
      x = merge(1, size(now, 2), i == left)
      column = now(:, x)
      call MPI_Sendrecv(column, n, MPI_DOUBLE_PRECISION, peers(i), 0, from(:, 3 - i), n, MPI_DOUBLE_PRECISION, peers(3 - i), 0, &
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    end do
    do i = left, right
      x = merge(1, size(now, 2), i == left)
      call edge(next(:, x), now, i, from(:, left), from(:, right))
    end do
    call interior(next, now)
  end subroutine
end program
