"""A log's messages as rows, in the order of the log: what ``pymq store dump`` writes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pymq.model.compression import InflateError
from pymq.model.properties import KEYS, TAGS
from pymq.model.record import StoredMessage, decode_record
from pymq.offline.log_files import LogFiles
from pymq.offline.log_walk import Block, Damaged, LogEnd, record_at, walk
from pymq.store.scan.scanner import Scanned

CLOCK_SLACK_MS = 3_600_000  # a broker's clock may have been set back so far without a record being passed over
OFFSET_LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages: topics (none: all), queue offsets and store times (ms) from (inclusive) and to (exclusive)."""

    topics: frozenset[str] = frozenset()
    from_offset: int = 0
    to_offset: int = OFFSET_LAST
    from_ms: int = 0
    to_ms: int = OFFSET_LAST

    def takes(self, record: Scanned) -> bool:
        """Whether the record is one of them."""
        return (
            (not self.topics or record.topic in self.topics)
            and self.from_offset <= record.queue_offset < self.to_offset
            and self.from_ms <= record.store_ms < self.to_ms
        )


Complain = Callable[[str], None]


class Messages:
    """Iterates over the wanted messages and their bodies. What can't be read is told to ``complain`` and counted.

    A body that can't be inflated comes as None. ``advance`` is told how many bytes of log were read.
    """

    def __init__(
        self, log: LogFiles, wanted: Wanted, complain: Complain, advance: Callable[[int], None] | None = None
    ) -> None:
        self._log = log
        self._wanted = wanted
        self._complain = complain
        self._advance = advance
        self.damaged_count = 0
        self.message_count = 0

    def __iter__(self) -> Iterator[tuple[StoredMessage, bytes | None]]:
        for step in walk(self._log, self._start()):
            if isinstance(step, Block):
                yield from self._of_block(step)
            elif isinstance(step, Damaged):
                self._complain_of(step)
            else:
                self._complain_of_tail(step)

    def _of_block(self, block: Block) -> Iterator[tuple[StoredMessage, bytes | None]]:
        takes = self._wanted.takes
        for record in block.records:
            if takes(record):
                message = decode_record(block.view, record.offset - block.base)
                self.message_count += 1
                yield message, self._content(message)
        if self._advance is not None:
            last = block.records[-1]
            self._advance(last.offset + last.size - block.base)

    def _content(self, message: StoredMessage) -> bytes | None:
        try:
            return message.content()
        except InflateError as error:
            self.damaged_count += 1
            where = f"{message.topic} queue {message.queue_id} offset {message.queue_offset}"
            self._complain(f"{where} at {message.physical_offset} has no body in the output: {error}")
            return None

    def _complain_of(self, damage: Damaged) -> None:
        self.damaged_count += 1
        path, position = self._log.place(damage.at)
        size = damage.end - damage.start
        self._complain(f"{path} at {position}: {damage.reason}; {size} bytes from {damage.start} on are left out")

    def _complain_of_tail(self, end: LogEnd) -> None:
        if end.remains_at is not None:
            path, position = self._log.place(end.offset)
            self._complain(f"{path} at {position}: the log ends here, what follows is no whole record ({end.reason})")

    def _start(self) -> int:
        """The newest segment that begins safely before the first wanted time."""
        start = self._log.start
        if self._wanted.from_ms:
            for segment in self._log.segments:
                first = record_at(self._log, segment.start)
                if first is not None and first.store_ms + CLOCK_SLACK_MS < self._wanted.from_ms:
                    start = segment.start
        return start


def head_fields(message: StoredMessage) -> dict[str, Any]:
    """What every output says of a message before its properties and body; names as in RocketMQ's own tools."""
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


def as_row(message: StoredMessage, content: bytes | None) -> dict[str, Any]:
    """A message as one JSON object."""
    body = b64encode(content).decode() if content is not None else None
    return {**head_fields(message), "properties": message.properties, "bodyBase64": body}
