"""``pymq filter eval``: writes one answer for each line, even for a malformed one; compiles each expression once."""

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
    """The fields of a line; other fields are ignored."""

    expr: str
    props: dict[str, str | int | float | bool | None] | None = None
    tags: str | None = None
    body: str | None = None
    filter: str | None = None


class Evaluator:
    """Answers lines. A filter keeps its state across all lines with the same expression."""

    def __init__(self, filters: FilterRegistry, default_filter: str, clock: Clock) -> None:
        self._filters = filters
        self._default_filter = default_filter
        self._clock = clock
        self._decode = msgspec.json.Decoder(Line).decode
        self._cache: OrderedDict[tuple[str, str], RunningFilter | PymqError] = OrderedDict()
        self._count = 0

    def answer(self, line: bytes) -> bytes:
        """Return the answer with a line end; never raises for the content of the line."""
        try:
            question = self._decode(line)
            running = self._running(question.filter or self._default_filter, question.expr)
            outcome = running.match((self._message(question),))[0]
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return _error(f"the line is not a JSON object with expr and props: {error}")
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
        """Return the filter or its error; both are cached, so that a wrong expression on every line is parsed once."""
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
    """Return a value as text, the only kind RocketMQ stores. Raises UsageError for separators in name or value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if any(mark in name or mark in text for mark in _SEPARATORS):
        raise UsageError(f"property {name!r} holds U+0001 or U+0002, which separate properties: leave them out")
    return text


def _error(text: str) -> bytes:
    # json.dumps escapes all but ASCII: a lone surrogate of an echoed text could not be encoded otherwise.
    return b'{"error": ' + json.dumps(text).encode() + b"}\n"


def answer_lines(source: Any, out: BinaryIO, answer: Callable[[bytes], bytes]) -> None:
    """Answers each line of ``source`` as soon as it arrives; lines that arrive together get one write."""
    for lines in _arriving_lines(source):
        out.write(b"".join([_too_long() if line is None else answer(line) for line in lines]))
        out.flush()


def _too_long() -> bytes:
    return _error(f"the line is over {LINE_SIZE_MAX_BYTES} bytes: send less in one line")


def _arriving_lines(source: Any) -> Iterator[list[bytes | None]]:
    """Yield whole lines as they arrive, and None for a line that is too long; its bytes are not kept."""
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
