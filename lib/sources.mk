# SPDX-License-Identifier: BSD-3-Clause
#
# sources.mk: the sources of lib/ and how they become libraries and modules. A new source file is one line in the list of its folder.

# ---- layers, from the bottom up: references run downhill ----

noinst_LTLIBRARIES = $(layers)

lib_libutil_la_SOURCES = \
	lib/util/biased.c \
	lib/util/biased.h \
	lib/util/clock.h \
	lib/util/cpu.h \
	lib/util/crc32c.c \
	lib/util/crc32c.h \
	lib/util/error.c \
	lib/util/error.h \
	lib/util/failpoint.h \
	lib/util/float16.h \
	lib/util/fold.c \
	lib/util/fold.h \
	lib/util/fork_fds.c \
	lib/util/fork_fds.h \
	lib/util/hash.c \
	lib/util/hash.h \
	lib/util/last_error.c \
	lib/util/last_error.h \
	lib/util/layout.c \
	lib/util/layout.h \
	lib/util/limit.h \
	lib/util/list.h \
	lib/util/log.c \
	lib/util/log.h \
	lib/util/map.h \
	lib/util/membarrier.c \
	lib/util/membarrier.h \
	lib/util/module.c \
	lib/util/one_thread.c \
	lib/util/one_thread.h \
	lib/util/overcommit.c \
	lib/util/module.h \
	lib/util/overcommit.h \
	lib/util/proc.h \
	lib/util/received_fd.c \
	lib/util/received_fd.h \
	lib/util/received_socket.c \
	lib/util/received_socket.h \
	lib/util/segment.c \
	lib/util/segment.h \
	lib/util/settings.c \
	lib/util/settings.h \
	lib/util/sized.h \
	lib/util/text.h \
	lib/util/thread.c \
	lib/util/thread.h \
	lib/util/thread_id.h

lib_liballoc_la_SOURCES = \
	lib/alloc/best_fit.c \
	lib/alloc/best_fit.h \
	lib/alloc/broken.h \
	lib/alloc/chunk.h \
	lib/alloc/desc.c \
	lib/alloc/desc.h \
	lib/alloc/desc_chunk.c \
	lib/alloc/desc_chunk.h \
	lib/alloc/fit.c \
	lib/alloc/fit.h \
	lib/alloc/free_set.c \
	lib/alloc/free_set.h \
	lib/alloc/heap.c \
	lib/alloc/heap.h \
	lib/alloc/heap_dump.c \
	lib/alloc/index.c \
	lib/alloc/index.h \
	lib/alloc/index_check.c \
	lib/alloc/index_node.h \
	lib/alloc/index_pool.c \
	lib/alloc/index_pool.h \
	lib/alloc/lowest.c \
	lib/alloc/lowest.h \
	lib/alloc/next_fit.c \
	lib/alloc/next_fit.h \
	lib/alloc/next_fit_arena.h \
	lib/alloc/next_fit_check.c \
	lib/alloc/next_fit_check.h \
	lib/alloc/segregated.h \
	lib/alloc/segregated_fit.c \
	lib/alloc/segregated_fit.h \
	lib/alloc/segregated_fit_check.c \
	lib/alloc/segregated_fit_check.h \
	lib/alloc/size_class.h \
	lib/alloc/tree_block.h \
	lib/alloc/tree_fit.c \
	lib/alloc/tree_fit.h \
	lib/alloc/tree_fit_check.c \
	lib/alloc/tree_fit_check.h \
	lib/alloc/tree_fit_cut.c \
	lib/alloc/tree_fit_cut.h \
	lib/alloc/vmem.c \
	lib/alloc/vmem.h
# its short paths store word by word; as vectors, the words would first have to be put together
lib_liballoc_la_CFLAGS = $(AM_CFLAGS) -fno-tree-slp-vectorize

lib_libbtl_la_SOURCES = \
	lib/btl/btl.c \
	lib/btl/btl.h \
	lib/btl/medium.h \
	lib/btl/probe.c

# memory of backends that register it with a device: into the modules of those
noinst_LTLIBRARIES += lib/libslab.la
lib_libslab_la_SOURCES = \
	lib/btl/remote.h \
	lib/btl/share.h \
	lib/btl/slab.c \
	lib/btl/slab.h

