"""Bugs put into the store on purpose: the crash suites must catch them. Each is one wrong step that one could write.

A bug is a piece of the product's source that is replaced while it is planted; when the source has changed, planting
fails, and the bug has to be written again.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple


class Bug(NamedTuple):
    """``where``: ``module:function`` or ``module:Class.method`` below ``package``. ``old`` becomes ``new`` in it.

    ``suites``: what catches it, cheapest first: a workload's name (power loss), ``errors:`` and a workload's name
    (failing calls), or ``flips:`` and a part of the store.
    """

    name: str
    where: str
    old: str
    new: str
    suites: tuple[str, ...]
    package: str = "pymq.store"

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Puts the bug into the product for as long as the block runs."""
        module_name, _, path = self.where.partition(":")
        module = importlib.import_module(f"{self.package}.{module_name}")
        *owners, attribute = path.split(".")
        owner: Any = module
        for part in owners:
            owner = getattr(owner, part)
        real = vars(owner)[attribute]
        fake = self._compiled(real, module, attribute)
        holders = [owner] if owners else _holders(self.package, attribute, real)
        for holder in holders:
            setattr(holder, attribute, fake)
        try:
            yield
        finally:
            for holder in holders:
                setattr(holder, attribute, real)

    def _compiled(self, real: Any, module: ModuleType, attribute: str) -> Any:
        function = real.fget if isinstance(real, property) else real
        assert isinstance(function, FunctionType)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.name}: {self.where} holds {source.count(self.old)} x {self.old!r}"
        changed = source.replace(self.old, self.new)
        flags = __future__.annotations.compiler_flag
        found: dict[str, Any] = {}
        exec(compile(changed, f"<bug {self.name}>", "exec", flags=flags, dont_inherit=True), module.__dict__, found)
        return found[attribute]


def _holders(package: str, attribute: str, real: object) -> list[ModuleType]:
    """Every module that has imported the function."""
    modules = [module for name, module in sys.modules.items() if name.startswith(package)]
    return [module for module in modules if getattr(module, attribute, None) is real]


