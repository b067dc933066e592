"""The endpoint that Prometheus scrapes: ``/metrics``, and ``/-/healthy`` for liveness checks.

A scrape runs on the role's own event loop, where it can read all figures directly. It runs in slices of a millisecond.
All scrapes take turns, and others have theirs after each slice. While those have work to do, a scrape also rests twice
as long as its slice took. So however many clients ask for however many topics, they take at most a third of a busy
loop's time, and delay another client by some milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

from pymq.errors import UsageError
from pymq.metrics.exposition import CONTENT_TYPE, slices
from pymq.metrics.family import Collector
from pymq.metrics.process import ProcessMetrics
from pymq.model.hosts import format_address
from pymq.net.http import HttpAccess, HttpLimits, HttpServer, Page
from pymq.net.memory_budget import MemoryBudget

METRICS_PATH = "/metrics"
HEALTH_PATH = "/-/healthy"
REST_FACTOR = 2.0
BUSY_SHARE = 0.1  # of a slice's time: others that take longer after it have work to do


class MetricsEndpoint:
    """Serves the figures of ``collectors`` and of the process.

    ``collectors`` and ``labels`` are called at each scrape; the labels are on every line.
    """

    def __init__(
        self,
        collectors: Callable[[], Sequence[Collector]],
        labels: Callable[[], Mapping[str, str]],
        access: HttpAccess | None = None,
        *,
        limits: HttpLimits | None = None,
        budget: MemoryBudget | None = None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``access``: what scrapers need; ``budget`` counts what they have not read; ``now_s`` measures slices."""
        self.address = ""
        self._collectors = collectors
        self._labels = labels
        self._now_s = now_s
        self._process = ProcessMetrics()
        self._turn = asyncio.Lock()
        pages = {METRICS_PATH: Page(CONTENT_TYPE, self.text), HEALTH_PATH: Page("text/plain", _healthy, is_open=True)}
        self._server = HttpServer(pages, access, limits=limits, budget=budget)

    async def start(self, host: str, port: int) -> str:
        """Listen on ``host:port`` (0: any free port) and return the address.

        Raises UsageError when that is not possible.
        """
        try:
            bound = await self._server.start(host, port)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"metrics can't be served on {format_address(host, port)}: {error}; choose another port with "
                "--metrics-port (0 for any free one) or another metricsPromExporterHost"
            ) from error
        self.address = format_address(host, bound)
        return self.address

    async def stop(self) -> None:
        await self._server.stop()

    async def text(self) -> AsyncGenerator[bytes]:
        """Yield the text of a scrape in pieces."""
        pieces = slices([*self._collectors(), self._process], self._labels(), self._now_s)
        while (piece := await self._next(pieces)) is not None:
            yield piece

    async def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        """Return the next slice, after a rest while the loop is busy; slice and rest are one turn."""
        async with self._turn:
            begun_s = self._now_s()
            piece = next(pieces, None)
            made_s = self._now_s()
            await asyncio.sleep(0)
            if self._now_s() - made_s > (made_s - begun_s) * BUSY_SHARE:
                await asyncio.sleep((made_s - begun_s) * REST_FACTOR)
        return piece


async def _healthy() -> AsyncGenerator[bytes]:
    yield b"ok\n"
