"""RocketMQ's message traces: the records that clients write to the trace topic, as text in a message's body.

A record ends with 0x02, and 0x01 separates its fields. The first field names its kind; docs/trace.md has the table.
Java: TraceDataEncoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

FIELD_SEPARATOR = "\x01"
RECORD_SEPARATOR = "\x02"
NOTHING = "null"  # what Java writes for a missing tag or key
SHOWN_LENGTH_MAX = 40

# Ordinals of Java's MessageType.
NORMAL_MESSAGE, HALF_MESSAGE, COMMIT_MESSAGE, DELAY_MESSAGE, ORDER_MESSAGE = range(5)
# Ordinals of Java's ConsumeReturnType.
SUCCESS, TIME_OUT, EXCEPTION, RETURNED_NULL, FAILED = range(5)


class TraceKind(StrEnum):
    """What a record tells, as its first field."""

    PUBLISHED = "Pub"
    DELIVERED = "SubBefore"
    CONSUMED = "SubAfter"
    TRANSACTION_ENDED = "EndTransaction"
    RECALLED = "Recall"


@dataclass(slots=True)
class TraceRecord:
    """One record. A kind uses some of the fields; the others keep their defaults. Times are Unix ms.

    ``time_ms``: the begin of a send, of a delivery, or the end of consumption; 0 where a writer leaves it out.
    """

    kind: TraceKind
    message_id: str
    time_ms: int = 0
    region: str = ""
    group: str = ""
    topic: str = ""
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    body_length: int = 0
    cost_ms: int = 0
    message_type: int = NORMAL_MESSAGE
    offset_message_id: str = ""
    success: bool = True
    request_id: str = ""  # joins what was delivered with what was consumed
    retry_times: int = 0
    context_code: int = SUCCESS
    transaction_id: str = ""
    state: str = ""
    from_check: bool = False


def encode_trace(record: TraceRecord) -> str:
    """Return the record as text. Separators in a value become blanks."""
    kind = record.kind
    if kind is TraceKind.PUBLISHED:
        rest = [*_sent(record), record.body_length, record.cost_ms, record.message_type]
        rest += [record.offset_message_id, _flag(record.success)]
    elif kind is TraceKind.DELIVERED:
        rest = [record.time_ms, record.region, record.group, record.request_id, record.message_id]
        rest += [record.retry_times, record.keys or NOTHING]
    elif kind is TraceKind.CONSUMED:
        rest = [record.request_id, record.message_id, record.cost_ms, _flag(record.success), record.keys or NOTHING]
        rest += [record.context_code, record.time_ms, record.group]
    elif kind is TraceKind.TRANSACTION_ENDED:
        rest = [*_sent(record), record.message_type, record.transaction_id, record.state, _flag(record.from_check)]
    else:
        rest = [record.time_ms, record.region, record.group, record.topic, record.message_id, _flag(record.success)]
    return FIELD_SEPARATOR.join([kind.value, *map(_clean, rest)]) + RECORD_SEPARATOR


def decode_traces(text: str) -> tuple[list[TraceRecord], list[str]]:
    """Return the records of a body, and for each that can't be decoded what is wrong with it."""
    records: list[TraceRecord] = []
    problems: list[str] = []
    for number, part in enumerate(filter(None, text.split(RECORD_SEPARATOR)), start=1):
        fields = part.split(FIELD_SEPARATOR)
        decoder = _DECODERS.get(fields[0])
        if decoder is None:
            problems.append(f"record {number} is of the unknown kind {fields[0][:SHOWN_LENGTH_MAX]!r}")
            continue
        try:
            records.append(decoder(fields))
        except IndexError:
            problems.append(f"record {number} ({fields[0]}) has only {len(fields)} fields")
        except ValueError as error:
            problems.append(f"record {number} ({fields[0]}): {error}")
    return records, problems


def _sent(record: TraceRecord) -> list[object]:
    return [
        record.time_ms,
        record.region,
        record.group,
        record.topic,
        record.message_id,
        record.tags or NOTHING,
        record.keys or NOTHING,
        record.store_host,
    ]


def _published(fields: list[str]) -> TraceRecord:
    # 4.x wrote 13 fields without the broker's id, others add the client's host at the end.
    has_id = len(fields) > 13
    record = _sent_record(TraceKind.PUBLISHED, fields)
    record.body_length = _number(fields[9])
    record.cost_ms = _number(fields[10])
    record.message_type = _number(fields[11])
    record.offset_message_id = fields[12] if has_id else ""
    record.success = _is_true(fields[13 if has_id else 12])
    return record


def _delivered(fields: list[str]) -> TraceRecord:
    return TraceRecord(
        kind=TraceKind.DELIVERED,
        time_ms=_number(fields[1]),
        region=fields[2],
        group=fields[3],
        request_id=fields[4],
        message_id=fields[5],
        retry_times=_number(fields[6]),
        keys=_text(fields[7]),
    )


def _consumed(fields: list[str]) -> TraceRecord:
    record = TraceRecord(
        kind=TraceKind.CONSUMED,
        request_id=fields[1],
        message_id=fields[2],
        cost_ms=_number(fields[3]),
        success=_is_true(fields[4]),
        keys=_text(fields[5]),
    )
    record.context_code = _number(fields[6]) if len(fields) > 6 else SUCCESS if record.success else FAILED
    if len(fields) > 8:  # not from Alibaba Cloud's clients
        record.time_ms, record.group = _number(fields[7]), fields[8]
    return record


def _transaction_ended(fields: list[str]) -> TraceRecord:
    record = _sent_record(TraceKind.TRANSACTION_ENDED, fields)
    record.message_type = _number(fields[9])
    record.transaction_id = fields[10]
    record.state = fields[11]
    record.from_check = _is_true(fields[12])
    return record


def _recalled(fields: list[str]) -> TraceRecord:
    return TraceRecord(
        kind=TraceKind.RECALLED,
        time_ms=_number(fields[1]),
        region=fields[2],
        group=fields[3],
        topic=fields[4],
        message_id=fields[5],
        success=_is_true(fields[6]),
    )


def _sent_record(kind: TraceKind, fields: list[str]) -> TraceRecord:
    return TraceRecord(
        kind=kind,
        time_ms=_number(fields[1]),
        region=fields[2],
        group=fields[3],
        topic=fields[4],
        message_id=fields[5],
        tags=_text(fields[6]),
        keys=_text(fields[7]),
        store_host=fields[8],
    )


_DECODERS: dict[str, Callable[[list[str]], TraceRecord]] = {
    TraceKind.PUBLISHED: _published,
    TraceKind.DELIVERED: _delivered,
    TraceKind.CONSUMED: _consumed,
    TraceKind.TRANSACTION_ENDED: _transaction_ended,
    TraceKind.RECALLED: _recalled,
}


def _number(text: str) -> int:
    if not text.lstrip("-").isdigit() or not text.isascii() or len(text) > 20:
        raise ValueError(f"{text[:SHOWN_LENGTH_MAX]!r} is no number")
    return int(text)


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _text(text: str) -> str:
    return "" if text == NOTHING else text


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _clean(value: object) -> str:
    return str(value).replace(FIELD_SEPARATOR, " ").replace(RECORD_SEPARATOR, " ")


def trace_keys(records: Iterable[TraceRecord]) -> list[str]:
    """Return the keys under which a message with these records is found: all ids and keys, each once."""
    found: dict[str, None] = {}
    for record in records:
        found.update(dict.fromkeys([record.message_id, *record.keys.split()]))
    return list(found)
