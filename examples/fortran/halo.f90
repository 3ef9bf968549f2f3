! SPDX-License-Identifier: BSD-3-Clause
!
! halo.f90: the heat equation in bands of columns. The outermost columns are computed straight into memory of the neighbors, and those
! of the neighbors are read where they arrive: an array pointer is the message. mpi_halo.f90 is the same over MPI. Rank 0 repeats the
! run alone and compares the checksums.
program halo
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use rpipe
  use heat
  implicit none

  type(rpipe_neighbor) :: sides(2)
  type(rpipe_config) :: cfg
  integer :: rank, ranks
  integer(int64) :: mine, together
  integer(int64), allocatable :: all(:)

  call rpipe_init(rank, ranks)
  sides(left) = rpipe_neighbor(peer=merge(rank - 1, R_NO_PEER, rank > 0), side=left, opposite=right)
  sides(right) = rpipe_neighbor(peer=merge(rank + 1, R_NO_PEER, rank + 1 < ranks), side=right, opposite=left)
  cfg%heap_bytes = 3*n*8
  call rpipe_neighbors(sides, cfg)
  mine = run(first_of(rank, ranks), first_of(rank + 1, ranks) - first_of(rank, ranks))
  call rpipe_neighbors_close(sides)

  allocate (all(ranks))
  call rpipe_network_allgather(mine, c_sizeof(mine), all)
  together = iparity(all)
  deallocate (all)
  if (rank == 0) then
    print '(a, z16.16)', 'halo: checksum ', together
    if (together /= run(1, n)) then
      write (error_unit, '(a)') 'halo: another result than that of one process'
      call rpipe_network_abort(1_c_int)
    end if
  end if
  call rpipe_exit()

contains

  ! All steps of a band; its checksum.
  integer(int64) function run(first, columns)
    integer, intent(in) :: first, columns
    real(real64), allocatable :: now(:, :), next(:, :)
    integer :: step
    allocate (now(n, columns), next(n, columns))
    call start(now, first)
    call send_copy(sides(left), now(:, 1))
    call send_copy(sides(right), now(:, columns))
    do step = 1, steps
      call advance(next, now, step == steps)
      now = next
    end do
    run = checksum(now, first)
  end function

  subroutine send_copy(side, column)
    type(rpipe_neighbor), intent(in) :: side
    real(real64), intent(in) :: column(n)
    type(rpipe_message) :: message
    real(real64), pointer :: to(:)
    if (.not. c_associated(side%out%handle)) return
    call rmalloc_alloc(side%out, message, to, [n])
    to = column
    call rpipe_write(side%out, message)
  end subroutine

  subroutine advance(next, now, last)
    real(real64), intent(inout) :: next(:, :)
    real(real64), intent(in) :: now(:, :)
    logical, intent(in) :: last
    type(rpipe_message) :: arrived(2), message
    real(real64), target :: rim(n)
    real(real64), pointer :: from(:), to(:), before(:), behind(:)
    integer :: i, x
    rim = 0
    before => rim
    behind => rim
    do i = left, right
      if (.not. c_associated(sides(i)%in%handle)) cycle
      call rpipe_read(sides(i)%in, arrived(i))
      call rmalloc_map(arrived(i), from, [n])
      if (i == left) before => from
      if (i == right) behind => from
    end do
    do i = left, right ! the outermost columns first: the neighbors wait for them
      x = merge(1, size(now, 2), i == left)
      if (last .or. .not. c_associated(sides(i)%out%handle)) then
        call edge(next(:, x), now, i, before, behind)
      else
        call rmalloc_alloc(sides(i)%out, message, to, [n])
        call edge(to, now, i, before, behind)
        next(:, x) = to
        call rpipe_write(sides(i)%out, message)
      end if
    end do
    do i = left, right ! the neighbors may use the memory again
      if (c_associated(sides(i)%in%handle)) call rmalloc_free(sides(i)%in, arrived(i))
    end do
    call interior(next, now)
  end subroutine
end program
