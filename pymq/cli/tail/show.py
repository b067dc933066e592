"""From the options of ``pymq tail`` to its output: how bodies are read, and how messages are written."""

from __future__ import annotations

import sys

from pymq.cli.common.message_text import Formatter, message_stream
from pymq.cli.common.session import until_done_or_stopped
from pymq.cli.output import MessageOutput, is_styled, print_note
from pymq.cli.tail import work as tail_work
from pymq.cli.tail.options import TailOptions
from pymq.cli.tail.verbs import line_formatter
from pymq.model.record import StoredMessage
from pymq.net.runtime import run
from pymq.operations.message.bodies import AUTO, BodyDecoder, Decoding, decoding_reader
from pymq.operations.message.content import ReadBody, bounded_content
from pymq.operations.message.fields import Projection

FOR_PEOPLE = (MessageOutput.text, MessageOutput.table)


def body_reader(decoding: Decoding, output: MessageOutput, inflate_ratio: int) -> ReadBody:
    """Return a function from a message to its body, unpacked as asked for; lines for people unpack what they know."""
    if not decoding.steps and output in FOR_PEOPLE:
        decoding = Decoding((AUTO,))
    read = bounded_content(inflate_ratio, print_note)
    if decoding.steps:
        read = decoding_reader(BodyDecoder(decoding, inflate_ratio), read, print_note)
    return read


def projected(read: ReadBody, fields: str | None) -> ReadBody:
    """Return a reader that cuts JSON bodies down to ``fields``, paths joined by commas; None: ``read`` itself."""
    if fields is None:
        return read
    projection = Projection(fields.split(","))

    def shown(message: StoredMessage) -> bytes:
        return projection.apply(read(message))

    return shown


def show(options: TailOptions, output: MessageOutput, line_format: str | None, read: ReadBody) -> None:
    """Tail to stdout until it is done or interrupted, in ``output`` or by the verbs of ``line_format``."""
    out, stream = sys.stdout.buffer, message_stream(output, color=is_styled(), read=read)
    to_bytes: Formatter = stream if line_format is None else line_formatter(line_format, read)
    run(until_done_or_stopped(tail_work.Tail(options, to_bytes, out).run()))
    out.write(stream.end() if line_format is None else b"")
    out.flush()
