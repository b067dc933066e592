"""What consumers would get from a store directory: its topics, queues and records, without a broker.

Consume queues say it as far as they were on the disk when the broker stopped. What comes after that in the log, and all
of a log without queues, is walked, as a broker's start does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE
from pymq.model.layout_dtypes import BATCH_UNITS, UNITS
from pymq.model.tables import PERM_INHERIT, PERM_READ, PERM_READ_WRITE
from pymq.offline.directory import Directory
from pymq.offline.log_walk import record_at, record_bytes
from pymq.offline.unit_files import UnitFiles
from pymq.offline.walked_queues import QueueKey, QueueRecords, WalkedLog, walk_queues
from pymq.store.queue.queue_table import BATCH_QUEUES

QUEUES = "consumequeue"
_LOGICAL_QUEUE_PREFIX = "%LMQ%"
# RocketMQ's rule for an unclean start: clocks and flushes differ by less.
_CLOCK_SLACK_MS = 3000
_READ_QUEUES = 16  # of a topic whose table doesn't say it
_MEMBERS_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
_NONE = QueueRecords(*(np.empty(0, np.int64) for _ in range(4)))


class _Known(NamedTuple):
    """The units of one queue that count: numbers [begin, end). For a plain queue they are offsets."""

    files: UnitFiles
    is_batch: bool
    begin: int
    end: int


class _Walk(NamedTuple):
    key: object
    log: WalkedLog


class ConsumerView:
    """One open directory. Every method raises OSError."""

    # A process reads many ranges of one directory, each with a view of its own.
    _last_walk: _Walk | None = None

    def __init__(self, directory: Directory) -> None:
        self.log = directory.log
        self._directory = directory
        self._files = directory.files
        self._known: dict[QueueKey, _Known] = {}

    @cached_property
    def walked(self) -> WalkedLog:
        """What the log has from :attr:`trusted_end` on."""
        newest = [
            (segment.path, self._files.modified_ms(segment.path))
            for segment in self.log.segments[-2:]
            if not segment.is_cold
        ]
        key = (self._directory.root, self.log.directory, self.trusted_end, newest)
        last = ConsumerView._last_walk
        if last is None or last.key != key:
            last = _Walk(key, walk_queues(self.log, self.trusted_end, self._deleted))
            ConsumerView._last_walk = last
        return last.log

    @cached_property
    def trusted_end(self) -> int:
        """The physical offset below which the consume queues have all records."""
        log, durable = self.log, self._directory.checkpoint.durable
        if not self._queue_keys:
            return log.start
        if durable is not None:
            below = durable.log_offset if self._directory.clean else min(durable.queue_offset, durable.log_offset)
            return min(max(below, log.start), log.end_of_files)
        return self._end_of_units() if self._directory.clean else self._start_by_time()

    def topics(self) -> list[str]:
        """Return the names of all topics that exist, sorted."""
        table = self._topic_table
        if table:
            return sorted(table)
        return sorted({topic for topic, _ in (*self._queue_keys, *self.walked.queues)})

    def own_topics(self) -> set[str]:
        """Return the topics that RocketMQ names after its cluster and its broker; others may inherit from them."""
        return {topic for topic, config in self._topic_table.items() if _perm(config) & PERM_INHERIT}

    def broker_name(self) -> str:
        """Return the name that RocketMQ's broker had, empty where the tables don't say it."""
        names = [
            topic.removeprefix(_MEMBERS_PREFIX) for topic in self._topic_table if topic.startswith(_MEMBERS_PREFIX)
        ]
        return names[0] if len(names) == 1 else ""

    def queues_of(self, topic: str) -> list[int] | None:
        """Return the numbers of the queues that consumers read, None for a topic that doesn't exist."""
        table = self._topic_table
        if table:
            config = table.get(topic)
            if config is None:
                return None
            return list(range(_number(config, "readQueueNums", _READ_QUEUES) if _perm(config) & PERM_READ else 0))
        keys = {*self._queue_keys, *self.walked.queues}
        return sorted(number for name, number in keys if name == topic) or None

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's first offset that is stored, and the one that its next message would get."""
        known, walked = self._parts(topic, queue_id)
        low, high = self._offset_of(known, known.begin), self._offset_of(known, known.end)
        if not len(walked):
            return low, high
        return (low if known.end > known.begin else int(walked.offsets[0])), walked.end

    def records(self, topic: str, queue_id: int, first: int, last: int) -> QueueRecords:
        """Return the records with messages in [first, last)."""
        known, walked = self._parts(topic, queue_id)
        begin, end = self._number_of(known, first), self._number_of(known, last)
        if known.is_batch and end < known.end:
            end += self._offset_of(known, end) < last
        after = int(np.searchsorted(walked.offsets + walked.counts, first, "right"))
        behind = walked.part(slice(after, int(np.searchsorted(walked.offsets, last))))
        if begin == end:
            return behind
        units = self._of_units(known, begin, end)
        return units if not len(behind) else units.followed_by(behind)

    def cuts(self, topic: str, queue_id: int, first: int, last: int, places: Sequence[int]) -> list[int]:
        """Return, for each of the ascending physical offsets, the first offset of [first, last] that is stored there
        or behind it."""
        known, walked = self._parts(topic, queue_id)
        begin, end = self._number_of(known, first), self._number_of(known, last)
        newest = int(known.files.unit(end - 1)["offset"]) if begin < end else -1
        found: list[int] = []
        for place in places:
            if place <= newest:
                begin = _first_from(known.files, begin, end, place)
                offset = self._offset_of(known, begin)
            else:
                at = int(np.searchsorted(walked.places, place))
                offset = int(walked.offsets[at]) if at < len(walked) else last
            found.append(min(max(offset, first), last))
        return found

    def place_of(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Return the physical offset of the first record from a queue offset on, None when there is none."""
        high = self.bounds(topic, queue_id)[1]
        for last in (offset + 1, high):
            records = self.records(topic, queue_id, offset, last)
            if len(records):
                return int(records.places[0])
        return None

    def raw_record(self, topic: str, queue_id: int, offset: int) -> bytes | None:
        """Return the bytes of the record that holds a message, None when it is not stored."""
        records = self.records(topic, queue_id, offset, offset + 1)
        if not len(records):
            return None
        return record_bytes(self.log, int(records.places[0]), int(records.sizes[0]))

    def committed(self, topic: str, queue_id: int, group: str) -> int | None:
        """Return a consumer group's offset, None when it has none."""
        table = self._directory.table("consumerOffset.json").get("offsetTable")
        offsets = table.get(f"{topic}@{group}") if isinstance(table, dict) else None
        offset = offsets.get(str(queue_id)) if isinstance(offsets, dict) else None
        return offset if isinstance(offset, int) else None

    def close(self) -> None:
        """Close the files of the queues; the directory stays open."""
        for known in self._known.values():
            known.files.close()
        self._known.clear()

    # -- tables and queues ----------------------------------------------------------------------------------------

    @cached_property
    def _topic_table(self) -> dict[str, dict[str, Any]]:
        table = self._directory.table("topics.json").get("topicConfigTable")
        return {str(name): config for name, config in table.items()} if isinstance(table, dict) else {}

    @cached_property
    def _deleted(self) -> dict[str, int]:
        return self._directory.deleted_ends()

    @cached_property
    def _queue_keys(self) -> set[QueueKey]:
        return set(self._listed(QUEUES)) | set(self._listed(BATCH_QUEUES))

    def _listed(self, kind: str) -> Iterator[QueueKey]:
        root = f"{self._directory.root}/{kind}"
        for topic in self._files.listdir(root) if self._files.is_dir(root) else ():
            if self._files.is_dir(f"{root}/{topic}"):
                yield from ((topic, int(name)) for name in self._files.listdir(f"{root}/{topic}") if name.isdigit())

    def _parts(self, topic: str, queue_id: int) -> tuple[_Known, QueueRecords]:
        """Return a queue's units below the trusted end, and its records behind that."""
        known = self._known.get((topic, queue_id))
        if known is None:
            known = self._known[topic, queue_id] = self._settled(topic, queue_id)
        walked = self.walked.queues.get((topic, queue_id), _NONE)
        first = self._offset_of(known, known.end)
        if len(walked) and known.end > known.begin and walked.offsets[0] < first:
            walked = walked.part(slice(int(np.searchsorted(walked.offsets, first)), None))
        return known, walked

    def _settled(self, topic: str, queue_id: int) -> _Known:
        files = UnitFiles(self._files, f"{self._directory.root}/{BATCH_QUEUES}/{topic}/{queue_id}", BATCH_UNITS)
        is_batch = files.end > 0
        if not is_batch:
            files = UnitFiles(self._files, f"{self._directory.root}/{QUEUES}/{topic}/{queue_id}", UNITS)
        end = self._proven_end(files, topic, queue_id, is_batch=is_batch)
        trusted = self.trusted_end
        end = _first_from(files, files.begin, end, trusted)
        begin = _first_from(files, files.begin, end, max(self.log.start, self._deleted.get(topic, 0)))
        return _Known(files, is_batch, begin, end)

    def _proven_end(self, files: UnitFiles, topic: str, queue_id: int, *, is_batch: bool) -> int:
        """Return the end of the units whose records are in the log: a crash or a copy may leave others behind them."""
        is_logical = topic.startswith(_LOGICAL_QUEUE_PREFIX)

        def is_proven(number: int, unit: Any) -> bool:
            if _is_before(unit, self.log.start) or unit["tags"] == PLACEHOLDER_CODE:
                return True
            record = record_at(self.log, int(unit["offset"]))
            offset = int(unit["first"]) if is_batch else number
            return record is not None and (
                is_logical or (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, offset)
            )

        end = files.used_end()
        if end == files.begin or is_proven(end - 1, files.unit(end - 1)):
            return end
        place = int(files.unit(end - 1)["offset"])
        if place < self.trusted_end and self._directory.checkpoint.durable is not None:
            return end  # it was on the disk, so its record is damaged, and a read says so
        return files.search(files.begin, end, is_proven)

    def _end_of_units(self) -> int:
        end = self.log.start
        for kind, units in ((QUEUES, UNITS), (BATCH_QUEUES, BATCH_UNITS)):
            for topic, queue_id in self._listed(kind):
                files = UnitFiles(self._files, f"{self._directory.root}/{kind}/{topic}/{queue_id}", units)
                last = files.used_end()
                unit = files.unit(last - 1) if last > files.begin else None
                if unit is not None and unit["size"] != BLANK_UNIT_SIZE:
                    end = max(end, int(unit["offset"]) + int(unit["size"]))
                files.close()
        return min(end, self.log.end_of_files)

    def _start_by_time(self) -> int:
        checkpoint = self._directory.checkpoint
        limit_ms = min(checkpoint.physic_ms, checkpoint.logics_ms) - _CLOCK_SLACK_MS
        for segment in reversed(self.log.segments):
            first = record_at(self.log, segment.start)
            if first is not None and 0 < first.store_ms <= limit_ms:
                return segment.start
        return self.log.start

    # -- numbers of units and offsets of messages -----------------------------------------------------------------

    def _offset_of(self, known: _Known, number: int) -> int:
        if not known.is_batch or known.begin == known.end:
            return number
        if number < known.end:
            return int(known.files.unit(number)["first"])
        last = known.files.unit(known.end - 1)
        return int(last["first"]) + int(last["count"])

    def _number_of(self, known: _Known, offset: int) -> int:
        """Return the number of the unit that holds a message, or the nearest one in [begin, end]."""
        if not known.is_batch:
            return min(max(offset, known.begin), known.end)
        return known.files.search(
            known.begin, known.end, lambda _, unit: int(unit["first"]) + int(unit["count"]) <= offset
        )

    def _of_units(self, known: _Known, begin: int, end: int) -> QueueRecords:
        units = known.files.read(begin, end)
        numbers = np.arange(begin, end)
        real = (units["size"] > 0) & (units["size"] != BLANK_UNIT_SIZE) & (units["tags"] != PLACEHOLDER_CODE)
        if not real.all():
            units, numbers = units[real], numbers[real]
        offsets, counts = numbers, np.ones(len(units), np.int64)
        if known.is_batch:
            offsets, counts = units["first"].astype(np.int64), units["count"].astype(np.int64)
        return QueueRecords(offsets, counts, *(units[name].astype(np.int64) for name in ("offset", "size", "tags")))


def _number(config: dict[str, Any], name: str, otherwise: int) -> int:
    value = config.get(name)
    return value if isinstance(value, int) else otherwise


def _perm(config: dict[str, Any]) -> int:
    return _number(config, "perm", PERM_READ_WRITE)


def _first_from(files: UnitFiles, begin: int, end: int, place: int) -> int:
    """Return the first number in [begin, end] whose unit leads to a physical offset or behind it."""
    return files.search(begin, end, lambda _, unit: _is_before(unit, place))


def _is_before(unit: Any, place: int) -> bool:
    """Return whether a unit leads below a physical offset; blank units stand before all others."""
    return bool(unit["size"] == BLANK_UNIT_SIZE or unit["offset"] < place)