_SYNC_LOG = "                for segment in segments.values():\n                    segment.file.sync()\n"
BUGS = (
    # -- answers that come too early
    Bug("answered before the write", "log.commit_log:CommitLog._write",
        'segment.file.pwrite(start - segment.start, b"".join(parts))', "pass", ("singles",)),
    Bug("answered before the fsync", "log.commit_log:CommitLog.sync", "segment.file.sync()", "pass", ("sync-flush",)),
    Bug("only one of two segments is synced", "log.commit_log:CommitLog.sync",
        "segments.values()", "list(segments.values())[:1]", ("segment-roll", "recovery")),
    Bug("what is committed during a sync counts as synced", "log.commit_log:CommitLog.sync",
        "self.synced_whole_offset = target if whole is None else whole",
        "self.synced_whole_offset = (target if whole is None else whole) + 500",
        ("singles", "mixed-flush")),
    Bug("the segment's directory is not synced", "log.commit_log:CommitLog._create_segment",
        "self._files.sync_dir(self._directory)", "pass", ("sync-flush",)),
    Bug("a new directory's entry is not synced", "disk.fs:make_directory",
        "files.sync_dir(_parent(made))", "pass", ("sync-flush",)),
    Bug("a commit forgets that its segment is unsynced", "log.commit_log:CommitLog._write",
        "self._unsynced[segment.start] = segment", "self._unsynced.setdefault(0, segment)",
        ("segment-roll", "recovery")),
    # -- the log's tail at a start
    Bug("the CRC is not checked", "scan.scanner:parse_record",
        "if check_crc and crc32(", "if False and crc32(", ("batches", "segment-roll")),
    Bug("the torn end of properties is not noticed", "scan.scanner:is_torn",
        'if record.properties.endswith(b"\\0"):\n        return True', "pass", ("many-queues", "batches")),
    Bug("a sector that was never written is not noticed", "scan.scanner:is_torn",
        "if not any(share):\n            return True", "pass", ("wide-properties",)),
    Bug("a torn record is not looked for", "scan.scanner:scan",
        "torn_from is not None and offset >= torn_from and is_torn", "False and is_torn", ("many-queues",)),
    Bug("the log is cut a byte early", "lifecycle.recovery:_Run.scan_from",
        "self._log.truncate(end.offset, ", "self._log.truncate(end.offset - (end.offset > 0), ", ("singles",)),
    Bug("the log is cut a byte late", "lifecycle.recovery:_Run.scan_from",
        "self._log.truncate(end.offset, ", "self._log.truncate(end.offset + 1, ", ("singles",)),
    Bug("the newest good record is cut off", "lifecycle.recovery:_Run.scan_from",
        "self._log.truncate(end.offset, ",
        "self._log.truncate(max((q.last_physical_offset for q in self._queues), default=0) if end.offset else 0, ",
        ("singles",)),
    Bug("the log is not cut", "lifecycle.recovery:_Run.scan_from",
        "self._log.truncate(end.offset, self._times.last_ms)", "self._log._set_end(end.offset) or 0", ("segment-roll",)),
    Bug("what is cut is not zeroed", "log.commit_log:CommitLog._zero_from",
        "if zero_from(segment.file, end - segment.start, size):", "if False:", ("equal-sizes", "recovery")),
    Bug("zeroing ends too early", "log.zeroing:zero_from",
        "file.pwrite(position, bytes(len(chunk.rstrip(b\"\\0\"))))\n"
        "            position = first_nonzero(file, position + len(chunk))",
        "file.pwrite(position, bytes(min(1, len(chunk.rstrip(b\"\\0\")))))\n            position = None",
        ("equal-sizes",)),
    Bug("later segments are left behind a cut", "log.commit_log:CommitLog.truncate",
        "self.segments[-1].start >= end and", "False and", ("segment-roll",)),
    Bug("two segments are removed without a sync between", "log.commit_log:CommitLog._drop_last",
        "self._files.sync_dir(self._directory)", "pass", ("lost-segments",)),
    Bug("what a killed process left unsynced is trusted", "log.commit_log:CommitLog.distrust",
        "segment.end > offset", "False", ("recovery", "restarts")),
    Bug("records behind a hole are kept", "lifecycle.recovery:_Run._after_damage",
        "if end.offset >= self._durable_offset:",
        "if end.offset >= self._durable_offset and later.offset <= end.offset:", ("batches", "many-queues")),
    # -- abort file and checkpoint
    Bug("no abort file", "store:MessageStore._open", "self._abort_file.write()", "pass", ("singles",)),
    Bug("the abort file goes before the last sync", "store:MessageStore.close",
        "            self._housekeeping.write()\n            self.sync()\n",
        "            self._abort_file.remove()\n            self._housekeeping.write()\n            self.sync()\n"
        "            self._abort_file.write()\n",
        ("restarts", "wide-properties")),
    Bug("every start counts as clean", "store:MessageStore._open",
        "clean = not self._abort_file.exists", "clean = True", ("singles",)),
    Bug("the checkpoint runs ahead of the log's sync", "lifecycle.checkpointer:Checkpointer.save",
        "log_offset=self._log.synced_whole_offset", "log_offset=self._log.max_offset + 500",
        ("checkpoints", "batches")),
    Bug("the checkpoint comes before the queues' sync", "lifecycle.checkpointer:Checkpointer.save",
        "self._queues.sync()", "pass", ("batches", "checkpoints")),
    Bug("the checkpoint comes before the index' sync", "lifecycle.checkpointer:Checkpointer.save",
        "self._index.sync()", "pass", ("keys", "wide-index")),
    Bug("the checkpoint's CRC is not checked", "disk.checkpoint:_decode_block",
        "if magic != _BLOCK_MAGIC or ", "if magic != _BLOCK_MAGIC or False and ", ("flips:checkpoint",)),
    # -- queues
    Bug("a queue's tail is written before the log", "write.appender:Appender.stage",
        "staged.append(UNIT.pack(physical_offset, size, tags_code))",
        "staged.append(UNIT.pack(physical_offset, size, tags_code)); "
        "path, at = queue._place(queue_offset); queue._files.get(path, create=True).pwrite(at, staged[-1])",
        ("errors:batches", "errors:segment-roll", "errors:deleted-topics")),
    Bug("a queue's directories are not synced", "queue.queue_table:QueueTable.sync",
        "for directory in sorted(directories):", "for directory in []:", ("checkpoints", "batches")),
    Bug("units behind the checkpoint are believed", "queue.queue_table:_last_good",
        "between[0] <= physical_offset < between[1]", "0 <= physical_offset", ("many-queues", "recovery")),
    Bug("the last unit of a queue file is lost", "queue.consume_queue:ConsumeQueue.write_tail",
        "del tail[:size]", "del tail[: size + (20 if at + size == self._files.file_size_bytes else 0)]",
        ("deleted-topics", "errors:deleted-topics")),
    Bug("16-bit record size in units", "write.appender:Appender.stage",
        "staged.append(UNIT.pack(physical_offset, size, tags_code))",
        "staged.append(UNIT.pack(physical_offset, size & 0x1FF, tags_code))", ("errors:segment-roll",)),
    Bug("half messages get units", "dispatch.queue_dispatcher:QueueDispatcher.take",
        "if not has_queue_unit(record.sys_flag):\n        return", "pass", ("special",)),
    Bug("offsets of damaged records are given out again", "queue.queue_table:_stands_for_damage",
        "if record is None:\n        return True", "if record is None:\n        return False", ("flips:commitlog",)),
    Bug("a lost queue is not made again", "lifecycle.recovery:_queue_start",
        "queues.unit_count != durable.unit_count:\n            return", "False:\n            return",
        ("flips:consumequeue-end",)),
    # -- commits that fail
    Bug("an offset is used up by a refused message", "queue.consume_queue:ConsumeQueue.drop_staged",
        "self.next_offset -= sum(map(len, self.staged)) // UNIT_SIZE_BYTES", "pass", ("errors:batches",)),
    Bug("an offset is used again", "queue.consume_queue:ConsumeQueue.show",
        "self.max_offset += len(units) // UNIT_SIZE_BYTES",
        "self.max_offset += len(units) // UNIT_SIZE_BYTES; self.next_offset = self.max_offset",
        ("group-commit",)),
    Bug("a rollback forgets a queue", "write.appender:Appender.drop_staged",
        "for queue in self.staged_queues:", "for queue in self.staged_queues[1:]:", ("errors:batches",)),
    Bug("a failed write is not undone", "log.commit_log:CommitLog._undo",
        "self._tail_dirty = True", "self._set_end(self.max_offset); return", ("errors:segment-roll", "errors:batches")),
    Bug("a failed write counts as done", "log.commit_log:CommitLog.commit",
        "raise StoreUnavailableError(self._describe(error)) from error", "return", ("errors:batches",)),
    Bug("a failed fsync is tried again", "log.commit_log:CommitLog.sync",
        "self.broken = failed_sync_text(", "problem = failed_sync_text(", ("errors:sync-flush",)),
    Bug("a failed fsync counts as done", "log.commit_log:CommitLog.sync",
        "raise StoreUnavailableError(self.broken) from error", "self.broken = None", ("errors:sync-flush",)),
    Bug("unconfirmed messages are seen when the next commit comes", "write.appender:Appender.commit",
        "if await_sync or await_confirm or self.unconfirmed:", "if (await_sync or await_confirm) and not self.unconfirmed:",
        ("group-commit",)),
    # -- following, truncating
    Bug("a record in part counts as whole on the disk", "lifecycle.checkpointer:Checkpointer.save",
        "log_offset=self._log.synced_whole_offset", "log_offset=self._log.synced_offset", ("following",)),
    Bug("a sync of a record's begin vouches for all of it", "log.commit_log:CommitLog.sync",
        "target if whole is None else whole", "target", ("following",)),
    Bug("a stop leaves a record in part", "replica.follower:Follower.finish",
        "self._log.truncate(self.dispatched_end, self._log.last_store_ms)", "pass", ("following-restarts",)),
    Bug("bytes that wait count as seen", "log.commit_log:CommitLog.set_whole",
        "None if end == self.max_offset else (end, last_store_ms)", "None", ("following", "following-restarts")),
    Bug("a record is dispatched before its end has come", "scan.scanner:scan",
        "Window(segment, stop=stop)", "Window(segment)", ("following", "errors:following")),
    Bug("keys of a master's records are forgotten", "replica.follower:Follower._show",
        "appender.hand_over_keys(keys)", "pass", ("following",)),
    Bug("records behind an error count as dispatched", "replica.follower:Follower._hand_on",
        "self._show(end, keys)", "self._show(stop, keys)", ("following", "errors:following")),
    Bug("a master's bytes that were refused are the log's end", "log.commit_log:CommitLog.append_raw",
        "        self._undo()\n", "        self._set_end(end)\n", ("errors:following",)),
    Bug("the checkpoint vouches for what is cut", "store:MessageStore.truncate",
        "self._checkpoints.distrust_behind(end)", "pass", ("cut",)),
    Bug("queues keep what is cut", "store:MessageStore.truncate",
        "self._queues.settle_all(self._log, end, trusted=True)", "pass", ("cut",)),
    # -- index
    Bug("index positions are one record late", "lifecycle.recovery:_Run._take",
        "record.offset >= self.index_next", "record.offset > self.index_next", ("keys", "singles")),
    Bug("the index is not rolled back to the checkpoint", "index.index_service:IndexService.load",
        "self._roll_back(durable.index_count)", "pass", ("wide-index", "keys")),
    Bug("index slots are not made again", "index.index_file:IndexFile.roll_back",
        "self.used_slots = self._fill_slots_plain(view, count)", "self.used_slots = 0", ("wide-index", "keys")),
    Bug("the index forgets UNIQ_KEY", "index.index_service:_has_key",
        'b"UNIQ_KEY"', 'b"UNIQ_KEX"', ("keys",)),
    # -- tables and deletions
    Bug("the table is not synced before its rename", "disk.json_table:JsonTable._put", "file.sync()", "pass", ("tables",)),
    Bug("the table's directory is not synced", "disk.json_table:JsonTable.save",
        "self._put(self._path, raw)\n            self._files.sync_dir(self._directory)", "self._put(self._path, raw)",
        ("tables",)),
    Bug("the table is overwritten in place", "disk.json_table:JsonTable._put",
        'temporary = path + ".tmp"', "temporary = path", ("tables",)),
    Bug("no backup of a table", "disk.json_table:JsonTable.save",
        "self._put(self._backup_path, self._written)", "pass", ("flips:table",)),
    Bug("a deletion is not written down", "queue.queue_table:QueueTable.delete_topic",
        "self.deleted.add(topic, log_end)", "pass", ("deleted-topics", "mixed52", "mixed93")),
    Bug("deleted records come back in a rebuild", "dispatch.queue_dispatcher:QueueDispatcher.take",
        "if record.offset < self._queues.deleted_end(record.topic):\n        return", "pass",
        ("deleted-topics", "mixed52")),
    # -- reading
    Bug("damaged bytes are served", "integrity.digests:Digests.check", "if actual == wanted:", "if True:", ("flips:commitlog",)),
    Bug("the newest bytes have no digest", "integrity.digests:Digests._check_tail", "if tail is None or", "if True or",
        ("flips:commitlog-end",)),
)  # fmt: skip
