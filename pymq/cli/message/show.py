"""Prints found messages: whole, or one line each."""

from __future__ import annotations

import sys

from pymq.cli.common.message_text import message_stream, shown_body
from pymq.cli.output import MessageOutput, is_styled, print_fields, print_line, printable
from pymq.model.hosts import format_address
from pymq.model.properties import KEYS, TAGS, UNIQ_KEY
from pymq.model.record import StoredMessage
from pymq.operations.times import local_time


def print_messages(messages: list[StoredMessage], output: MessageOutput, *, whole: bool) -> None:
    """Print messages; ``whole``: text format shows every field instead of one line."""
    if whole and output in (MessageOutput.text, MessageOutput.table):
        for at, message in enumerate(messages):
            if at:
                print_line()
            _print_whole(message)
        return
    stream = message_stream(output, color=is_styled())
    for message in messages:
        sys.stdout.buffer.write(stream(message))
    sys.stdout.buffer.write(stream.end())
    sys.stdout.buffer.flush()


def _print_whole(message: StoredMessage) -> None:
    born = format_address(*message.born_address)
    print_fields(
        {
            "topic": message.topic,
            "queue": f"{message.broker_name}/{message.queue_id}",
            "offset": message.queue_offset,
            "message id": message.message_id,
            "offset message id": message.offset_message_id,
            "tag": printable(message.tags),
            "keys": printable(message.keys),
            "born": f"{local_time(message.born_timestamp_ms)} at {born}",
            "stored": f"{local_time(message.store_timestamp_ms)} at {format_address(*message.store_address)}",
            "reconsumed": message.reconsume_times,
            "size": f"{message.size_bytes} bytes stored, body {len(message.body)}",
        }
    )
    shown = {name: printable(value) for name, value in message.properties.items() if name not in (TAGS, KEYS, UNIQ_KEY)}
    if shown:
        print_line("properties")
        for name, value in sorted(shown.items()):
            print_line(f"  {printable(name)}={value}")
    print_line("body")
    print_line(f"  {shown_body(message)}")
