"""Seeded bugs, which the crash suites must catch. Each is one wrong step that a programmer could write.

Their ``suites``: a workload's name (power loss), ``errors:`` and a workload's name (failing calls), ``flips:`` and a
part of the store, ``damage:`` and a kind of damage to derived files, ``lost:`` and a workload's name (missing
segments), ``pop:kill``, ``pop:power``, ``pop:ordered`` and ``pop:priority`` (popped messages), ``lite:kill`` and
``lite:power`` (popped messages of lite topics), or ``timer:kill`` and ``timer:power`` (timer messages).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pymq.broker.metadata.order_infos import OrderInfos
from pymq.broker.pop.check_points import CheckPoints
from pymq.broker.pop.lite_expiry import LiteExpiry
from pymq.broker.pop.lite_offsets import LiteOffsets
from pymq.broker.pop.lite_popper import LitePopper
from pymq.broker.pop.ordered_queues import OrderedQueues
from pymq.broker.pop.popper import Popper
from pymq.broker.pop.revive_log import ReviveLog
from pymq.broker.pop.reviver import Reviver
from pymq.broker.pop.turn_acks import TurnAcks
from pymq.broker.timers.open_slot import OpenSlot
from pymq.broker.timers.timer_counts import TimerCounts
from pymq.broker.timers.timer_delivery import TimerDelivery
from pymq.broker.timers.timer_service import TimerService
from pymq.errors import StoreUnavailableError
from pymq.offline import accept_loss as offline_loss
from pymq.store.disk import checkpoint, fs
from pymq.store.disk.abort_file import AbortFile
from pymq.store.disk.fs import put_file
from pymq.store.disk.json_table import JsonTable
from pymq.store.dispatch.queue_dispatcher import QueueDispatcher
from pymq.store.dispatch.unit_mender import UnitMender
from pymq.store.index import index_doubts, index_lookup
from pymq.store.index.entry_proof import Prover
from pymq.store.index.index_file import IndexFile
from pymq.store.index.index_files import IndexFiles
from pymq.store.integrity.digests import Digests
from pymq.store.lifecycle import log_extent, recovery, unreadable
from pymq.store.lifecycle.checkpointer import Checkpointer
from pymq.store.lifecycle.expiry import Expiry
from pymq.store.lifecycle.queue_recovery import QueueRecovery
from pymq.store.light.entry_files import EntryFiles
from pymq.store.light.light_queues import LightQueues
from pymq.store.log import log_record, zeroing
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue import queue_doubts, queue_ends, settling
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.deleted_topics import DeletedTopics
from pymq.store.queue.removed_queues import RemovedQueues
from pymq.store.replica.follower import Follower
from pymq.store.scan import scanner
from pymq.store.store import MessageStore
from pymq.store.timer.timer_log import TimerLog
from pymq.store.timer.timer_store import TimerStore
from pymq.store.timer.timer_wheel import TimerWheel
from pymq.store.write.appender import Appender
from pymq.store.write.staged_batch import StagedBatch
from tests.planting import Bug, Seam, Text, does_nothing, gives

Real = Callable[..., Any]


# -- broken versions: the real function comes first, then its arguments ------------------------------------------------


def _writes_nothing(real: Real, log: CommitLog, start: int, parts: object, size: int) -> None:
    real(log, start, [b""], size)


def _forgets_unsynced(real: Real, log: CommitLog, start: int, parts: object, size: int) -> None:
    known = set(log._unsynced)
    real(log, start, parts, size)
    newest = log.segments[-1]
    if newest.start not in known:
        log._unsynced.setdefault(0, log._unsynced.pop(newest.start))


def _syncs_no_segment(real: Real, log: CommitLog) -> Any:
    log._unsynced.clear()
    return real(log)


def _syncs_one_segment(real: Real, log: CommitLog) -> Any:
    for start in list(log._unsynced)[1:]:
        del log._unsynced[start]
    return real(log)


def _syncs_more_than_it_did(real: Real, log: CommitLog) -> Any:
    target = real(log)
    log.synced_whole_offset += 500
    return target


def _syncs_incomplete_records(real: Real, log: CommitLog) -> Any:
    log.synced_whole_offset = target = real(log)
    return target


def _hides_a_failed_write(real: Real, log: CommitLog, last_store_ms: int) -> None:
    try:
        real(log, last_store_ms)
    except StoreUnavailableError:
        if log.broken is not None:
            raise


def _forgives_a_failed_sync(real: Real, log: CommitLog) -> Any:
    try:
        return real(log)
    except StoreUnavailableError:
        log.broken = None
        raise


def _hides_a_failed_sync(real: Real, log: CommitLog) -> Any:
    try:
        return real(log)
    except StoreUnavailableError:
        log.broken = None
        return real(log)  # forgets what failed to sync


def _shows_all(real: Real, log: CommitLog, end: int, last_store_ms: int) -> None:
    real(log, end, last_store_ms)
    log.unconfirmed_from = None


def _shows_and_starts_again(real: Real, queue: ConsumeQueue, units: bytes) -> None:
    real(queue, units)
    queue.next_offset = queue.max_offset


def _drops_all_but_the_first(real: Real, appender: Appender) -> None:
    del appender.staged.queues[:1]
    real(appender)


def _reads_on(real: Real, window: scanner.Window, *args: Any, stop: int | None = None) -> None:
    real(window, *args)


def _keeps_no_backup(real: Real, files: fs.Files, path: str, content: bytes) -> None:
    if not path.endswith(".bak"):
        real(files, path, content)


BUGS = (
    # -- segments that are gone
    Bug("a lost end is not looked for", Seam(log_extent.check_extent, gives(log_extent.Lost(None, None))),
        ("lost:segment-roll",)),
    Bug("a lost begin is not said", Seam(log_extent._lost_begin, gives(None)), ("lost:segment-roll",)),
    Bug("an accepted loss forgets the ends of queues", Seam(queue_ends.reach_queue_ends, gives(False)),
        ("lost:segment-roll", "lost:recovery", "lost:special")),
    Bug("an accepted loss leaves units that lead nowhere", Seam(offline_loss._blank_units, does_nothing),
        ("lost:segment-roll",)),
    Bug("what retention deletes counts as lost",
        Text(Expiry._unlink, " or not self._is_known_to_go(segment.end)", ""), ("retention",)),
    # -- answers that come too early
    Bug("answered before the write", Seam(CommitLog._write, _writes_nothing), ("singles",)),
    Bug("answered before the fsync", Seam(CommitLog.sync, _syncs_no_segment), ("sync-flush",)),
    Bug("only one of two segments is synced", Seam(CommitLog.sync, _syncs_one_segment), ("segment-roll", "recovery")),
    Bug("what is committed during a sync counts as synced", Seam(CommitLog.sync, _syncs_more_than_it_did),
        ("singles", "mixed-flush")),
    Bug("the segment's directory is not synced",
        Text(CommitLog._create_segment, "self._files.sync_dir(self._directory)", "pass"), ("sync-flush",)),
    Bug("a new directory's entry is not synced",
        Text(fs.make_directory, "files.sync_dir(_parent(made))", "pass"), ("sync-flush",)),
    Bug("a commit forgets that its segment is unsynced", Seam(CommitLog._write, _forgets_unsynced),
        ("segment-roll", "recovery")),
    # -- the log's tail at a start
    Bug("the CRC is not checked",
        Seam(log_record.parse_record, lambda real, view, at, offset, check_crc: real(view, at, offset, False)),
        ("batches", "segment-roll")),
    Bug("the torn end of properties is not noticed",
        Text(scanner.is_torn, 'if share.endswith(b"\\0"):', 'if stop < end and share.endswith(b"\\0"):'),
        ("many-queues", "batches")),
    Bug("a sector that was never written is not noticed",
        Text(scanner.is_torn, 'if share.endswith(b"\\0"):', 'if stop == end and share.endswith(b"\\0"):'),
        ("wide-properties",)),
    Bug("a sector that was not written to its end is not noticed",
        Text(scanner.is_torn, 'if share.endswith(b"\\0"):', "if not any(share):"), ("lite-topics-of-a-slave",)),
    Bug("a torn record is not looked for", Seam(scanner.is_torn, gives(False)), ("many-queues",)),
    Bug("the log is truncated a byte early",
        Seam(CommitLog.truncate, lambda real, log, end, store_ms, **_: real(log, end - (end > 0), store_ms)),
        ("singles",)),
    Bug("the log is truncated a byte late",
        Seam(CommitLog.truncate, lambda real, log, end, store_ms, **_: real(log, end + 1, store_ms)), ("singles",)),
    Bug("the newest good record is truncated",
        Text(recovery._Run.scan_from, "self._log.truncate(end.offset, ",
             "self._log.truncate("
             "max((q.last_physical_offset for q in self._queues), default=0) if end.offset else 0, "),
        ("singles",)),
    Bug("the log is not truncated",
        Seam(CommitLog.truncate, lambda real, log, end, store_ms, **_: log._set_end(end) or 0), ("segment-roll",)),
    Bug("truncated bytes are not zeroed", Seam(CommitLog._zero_from, gives(0)), ("equal-sizes", "recovery")),
    Bug("zeroing ends too early",
        Text(zeroing.zero_from,
             "file.pwrite(position, bytes(len(chunk.rstrip(b\"\\0\"))))\n"
             "            position = first_nonzero(file, position + len(chunk))",
             "file.pwrite(position, bytes(min(1, len(chunk.rstrip(b\"\\0\")))))\n            position = None"),
        ("equal-sizes",)),
    Bug("later segments are left behind the new end",
        Text(CommitLog.truncate, "self.segments[-1].start >= end and", "False and"), ("segment-roll",)),
    Bug("two segments are removed without a sync between",
        Text(CommitLog._drop_last, "self._files.sync_dir(self._directory)", "pass"), ("lost-segments",)),
    Bug("bytes that a killed process left unsynced are trusted",
        Seam(CommitLog.distrust, lambda real, log, offset: real(log, sys.maxsize)), ("restarts", "recovery")),
    Bug("records behind a hole are kept",
        Text(recovery._Run._after_damage, "if not is_synced:",
             "if not is_synced and later.offset <= end.offset:"),
        ("batches", "many-queues")),
    Bug("a torn record counts as a whole one", Seam(unreadable.are_whole, gives(True)), ("batches", "many-queues")),
    # -- abort file and checkpoint
    Bug("no abort file", Seam(AbortFile.write, does_nothing), ("singles",)),
    Bug("the abort file is removed before the last sync",
        Text(MessageStore.close,
             "            self._log.sync()\n            self._checkpoints.save_last()\n",
             "            self._abort_file.remove()\n            self._log.sync()\n"
             "            self._checkpoints.save_last()\n            self._abort_file.write()\n"),
        ("wide-properties", "restarts")),
    Bug("every start counts as clean", Seam(AbortFile.exists, gives(False)), ("singles",)),
    Bug("the checkpoint runs ahead of the log's sync",
        Text(Checkpointer.save, "log_offset=self._log.synced_whole_offset", "log_offset=self._log.max_offset + 500"),
        ("checkpoints", "batches")),
    Bug("the checkpoint comes without the index' sync",
        Text(Checkpointer.save, "self._index.disk.sync()", "pass"), ("wide-index", "keys")),
    Bug("the checkpoint's CRC is not checked",
        Text(checkpoint._decode_block, "if magic != _BLOCK_MAGIC or ", "if magic != _BLOCK_MAGIC or False and "),
        ("flips:checkpoint",)),
    # -- queues
    Bug("a queue's tail is written before the log",
        Text(StagedBatch.add, "staged.append(_pack_unit(at, size, tags_code))",
             "staged.append(_pack_unit(at, size, tags_code)); "
             "path, at = queue._place(queue.next_offset); queue._files.get(path, create=True).pwrite(at, staged[-1])"),
        ("errors:batches", "errors:segment-roll", "errors:deleted-topics")),
    Bug("units behind the checkpoint are believed",
        Seam(settling._last_good,
             lambda real, queue, log, first, end, between, *, trusted: real(
                 queue, log, first, end, (0, sys.maxsize), trusted=trusted)),
        ("many-queues", "recovery")),
    Bug("the last unit of a queue file is lost",
        Text(ConsumeQueue.write_tail, "del tail[:size]",
             "del tail[: size + (20 if at + size == self._files.file_size_bytes else 0)]"),
        ("deleted-topics", "errors:deleted-topics")),
    Bug("16-bit record size in units",
        Text(StagedBatch.add, "staged.append(_pack_unit(at, size, tags_code))",
             "staged.append(_pack_unit(at, size & 0x1FF, tags_code))"),
        ("errors:segment-roll",)),
    Bug("half messages get units", Seam(log_record.has_queue_unit, gives(True)), ("special",)),
    Bug("offsets of damaged records are used again", Seam(settling.stands_for_damage, gives(False)),
        ("flips:commitlog-without-sums",)),
    Bug("a lost queue is not rebuilt",
        Text(QueueRecovery.start, "queues.unit_count != unit_count:", "False:"),
        ("damage:delete tree consumequeue",)),
    # -- light queues
    Bug("entries of light queues are not synced", Seam(EntryFiles.sync, does_nothing), ("lite-topics",)),
    Bug("entries of a truncated log stay", Seam(LightQueues.truncate, does_nothing), ("lite-topics",)),
    Bug("records are not dispatched to light queues", Seam(LightQueues.take, does_nothing),
        ("lite-topics", "lite-topics-of-a-slave")),
    Bug("a refused message uses up an offset of its light queue", Seam(LightQueues.drop_staged, does_nothing),
        ("errors:lite-sends",)),
    # -- damaged queue and index files
    Bug("sums of units are not compared",
        Text(ConsumeQueue._check_block, "if wanted is None or crc32(units) != wanted:", "if wanted is None:"),
        ("damage:flip consumequeue",)),
    Bug("units without a sum are believed",
        Text(ConsumeQueue._check_block, "if wanted is None or crc32(units) != wanted:",
             "if wanted is not None and crc32(units) != wanted:"),
        ("damage:flip consumequeue",)),
    Bug("wrong tags codes stay", Seam(UnitMender._write, does_nothing), ("damage:flip consumequeue",)),
    Bug("missing and exchanged queue files are not noticed", Text(QueueRecovery._settle,
        "return find_doubt(queue, log, starts, short)", "return None"), ("damage:delete consumequeue",)),
    Bug("files of another queue are not noticed", Seam(queue_doubts._is_plausible, gives(True)),
        ("damage:copy consumequeue", "damage:swap consumequeue")),
    Bug("a queue begins with its first file, whatever the log holds",
        Text(queue_doubts.find_doubt, "if queue.base_offset and is_real", "if False and is_real"),
        ("damage:delete consumequeue",)),
    Bug("queues are believed without a checkpoint",
        Text(QueueRecovery.start, "    return self.rebuild()\n    below",
             "    queues.settle_all(log, log.end_of_files, trusted=True)\n"
             "        return max((q.last_physical_offset for q in queues), default=0)\n    below"),
        ("damage:delete consumequeue", "damage:delete tree consumequeue")),
    Bug("offsets of deleted queue files are given again", Seam(QueueRecovery.finish, does_nothing),
        ("damage:delete all consumequeue",)),
    Bug("sizes of queue files stay", Seam(ConsumeQueue.fit_sizes, gives([])), ("damage:extend consumequeue",
        "damage:truncate consumequeue")),
    Bug("a queue's minimum is searched in units that were not compared",
        Text(UnitMender.begin, "self._queues.guard_with(self)\n    self._queues.find_begins(self._log.min_offset)",
             "self._queues.find_begins(self._log.min_offset)\n    self._queues.guard_with(self)"),
        ("damage:flip consumequeue",)),
    Bug("a gap between index files is not noticed", Seam(index_doubts._keyed_record_between, gives(None)),
        ("damage:delete index",)),
    Bug("an emptied index file is believed",
        Text(IndexFiles._load_known, "if self.files[-1].count < durable.index_count:", "if False:"),
        ("damage:zero index",)),
    Bug("index files may go back", Text(index_doubts.find_doubt, "if number and first[1] < end:", "if False:"),
        ("damage:copy index", "damage:swap index")),
    Bug("emptied slots and links are not missed", Text(Prover._proof, "if named !=", "if False and named !="),
        ("damage:empty a link index",)),
    Bug("sizes of index files are believed",
        Text(IndexFiles._has_size, "if size > wanted:", "if False:"), ("damage:extend index",)),
    # -- commits that fail
    Bug("an offset is used up by a refused message",
        Text(ConsumeQueue.drop_staged, "-= sum(map(len, self.staged)) // self.unit_size_bytes", "-= 0"),
        ("errors:batches",)),
    Bug("an offset is used again", Seam(ConsumeQueue.publish, _shows_and_starts_again), ("group-commit",)),
    Bug("a rollback forgets a queue", Seam(Appender.drop_staged, _drops_all_but_the_first), ("errors:batches",)),
    Bug("a failed write is not undone", Seam(CommitLog._undo, lambda real, log: log._set_end(log.max_offset)),
        ("errors:segment-roll", "errors:batches")),
    Bug("a failed write counts as done", Seam(CommitLog.commit, _hides_a_failed_write), ("errors:batches",)),
    Bug("a failed fsync is tried again", Seam(CommitLog.sync, _forgives_a_failed_sync), ("errors:sync-flush",)),
    Bug("a failed fsync counts as done", Seam(CommitLog.sync, _hides_a_failed_sync), ("errors:sync-flush",)),
    Bug("unconfirmed messages become visible with the next commit",
        Text(Appender.commit, "if await_sync or await_confirm or self.unconfirmed:",
             "if (await_sync or await_confirm) and not self.unconfirmed:"),
        ("group-commit",)),
    # -- following, truncating
    Bug("an incomplete record counts as synced",
        Text(Checkpointer.save, "log_offset=self._log.synced_whole_offset", "log_offset=self._log.synced_offset"),
        ("following",)),
    Bug("a sync of part of a record counts for all of it",
        Seam(CommitLog.sync, _syncs_incomplete_records), ("following",)),
    Bug("a stop leaves an incomplete record",
        Text(Follower.finish, "self._log.truncate(self.dispatched_end, self._log.last_store_ms)", "pass"),
        ("following-restarts",)),
    Bug("incomplete records are visible", Seam(CommitLog.set_whole, _shows_all), ("following", "following-restarts")),
    Bug("a record is dispatched before its end has arrived", Seam(scanner.Window.__init__, _reads_on),
        ("following", "errors:following")),
    Bug("keys of a master's records are forgotten",
        Text(Follower._publish, "appender.hand_over_keys(keys)", "pass"), ("following",)),
    Bug("records behind an error count as dispatched",
        Text(Follower._dispatch_between, "self._publish(end, keys)", "self._publish(stop, keys)"),
        ("following", "errors:following")),
    Bug("the log ends behind a master's refused bytes",
        Text(CommitLog.append_raw, "        self._undo()\n", "        self._set_end(end)\n"), ("errors:following",)),
    Bug("the checkpoint covers truncated bytes", Seam(Checkpointer.distrust_behind, does_nothing),
        ("truncate",)),
    Bug("queues keep truncated records",
        Text(MessageStore.truncate, "self._queues.settle_all(self._log, end, trusted=True)", "pass"),
        ("truncate",)),
    # -- index
    Bug("index positions are one record late",
        Text(recovery._Run._take, "record.offset >= self.index_next", "record.offset > self.index_next"),
        ("keys", "singles")),
    Bug("the index is not rolled back to the checkpoint", Seam(IndexFiles._roll_back, does_nothing),
        ("wide-index", "keys")),
    Bug("index slots are not rebuilt", Seam(IndexFile._fill_slots_plain, gives(0)), ("wide-index", "keys")),
    Bug("the index forgets UNIQ_KEY", Text(index_lookup._has_key, 'b"UNIQ_KEY"', 'b"UNIQ_KEX"'), ("keys",)),
    # -- tables and deletions
    Bug("the table is not synced before its rename", Text(put_file, "file.sync()", "pass"), ("tables",)),
    Bug("the table's directory is not synced",
        Text(JsonTable.save, "self._path, raw)\n            self._files.sync_dir(self._directory)", "self._path, raw)"),
        ("tables",)),
    Bug("the table is overwritten in place",
        Text(put_file, 'temporary = f"{path}.tmp"', "temporary = path"), ("tables",)),
    Bug("no backup of a table", Seam(put_file, _keeps_no_backup), ("flips:table",)),
    Bug("a deletion is not saved", Seam(DeletedTopics.raise_to, does_nothing),
        ("deleted-topics", "mixed52", "mixed93")),
    Bug("deleted records come back in a rebuild",
        Text(QueueDispatcher.take, "if record.offset < self._queues.deleted_end(record.topic):\n        return",
             "pass"),
        ("deleted-topics", "mixed52")),
    Bug("a start forgets the files of deleted queues", Seam(RemovedQueues.load, does_nothing), ("deleted-topics",)),
    # -- popped messages
    Bug("a hand-out has no check point",
        Text(Popper._hand_out,
             "self._log.put_check_point(key, offsets, ask.invisible_ms, popped.revive_queue_id)", "pass"),
        ("pop:kill",)),
    Bug("a start forgets how far it had handed out",
        Text(ReviveLog.load, "self._saved_ms = self._cursors.data_version.timestamp", "pass"), ("pop:kill",)),
    Bug("a start forgets acknowledgements", Seam(ReviveLog._take_ack, does_nothing), ("pop:kill",)),
    Bug("of a check point's acknowledgements in one turn the last one counts",
        Text(TurnAcks.add, "|= bits", "= bits"), ("pop:kill",)),
    Bug("an open check point counts as finished",
        Text(CheckPoints.finished_offset, "oldest) - 1", "oldest)"), ("pop:kill", "pop:power")),
    Bug("a redelivery leaves its check point open on the disk",
        Text(Reviver._deliver, "self._finish(point, done, dropped)", "points.drop(point)"), ("pop:kill",)),
    Bug("messages come again too early",
        Text(Reviver.tick, "self._deliver_due(wall_ms)", "self._deliver_due(wall_ms + 400)"),
        ("pop:kill",)),
    Bug("an acknowledgement moves an ordered queue past a message that is left",
        Text(OrderedQueues.ack, "max(info.next_offset, committed)", "offset + 1"), ("pop:ordered",)),
    Bug("an ordered queue hands out while its messages are out",
        Seam(OrderedQueues.is_blocked, gives(False)), ("pop:ordered",)),
    Bug("pops read one queue of a retry topic",
        Text(Popper._pop_retries, "self._topics.require(name).read_queue_nums", "1"), ("pop:priority",)),
    # -- popped messages of lite topics
    Bug("a start forgets the hand-outs of lite topics", Seam(OrderInfos.load, does_nothing), ("lite:kill",)),
    Bug("lite topics that expired come again after a start", Seam(LiteOffsets.move_mark, does_nothing),
        ("lite:kill", "lite:power")),
    Bug("lite topics expire unread", Text(LiteExpiry._is_read, "is_read = False", "pass"), ("lite:kill",)),
    Bug("a last try leaves no dead letter", Text(LitePopper._bury,
        "self._retries.bury(message, queue.group, message.topic)", "pass"), ("lite:kill", "lite:power")),
    # -- timer messages
    Bug("waiting timer messages are not counted again", Seam(TimerCounts.count_again, does_nothing), ("timer:kill",)),
    Bug("a start passes over records that were put and are not in the wheel",
        Text(TimerService.open, "self.progress = progress", "self.progress = TimerProgress(progress.read_ms, high)"),
        ("timer:kill",)),
    Bug("slots are not written to the wheel", Seam(TimerWheel.write, does_nothing), ("timer:kill",)),
    Bug("the timer log is not synced before the check point",
        Text(TimerStore.write, "self.log.sync()", "pass"), ("timer:power",)),
    Bug("units are not written to the timer log", Seam(TimerLog._write, does_nothing), ("timer:kill",)),
    Bug("the check point runs ahead of the commit log's sync",
        Text(TimerService._write_in_thread, "self._store.sync(log_only=True)", "pass"), ("timer:power",)),
    Bug("a check point is a second ahead",
        Text(TimerStore.write, "(progress.read_ms, state", "(progress.read_ms + self.precision_ms, state"),
        ("timer:kill",)),
    Bug("a message that rolls over is not stored again",
        Text(TimerDelivery._stage_due, "if due.is_roll:",
             "if due.is_roll and self.rolled_count % 2:\n        return topic, _Fate.ROLLED\n    if due.is_roll:"),
        ("timer:kill",)),
    Bug("a message that rolls over is delivered",
        Text(TimerDelivery._stage_due, "if due.is_roll:", "if False:"), ("timer:kill",)),
    Bug("timers are delivered early",
        Text(OpenSlot.take, "self._heap[0].due_ms <= now_ms", "self._heap[0].due_ms <= now_ms + 400"),
        ("timer:kill",)),
    Bug("a start delivers nothing that came due while the broker was down",
        Text(TimerService._begin_read_time, "if progress.read_ms == 0:",
             "progress.read_ms = now_slot_ms\n    if False:"),
        ("timer:kill",)),
    Bug("recalls are not read", Seam(TimerDelivery.read_deletions, does_nothing), ("timer:kill",)),
    # -- reading
    Bug("damaged bytes are served", Text(Digests.check, "if actual == wanted:", "if True:"), ("flips:commitlog",)),
    Bug("the newest bytes have no digest", Seam(Digests._check_tail, does_nothing), ("flips:commitlog-end",)),
)  # fmt: skip
