"""A search while it goes on, as a stream of events: how far it is, and what it has found so far.

The page of the same search takes its result, which is kept for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlencode

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.console.messages.filters import Filters
from pymq.console.messages.rows import message_row
from pymq.console.messages.scan import Scan, Span, scan
from pymq.console.messages.search import begun_of, fixed_times, span_of
from pymq.console.messages.tail import event
from pymq.console.pages.links import message_path
from pymq.console.pages.page import PAGE_TIMEOUT_S, Events, Visit
from pymq.errors import PymqError
from pymq.model.names import RETRY_TOPIC_LENGTH_MAX
from pymq.operations.message.search import Range, ranges_of

PERIOD_S: Final = 0.5


async def search_events(visit: Visit) -> Events:
    """Return the stream of the search that the address means. Raises BadRequest, NotShown, PymqError."""
    topic = visit.parameters.text("topic", length_max=RETRY_TOPIC_LENGTH_MAX).strip()
    filters = Filters.of(visit.parameters, shows_bodies=visit.shows_bodies)
    filters.selection()

    async def ask(admin: Admin) -> dict[MessageQueue, Range]:
        return await ranges_of(admin, topic, None, None)

    await visit.cluster.ask(("ends", topic), ask)  # so that a refusal is an answer, and no stream
    now_ms = visit.clock.now_ms()
    progress = Progress(visit, filters, span_of(visit, topic, now_ms), begun_of(visit, now_ms))
    return Events(progress.events())


class Progress:
    """One search that is on its way."""

    def __init__(self, visit: Visit, filters: Filters, span: Span, begun_ms: int) -> None:
        self._visit = visit
        self._filters = filters
        self._span = span
        self._begun_ms = begun_ms
        self._latest: Scan | None = None
        self._shown_count = 0

    async def events(self) -> AsyncIterator[bytes]:
        """Yield how far it is, at most each :data:`PERIOD_S`, and at the end where its page is. It ends with them."""
        searching = asyncio.ensure_future(self._search())
        try:
            while not searching.done():
                await asyncio.wait({searching}, timeout=PERIOD_S)
                if self._latest is not None and not searching.done():
                    yield event("progress", self._said(self._latest))
                    self._latest = None
            searching.result()
            yield event("done", {"query": self._query({})})
        except TimeoutError:
            yield event("problem", f"the cluster did not answer within {PAGE_TIMEOUT_S:g} s")
        except PymqError as error:
            yield event("problem", str(error))
        finally:
            searching.cancel()
            await asyncio.gather(searching, return_exceptions=True)

    async def _search(self) -> Scan:
        async with asyncio.timeout(PAGE_TIMEOUT_S):
            return await scan(
                self._visit.cluster,
                self._visit.clock,
                self._span,
                self._filters,
                lambda one: message_row(one, shows_bodies=self._visit.shows_bodies),
                report=self._note,
            )

    def _note(self, found: Scan) -> None:
        self._latest = found

    def _said(self, found: Scan) -> dict[str, Any]:
        rows = found.rows[self._shown_count :]
        self._shown_count += len(rows)
        return {
            "scanned": found.scanned,
            "of": found.total,
            "found": self._shown_count,
            "rows": [row | {"path": message_path(row["topic"], row["id"])} for row in rows],
            "query": self._query({"at": found.position, "scanned": found.scanned}),
        }

    def _query(self, changes: dict[str, Any]) -> str:
        """Return the query of the page, or of the one that goes on."""
        return urlencode(self._visit.parameters.with_changes(fixed_times(self._span, self._begun_ms) | changes))
