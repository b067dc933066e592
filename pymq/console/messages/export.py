"""Messages as a file of JSON lines that ``pymq send --json-lines`` takes, queue by queue, the oldest first.

The file is made of what a search finds, within limits. Its name says when it is a part, and why: in the file, each line
is a message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from pymq.client import MessageQueue, StoredMessage
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import Clock
from pymq.console.messages.filters import Filters
from pymq.console.messages.message import NO_BODIES
from pymq.console.messages.scan import Scan, Span, scan
from pymq.console.pages.page import Download, NotShown, Visit
from pymq.errors import PymqError
from pymq.model.compression import InflatedSizeError, InflateError, decompress_body
from pymq.model.message import PullResult
from pymq.operations.message.reading import Pull, batch_of
from pymq.operations.message.records import json_line
from pymq.operations.message.search import Limits

COUNT_MAX: Final = 1_000
BYTES_MAX: Final = 4 * 1024 * 1024
INFLATED_BYTES_MAX: Final = 4 * BYTES_MAX  # of all bodies that were read for a file, with bodies that did not fit
SCANNED_MAX: Final = 200_000
SCAN_TIME_MAX_MS: Final = 5_000
END_TIME_MAX_MS: Final = 9_000  # a page has 10 s
READ_COUNT_MAX: Final = 32
LINE_BYTES: Final = 512  # of a line, beside body and properties; a body of bytes is in base64
LIMITS: Final = Limits(COUNT_MAX, SCANNED_MAX, SCAN_TIME_MAX_MS)
LIMITS_TEXT: Final = (
    f"The newest {COUNT_MAX:,} of them, at most {BYTES_MAX // 1024**2} MiB and {SCANNED_MAX:,} messages looked at. "
    "The name of a file says when it is a part, and why."
)


class Cut(StrEnum):
    """Why a file is a part, as its name says it."""

    bytes = f"{BYTES_MAX // 1024**2}-MiB"
    found = f"{COUNT_MAX}-messages"
    scanned = f"{SCANNED_MAX}-looked-at"
    time = "out-of-time"
    brokers = "without-some-brokers"
    gone = "without-deleted-messages"
    damaged = "without-damaged-bodies"


async def file_of(
    visit: Visit,
    name: str,
    span: Span,
    filters: Filters,
    takes: Callable[[StoredMessage], bool] = lambda message: True,
    *,
    question: tuple[str, ...] = (),
) -> Download:
    """Return the file of what a search finds. ``takes``, ``question``: as of :func:`~pymq.console.messages.scan.scan`.

    ``name``: of the file, without its end. Raises NotShown, BadRequest, PymqError.
    """
    if not visit.shows_bodies:
        raise NotShown("export", NO_BODIES)
    begun_ms = visit.clock.monotonic_ms()
    found = await scan(
        visit.cluster,
        visit.clock,
        span,
        filters,
        _place,
        takes,
        question=("export", *question),
        limits=LIMITS,
        kept_ms=0,  # a file does not say how old it is
    )
    places, cut = _newest(found)
    if visit.cluster.unreached:
        cut = cut or Cut.brokers
    async with visit.cluster.holding():
        lines = Lines(visit.cluster.reader.pull, visit.clock, begun_ms + END_TIME_MAX_MS)
        for queue, offsets in sorted(places.items()):
            await lines.read(queue, offsets)
        return download(name, lines, cut)


def download(name: str, lines: Lines, cut: Cut | None = None) -> Download:
    """Return lines as a file, whose name says whether it is a part."""
    cut = lines.cut or cut
    return Download(b"".join(lines.all), f"{name}.jsonl" if cut is None else f"{name}-part-{cut}.jsonl")


class Lines:
    """The lines of one file, in memory, within its limits. ``cut``: why something is left out."""

    def __init__(self, pull: Pull, clock: Clock, end_ms: int) -> None:
        """``end_ms``: when to stop (monotonic)."""
        self.all: list[bytes] = []
        self.cut: Cut | None = None
        self._pull = pull
        self._clock = clock
        self._end_ms = end_ms
        self._left_bytes = BYTES_MAX
        self._inflated_left_bytes = INFLATED_BYTES_MAX

    async def read(self, queue: MessageQueue, offsets: list[int]) -> None:
        """Add the messages at some offsets of a queue. A broker that fails is a reason for a cut."""
        waiting = deque(sorted(offsets))
        while waiting:
            if self._clock.monotonic_ms() >= self._end_ms:
                self.cut = self.cut or Cut.time
                return
            first = waiting[0]
            count = max(each for each in waiting if each < first + READ_COUNT_MAX) - first + 1
            try:
                following = await self._pull(
                    queue, first, count, SubscriptionOptions(), self._taking(first, set(waiting))
                )
            except PymqError:
                self.cut = self.cut or Cut.brokers
                return
            if following <= first:
                self.cut = self.cut or Cut.gone
                return
            while waiting and waiting[0] < following:
                waiting.popleft()

    def add(self, message: StoredMessage) -> None:
        """Add a message, if it fits and its body can be read."""
        room = min(self._left_bytes, self._inflated_left_bytes)
        try:
            body = decompress_body(message.body, message.sys_flag, room)
        except InflatedSizeError:
            self._inflated_left_bytes -= room
            self.cut = self.cut or Cut.bytes
            return
        except InflateError:
            self.cut = self.cut or Cut.damaged
            return
        self._inflated_left_bytes -= len(body)
        line = json_line(message, lambda message: body) if len(body) <= room else b""
        if not line or len(line) > self._left_bytes:
            self.cut = self.cut or Cut.bytes
            return
        self._left_bytes -= len(line)
        self.all.append(line)

    def _taking(self, offset: int, wanted: set[int]) -> Callable[[PullResult], int]:
        def take(result: PullResult) -> int:
            batch = batch_of(result, offset)
            there = [one for one in batch.messages if one.queue_offset in wanted]
            if len(there) < sum(each < batch.next_offset for each in wanted):
                self.cut = self.cut or Cut.gone
            for message in there:
                self.add(message)
            return batch.next_offset

        return take


def _place(message: StoredMessage) -> dict[str, Any]:
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    return {"queue": queue, "offset": message.queue_offset, "size_bytes": message.size_bytes}


def _newest(found: Scan) -> tuple[dict[MessageQueue, list[int]], Cut | None]:
    """Return the places of the newest messages that may fit, by queue, and why others are left out."""
    places: dict[MessageQueue, list[int]] = {}
    cut = Cut[found.stop.name] if found.stop is not None else Cut.brokers if found.position else None
    left_bytes = BYTES_MAX
    for row in found.rows:
        line_bytes = row["size_bytes"] * 4 // 3 + LINE_BYTES
        if line_bytes > left_bytes:  # a larger one must not take the room of others
            cut = Cut.bytes
            continue
        left_bytes -= line_bytes
        places.setdefault(row["queue"], []).append(row["offset"])
    return places, cut
