! SPDX-License-Identifier: BSD-3-Clause
!
! layout.f90: the derived types of the module rpipe have the size and the offsets of the structures of C, and its constants their
! values (layout_c.c). The exit status is 0 only if all are equal.
program layout
  use, intrinsic :: iso_c_binding
  use rpipe
  implicit none

  interface
    integer(c_size_t) function layout_config(row) bind(c)
      import
      integer(c_size_t), value :: row
    end function
    integer(c_size_t) function layout_neighbor(row) bind(c)
      import
      integer(c_size_t), value :: row
    end function
    integer(c_int) function layout_constant(row) bind(c)
      import
      integer(c_size_t), value :: row
    end function
  end interface

  type(rpipe_config), target :: c
  type(rpipe_neighbor), target :: n
  type(rpipe_end), target :: ends(2)
  integer(c_size_t) :: config(25), neighbor(7)
  integer :: constants(22)
  integer(c_size_t) :: row
  integer :: failures

  failures = 0
  config = [c_sizeof(c), at(c_loc(c%role)), at(c_loc(c%peer)), at(c_loc(c%context)), at(c_loc(c%op)), at(c_loc(c%heuristic)), &
            at(c_loc(c%mode)), at(c_loc(c%unit_bytes)), at(c_loc(c%heap_bytes)), at(c_loc(c%max_heap_bytes)), &
            at(c_loc(c%heap_bytes_at_most)), at(c_loc(c%slots)), at(c_loc(c%slots_at_most)), at(c_loc(c%sync_queue)), &
            at(c_loc(c%sync_queue_at_most)), at(c_loc(c%timeout_ms)), at(c_loc(c%flags)), at(c_loc(c%watermark)), &
            at(c_loc(c%inline_max)), at(c_loc(c%fetch_ahead)), at(c_loc(c%grow_after_us)), at(c_loc(c%max_messages)), &
            at(c_loc(c%max_cqe)), at(c_loc(c%backend)), at(c_loc(c%seed))]
  config(2:) = config(2:) - at(c_loc(c))
  do row = 1, size(config) + 1
    call compare('rpipe_config', row, config, layout_config(row))
  end do

  neighbor = [c_sizeof(n), at(c_loc(n%peer)), at(c_loc(n%side)), at(c_loc(n%opposite)), at(c_loc(n%zero)), at(c_loc(n%out)), &
              at(c_loc(n%in))]
  neighbor(2:) = neighbor(2:) - at(c_loc(n))
  do row = 1, size(neighbor) + 1
    call compare('rpipe_neighbor', row, neighbor, layout_neighbor(row))
  end do
  call compare('rpipe_end', 1_c_size_t, [at(c_loc(ends(2))) - at(c_loc(ends(1)))], c_sizeof(c_null_ptr))

  constants = [R_SUCCESS, R_PENDING, R_EOF, R_NOWAIT, R_FOREVER, R_AT_ONCE, R_NO_PEER, RPIPE_WRITER, RPIPE_READER, RPIPE_PUT, &
               RPIPE_GET, RMALLOC_NEXT_FIT, RMALLOC_FIRST_FIT, RMALLOC_BEST_FIT, RMALLOC_WORST_FIT, RMALLOC_RANDOM_FIT, &
               RMALLOC_SEGREGATED_FIT, RPIPE_SYNC_BLOCKS, RPIPE_SYNC_TAGS, RPIPE_SYNC_CHANNEL, RPIPE_THREADS, RPIPE_HUGE_PAGES]
  do row = 1, size(constants)
    if (constants(row) == layout_constant(row)) cycle
    print '(a, i0, a, i0, a, i0)', 'layout: constant ', row, ' is ', constants(row), ', in C ', layout_constant(row)
    failures = failures + 1
  end do
  print '(i0, a, i0, a)', size(config) + size(neighbor) + size(constants), ' values compared, ', failures, ' differ'
  if (failures > 0) error stop 1

contains

  integer(c_size_t) function at(address)
    type(c_ptr), intent(in) :: address
    at = transfer(address, at)
  end function

  ! A row behind the last one is -1 in C (SIZE_MAX): a structure of C that has grown is noticed by its size and by this.
  subroutine compare(what, row, ours, in_c)
    character(*), intent(in) :: what
    integer(c_size_t), intent(in) :: row, ours(:), in_c
    integer(c_size_t) :: here
    here = -1
    if (row <= size(ours)) here = ours(row)
    if (here == in_c) return
    print '(3a, i0, a, i0, a, i0)', 'layout: ', what, ': row ', row, ' is ', here, ', in C ', in_c
    failures = failures + 1
  end subroutine
end program
