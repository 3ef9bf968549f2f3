! SPDX-License-Identifier: BSD-3-Clause
!
! rpipe.f90: pipes from Fortran 2018. rpipe_fortran(7) is the manual.
!
! The module rpipe_c has the functions of C that are used here, the module rpipe what a program uses. Names are the exported names of
! C. Every procedure has an optional last argument stat. With it, it gets the code of C: 0, a negative errno value, R_PENDING or
! R_EOF. Without it, a failure is an error stop with the message of the library. Memory of a message is an array pointer.
!
! Module files belong to one compiler, so the library installs the sources; a program compiles this one with its own.

module rpipe_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  ! One end of a pipe; layout of rch_t. Empty until it is opened.
  type, bind(c) :: rpipe_end
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! Layout of rpipe_config_t: 0 is the default of every member but role.
  type, bind(c) :: rpipe_config
    integer(c_int) :: role = 0
    integer(c_int) :: peer = 0
    integer(c_int64_t) :: context = 0
    integer(c_int) :: op = 0
    integer(c_int) :: heuristic = 0
    integer(c_int) :: mode = 0
    integer(c_int32_t) :: unit_bytes = 0
    integer(c_int64_t) :: heap_bytes = 0
    integer(c_int64_t) :: max_heap_bytes = 0
    integer(c_int64_t) :: heap_bytes_at_most = 0
    integer(c_int32_t) :: slots = 0
    integer(c_int32_t) :: slots_at_most = 0
    integer(c_int32_t) :: sync_queue = 0
    integer(c_int32_t) :: sync_queue_at_most = 0
    integer(c_int) :: timeout_ms = 0
    integer(c_int32_t) :: flags = 0
    integer(c_int) :: watermark = 0
    integer(c_int) :: inline_max = 0
    integer(c_int32_t) :: fetch_ahead = 0
    integer(c_int32_t) :: grow_after_us = 0
    integer(c_int32_t) :: max_messages = 0
    integer(c_int32_t) :: max_cqe = 0
    type(c_ptr) :: backend = c_null_ptr ! rpipe_open has an argument for it
    integer(c_int64_t) :: seed = 0
    type(c_ptr) :: memory = c_null_ptr ! a table of calls of C
    type(c_ptr) :: stream = c_null_ptr
  end type

  ! Layout of rneighbor_t.
  type, bind(c) :: rpipe_neighbor
    integer(c_int) :: peer = -1
    integer(c_int32_t) :: side = 0
    integer(c_int32_t) :: opposite = 0
    integer(c_int32_t) :: zero = 0
    type(rpipe_end) :: out
    type(rpipe_end) :: in
  end type

  interface
    integer(c_int) function c_init(rank, nranks) bind(c, name='rpipe_init')
      import
      integer(c_int), intent(out) :: rank, nranks
    end function
    integer(c_int) function c_exit() bind(c, name='rpipe_exit')
      import
    end function
    integer(c_int) function c_open(ch, cfg, size) bind(c, name='rpipe_open')
      import
      type(rpipe_end), intent(inout) :: ch
      type(rpipe_config), intent(in) :: cfg
      integer(c_size_t), value :: size
    end function
    integer(c_int) function c_wait(ch) bind(c, name='rpipe_wait')
      import
      type(c_ptr), value :: ch
    end function
    integer(c_int) function c_close(ch) bind(c, name='rpipe_close')
      import
      type(c_ptr), value :: ch
    end function
    integer(c_int) function c_set_timeout(ch, ms) bind(c, name='rpipe_set_timeout')
      import
      type(c_ptr), value :: ch
      integer(c_int), value :: ms
    end function
    integer(c_int64_t) function c_context(name) bind(c, name='rpipe_context')
      import
      character(kind=c_char), intent(in) :: name(*)
    end function
    type(c_ptr) function c_error(ch) bind(c, name='rpipe_error')
      import
      type(c_ptr), value :: ch
    end function
    type(c_ptr) function c_strerror(code) bind(c, name='rinfo_strerror')
      import
      integer(c_int), value :: code
    end function
    integer(c_int) function c_neighbors(list, n, cfg, size) bind(c, name='rpipe_neighbors')
      import
      type(rpipe_neighbor), intent(inout) :: list(*)
      integer(c_int), value :: n
      type(rpipe_config), intent(in) :: cfg
      integer(c_size_t), value :: size
    end function
    integer(c_int) function c_neighbors_close(list, n) bind(c, name='rpipe_neighbors_close')
      import
      type(rpipe_neighbor), intent(inout) :: list(*)
      integer(c_int), value :: n
    end function
    type(c_ptr) function c_alloc(ch, bytes) bind(c, name='rmalloc_alloc')
      import
      type(c_ptr), value :: ch
      integer(c_size_t), value :: bytes
    end function
    type(c_ptr) function c_memory(ch, d) bind(c, name='rmalloc_ptr')
      import
      type(c_ptr), value :: ch, d
    end function
    integer(c_int) function c_free(ch, d) bind(c, name='rmalloc_free')
      import
      type(c_ptr), value :: ch, d
    end function
    integer(c_int) function c_shrink(ch, d, bytes) bind(c, name='rmalloc_shrink')
      import
      type(c_ptr), value :: ch, d
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function c_write(ch, d) bind(c, name='rpipe_write')
      import
      type(c_ptr), value :: ch, d
    end function
    integer(c_int) function c_write_nb(ch, d) bind(c, name='rpipe_write_nb')
      import
      type(c_ptr), value :: ch, d
    end function
    integer(c_int) function c_read(ch, d, bytes) bind(c, name='rpipe_read')
      import
      type(c_ptr), value :: ch
      type(c_ptr), intent(inout) :: d
      integer(c_size_t), intent(inout) :: bytes
    end function
    integer(c_int) function c_read_nb(ch, d, bytes) bind(c, name='rpipe_read_nb')
      import
      type(c_ptr), value :: ch
      type(c_ptr), intent(inout) :: d
      integer(c_size_t), intent(inout) :: bytes
    end function
    integer(c_int) function c_send(ch, buf, bytes, flags) bind(c, name='rpipe_send')
      import
      type(c_ptr), value :: ch, buf
      integer(c_size_t), value :: bytes
      integer(c_int), value :: flags
    end function
    integer(c_int) function c_recv(ch, buf, room, bytes, flags) bind(c, name='rpipe_recv')
      import
      type(c_ptr), value :: ch, buf
      integer(c_size_t), value :: room
      integer(c_size_t), intent(inout) :: bytes
      integer(c_int), value :: flags
    end function
    integer(c_int) function c_set_tag(ch, d, tag) bind(c, name='rpipe_set_tag')
      import
      type(c_ptr), value :: ch, d
      integer(c_int64_t), value :: tag
    end function
    integer(c_int64_t) function c_tag(ch, d) bind(c, name='rpipe_tag')
      import
      type(c_ptr), value :: ch, d
    end function
    integer(c_int) function c_flush(ch) bind(c, name='rpipe_flush')
      import
      type(c_ptr), value :: ch
    end function
    integer(c_int) function c_poll(ch, n, ready, timeout_ms) bind(c, name='rpipe_poll')
      import
      type(rpipe_end), intent(in) :: ch(*)
      integer(c_int), value :: n, timeout_ms
      integer(c_int), intent(inout) :: ready(*)
    end function
    integer(c_int) function c_barrier() bind(c, name='rpipe_network_barrier')
      import
    end function
    integer(c_int) function c_allgather(mine, bytes, all) bind(c, name='rpipe_network_allgather')
      import
      type(c_ptr), value :: mine, all
      integer(c_size_t), value :: bytes
    end function
    subroutine rpipe_network_abort(code) bind(c, name='rpipe_network_abort')
      import
      integer(c_int), value :: code
    end subroutine
    integer(c_int) function rpipe_initialized() bind(c, name='rpipe_initialized')
      import
    end function
    integer(c_int) function rpipe_network_rank() bind(c, name='rpipe_network_rank')
      import
    end function
    integer(c_int) function rpipe_network_ranks() bind(c, name='rpipe_network_ranks')
      import
    end function
    type(c_ptr) function c_errno() bind(c, name='__errno_location') ! of glibc and of musl
      import
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import
      type(c_ptr), value :: text
    end function
  end interface
