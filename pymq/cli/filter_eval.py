"""``pymq filter eval``: one answer a line, whatever the line is; expressions are compiled once."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from pymq.clock import Clock
from pymq.errors import FilterError, PymqError, UsageError
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import FilterRegistry
from pymq.filter.running import RunningFilter
from pymq.model.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS

LINE_SIZE_MAX_BYTES = 16 * 1024 * 1024
FILTER_CACHE_COUNT = 512
_CHUNK_BYTES = 256 * 1024

_RESULTS = {True: b'{"result": true}\n', False: b'{"result": false}\n', None: b'{"result": null}\n'}
_SEPARATORS = (NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR)


class Line(msgspec.Struct):
    """What a line may hold; other fields are ignored."""

    expr: str
    props: dict[str, str | int | float | bool | None] | None = None
    tags: str | None = None
    body: str | None = None
    filter: str | None = None


class Evaluator:
    """Answers lines. A filter with state keeps it for all lines with its expression."""

    def __init__(self, filters: FilterRegistry, default_filter: str, clock: Clock) -> None:
        self._filters = filters
        self._default_filter = default_filter
        self._clock = clock
        self._decode = msgspec.json.Decoder(Line).decode
        self._cache: OrderedDict[tuple[str, str], RunningFilter | PymqError] = OrderedDict()
        self._count = 0

    def answer(self, line: bytes) -> bytes:
        """The answer with its line's end; never raises for what the line says."""
        try:
            asked = self._decode(line)
            running = self._running(asked.filter or self._default_filter, asked.expr)
            outcome = running.match((self._message(asked),))[0]
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return _error(f"the line is no JSON object with expr and props: {error}")
        except PymqError as error:
            return _error(str(error))
        return _error(str(outcome)) if isinstance(outcome, FilterError) else _RESULTS[outcome]

    def _running(self, name: str, expression: str) -> RunningFilter:
        key = (name, expression)
        found = self._cache.get(key)
        if found is None:
            found = self._compiled(name, expression)
            self._cache[key] = found
            if len(self._cache) > FILTER_CACHE_COUNT:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        if isinstance(found, PymqError):
            raise found.with_traceback(None)
        return found

    def _compiled(self, name: str, expression: str) -> RunningFilter | PymqError:
        """Refusals are kept too: a wrong expression on every line is parsed once."""
        try:
            return RunningFilter(self._filters.find(name), expression, clock=self._clock)
        except PymqError as error:
            return error.with_traceback(None)

    def _message(self, line: Line) -> FilterMessage:
        properties = {name: _property(name, value) for name, value in (line.props or {}).items() if value is not None}
        if line.tags:
            properties.setdefault(TAGS, _property(TAGS, line.tags))
        self._count += 1
        body = (line.body or "").encode()
        return FilterMessage(queue_offset=self._count - 1, properties=properties, body=body)


def _property(name: str, value: str | float) -> str:
    """A property's text: RocketMQ knows no other values. Raises UsageError for what can't be stored."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if any(mark in name or mark in text for mark in _SEPARATORS):
        raise UsageError(f"property {name!r} holds U+0001 or U+0002, which separate properties: leave them out")
    return text


def _error(text: str) -> bytes:
    # Escapes for all but ASCII: half a surrogate pair out of a text that was echoed could not be written otherwise.
    return b'{"error": ' + json.dumps(text).encode() + b"}\n"


def answer_lines(source: Any, out: BinaryIO, answer: Callable[[bytes], bytes]) -> None:
    """Answers each line of ``source`` as soon as it is there; what arrives together is answered in one write."""
    for lines in _arriving_lines(source):
        out.write(b"".join([_too_long() if line is None else answer(line) for line in lines]))
        out.flush()


def _too_long() -> bytes:
    return _error(f"the line is over {LINE_SIZE_MAX_BYTES} bytes: send less in one line")


def _arriving_lines(source: Any) -> Iterator[list[bytes | None]]:
    """Whole lines, as they come in; None stands for one that is too long, which is not kept."""
    rest, too_long = b"", False
    while chunk := source.read1(_CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
        found: list[bytes | None] = [line if len(line) <= LINE_SIZE_MAX_BYTES else None for line in lines]
        if found and too_long:
            found[0], too_long = None, False
        if len(rest) > LINE_SIZE_MAX_BYTES:
            rest, too_long = b"", True
        elif too_long:
            rest = b""
        if found:
            yield found
    if rest or too_long:
        yield [None if too_long else rest]
