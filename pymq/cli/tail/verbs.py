"""The verbs of ``--format``: a line of the user's own making for each message."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from pymq.cli.common.message_text import Formatter, shown_bytes
from pymq.cli.output import printable
from pymq.errors import UsageError
from pymq.model.record import StoredMessage
from pymq.operations.message.content import ReadBody, content
from pymq.operations.message.fields import MISSING, body_value, field_text, look_up, parse_path
from pymq.operations.times import iso_time, local_time

Piece = Callable[[StoredMessage, bytes], str]

_VERBS: dict[str, tuple[str, Piece]] = {
    "t": ("topic", lambda message, _: message.topic),
    "B": ("broker", lambda message, _: message.broker_name),
    "q": ("queue", lambda message, _: str(message.queue_id)),
    "o": ("offset", lambda message, _: str(message.queue_offset)),
    "i": ("message id", lambda message, _: printable(message.message_id)),
    "I": ("offset message id", lambda message, _: message.offset_message_id),
    "g": ("tag", lambda message, _: printable(message.tags)),
    "k": ("keys", lambda message, _: printable(message.keys)),
    "b": ("body, safe for a terminal", lambda _, body: shown_bytes(body)),
    "s": ("size of the body in bytes", lambda _, body: str(len(body))),
    "d": ("store time, local", lambda message, _: local_time(message.store_timestamp_ms)),
    "D": ("store time, ISO 8601", lambda message, _: iso_time(message.store_timestamp_ms)),
    "m": ("store time, Unix ms", lambda message, _: str(message.store_timestamp_ms)),
    "c": ("born time, ISO 8601", lambda message, _: iso_time(message.born_timestamp_ms)),
    "h": ("born host", lambda message, _: "{}:{}".format(*message.born_address)),
    "r": ("number of retries", lambda message, _: str(message.reconsume_times)),
    "p": ("all properties as JSON", lambda message, _: json.dumps(message.properties, ensure_ascii=True)),
}
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_TOKEN = re.compile(r"%(?:\{([^}]*)\}|\[((?:[^\[\]]|\[\d+\])*)\]|(.?))|\\(.)|([^%\\]+|\\)", re.DOTALL)


def verb_meanings() -> dict[str, str]:
    """Return what each verb stands for, for the documentation."""
    return {f"%{letter}": meaning for letter, (meaning, _) in _VERBS.items()}


def line_formatter(text: str, read: ReadBody = content) -> Formatter:
    r"""Return a function from a message to its line, with a line end.

    ``%{NAME}`` is a property, ``%[PATH]`` a field of a JSON body, ``%%`` a percent sign, ``\n`` and ``\t`` line end and
    tab. Missing values are ``-``. Raises UsageError for an unknown verb.
    """
    pieces = [_piece(match, text) for match in _TOKEN.finditer(text)]

    def line(message: StoredMessage) -> bytes:
        body = read(message)
        return ("".join(piece(message, body) for piece in pieces) + "\n").encode()

    return line


def _piece(match: re.Match[str], text: str) -> Piece:
    name, path, letter, escaped, plain = match.groups()
    if name is not None:
        return lambda message, _: printable(message.properties.get(name, "-"))
    if path is not None:
        return _field(path)
    if plain is not None:
        return _constant(plain)
    if escaped is not None:
        return _constant(_ESCAPES.get(escaped, "\\" + escaped))
    if letter == "%":
        return _constant("%")
    if letter not in _VERBS:
        verbs = " ".join((*verb_meanings(), "%{NAME}", "%[PATH]", "%%"))
        raise UsageError(f"--format {text!r}: no verb %{letter} at character {match.start() + 1}: use {verbs}")
    found = _VERBS[letter][1]
    return lambda message, body: found(message, body) or "-"


def _constant(text: str) -> Piece:
    return lambda _message, _body: text


def _field(path_text: str) -> Piece:
    path = parse_path(path_text)

    def piece(_: StoredMessage, body: bytes) -> str:
        value = body_value(body)
        found = MISSING if value is MISSING else look_up(value, path)
        return "-" if found is MISSING else printable(field_text(found))

    return piece