lib_libbootstrap_la_SOURCES = \
	lib/bootstrap/job.c \
	lib/bootstrap/job.h \
	lib/bootstrap/job_ops.h \
	lib/bootstrap/job_single.c \
	lib/bootstrap/job_tcp.c \
	lib/bootstrap/job_tcp_address.c \
	lib/bootstrap/job_tcp_address.h \
	lib/bootstrap/job_tcp_client.c \
	lib/bootstrap/job_tcp_client.h \
	lib/bootstrap/job_tcp_root.c \
	lib/bootstrap/job_tcp_root.h \
	lib/bootstrap/job_tcp_wire.h \
	lib/bootstrap/launcher.c \
	lib/bootstrap/launcher.h \
	lib/bootstrap/mpi_library.c \
	lib/bootstrap/mpi_library.h

lib_libcontrol_la_SOURCES = \
	lib/control/accept.c \
	lib/control/accept.h \
	lib/control/card.c \
	lib/control/card.h \
	lib/control/collective.c \
	lib/control/collective.h \
	lib/control/connection.c \
	lib/control/connection.h \
	lib/control/control.c \
	lib/control/control.h \
	lib/control/dispatch.c \
	lib/control/dispatch.h \
	lib/control/endpoint.c \
	lib/control/endpoint.h \
	lib/control/greeting.c \
	lib/control/greeting.h \
	lib/control/hooks.h \
	lib/control/lane.c \
	lib/control/lane.h \
	lib/control/liveness.c \
	lib/control/liveness.h \
	lib/control/message.c \
	lib/control/message.h \
	lib/control/peer_card.c \
	lib/control/peer_card.h \
	lib/control/peer_dial.c \
	lib/control/peer_dial.h \
	lib/control/peer_end.c \
	lib/control/peer_end.h \
	lib/control/peer_loss.c \
	lib/control/peer_loss.h \
	lib/control/peer_send.c \
	lib/control/peer_send.h \
	lib/control/post.c \
	lib/control/post.h \
	lib/control/receive.c \
	lib/control/receive.h \
	lib/control/rendezvous.c \
	lib/control/rendezvous.h \
	lib/control/service.c \
	lib/control/service.h \
	lib/control/state.c \
	lib/control/state.h \
	lib/control/transfer.c \
	lib/control/transfer.h \
	lib/control/watch.c \
	lib/control/watch.h \
	lib/control/wire.h

lib_libsync_la_SOURCES = \
	lib/sync/block_table.c \
	lib/sync/block_table.h \
	lib/sync/futex.c \
	lib/sync/futex.h \
	lib/sync/patience.h \
	lib/sync/reclaim.c \
	lib/sync/reclaim.h \
	lib/sync/reclaim_channel.c \
	lib/sync/reclaim_prefix.c \
	lib/sync/reclaim_tags.c \
	lib/sync/release.h \
	lib/sync/seal.h \
	lib/sync/slot.h \
	lib/sync/slot_credit.h \
	lib/sync/tag.h \
	lib/sync/violation.c \
	lib/sync/violation.h \
	lib/sync/wait.c \
	lib/sync/wait.h \
	lib/sync/yield_policy.c \
	lib/sync/yield_policy.h

# the protocol of casts between hosts: pure code
lib_libnak_la_SOURCES = \
	lib/cast/nak/out.h \
	lib/cast/nak/receiver.c \
	lib/cast/nak/receiver.h \
	lib/cast/nak/sender.c \
	lib/cast/nak/sender.h \
	lib/cast/nak/wire.c \
	lib/cast/nak/wire.h

observe_sources = \
	lib/observe/record/file_name.c \
	lib/observe/record/file_name.h \
	lib/observe/record/publish.c \
	lib/observe/record/publish.h \
	lib/observe/record/published.c \
	lib/observe/record/published.h \
	lib/observe/record/trace.c \
	lib/observe/record/trace.h \
	lib/observe/record/trace_clock.c \
	lib/observe/record/trace_clock.h \
	lib/observe/record/trace_file.h \
	lib/observe/report/count.c \
	lib/observe/report/describe.c \
	lib/observe/report/library.c \
	lib/observe/report/observe.c \
	lib/observe/report/observe_file.c \
	lib/observe/report/observe_file.h \
	lib/observe/report/report.c \
	lib/observe/report/report.h \
	lib/observe/report/trace_json.c \
	lib/observe/report/trace_json.h