end module

module rpipe
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use rpipe_c
  implicit none
  private
  public :: rpipe_end, rpipe_message, rpipe_config, rpipe_neighbor
  public :: rpipe_init, rpipe_exit, rpipe_initialized, rpipe_context, rpipe_error, rpipe_strerror
  public :: rpipe_open, rpipe_wait, rpipe_close, rpipe_set_timeout, rpipe_neighbors, rpipe_neighbors_close
  public :: rmalloc_alloc, rmalloc_map, rmalloc_size, rmalloc_shrink, rmalloc_free
  public :: rpipe_write, rpipe_write_nb, rpipe_read, rpipe_read_nb, rpipe_send, rpipe_recv
  public :: rpipe_set_tag, rpipe_tag, rpipe_flush, rpipe_poll
  public :: rpipe_network_rank, rpipe_network_ranks, rpipe_network_barrier, rpipe_network_allgather
  public :: rpipe_network_abort

  integer, parameter, public :: R_SUCCESS = 0
  integer, parameter, public :: R_PENDING = -11 ! -EAGAIN
  integer, parameter, public :: R_EOF = -4096
  integer, parameter, public :: R_NOWAIT = 1
  integer, parameter, public :: R_FOREVER = -1, R_AT_ONCE = -2, R_NO_PEER = -1
  integer, parameter, public :: RPIPE_WRITER = 1, RPIPE_READER = 2
  integer, parameter, public :: RPIPE_PUT = 0, RPIPE_GET = 1
  integer, parameter, public :: RMALLOC_NEXT_FIT = 1, RMALLOC_FIRST_FIT = 2, RMALLOC_BEST_FIT = 3
  integer, parameter, public :: RMALLOC_WORST_FIT = 4, RMALLOC_RANDOM_FIT = 5, RMALLOC_SEGREGATED_FIT = 6
  integer, parameter, public :: RPIPE_SYNC_BLOCKS = 1, RPIPE_SYNC_TAGS = 2, RPIPE_SYNC_CHANNEL = 3
  integer, parameter, public :: RPIPE_THREADS = 1, RPIPE_HUGE_PAGES = 2

  integer, parameter :: e_message_size = -90, e_invalid = -22

  ! A message that the caller owns: allocated and not sent, or read and not freed.
  type :: rpipe_message
    private
    type(c_ptr) :: d = c_null_ptr
    type(c_ptr) :: memory = c_null_ptr
    integer(c_size_t) :: bytes = 0
  end type

  ! Allocates a message: of bytes, or for an array of this shape, which the pointer is then.
  interface rmalloc_alloc
    module procedure alloc_bytes, &
      alloc_r64_1, alloc_r64_2, alloc_r64_3, alloc_r32_1, alloc_r32_2, alloc_r32_3, &
      alloc_i64_1, alloc_i64_2, alloc_i64_3, alloc_i32_1, alloc_i32_2, alloc_i32_3
  end interface
  ! Makes an array of this shape of a message.
  interface rmalloc_map
    module procedure &
      map_r64_1, map_r64_2, map_r64_3, map_r32_1, map_r32_2, map_r32_3, &
      map_i64_1, map_i64_2, map_i64_3, map_i32_1, map_i32_2, map_i32_3
  end interface

