"""Reads the header fields of answers; a missing or wrong field is reported as the server's fault."""

from __future__ import annotations

from pymq.errors import ProtocolViolation, Refusal
from pymq.wire.command import Command
from pymq.wire.header import HeaderT, decode_header


def read_answer(cls: type[HeaderT], answer: Command, address: str) -> HeaderT:
    """Return the typed header of ``answer``. Raises ProtocolViolation that names ``address`` and the bad field."""
    try:
        return decode_header(cls, answer.ext)
    except Refusal as error:
        raise ProtocolViolation(
            "answer-header", f"{address} answered with unusable fields: {error.__cause__}"
        ) from error