rpipe_sources = \
	lib/rpipe/board/board.c \
	lib/rpipe/board/board.h \
	lib/rpipe/board/board_call.c \
	lib/rpipe/board/board_fetch.c \
	lib/rpipe/board/board_message.c \
	lib/rpipe/board/board_message.h \
	lib/rpipe/board/board_open.c \
	lib/rpipe/board/board_post.c \
	lib/rpipe/board/board_sleep.c \
	lib/rpipe/board/boards.c \
	lib/rpipe/board/boards.h \
	lib/rpipe/connect/areas.c \
	lib/rpipe/connect/areas.h \
	lib/rpipe/connect/close.c \
	lib/rpipe/connect/close.h \
	lib/rpipe/connect/deferred_close.c \
	lib/rpipe/connect/ends.c \
	lib/rpipe/connect/ends.h \
	lib/rpipe/connect/handshake.c \
	lib/rpipe/connect/handshake.h \
	lib/rpipe/connect/join.c \
	lib/rpipe/connect/join.h \
	lib/rpipe/connect/open.c \
	lib/rpipe/connect/open.h \
	lib/rpipe/connect/path_monitor.c \
	lib/rpipe/connect/pending.c \
	lib/rpipe/connect/roles.c \
	lib/rpipe/connect/roles.h \
	lib/rpipe/data/attempt.h \
	lib/rpipe/data/capacity.c \
	lib/rpipe/data/copy_small.h \
	lib/rpipe/data/cork.c \
	lib/rpipe/data/credit.c \
	lib/rpipe/data/credit.h \
	lib/rpipe/data/examine.c \
	lib/rpipe/data/give.h \
	lib/rpipe/data/handle.c \
	lib/rpipe/data/handle.h \
	lib/rpipe/data/holding.c \
	lib/rpipe/data/holding.h \
	lib/rpipe/data/path.c \
	lib/rpipe/data/path.h \
	lib/rpipe/data/path_mapped.c \
	lib/rpipe/data/path_remote.c \
	lib/rpipe/data/path_remote.h \
	lib/rpipe/data/path_remote_credit.c \
	lib/rpipe/data/path_remote_credit.h \
	lib/rpipe/data/path_remote_drain.c \
	lib/rpipe/data/path_remote_drain.h \
	lib/rpipe/data/path_remote_eager.c \
	lib/rpipe/data/path_remote_eager.h \
	lib/rpipe/data/path_remote_fetch.c \
	lib/rpipe/data/path_remote_fetch.h \
	lib/rpipe/data/path_remote_ops.c \
	lib/rpipe/data/path_remote_read.c \
	lib/rpipe/data/path_remote_read.h \
	lib/rpipe/data/path_remote_transfer.c \
	lib/rpipe/data/path_remote_transfer.h \
	lib/rpipe/data/path_remote_window.c \
	lib/rpipe/data/path_remote_window.h \
	lib/rpipe/data/path_remote_write.c \
	lib/rpipe/data/path_remote_write.h \
	lib/rpipe/data/publish.h \
	lib/rpipe/data/push.c \
	lib/rpipe/data/push.h \
	lib/rpipe/data/read.c \
	lib/rpipe/data/recv.c \
	lib/rpipe/data/send.c \
	lib/rpipe/data/take.h \
	lib/rpipe/data/violation.c \
	lib/rpipe/data/violation.h \
	lib/rpipe/data/write.c \
	lib/rpipe/end/area.h \
	lib/rpipe/end/attach.c \
	lib/rpipe/end/attach.h \
	lib/rpipe/end/call.c \
	lib/rpipe/end/call.h \
	lib/rpipe/end/call_context.c \
	lib/rpipe/end/call_context.h \
	lib/rpipe/end/config.c \
	lib/rpipe/end/config.h \
	lib/rpipe/end/cork.c \
	lib/rpipe/end/cork.h \
	lib/rpipe/end/counters.c \
	lib/rpipe/end/counters.h \
	lib/rpipe/end/counts.h \
	lib/rpipe/end/connector.h \
	lib/rpipe/end/debug_check.c \
	lib/rpipe/end/debug_check.h \
	lib/rpipe/end/debug_guard.c \
	lib/rpipe/end/debug_guard.h \
	lib/rpipe/end/device.c \
	lib/rpipe/end/device.h \
	lib/rpipe/end/end_pool.c \
	lib/rpipe/end/end_pool.h \
	lib/rpipe/end/error.c \
	lib/rpipe/end/error.h \
	lib/rpipe/end/feature.c \
	lib/rpipe/end/feature.h \
	lib/rpipe/end/job_state.c \
	lib/rpipe/end/job_state.h \
	lib/rpipe/end/message.c \
	lib/rpipe/end/message.h \
	lib/rpipe/end/path.h \
	lib/rpipe/end/rch.h \
	lib/rpipe/end/state.c \
	lib/rpipe/end/state.h \
	lib/rpipe/end/stream.c \
	lib/rpipe/end/stream.h \
	lib/rpipe/end/stream_call.c \
	lib/rpipe/end/stream_holder.c \
	lib/rpipe/end/stream_holder.h \
	lib/rpipe/features.c \
	lib/rpipe/grow/grow.c \
	lib/rpipe/grow/grow.h \
	lib/rpipe/job/context.c \
	lib/rpipe/job/job.c \
	lib/rpipe/job/network.c \
	lib/rpipe/job/thread_quiesce.c \
	lib/rpipe/job/thread_quiesce.h \
	lib/rpipe/region/region.c \
	lib/rpipe/region/region.h \
	lib/rpipe/region/region_memory.c \
	lib/rpipe/region/region_read.c \
	lib/rpipe/region/region_read.h \
	lib/rpipe/region/region_write.c \
	lib/rpipe/region/region_write.h \
	lib/rpipe/region/registration.c \
	lib/rpipe/region/registration.h \
	lib/rpipe/region/remote_key_cache.c \
	lib/rpipe/window/handle.c \
	lib/rpipe/window/handle.h \
	lib/rpipe/window/move.c \
	lib/rpipe/window/remote.c \
	lib/rpipe/window/window.c \
	lib/rpipe/window/window.h \
	lib/rpipe/wait/event.c \
	lib/rpipe/wait/event.h \
	lib/rpipe/wait/event_message.c \
	lib/rpipe/wait/event_message.h \
	lib/rpipe/wait/many.c \
	lib/rpipe/wait/many.h \
	lib/rpipe/wait/poll.c

