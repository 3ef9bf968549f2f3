! SPDX-License-Identifier: BSD-3-Clause
!
! messages.f90: what the procedures of the module rpipe do, in one process with a pipe to itself: arrays of each type and rank, results
! with stat, and with the argument "stop" an error stop without it. The exit status is 0 only if every check held.
program messages
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  use rpipe
  implicit none

  integer, parameter :: e_message_size = -90, e_timed_out = -110, e_not_connected = -107, e_invalid = -22
  type(rpipe_end) :: out, in
  character(8) :: argument
  integer :: rank, ranks, stat, failures

  failures = 0
  call rpipe_open(out, rpipe_config(role=RPIPE_WRITER), stat=stat)
  call check(stat == e_not_connected, 'a pipe before the job')
  call rpipe_init(rank, ranks)
  call check(rank == 0 .and. ranks == 1, 'a job of one')
  call open_both(rpipe_config(peer=rank, heap_bytes=65536, timeout_ms=2000))
  call get_command_argument(1, argument)
  if (argument == 'stop') call stop_here()
  call arrays()
  call copies()
  call results()
  call last_message()
  call neighbors()
  call rpipe_exit()
  print '(a)', merge('messages: good  ', 'messages: FAILED', failures == 0)
  if (failures > 0) error stop 1

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    write (error_unit, '(4a)') 'messages: does not hold: ', what, '; ', rpipe_error()
    failures = failures + 1
  end subroutine

  subroutine open_both(cfg)
    type(rpipe_config), value :: cfg
    cfg%role = RPIPE_WRITER
    call rpipe_open(out, cfg, backend='shm')
    cfg%role = RPIPE_READER
    call rpipe_open(in, cfg)
    call rpipe_wait(out)
  end subroutine

  subroutine stop_here()
    type(rpipe_message) :: d
    call rmalloc_alloc(out, d, 1000000_c_size_t)
    call check(.false., 'a failure without stat stops')
  end subroutine

  subroutine arrays()
    type(rpipe_message) :: d, e
    real(real64), pointer :: a(:, :, :), b(:, :, :), line(:)
    real(real32), pointer :: f(:), g(:)
    integer(int64), pointer :: i(:), j(:)
    integer(int32), pointer :: k(:, :), l(:, :)
    integer :: x

    call rmalloc_alloc(out, d, a, [2, 3, 4])
    call check(rmalloc_size(d) == 2*3*4*8, 'bytes of an array')
    a = reshape([(real(x, real64), x=1, 24)], shape(a))
    call rpipe_set_tag(out, d, 17_c_int64_t)
    call rpipe_write(out, d)
    call check(rmalloc_size(d) == 0, 'a message that was sent is empty')
    call rpipe_read(in, e)
    call rmalloc_map(e, b, [2, 3, 4])
    call check(all(shape(b) == [2, 3, 4]) .and. b(2, 3, 4) == 24 .and. b(2, 1, 2) == 8, 'an array of rank 3')
    call rmalloc_map(e, line, [24])
    call check(line(24) == 24 .and. rpipe_tag(in, e) == 17, 'the same memory as an array of rank 1')
    line(1) = -1
    call check(b(1, 1, 1) == -1, 'no copy')
    call rmalloc_map(e, line, [25], stat)
    call check(stat == e_message_size .and. .not. associated(line), 'a message that is too small')
    call rmalloc_free(in, e)
    call rmalloc_map(e, line, [1], stat)
    call check(stat == e_message_size, 'a message that was freed')
    call rmalloc_free(in, e, stat)
    call check(stat == e_invalid, 'a message that was freed twice')

    call rmalloc_alloc(out, d, f, [100])
    f = 0.5_real32
    call rmalloc_shrink(out, d, 40_c_size_t)
    call rpipe_write(out, d)
    call rpipe_read(in, e)
    call rmalloc_map(e, g, [10])
    call check(rmalloc_size(e) == 40 .and. all(g == 0.5_real32), 'a message that was shortened')
    call rmalloc_free(in, e)

    call rmalloc_alloc(out, d, i, [3])
    i = huge(i)
    call rpipe_write_nb(out, d, stat)
    call check(stat == R_SUCCESS, 'sent without waiting')
    call rpipe_read_nb(in, e, stat)
    call rmalloc_map(e, j, [3])
    call check(stat == R_SUCCESS .and. all(j == huge(j)), 'integers of 64 bits')
    call rmalloc_free(in, e)

    call rmalloc_alloc(out, d, k, [0, 7])
    call rpipe_write(out, d)
    call rpipe_read(in, e)
    call rmalloc_map(e, l, [0, 7])
    call check(rmalloc_size(e) == 0 .and. size(l) == 0, 'an empty array')
    call rmalloc_free(in, e)
  end subroutine

  subroutine copies()
    real(real64) :: x, matrix(4, 4), received(4)
    integer(c_size_t) :: got
    character(5) :: word
    logical :: ready(1)
    integer :: stat

    call rpipe_poll([in], ready, 0, stat)
    call check(stat == R_PENDING .and. .not. ready(1), 'no message is ready')
    x = 1.25_real64
    call rpipe_send(out, x, c_sizeof(x))
    call rpipe_poll([in], ready, 1000)
    call check(ready(1), 'a message is ready')
    x = 0
    call rpipe_recv(in, x, c_sizeof(x))
    call check(x == 1.25_real64, 'a scalar')

    matrix = reshape([(real(stat, real64), stat=1, 16)], [4, 4])
    call rpipe_send(out, matrix(2, :), c_sizeof(x)*4) ! a row, which is not contiguous
    call rpipe_recv(in, received, c_sizeof(x)*4)
    call check(all(received == matrix(2, :)), 'a section of an array')
    call rpipe_send(out, matrix(2, :), c_sizeof(x)*4)
    call rpipe_recv(in, matrix(:, 1), c_sizeof(x)*4)
    call check(all(matrix(:, 1) == received), 'into a section of an array')

    call rpipe_send(out, 'hello', 5_c_size_t)
    call rpipe_recv(in, word, 5_c_size_t, got)
    call check(word == 'hello' .and. got == 5, 'characters')
    call rpipe_send(out, 'hi', 2_c_size_t)
    call rpipe_recv(in, x, c_sizeof(x), stat=stat)
    call check(stat == e_message_size, 'a message of another size')
    call rpipe_recv(in, x, c_sizeof(x), flags=R_NOWAIT, stat=stat)
    call check(stat == R_PENDING, 'nothing to receive')
    call rpipe_flush(out)
  end subroutine

  subroutine results()
    type(rpipe_message) :: d
    real(real64), pointer :: a(:)

    call rpipe_set_timeout(in, R_AT_ONCE)
    call rpipe_read(in, d, stat)
    call check(stat == e_timed_out, 'a deadline')
    call check(index(rpipe_error(in), 'rread') > 0 .and. index(rpipe_error(), 'rread') > 0, 'the message of a failure')
    call check(len(rpipe_strerror(stat)) > 0, 'the meaning of a code')
    call rpipe_read_nb(in, d, stat)
    call check(stat == R_PENDING, 'no message yet')
    call rmalloc_alloc(out, d, a, [1000000], stat)
    call check(stat == e_message_size .and. .not. associated(a), 'more than the heap')
    call rmalloc_alloc(out, d, a, [-1], stat)
    call check(stat == e_invalid .and. .not. associated(a), 'a negative extent')
    call rmalloc_alloc(out, d, -1_c_size_t, stat)
    call check(stat == e_invalid, 'a negative size')
    call rmalloc_alloc(out, d, a, [10])
    call rmalloc_free(out, d)
    call check(rpipe_context('a') /= rpipe_context('b') .and. rpipe_context('a ') == rpipe_context('a'), 'contexts')
  end subroutine

  subroutine last_message()
    type(rpipe_message) :: d

    call rpipe_close(out)
    call rpipe_close(out) ! does nothing
    call rpipe_read(in, d, stat)
    call check(stat == R_EOF, 'the end of the pipe')
    call rpipe_close(in)
  end subroutine

  subroutine neighbors()
    type(rpipe_neighbor) :: list(3)
    integer :: number

    list = [rpipe_neighbor(peer=rank, side=0, opposite=1), rpipe_neighbor(peer=rank, side=1, opposite=0), rpipe_neighbor()]
    call rpipe_neighbors(list, rpipe_config(heap_bytes=4096))
    number = 5
    call rpipe_send(list(1)%out, number, c_sizeof(number))
    number = 0
    call rpipe_recv(list(2)%in, number, c_sizeof(number))
    call check(number == 5 .and. .not. c_associated(list(3)%out%handle), 'neighbors')
    call rpipe_neighbors_close(list)
  end subroutine
end program
