"""Messages of an archive, the output of ``pymq spark-export``, for a tail. Needs pyarrow, and no Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from pymq.client import MessageQueue, StoredMessage
from pymq.errors import UsageError
from pymq.model.hosts import pack_host, parse_address
from pymq.model.layout import HOST_V4_SIZE_BYTES
from pymq.model.properties import encode_properties
from pymq.model.record import body_crc
from pymq.spark.lake.lake import Lake, Span
from pymq.spark.lake.lake_reader import LakeReader, first_offset_at
from pymq.spark.places.places import expanded
from pymq.spark.planning.ranges import QueueRange, ReadSettings
from pymq.spark.planning.selection import Selection

_COLUMNS = (
    "queueOffset",
    "body",
    "properties",
    "bornTimestamp",
    "storeTimestamp",
    "bornHost",
    "reconsumeTimes",
    "sysFlag",
)
# An export does not keep where a message was in its broker's log.
_UNKNOWN_HOST = bytes(HOST_V4_SIZE_BYTES)


class Archive:
    """What an export has committed when a tail begins."""

    def __init__(self, directory: str, selection: Selection) -> None:
        """Raise UsageError for a directory that is no archive of whole messages."""
        self._lake = Lake(expanded(directory))
        self._settings = ReadSettings(columns=_COLUMNS, selection=selection, archive=str(self._lake.root))
        if missing := [name for name in _COLUMNS if name not in self._lake.columns]:
            raise UsageError(f"{directory} lacks the column {missing[0]}, which tail shows: export it too")

    def span(self, queue: MessageQueue) -> Span | None:
        """Return from which offset to which a queue is archived, maybe with gaps; None if it is not."""
        spans = self._lake.spans((queue.topic, queue.broker_name, queue.queue_id))
        return Span(spans[0].from_offset, spans[-1].to_offset) if spans else None

    def offset_by_time(self, queue: MessageQueue, time_ms: int) -> int | None:
        """Return the first archived offset stored at a time or later."""
        return first_offset_at(self._lake, (queue.topic, queue.broker_name, queue.queue_id), time_ms)

    async def messages(self, queue: MessageQueue, first: int, last: int) -> AsyncGenerator[list[StoredMessage], None]:
        """Yield the selected messages of [first, last) in order. Raises DataLossError when files are missing."""
        for span in self._lake.spans((queue.topic, queue.broker_name, queue.queue_id)):
            begin, end = max(span.from_offset, first), min(span.to_offset, last)
            if begin >= end:
                continue
            part = QueueRange(queue.topic, queue.broker_name, queue.queue_id, begin, end, (), is_archived=True)
            batches = LakeReader(part, self._settings).batches()
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                yield [_message(row, part) for row in batch.to_pylist()]


def _message(row: dict[str, Any], part: QueueRange) -> StoredMessage:
    body: bytes = row["body"]
    return StoredMessage(
        topic=part.topic,
        queue_id=part.queue_id,
        queue_offset=row["queueOffset"],
        physical_offset=0,
        size_bytes=len(body),
        body=body,
        raw_properties=encode_properties(dict(row["properties"] or ())),
        flag=0,
        sys_flag=row["sysFlag"],
        body_crc=body_crc(body),
        born_timestamp_ms=_time_ms(row["bornTimestamp"]),
        born_host=pack_host(*parse_address(row["bornHost"])),
        store_timestamp_ms=_time_ms(row["storeTimestamp"]),
        store_host=_UNKNOWN_HOST,
        reconsume_times=row["reconsumeTimes"],
        prepared_transaction_offset=0,
        broker_name=part.broker_name,
    )


def _time_ms(time: Any) -> int:
    return 0 if time is None else round(time.timestamp() * 1000)