cast_sources = \
	lib/cast/await.c \
	lib/cast/cast.h \
	lib/cast/cast_feature.h \
	lib/cast/cast_host.c \
	lib/cast/mcast.c \
	lib/cast/mcast_carrier.c \
	lib/cast/mcast_carrier.h \
	lib/cast/mcast_drive.c \
	lib/cast/mcast_drive.h \
	lib/cast/mcast_end.h \
	lib/cast/mcast_message.c \
	lib/cast/mcast_message.h \
	lib/cast/mcast_reader.c \
	lib/cast/mcast_reader.h \
	lib/cast/mcast_writer.c \
	lib/cast/mcast_writer.h \
	lib/cast/medium_udp.c \
	lib/cast/medium_udp.h \
	lib/cast/member.c \
	lib/cast/open.c \
	lib/cast/reader.c \
	lib/cast/ring.h \
	lib/cast/writer.c

cells_sources = \
	lib/cells/cells.c \
	lib/cells/cells.h \
	lib/cells/cells_open.c \
	lib/cells/cells_service.c

group_sources = \
	lib/group/group.c \
	lib/group/group.h \
	lib/group/group_alloc.c \
	lib/group/group_operator.c \
	lib/group/group_read.c \
	lib/group/neighbors.c

# one library, because channel ends, what is recorded of them and what is built of them refer to each other
lib_librpipe_la_SOURCES = $(observe_sources) $(rpipe_sources) $(cells_sources) $(group_sources) \
	$(cast_sources)
# The library defines the exported names; the short ones are bound to them by the headers.
long_names = -DRPIPE_NO_SHORT_NAMES
lib_librpipe_la_CPPFLAGS = $(AM_CPPFLAGS) $(long_names)

