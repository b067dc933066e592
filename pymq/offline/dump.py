"""Turns a log's messages into rows, in log order: the output of ``pymq store dump``."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pymq.model.compression import INFLATION_RATIO_MAX, InflateError
from pymq.model.inflation import InflationBudget
from pymq.model.inner_batch import is_inner_batch, message_count, unwrapped
from pymq.model.properties import KEYS, TAGS
from pymq.model.record import StoredMessage, decode_record
from pymq.offline.log_files import LogFiles
from pymq.offline.log_walk import Block, Damaged, LogEnd, record_at, walk
from pymq.store.log.log_record import Scanned

CLOCK_SLACK_MS = 3_600_000  # no record is missed if a broker's clock was set back by at most this
OFFSET_LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class DumpSelection:
    """The messages to dump: topics (empty: all), queue offsets and store times (ms). Start inclusive, end exclusive."""

    topics: frozenset[str] = frozenset()
    from_offset: int = 0
    to_offset: int = OFFSET_LAST
    from_ms: int = 0
    to_ms: int = OFFSET_LAST

    def includes(self, record: Scanned) -> bool:
        """Return whether the record is to be dumped."""
        return (
            (not self.topics or record.topic in self.topics)
            and self.from_offset < record.queue_offset + message_count(record.sys_flag, record.properties)
            and record.queue_offset < self.to_offset
            and self.from_ms <= record.store_ms < self.to_ms
        )


Warn = Callable[[str], None]


class DumpedMessages:
    """Iterates over the selected messages and their bodies. Passes what can't be read to ``warn``, and counts it.

    A body that can't be inflated, or only beyond an InflationBudget, comes as None. ``advance`` gets the number of log
    bytes read.
    """

    def __init__(
        self,
        log: LogFiles,
        selection: DumpSelection,
        warn: Warn,
        advance: Callable[[int], None] | None = None,
        *,
        inflation_ratio_max: int = INFLATION_RATIO_MAX,
    ) -> None:
        self._log = log
        self._selection = selection
        self._warn = warn
        self._advance = advance
        self._inflation = InflationBudget(inflation_ratio_max)
        self.damaged_count = 0
        self.message_count = 0

    def __iter__(self) -> Iterator[tuple[StoredMessage, bytes | None]]:
        for step in walk(self._log, self._start()):
            if isinstance(step, Block):
                yield from self._of_block(step)
            elif isinstance(step, Damaged):
                self._warn_of_damage(step)
            else:
                self._warn_of_tail(step)

    def _of_block(self, block: Block) -> Iterator[tuple[StoredMessage, bytes | None]]:
        includes = self._selection.includes
        for record in block.records:
            if includes(record):
                for message in self._messages(decode_record(block.view, record.offset - block.base)):
                    self.message_count += 1
                    yield message, self._content(message)
        if self._advance is not None:
            last = block.records[-1]
            self._advance(last.offset + last.size - block.base)

    def _messages(self, message: StoredMessage) -> Iterable[StoredMessage]:
        """Return the message itself, or the selected ones of an inner batch."""
        if not is_inner_batch(message):
            return (message,)
        selected = range(self._selection.from_offset, self._selection.to_offset)
        return [each for each in unwrapped((message,)) if each.queue_offset in selected]

    def _content(self, message: StoredMessage) -> bytes | None:
        try:
            return self._inflation.content(message)
        except InflateError as error:
            self.damaged_count += 1
            where = f"{message.topic} queue {message.queue_id} offset {message.queue_offset}"
            self._warn(f"{where} at {message.physical_offset} has no body in the output: {error}")
            return None

    def _warn_of_damage(self, damage: Damaged) -> None:
        self.damaged_count += 1
        path, position = self._log.place(damage.at)
        size = damage.end - damage.start
        self._warn(f"{path} at {position}: {damage.reason}; {size} bytes from {damage.start} on are left out")

    def _warn_of_tail(self, end: LogEnd) -> None:
        if end.remains_at is not None:
            path, position = self._log.place(end.offset)
            self._warn(f"{path} at {position}: the log ends here; what follows is not a whole record ({end.reason})")

    def _start(self) -> int:
        """Return the start of the newest segment that safely begins before the first selected time."""
        start = self._log.start
        if self._selection.from_ms:
            for segment in self._log.segments:
                first = record_at(self._log, segment.start)
                if first is not None and first.store_ms + CLOCK_SLACK_MS < self._selection.from_ms:
                    start = segment.start
        return start


def head_fields(message: StoredMessage) -> dict[str, Any]:
    """Return a message's fields before its properties and body; names as in RocketMQ's own tools."""
    properties = message.properties
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "storeSize": message.size_bytes,
        "msgId": message.message_id,
        "keys": properties.get(KEYS),
        "tags": properties.get(TAGS),
    }


ROW_NAMES = (
    "topic",
    "queueId",
    "queueOffset",
    "commitLogOffset",
    "storeSize",
    "msgId",
    "keys",
    "tags",
    "properties",
    "bodyBase64",
)


def as_row(message: StoredMessage, content: bytes | None) -> dict[str, Any]:
    """Return a message as one JSON object."""
    body = b64encode(content).decode() if content is not None else None
    return {**head_fields(message), "properties": message.properties, "bodyBase64": body}
