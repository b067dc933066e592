"""fastjson's dialect of JSON: bare numbers and whole objects as map keys, which strict parsers refuse.

``loads`` reads it, and uses msgspec for strict JSON. :mod:`pymq.wire.admin_text` writes it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pymq.errors import PymqError
from pymq.model.message import MessageQueue

NESTING_MAX = 64
# An object as a key becomes text. An object inside that key becomes text inside text, and its quotes double each time.
KEY_LENGTH_MAX = 4096
# Plain Python reads the dialect, some MB a second. The limit keeps a peer's input from blocking a server.
ODD_SIZE_MAX_BYTES = 64 * 1024 * 1024


class JsonError(PymqError):
    """The text is neither strict JSON nor fastjson's dialect."""


def loads(data: bytes | str, *, odd_size_max_bytes: int = ODD_SIZE_MAX_BYTES) -> Any:
    """Parse strict JSON or fastjson's dialect.

    An object key becomes a MessageQueue when it has the three members, else its compact JSON text. A bare number key
    becomes a decimal string. Raises JsonError, also for text of more than ``odd_size_max_bytes`` that is not strict
    JSON.
    """
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    if len(raw) > odd_size_max_bytes:
        raise JsonError(f"not strict JSON, and {len(raw)} bytes are too many for fastjson's dialect: send strict JSON")
    try:
        return _Parser(raw.decode("utf-8", "replace")).parse()
    except (ValueError, TypeError, IndexError, ArithmeticError, RecursionError) as error:
        raise JsonError(f"not JSON: {error}") from error


class _Parser:
    """A recursive descent parser with linear time and bounded depth."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._scan_string = json.decoder.scanstring  # type: ignore[attr-defined]

    def parse(self) -> Any:
        value = self._value(0)
        self._skip_blanks()
        if self._at != len(self._text):
            raise ValueError(f"text after the end at {self._at}")
        return value

    def _skip_blanks(self) -> None:
        text, at = self._text, self._at
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        self._at = at

    def _value(self, depth: int) -> Any:
        if depth > NESTING_MAX:
            raise ValueError(f"nested deeper than {NESTING_MAX}")
        self._skip_blanks()
        lead = self._text[self._at]
        if lead == "{":
            return self._object(depth)
        if lead == "[":
            return self._array(depth)
        if lead == '"':
            value, self._at = self._scan_string(self._text, self._at + 1, False)
            # Half of an escaped pair can't be written again; Java writes a question mark for it.
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        return self._literal()

    def _object(self, depth: int) -> dict[Any, Any]:
        self._at += 1
        result: dict[Any, Any] = {}
        while True:
            self._skip_blanks()
            if self._text[self._at] == "}":
                self._at += 1
                return result
            key = self._key(self._value(depth + 1))
            self._skip_blanks()
            if self._text[self._at] != ":":
                raise ValueError(f"':' expected at {self._at}")
            self._at += 1
            result[key] = self._value(depth + 1)
            self._separator("}")

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        result: list[Any] = []
        while True:
            self._skip_blanks()
            if self._text[self._at] == "]":
                self._at += 1
                return result
            result.append(self._value(depth + 1))
            self._separator("]")

    def _separator(self, closer: str) -> None:
        self._skip_blanks()
        if self._text[self._at] == ",":
            self._at += 1
        elif self._text[self._at] != closer:
            raise ValueError(f"',' or '{closer}' expected at {self._at}")

    def _literal(self) -> Any:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in " \t\r\n,:]}":
            self._at += 1
        word = self._text[start : self._at]
        if word in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[word]
        if len(word) > 400:
            raise ValueError(f"a number of {len(word)} digits at {start}")
        try:
            return int(word)
        except ValueError:
            return float(word)

    def _key(self, value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() >= {"topic", "brokerName", "queueId"}:
                return MessageQueue(str(value["topic"]), str(value["brokerName"]), int(value["queueId"]))
            text = json.dumps(value, separators=(",", ":"), sort_keys=True)
            if len(text) > KEY_LENGTH_MAX:
                raise ValueError(f"a key of {len(text)} characters, the limit is {KEY_LENGTH_MAX}")
            return text
        if isinstance(value, list):
            raise ValueError("a list as a key")
        if isinstance(value, str):
            return value
        # Write true, false and null as Java does, not as Python does.
        return json.dumps(value)