# above the public interface, and by it alone (test/layers, test/exports)
lib_libam_la_SOURCES = \
	lib/am/am.h \
	lib/am/barrier.c \
	lib/am/buffer.c \
	lib/am/connect.c \
	lib/am/connect.h \
	lib/am/context.c \
	lib/am/fail.c \
	lib/am/fail.h \
	lib/am/link_in.c \
	lib/am/link_in.h \
	lib/am/link_out.c \
	lib/am/link_out.h \
	lib/am/message.c \
	lib/am/message.h \
	lib/am/progress.c \
	lib/am/progress.h \
	lib/am/readers.c \
	lib/am/readers.h \
	lib/am/receive_in.c \
	lib/am/receive_in.h \
	lib/am/receive_out.c \
	lib/am/receive_out.h \
	lib/am/reply.c \
	lib/am/reply.h \
	lib/am/request.c \
	lib/am/request.h \
	lib/am/wait.c \
	lib/am/wire.c \
	lib/am/wire.h
lib_libam_la_CPPFLAGS = $(AM_CPPFLAGS) $(long_names)

# messages by tag, made of pipes by their public functions alone
lib_libmsg_la_SOURCES = \
	lib/msg/advertise.c \
	lib/msg/advertise.h \
	lib/msg/arrive.c \
	lib/msg/arrive.h \
	lib/msg/buffer.c \
	lib/msg/buffer.h \
	lib/msg/cell.h \
	lib/msg/context.c \
	lib/msg/control.c \
	lib/msg/direct.c \
	lib/msg/direct.h \
	lib/msg/fail.c \
	lib/msg/fail.h \
	lib/msg/kept.c \
	lib/msg/kept.h \
	lib/msg/link.c \
	lib/msg/link.h \
	lib/msg/match.c \
	lib/msg/match.h \
	lib/msg/msg.h \
	lib/msg/move.c \
	lib/msg/move.h \
	lib/msg/out.c \
	lib/msg/out.h \
	lib/msg/places.c \
	lib/msg/places.h \
	lib/msg/pool.c \
	lib/msg/pool.h \
	lib/msg/prepare.c \
	lib/msg/prepare.h \
	lib/msg/probe.c \
	lib/msg/progress.c \
	lib/msg/progress.h \
	lib/msg/receive.c \
	lib/msg/request.c \
	lib/msg/request.h \
	lib/msg/send.c \
	lib/msg/send.h \
	lib/msg/serve.c \
	lib/msg/serve.h \
	lib/msg/wait.c \
	lib/msg/wait.h \
	lib/msg/window.c \
	lib/msg/window.h \
	lib/msg/wire.c \
	lib/msg/wire.h
lib_libmsg_la_CPPFLAGS = $(AM_CPPFLAGS) $(long_names)

# plans of collective operations; a library of their own, since tools/sim executes them too
lib_libcoll_la_SOURCES = \
	lib/coll/alg_allgather.c \
	lib/coll/alg_allreduce.c \
	lib/coll/alg_alltoall.c \
	lib/coll/alg_barrier.c \
	lib/coll/alg_bcast.c \
	lib/coll/alg_fetch.c \
	lib/coll/alg_gather.c \
	lib/coll/alg_halving.c \
	lib/coll/alg_halving.h \
	lib/coll/alg_hosts.c \
	lib/coll/alg_reduce.c \
	lib/coll/alg_reduce_scatter.c \
	lib/coll/alg_scan.c \
	lib/coll/block.c \
	lib/coll/build.c \
	lib/coll/build.h \
	lib/coll/choose.c \
	lib/coll/choose.h \
	lib/coll/coll.h \
	lib/coll/cost.c \
	lib/coll/cost.h \
	lib/coll/cost_block.c \
	lib/coll/cost_fold.c \
	lib/coll/graph.c \
	lib/coll/graph.h \
	lib/coll/graph_check.c \
	lib/coll/graph_dump.c \
	lib/coll/graph_dump.h \
	lib/coll/limits.c \
	lib/coll/limits.h \
	lib/coll/model.c \
	lib/coll/model.h \
	lib/coll/operator.c \
	lib/coll/operator.h \
	lib/coll/part.c \
	lib/coll/plan.c \
	lib/coll/rules.c \
	lib/coll/rules.h \
	lib/coll/shape.c \
	lib/coll/shape.h \
	lib/coll/value.c

# ---- the library ----

