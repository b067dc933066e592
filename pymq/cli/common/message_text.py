"""Formats messages as text lines, JSON objects or raw bodies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pymq.cli.output import MessageOutput, OutputFormat, RecordStream, print_note, printable
from pymq.model.compression import INFLATION_RATIO_MAX
from pymq.model.record import StoredMessage
from pymq.operations.message.content import ReadBody, bounded_content, content
from pymq.operations.message.records import RECORD_NAMES, json_line, plain_record
from pymq.operations.times import local_time

Formatter = Callable[[StoredMessage], bytes]


def message_stream(
    output: MessageOutput,
    *,
    color: bool,
    inflation_ratio_max: int = INFLATION_RATIO_MAX,
    note: Callable[[str], None] = print_note,
    read: ReadBody | None = None,
) -> RecordStream[StoredMessage]:
    """Return what formats messages, one after the other; its ``end`` completes the document. ``color``: for terminals.

    ``read`` returns a message's body; without it :func:`bounded_content` does.
    """
    read = read or bounded_content(inflation_ratio_max, note)
    if output is MessageOutput.raw:
        line = raw_line
    elif output in (MessageOutput.json, MessageOutput.jsonl):
        line = json_line
    else:
        line = colored_line if color else text_line
    records = OutputFormat(output.value) if output.value in set(OutputFormat) else None
    return RecordStream(records, partial(line, read=read), partial(plain_record, read=read), RECORD_NAMES)


def raw_line(message: StoredMessage, read: ReadBody = content) -> bytes:
    """Return the body and a newline."""
    return read(message) + b"\n"


def text_line(message: StoredMessage, read: ReadBody = content) -> bytes:
    """Return ``time topic broker/queue@offset [tag] keys body`` on one line."""
    return f"{_place(message)} {_labels(message)}{shown_body(message, read)}\n".encode()


def colored_line(message: StoredMessage, read: ReadBody = content) -> bytes:
    """Return :func:`text_line` with dim time and place, and cyan labels."""
    labels = _labels(message)
    colored = f"\033[36m{labels}\033[0m" if labels else ""
    return f"\033[2m{_place(message)}\033[0m {colored}{shown_body(message, read)}\n".encode()


def _place(message: StoredMessage) -> str:
    where = f"{message.topic} {message.broker_name}/{message.queue_id}@{message.queue_offset}"
    return f"{local_time(message.store_timestamp_ms)} {printable(where)}"


def _labels(message: StoredMessage) -> str:
    tag = f"[{printable(message.tags)}] " if message.tags else ""
    return f"{tag}{printable(message.keys)} " if message.keys else tag


def shown_body(message: StoredMessage, read: ReadBody = content) -> str:
    """Return the body on one line, safe for a terminal; for binary bytes their number and the first ones in hex."""
    return shown_bytes(read(message))


def shown_bytes(raw: bytes) -> str:
    """Return a body as :func:`shown_body` does."""
    try:
        return printable(raw.decode())
    except UnicodeDecodeError:
        return f"<{len(raw)} bytes: {raw[:32].hex(' ')}{' …' if len(raw) > 32 else ''}>"
