"""One page of a search through a topic: from its position to the next one, with what it looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pymq.client import MessageQueue, StoredMessage
from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.console.asking.cluster import Cluster
from pymq.console.messages.filters import Filters
from pymq.console.messages.positions import encode_position
from pymq.operations.message.search import BackwardSearch, Found, Limits, QueueParts, Range, Stop, ranges_of

FOUND_MAX: Final = 50
SCANNED_MAX: Final = 50_000
TIME_MAX_MS: Final = 3_000  # a page has 10 s for this, for what is asked before, and for a block that is slow
FIRST_BLOCK_MIN: Final = 8
LIMITS: Final = Limits(FOUND_MAX, SCANNED_MAX, TIME_MAX_MS)

Row = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """Which part of a topic is searched. Times are store times in Unix ms; None: without a bound.

    ``at``: from where the search goes on; None at its begin. ``scanned``: what it looked at before.
    """

    topic: str
    begin_ms: int | None = None
    end_ms: int | None = None
    at: dict[MessageQueue, int] | None = None
    scanned: int = 0

    def takes(self, message: StoredMessage) -> bool:
        """Return whether a message was stored between the times."""
        time_ms = message.store_timestamp_ms
        return (self.begin_ms is None or time_ms >= self.begin_ms) and (self.end_ms is None or time_ms < self.end_ms)


@dataclass(frozen=True)
class Scan:
    """What a page of a search found. ``scanned`` and ``total``: of the whole search so far, in messages.

    ``unread_bodies``: the number of bodies too large or too damaged for a filter; ``unfiltered``: of messages on which
    a plug-in failed. ``back_to_ms``: all newer messages were looked at. ``position``: "" at the end. ``missing``: why
    something is, by broker or parameter.
    """

    rows: list[Row]
    scanned: int
    total: int
    queues: int
    back_to_ms: int | None
    stop: Stop | None
    position: str
    unread_bodies: int = 0
    unfiltered: int = 0
    missing: dict[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return the plain values of the page's JSON."""
        return {
            "messages": self.rows,
            "scanned": self.scanned,
            "of": self.total,
            "queues": self.queues,
            "back_to_ms": self.back_to_ms,
            "stopped_at": None if self.stop is None else str(self.stop),
            "position": self.position or None,
            "unread_bodies": self.unread_bodies,
            "unfiltered": self.unfiltered,
        }


async def scan(
    cluster: Cluster,
    clock: Clock,
    span: Span,
    filters: Filters,
    to_row: Callable[[StoredMessage], Row],
    takes: Callable[[StoredMessage], bool] = lambda message: True,
    *,
    question: tuple[str, ...] = (),
    limits: Limits | None = None,
    report: Callable[[Scan], None] | None = None,
    kept_ms: int | None = None,
) -> Scan:
    """Search a part of a topic, and return the page. Raises BadRequest for a wrong filter, PymqError.

    ``takes``: a further condition, of which ``question`` says all that matters. ``report``: gets what is found so far,
    unless the same search is on its way already. ``kept_ms``: the age up to which an earlier answer is taken.
    """
    selection, bodies = filters.selection()
    limits = limits or LIMITS

    async def ask(admin: Admin) -> Scan:
        ranges = await ranges_of(admin, span.topic, span.begin_ms, span.end_ms if span.at is None else None)
        if span.at is not None:
            ranges = {queue: _up_to(each, span.at.get(queue)) for queue, each in ranges.items()}
        parts = QueueParts(cluster.reader.pull, selection, to_row, lambda one: span.takes(one) and takes(one))
        block = max(FIRST_BLOCK_MIN, limits.found_max // max(1, len(ranges)) + 1)

        def scanned(found: Found[Row], *, is_whole: bool) -> Scan:
            notes = {"sql": "; ".join(bodies.notes)} if bodies.notes else {}
            return _scan(found, span, bodies.unread_count, selection.failed_count, notes, is_whole=is_whole)

        reporting = None if report is None else lambda found: report(scanned(found, is_whole=False))
        return scanned(await BackwardSearch(parts, clock, limits, block, reporting).find(ranges), is_whole=True)

    place = (span.topic, span.begin_ms, span.end_ms, encode_position(span.at or {}), span.scanned)
    key = ("scan", place, limits, question, *filters.given.items())
    return await cluster.ask(key, ask, kept_ms=kept_ms)


def _up_to(whole: Range, end: int | None) -> Range:
    """Return what is left of a queue; nothing of a queue that was not there when the search began."""
    return Range(whole.first, whole.first if end is None else max(whole.first, min(end, whole.end)))


def _scan(
    found: Found[Row], span: Span, unread_bodies: int, unfiltered: int, notes: dict[str, str], *, is_whole: bool
) -> Scan:
    """Return the page of what was found. ``is_whole``: the search has ended, where it is now."""
    scanned = span.scanned + found.scanned
    failed = {queue.broker_name: why for queue, why in found.failed.items()}
    goes_on = not is_whole or found.stop is not None or bool(found.failed)
    return Scan(
        found.rows,
        scanned,
        scanned + found.left,
        len(found.reached),
        found.back_to_ms,
        found.stop,
        encode_position(found.reached) if goes_on else "",
        unread_bodies,
        unfiltered,
        failed | notes,
    )