# what executes plans: above the public interface, and by it alone (test/layers)
lib_libcollengine_la_SOURCES = \
	lib/coll/engine/agree.c \
	lib/coll/engine/agree.h \
	lib/coll/engine/async.c \
	lib/coll/engine/async.h \
	lib/coll/engine/card.c \
	lib/coll/engine/card.h \
	lib/coll/engine/cell.h \
	lib/coll/engine/compare.c \
	lib/coll/engine/compare.h \
	lib/coll/engine/create.c \
	lib/coll/engine/create.h \
	lib/coll/engine/dump.c \
	lib/coll/engine/edge.c \
	lib/coll/engine/edge.h \
	lib/coll/engine/engine.c \
	lib/coll/engine/engine.h \
	lib/coll/engine/fail.c \
	lib/coll/engine/fail.h \
	lib/coll/engine/names.c \
	lib/coll/engine/names.h \
	lib/coll/engine/open.c \
	lib/coll/engine/open.h \
	lib/coll/engine/operation.h \
	lib/coll/engine/params.c \
	lib/coll/engine/params.h \
	lib/coll/engine/parts.c \
	lib/coll/engine/parts.h \
	lib/coll/engine/plan.c \
	lib/coll/engine/plan.h \
	lib/coll/engine/program.c \
	lib/coll/engine/program.h \
	lib/coll/engine/ring.c \
	lib/coll/engine/ring.h \
	lib/coll/engine/row.c \
	lib/coll/engine/row.h \
	lib/coll/engine/run.c \
	lib/coll/engine/shrink.c \
	lib/coll/engine/split.c \
	lib/coll/engine/step.c \
	lib/coll/engine/step.h \
	lib/coll/engine/team.h \
	lib/coll/engine/team_call.c \
	lib/coll/engine/team_call.h \
	lib/coll/engine/user_graph.c \
	lib/coll/engine/view.c \
	lib/coll/engine/wait.c \
	lib/coll/engine/wait.h
lib_libcollengine_la_CPPFLAGS = $(AM_CPPFLAGS) $(long_names)

# from the top down, as a linker needs archives
layers = lib/libcollengine.la lib/libcoll.la lib/libmsg.la lib/libam.la lib/librpipe.la lib/libnak.la lib/libcontrol.la lib/libbootstrap.la lib/libbtl.la lib/libsync.la lib/liballoc.la lib/libutil.la

lib_LTLIBRARIES = lib/librmalloc.la
lib_librmalloc_la_SOURCES =
lib_librmalloc_la_LIBADD = $(layers)
lib_librmalloc_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -Wl,-Bsymbolic-functions \
	-Wl,--version-script=$(top_srcdir)/lib/librmalloc.map
EXTRA_lib_librmalloc_la_DEPENDENCIES = lib/librmalloc.map
EXTRA_DIST += lib/librmalloc.map

# The same as one object in an archive. All that the library does not export is local to that object, so that a program that links it
# statically may use any name. Modules are loaded at run time as with the shared library.
if HAVE_STATIC
staticdir = $(libdir)
static_DATA = lib/librmalloc.a
endif
lib/librmalloc.a: $(layers)
	$(AM_V_AR)rm -f $@ && \
	$(CC) $(WHOLE_OBJECT) -nostdlib -o lib/librmalloc_static.o -Wl,--whole-archive \
		$$(for layer in $(layers); do echo "$$layer" | sed 's|^lib/\(.*\)\.la$$|lib/.libs/\1.a|'; done) -Wl,--no-whole-archive && \
	$(OBJCOPY) --localize-hidden lib/librmalloc_static.o && \
	$(AR) $(ARFLAGS) $@ lib/librmalloc_static.o
CLEANFILES += lib/librmalloc.a lib/librmalloc_static.o

# ---- modules: opened at run time, each with a copy of what it needs; all in lib/, where the build tree finds them ----

module_flags = $(AM_LDFLAGS) -module -avoid-version -shared
# brings along libraries that are not made to be unloaded (module.h)
stays = -Wl,-z,nodelete
pkglib_LTLIBRARIES =

pkglib_LTLIBRARIES += lib/btl_shm.la
lib_btl_shm_la_SOURCES = \
	lib/btl/shm/cross.c \
	lib/btl/shm/cross.h \
	lib/btl/shm/descriptor.c \
	lib/btl/shm/descriptor.h \
	lib/btl/shm/mapping.c \
	lib/btl/shm/mapping.h \
	lib/btl/shm/shm.c
