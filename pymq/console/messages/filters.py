"""The filters of message pages: parameters of an address, made into a selection of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from typing import Final

from pymq.client import StoredMessage
from pymq.client.subscription import parse_subscription
from pymq.console.pages.page import NotShown
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import PymqError
from pymq.model.compression import InflateError, decompress_body
from pymq.operations.filters import parse_plugin
from pymq.operations.message.fields import Condition, PropertyCondition
from pymq.operations.message.selection import MessageSelection
from pymq.units import parse_time_ms

EXPRESSION_LENGTH_MAX: Final = 2048
TIME_LENGTH_MAX: Final = 64
SEARCHED_BODY_BYTES_MAX: Final = 8 * 1024 * 1024
# A value of JSON takes ten times the bytes of its text in memory.
SEARCHED_JSON_BYTES_MAX: Final = 1024 * 1024
FIELDS: Final = ("tag", "sql", "filter", "property", "text", "json")


@dataclass(slots=True)
class Bodies:
    """Reads bodies for filters. Bodies that are too large, or damaged, are counted and match nothing.

    ``notes``: what brokers will not heed of an expression.
    """

    size_max_bytes: int
    unread_count: int = 0
    notes: list[str] = field(default_factory=list)

    def read(self, message: StoredMessage) -> bytes:
        """Return the body as its producer wrote it, or nothing."""
        try:
            body = decompress_body(message.body, message.sys_flag, self.size_max_bytes)
        except InflateError:
            self.unread_count += 1
            return b""
        if len(body) > self.size_max_bytes:
            self.unread_count += 1
            return b""
        return body


@dataclass(frozen=True)
class Filters:
    """What a page's parameters say about the messages to show; ``texts``: as they were given, by parameter."""

    texts: dict[str, str]

    @classmethod
    def of(cls, parameters: Parameters, *, shows_bodies: bool) -> Filters:
        """Return the filters of an address. Raises BadRequest; NotShown where a filter could find out contents."""
        texts = {name: parameters.text(name, "", length_max=EXPRESSION_LENGTH_MAX).strip() for name in FIELDS}
        for name, text in texts.items():
            if text and not shows_bodies:
                raise NotShown(name, "this console was started with --no-bodies, so nothing searches in contents")
        return cls(texts)

    @classmethod
    def none(cls) -> Filters:
        """Return filters that every message passes."""
        return cls(dict.fromkeys(FIELDS, ""))

    @property
    def given(self) -> dict[str, str]:
        """The filters that are not empty, by parameter."""
        return {name: text for name, text in self.texts.items() if text}

    def selection(self) -> tuple[MessageSelection, Bodies]:
        """Return a selection, and what it reads bodies with. Raises BadRequest with the parameter's name."""
        texts = self.texts
        bodies = Bodies(SEARCHED_JSON_BYTES_MAX if texts["json"] else SEARCHED_BODY_BYTES_MAX)
        with _named("tag"):
            parse_subscription("", texts["tag"], 0)
        with _named("json"):
            where = [Condition(texts["json"].removeprefix("$."))] if texts["json"] else []
        if any(each.is_pattern for each in where):
            raise BadRequest("json", "regular expressions are for pymq tail --where: compare with = != < <= > >=")
        with _named("property"):
            having = [PropertyCondition(texts["property"])] if texts["property"] else []
        with _named("filter"):
            plugin = parse_plugin(texts["filter"] or None, None, None)
        with _named("sql" if texts["sql"] else "filter"):
            selection = MessageSelection(
                tag=texts["tag"] or "*",
                sql=texts["sql"] or None,
                text=texts["text"] or None,
                plugin=plugin,
                where=where,
                having=having,
                read=bodies.read,
                note=bodies.notes.append,
            )
        return selection, bodies

    def options(self) -> list[str]:
        """Return the options of ``pymq tail`` that say the same, as far as it has them."""
        names = {"tag": "--tag", "sql": "--sql", "filter": "--filter", "json": "--where"}
        found = [part for name, text in self.given.items() if name in names for part in (names[name], text)]
        return found + (["--grep", re.escape(self.texts["text"])] if self.texts["text"] else [])


def time_of(parameters: Parameters, name: str, now_ms: int) -> int | None:
    """Return a time in Unix ms: ``-1h``, or as in ISO 8601, in UTC without a zone; None without. Raises BadRequest."""
    text = parameters.text(name, "", length_max=TIME_LENGTH_MAX).strip()
    if not text:
        return None
    with _named(name):
        return parse_time_ms(text, now_ms, UTC)


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except PymqError as error:
        raise BadRequest(name, str(error)) from None