contains

  ! ---- results ----

  ! Stores the code, or stops where nobody takes it.
  subroutine finish(code, stat)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    character(:), allocatable :: text
    if (present(stat)) then
      stat = code
    else if (code < 0) then
      text = 'rpipe: ' // rpipe_error() // ': ' // rpipe_strerror(int(code))
      error stop text
    end if
  end subroutine

  subroutine refuse(code, why, stat)
    integer, intent(in) :: code
    character(*), intent(in) :: why
    integer, intent(out), optional :: stat
    character(:), allocatable :: text
    text = 'rpipe: ' // why
    if (.not. present(stat)) error stop text
    stat = code
  end subroutine

  function text_of(c) result(text)
    type(c_ptr), intent(in) :: c
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(c, letters, [c_strlen(c)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

  ! Message of the last failure: on this end, or of this thread in any call.
  function rpipe_error(ch) result(text)
    type(rpipe_end), intent(in), optional :: ch
    character(:), allocatable :: text
    if (present(ch)) then
      text = text_of(c_error(ch%handle))
    else
      text = text_of(c_error(c_null_ptr))
    end if
  end function

  ! Meaning of a code.
  function rpipe_strerror(code) result(text)
    integer, intent(in) :: code
    character(:), allocatable :: text
    text = text_of(c_strerror(int(code, c_int)))
  end function

  ! ---- job ----

  subroutine rpipe_init(rank, nranks, stat)
    integer, intent(out), optional :: rank, nranks
    integer, intent(out), optional :: stat
    integer(c_int) :: code, me, all
    code = c_init(me, all)
    if (code == 0 .and. present(rank)) rank = me
    if (code == 0 .and. present(nranks)) nranks = all
    call finish(code, stat)
  end subroutine

  subroutine rpipe_exit(stat)
    integer, intent(out), optional :: stat
    call finish(c_exit(), stat)
  end subroutine

  subroutine rpipe_network_barrier(stat)
    integer, intent(out), optional :: stat
    call finish(c_barrier(), stat)
  end subroutine

  ! Gathers so many bytes of every rank, in the order of ranks.
  subroutine rpipe_network_allgather(mine, bytes, all, stat)
    type(*), target, contiguous, intent(in) :: mine(..)
    integer(c_size_t), intent(in) :: bytes
    type(*), target, contiguous, intent(inout) :: all(..)
    integer, intent(out), optional :: stat
    call finish(c_allgather(c_loc(mine), bytes, c_loc(all)), stat)
  end subroutine

  ! The first of 2**20 contexts that belong to a name.
  integer(c_int64_t) function rpipe_context(name) result(context)
    character(*), intent(in) :: name
    context = c_context(trim(name) // c_null_char)
  end function

  ! ---- pipes ----

  ! Opens one end; does not wait for the peer. backend: "shm", "ofi", "tcp", "verbs".
  subroutine rpipe_open(ch, cfg, backend, stat)
    type(rpipe_end), intent(inout) :: ch
    type(rpipe_config), intent(in) :: cfg
    character(*), intent(in), optional :: backend
    integer, intent(out), optional :: stat
    character(:, kind=c_char), allocatable, target :: name
    type(rpipe_config) :: with
    with = cfg
    if (present(backend)) then
      name = trim(backend) // c_null_char
      with%backend = c_loc(name)
    end if
    call finish(c_open(ch, with, c_sizeof(with)), stat)
  end subroutine

  subroutine rpipe_wait(ch, stat)
    type(rpipe_end), intent(in) :: ch
    integer, intent(out), optional :: stat
    call finish(c_wait(ch%handle), stat)
  end subroutine

  ! Closes an end; one that is not open is left alone.
  subroutine rpipe_close(ch, stat)
    type(rpipe_end), intent(inout) :: ch
    integer, intent(out), optional :: stat
    integer(c_int) :: code
    code = 0
    if (c_associated(ch%handle)) code = c_close(ch%handle)
    if (code == 0) ch%handle = c_null_ptr
    call finish(code, stat)
  end subroutine

  ! ms, R_FOREVER, R_AT_ONCE; 0: the default
  subroutine rpipe_set_timeout(ch, ms, stat)
    type(rpipe_end), intent(in) :: ch
    integer, intent(in) :: ms
    integer, intent(out), optional :: stat
    call finish(c_set_timeout(ch%handle, int(ms, c_int)), stat)
  end subroutine

  ! Opens out and in of all entries, or none.
  subroutine rpipe_neighbors(list, cfg, stat)
    type(rpipe_neighbor), contiguous, intent(inout) :: list(:)
    type(rpipe_config), intent(in) :: cfg
    integer, intent(out), optional :: stat
    call finish(c_neighbors(list, int(size(list), c_int), cfg, c_sizeof(cfg)), stat)
  end subroutine

  subroutine rpipe_neighbors_close(list, stat)
    type(rpipe_neighbor), contiguous, intent(inout) :: list(:)
    integer, intent(out), optional :: stat
    call finish(c_neighbors_close(list, int(size(list), c_int)), stat)
  end subroutine

  ! Waits until one end has a message. timeout_ms: 0, ms, R_FOREVER
  subroutine rpipe_poll(ch, ready, timeout_ms, stat)
    type(rpipe_end), contiguous, intent(in) :: ch(:)
    logical, intent(out) :: ready(:)
    integer, intent(in) :: timeout_ms
    integer, intent(out), optional :: stat
    integer(c_int) :: found(size(ch))
    found = 0
    call finish(c_poll(ch, int(size(ch), c_int), found, int(timeout_ms, c_int)), stat)
    ready = found(1:size(ready)) /= 0
  end subroutine

  ! ---- messages ----

  ! Allocates a message; waits for memory. The other forms take an array pointer and its shape instead of bytes.
  subroutine alloc_bytes(ch, d, bytes, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(out) :: d
    integer(c_size_t), intent(in) :: bytes
    integer, intent(out), optional :: stat
    integer(c_int), pointer :: errno
    integer(c_int) :: code
    if (bytes < 0) then
      call refuse(e_invalid, 'rmalloc_alloc: the number of bytes is negative', stat)
      return
    end if
    d%d = c_alloc(ch%handle, bytes)
    if (c_associated(d%d)) then
      d%memory = c_memory(ch%handle, d%d)
      d%bytes = bytes
      code = 0
    else
      call c_f_pointer(c_errno(), errno)
      code = -errno
    end if
    call finish(code, stat)
  end subroutine

  logical function allocated_for(ch, d, bits, shape, stat) result(done)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(out) :: d
    integer, intent(in) :: bits, shape(:)
    integer, intent(out), optional :: stat
    if (any(shape < 0)) then
      call refuse(e_invalid, 'rmalloc_alloc: an extent is negative', stat)
    else
      call alloc_bytes(ch, d, product(int(shape, c_size_t))*(bits/8), stat)
    end if
    done = c_associated(d%memory)
  end function

  logical function fits(d, bits, shape, stat)
    type(rpipe_message), intent(in) :: d
    integer, intent(in) :: bits, shape(:)
    integer, intent(out), optional :: stat
    fits = all(shape >= 0) .and. c_associated(d%memory)
    if (fits) fits = product(int(shape, c_size_t))*(bits/8) <= d%bytes
    if (fits) then
      if (present(stat)) stat = R_SUCCESS
    else
      call refuse(e_message_size, 'rmalloc_map: the message is smaller than the array', stat)
    end if
  end function

  ! Bytes of a message.
  pure integer(c_size_t) function rmalloc_size(d) result(bytes)
    type(rpipe_message), intent(in) :: d
    bytes = d%bytes
  end function

  ! Keeps the first bytes of an unsent message and frees the rest.
  subroutine rmalloc_shrink(ch, d, bytes, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(inout) :: d
    integer(c_size_t), intent(in) :: bytes
    integer, intent(out), optional :: stat
    integer(c_int) :: code
    code = c_shrink(ch%handle, d%d, bytes)
    if (code == 0) d%bytes = bytes
    call finish(code, stat)
  end subroutine

  ! Frees a message that was read, or that was not sent. Array pointers to it are invalid afterwards.
  subroutine rmalloc_free(ch, d, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(inout) :: d
    integer, intent(out), optional :: stat
    call gone_if(c_free(ch%handle, d%d), d, stat)
  end subroutine

  ! Sends a message, which the reader owns afterwards. On failure it is still owned here.
  subroutine rpipe_write(ch, d, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(inout) :: d
    integer, intent(out), optional :: stat
    call gone_if(c_write(ch%handle, d%d), d, stat)
  end subroutine

  ! The same without waiting. R_PENDING: not sent.
  subroutine rpipe_write_nb(ch, d, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(inout) :: d
    integer, intent(out) :: stat
    call gone_if(c_write_nb(ch%handle, d%d), d, stat)
  end subroutine

  subroutine gone_if(code, d, stat)
    integer(c_int), intent(in) :: code
    type(rpipe_message), intent(inout) :: d
    integer, intent(out), optional :: stat
    if (code == 0) d = rpipe_message()
    call finish(code, stat)
  end subroutine

  ! Waits for the next message. R_EOF: the writer has closed, and every message has been read.
  subroutine rpipe_read(ch, d, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(out) :: d
    integer, intent(out), optional :: stat
    integer(c_int) :: code
    code = c_read(ch%handle, d%d, d%bytes)
    if (code == 0) d%memory = c_memory(ch%handle, d%d)
    call finish(code, stat)
  end subroutine

  ! The same without waiting. R_PENDING: no message yet.
  subroutine rpipe_read_nb(ch, d, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(out) :: d
    integer, intent(out) :: stat
    integer(c_int) :: code
    code = c_read_nb(ch%handle, d%d, d%bytes)
    if (code == 0) d%memory = c_memory(ch%handle, d%d)
    call finish(code, stat)
  end subroutine

  ! Sends a copy of a scalar or an array: call rpipe_send(ch, x, c_sizeof(x)). flags: R_NOWAIT
  subroutine rpipe_send(ch, x, bytes, flags, stat)
    type(rpipe_end), intent(in) :: ch
    type(*), target, contiguous, intent(in) :: x(..)
    integer(c_size_t), intent(in) :: bytes
    integer, intent(in), optional :: flags
    integer, intent(out), optional :: stat
    call finish(c_send(ch%handle, c_loc(x), bytes, flags_of(flags)), stat)
  end subroutine

  ! Copies the next message to x, which has `bytes` bytes. got: its size; without got it must be `bytes`. flags: R_NOWAIT
  subroutine rpipe_recv(ch, x, bytes, got, flags, stat)
    type(rpipe_end), intent(in) :: ch
    type(*), target, contiguous, intent(inout) :: x(..)
    integer(c_size_t), intent(in) :: bytes
    integer(c_size_t), intent(out), optional :: got
    integer, intent(in), optional :: flags
    integer, intent(out), optional :: stat
    integer(c_size_t) :: size
    integer(c_int) :: code
    size = 0
    code = c_recv(ch%handle, c_loc(x), bytes, size, flags_of(flags))
    if (present(got)) got = size
    if (code == 0 .and. .not. present(got) .and. size /= bytes) then
      call refuse(e_message_size, 'rpipe_recv: the message is smaller than the variable', stat)
    else
      call finish(code, stat)
    end if
  end subroutine

  integer(c_int) function flags_of(flags)
    integer, intent(in), optional :: flags
    flags_of = 0
    if (present(flags)) flags_of = int(flags, c_int)
  end function

  ! Gives an unsent message its header, one number.
  subroutine rpipe_set_tag(ch, d, tag, stat)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(in) :: d
    integer(c_int64_t), intent(in) :: tag
    integer, intent(out), optional :: stat
    call finish(c_set_tag(ch%handle, d%d, tag), stat)
  end subroutine

  integer(c_int64_t) function rpipe_tag(ch, d) result(tag)
    type(rpipe_end), intent(in) :: ch
    type(rpipe_message), intent(in) :: d
    tag = c_tag(ch%handle, d%d)
  end function

  ! Waits until every message so far is visible to the reader.
  subroutine rpipe_flush(ch, stat)
    type(rpipe_end), intent(in) :: ch
    integer, intent(out), optional :: stat
    call finish(c_flush(ch%handle), stat)
  end subroutine

  include 'rpipe_arrays.inc'
end module