lib_btl_shm_la_LIBADD = lib/libslab.la lib/libutil.la
lib_btl_shm_la_LDFLAGS = $(module_flags)

pkglib_LTLIBRARIES += lib/btl_tcp.la
lib_btl_tcp_la_SOURCES = \
	lib/btl/tcp/backend.c \
	lib/btl/tcp/connection.c \
	lib/btl/tcp/connection.h \
	lib/btl/tcp/copy.h \
	lib/btl/tcp/failure.c \
	lib/btl/tcp/failure.h \
	lib/btl/tcp/frame.h \
	lib/btl/tcp/gather.c \
	lib/btl/tcp/gather.h \
	lib/btl/tcp/greeting.c \
	lib/btl/tcp/greeting.h \
	lib/btl/tcp/held.c \
	lib/btl/tcp/held.h \
	lib/btl/tcp/listener.c \
	lib/btl/tcp/listener.h \
	lib/btl/tcp/progress.c \
	lib/btl/tcp/progress.h \
	lib/btl/tcp/queue.c \
	lib/btl/tcp/queue.h \
	lib/btl/tcp/receive.c \
	lib/btl/tcp/receive.h \
	lib/btl/tcp/region.c \
	lib/btl/tcp/region.h \
	lib/btl/tcp/reply.c \
	lib/btl/tcp/reply.h \
	lib/btl/tcp/request.c \
	lib/btl/tcp/request.h \
	lib/btl/tcp/stream.c \
	lib/btl/tcp/stream.h \
	lib/btl/tcp/stream_gather.c \
	lib/btl/tcp/stream_gather.h \
	lib/btl/tcp/tcp.h \
	lib/btl/tcp/transfer.c \
	lib/btl/tcp/transfer.h
lib_btl_tcp_la_LIBADD = lib/libslab.la lib/libutil.la
lib_btl_tcp_la_LDFLAGS = $(module_flags)

if HAVE_FABRIC
pkglib_LTLIBRARIES += lib/btl_ofi.la
endif
lib_btl_ofi_la_SOURCES = \
	lib/btl/ofi/address.c \
	lib/btl/ofi/address.h \
	lib/btl/ofi/backend.c \
	lib/btl/ofi/connection.c \
	lib/btl/ofi/connection.h \
	lib/btl/ofi/deferred.c \
	lib/btl/ofi/deferred.h \
	lib/btl/ofi/fabric.c \
	lib/btl/ofi/fabric.h \
	lib/btl/ofi/memory.c \
	lib/btl/ofi/memory.h \
	lib/btl/ofi/ofi.h \
	lib/btl/ofi/operation.c \
	lib/btl/ofi/operation.h \
	lib/btl/ofi/ordered.c \
	lib/btl/ofi/ordered.h \
	lib/btl/ofi/post.c \
	lib/btl/ofi/post.h \
	lib/btl/ofi/progress.c \
	lib/btl/ofi/progress.h \
	lib/btl/ofi/stream.c \
	lib/btl/ofi/stream.h \
	lib/btl/ofi/transfer.c \
	lib/btl/ofi/transfer.h
lib_btl_ofi_la_CFLAGS = $(AM_CFLAGS) $(FABRIC_CFLAGS)
lib_btl_ofi_la_LIBADD = lib/libslab.la lib/libutil.la $(FABRIC_LIBS)
lib_btl_ofi_la_LDFLAGS = $(module_flags) $(stays)
if HAVE_VERBS
pkglib_LTLIBRARIES += lib/btl_verbs.la
endif
lib_btl_verbs_la_SOURCES = \
	lib/btl/verbs/backend.c \
	lib/btl/verbs/connect.c \
	lib/btl/verbs/connect.h \
	lib/btl/verbs/connection.c \
	lib/btl/verbs/connection.h \
	lib/btl/verbs/context.c \
	lib/btl/verbs/context.h \
	lib/btl/verbs/device.c \
	lib/btl/verbs/device.h \
	lib/btl/verbs/greet.c \
	lib/btl/verbs/greet.h \
	lib/btl/verbs/held.c \
	lib/btl/verbs/held.h \
	lib/btl/verbs/memory.c \
	lib/btl/verbs/memory.h \
	lib/btl/verbs/multicast.c \
	lib/btl/verbs/post.c \
	lib/btl/verbs/post.h \
	lib/btl/verbs/state.c \
	lib/btl/verbs/state.h \
	lib/btl/verbs/stream.c \
	lib/btl/verbs/stream.h \
	lib/btl/verbs/transfer.c \
	lib/btl/verbs/transfer.h \
	lib/btl/verbs/verbs.h
