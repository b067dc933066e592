"""Finds one message of a directory by its physical offset or by either kind of id."""

from __future__ import annotations

from collections.abc import Callable

from pymq.errors import CorruptRecordError, NotFoundError
from pymq.model import sysflag
from pymq.model.ids import decode_offset_id
from pymq.model.inner_batch import unwrapped
from pymq.model.record import StoredMessage, decode_record
from pymq.offline.log_files import LogFiles, SegmentFile
from pymq.offline.log_walk import Block, explain, record_at, record_bytes, walk


def by_offset(log: LogFiles, offset: int) -> StoredMessage:
    """Return the message at a physical offset.

    Raises NotFoundError outside the log, CorruptRecordError with the reason.
    """
    segment = log.find(offset)
    if segment is None:
        raise NotFoundError(f"the log holds {log.start} to {log.end_of_files}, not offset {offset}")
    record = record_at(log, offset, check_crc=True)
    if record is None:
        raise CorruptRecordError(offset, _why(segment, offset))
    return decode_record(record_bytes(log, offset, record.size))


def _why(segment: SegmentFile, offset: int) -> str:
    at, reason = explain(segment, offset - segment.start)
    return f"no good record starts at {offset}: {segment.path} at {offset - segment.start + at}: {reason}"


def by_id(log: LogFiles, message_id: str, advance: Callable[[int], None] | None = None) -> StoredMessage:
    """Return a message by the broker's id, directly, or by a producer's, by reading the log. Raises NotFoundError."""
    try:
        _, _, offset = decode_offset_id(message_id)
    except ValueError:
        offset = -1
    if log.start <= offset < log.end_of_files:
        record = record_at(log, offset)
        if record is not None:
            message = decode_record(record_bytes(log, offset, record.size))
            if message.offset_message_id == message_id.upper():
                return message
    property_text = b"UNIQ_KEY\x01" + message_id.encode()
    for step in walk(log, check_crc=False):
        if not isinstance(step, Block):
            continue
        for record in step.records:
            is_inner = record.sys_flag & sysflag.INNER_BATCH
            if property_text in record.properties or is_inner:
                message = decode_record(step.view, record.offset - step.base)
                for each in (*unwrapped((message,)), message):
                    if each.message_id == message_id:
                        return each
        if advance is not None:
            advance(len(step.view))
    raise NotFoundError(f"no message with id {message_id} is in {log.directory}")
