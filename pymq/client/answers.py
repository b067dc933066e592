"""Reads the named fields of answers: a field that is missing is the server's fault and is told as that."""

from __future__ import annotations

from pymq.errors import ProtocolViolation, Refusal
from pymq.wire.command import Command
from pymq.wire.header import HeaderT, decode_header


def read_answer(cls: type[HeaderT], answer: Command, address: str) -> HeaderT:
    """The typed header of ``answer``. Raises ProtocolViolation naming ``address`` and the missing or wrong field."""
    try:
        return decode_header(cls, answer.ext)
    except Refusal as error:
        raise ProtocolViolation(
            "answer-header", f"{address} answered with unusable fields: {error.__cause__}"
        ) from error