lib_btl_verbs_la_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) $(RDMACM_CFLAGS)
lib_btl_verbs_la_LIBADD = lib/libslab.la lib/libutil.la $(RDMACM_LIBS) $(IBVERBS_LIBS)
lib_btl_verbs_la_LDFLAGS = $(module_flags) $(stays)

if HAVE_PMIX
pkglib_LTLIBRARIES += lib/job_pmix.la
endif
lib_job_pmix_la_SOURCES = lib/bootstrap/job_pmix.c
lib_job_pmix_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
lib_job_pmix_la_LIBADD = lib/libutil.la $(PMIX_LIBS)
lib_job_pmix_la_LDFLAGS = $(module_flags) $(stays)

# the job of MPI: a module for each kind of MPI
if HAVE_MPI
pkglib_LTLIBRARIES += lib/job_openmpi.la
endif
lib_job_openmpi_la_SOURCES = lib/bootstrap/job_mpi.c
lib_job_openmpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
lib_job_openmpi_la_LIBADD = lib/libutil.la $(MPI_LIBS)
lib_job_openmpi_la_LDFLAGS = $(module_flags) $(stays)
if HAVE_MPICH
pkglib_LTLIBRARIES += lib/job_mpich.la
endif
lib_job_mpich_la_SOURCES = lib/bootstrap/job_mpi.c
lib_job_mpich_la_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
lib_job_mpich_la_LIBADD = lib/libutil.la $(MPICH_LIBS)
lib_job_mpich_la_LDFLAGS = $(module_flags) $(stays)

# the backend of MPI: a module for each kind of MPI
if HAVE_MPI
pkglib_LTLIBRARIES += lib/btl_openmpi.la
endif
btl_mpi_sources = \
	lib/btl/mpi/arena.c \
	lib/btl/mpi/arena.h \
	lib/btl/mpi/backend.c \
	lib/btl/mpi/connection.c \
	lib/btl/mpi/connection.h \
	lib/btl/mpi/memory.c \
	lib/btl/mpi/memory.h \
	lib/btl/mpi/operation.c \
	lib/btl/mpi/operation.h \
	lib/btl/mpi/pump.c \
	lib/btl/mpi/pump.h \
	lib/btl/mpi/rma.h \
	lib/btl/mpi/window.c \
	lib/btl/mpi/window.h
lib_btl_openmpi_la_SOURCES = $(btl_mpi_sources)
lib_btl_openmpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
lib_btl_openmpi_la_LIBADD = lib/libslab.la lib/libutil.la $(MPI_LIBS)
lib_btl_openmpi_la_LDFLAGS = $(module_flags) $(stays)
if HAVE_MPICH
pkglib_LTLIBRARIES += lib/btl_mpich.la
endif
lib_btl_mpich_la_SOURCES = $(btl_mpi_sources)
lib_btl_mpich_la_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
lib_btl_mpich_la_LIBADD = lib/libslab.la lib/libutil.la $(MPICH_LIBS)
lib_btl_mpich_la_LDFLAGS = $(module_flags) $(stays)

# a network for tests, which is not installed; a path, any path, makes it a shared object
check_LTLIBRARIES += lib/btl_sim.la
lib_btl_sim_la_SOURCES = \
	test/btl/sim/sim.c \
	test/btl/sim/sim.h \
	test/btl/sim/sim_line.c \
	test/btl/sim/sim_memory.c \
	test/btl/sim/sim_step.c \
	test/btl/sim/sim_transfer.c
lib_btl_sim_la_LIBADD = lib/libutil.la
lib_btl_sim_la_LDFLAGS = $(module_flags) -rpath /nowhere
# all that a test loads at run time
libraries: $(lib_LTLIBRARIES) $(pkglib_LTLIBRARIES)
.PHONY: libraries
