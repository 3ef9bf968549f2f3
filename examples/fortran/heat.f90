! SPDX-License-Identifier: BSD-3-Clause
!
! heat.f90: what halo.f90 and mpi_halo.f90 share: the equation on a plate of n x n cells that is cut into bands of columns, and a
! checksum that does not depend on the number of bands.
module heat
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer, parameter :: n = 96, steps = 500
  integer, parameter :: left = 1, right = 2

contains

  ! The first column of a band, from 1; that of band `ranks` is n + 1.
  pure integer function first_of(rank, ranks)
    integer, intent(in) :: rank, ranks
    first_of = n*rank/ranks + 1
  end function

  pure subroutine start(u, first)
    real(real64), intent(out) :: u(:, :)
    integer, intent(in) :: first
    integer :: x, y
    do x = 1, size(u, 2)
      do y = 1, n
        u(y, x) = merge(1.0_real64, 0.0_real64, (y - 30)**2 + (first + x - 41)**2 < 300)
      end do
    end do
  end subroutine

  ! A column of the next step; beyond the plate there are zeros.
  pure subroutine compute(next, before, here, behind)
    real(real64), intent(out) :: next(n)
    real(real64), intent(in) :: before(n), here(n), behind(n)
    real(real64) :: column(0:n + 1)
    integer :: y
    column = [0.0_real64, here, 0.0_real64]
    do y = 1, n
      next(y) = column(y) + 0.24_real64*((before(y) + behind(y)) + (column(y - 1) + column(y + 1)) - 4*column(y))
    end do
  end subroutine

  ! The columns of a band between its outermost ones.
  pure subroutine interior(next, now)
    real(real64), intent(inout) :: next(:, :)
    real(real64), intent(in) :: now(:, :)
    integer :: x
    do x = 2, size(now, 2) - 1
      call compute(next(:, x), now(:, x - 1), now(:, x), now(:, x + 1))
    end do
  end subroutine

  ! The outermost column of a side, with what is beyond the band.
  pure subroutine edge(column, now, side, before, behind)
    real(real64), intent(out) :: column(n)
    real(real64), intent(in) :: now(:, :), before(n), behind(n)
    integer, intent(in) :: side
    integer :: columns
    columns = size(now, 2)
    if (columns == 1) then
      call compute(column, before, now(:, 1), behind)
    else if (side == left) then
      call compute(column, before, now(:, 1), now(:, 2))
    else
      call compute(column, now(:, columns - 1), now(:, columns), behind)
    end if
  end subroutine

  ! Exclusive or over the bits of all cells, each rotated by its place: those of several bands combine by ieor.
  pure integer(int64) function checksum(u, first)
    real(real64), intent(in) :: u(:, :)
    integer, intent(in) :: first
    integer :: x, y
    checksum = 0
    do x = 1, size(u, 2)
      do y = 1, n
        checksum = ieor(checksum, ishftc(transfer(u(y, x), checksum), mod(y + n*(first + x), 64)))
      end do
    end do
  end function
end module
