"""The metrics of a machine: which workers are up, and the metrics of all of them, at one port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from time import perf_counter

from pymq.metrics.endpoint import HEALTH_PATH, METRICS_PATH
from pymq.metrics.exposition import CONTENT_TYPE, slices
from pymq.metrics.family import Family, Reading, counter, gauge
from pymq.model.hosts import format_address
from pymq.net.http import HttpAccess, HttpServer, Page
from pymq.workers.merging import merged
from pymq.workers.supervisor import Supervised, Supervisor

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 8.0  # Prometheus waits ten
PIECE_BYTES = 64 * 1024

WORKER_UP = gauge("pymq_worker_up", "1 while the worker serves, 0 while it does not.", "node_id")
WORKER_LEFT_DOWN = gauge(
    "pymq_worker_left_down",
    "1 when the worker ended five times within a minute and is not started again before a SIGHUP.",
    "node_id",
)
WORKER_LEFT = gauge(
    "pymq_worker_left_messages",
    "Messages that a worker which retires still has to give, those of each group counted alone; no line for others.",
    "node_id",
)
WORKER_RESTARTS = counter("pymq_worker_restarts_total", "Starts of the worker after its first one.", "node_id")


class WorkersMetrics:
    """What the process that runs the workers knows of them."""

    metrics = (WORKER_UP, WORKER_LEFT_DOWN, WORKER_RESTARTS, WORKER_LEFT)

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def collect(self) -> Iterator[Family]:
        found = self._supervisor.supervised
        yield Family(WORKER_UP, [Reading((one.worker.name,), one.is_up) for one in found])
        yield Family(WORKER_LEFT_DOWN, [Reading((one.worker.name,), one.restarts.is_left_down) for one in found])
        yield Family(WORKER_RESTARTS, [Reading((one.worker.name,), one.restarts.restart_count) for one in found])
        left = [(one.worker.name, one.left) for one in found if one.retires and one.left is not None]
        yield Family(WORKER_LEFT, [Reading((name,), sum(counts.values())) for name, counts in left])


class WorkersEndpoint:
    """Serves the metrics of all workers. One that does not answer is left out, and its ``pymq_worker_up`` is 0."""

    def __init__(self, supervisor: Supervisor, labels: Mapping[str, str], access: HttpAccess | None = None) -> None:
        self._supervisor = supervisor
        self._labels = labels
        self._own = WorkersMetrics(supervisor)
        pages = {METRICS_PATH: Page(CONTENT_TYPE, self.text), HEALTH_PATH: Page("text/plain", _healthy, is_open=True)}
        self._server = HttpServer(pages, access)

    async def start(self, host: str, port: int) -> str:
        """Listen on ``host:port`` (0: any free port) and return the address. Raises OSError."""
        return format_address(host, await self._server.start(host, port))

    async def stop(self) -> None:
        await self._server.stop()

    async def text(self) -> AsyncGenerator[bytes]:
        """Yield the text of a scrape in pieces."""
        texts = await asyncio.gather(*map(_text_of, self._supervisor.supervised))
        own = b"".join(slices([self._own], self._labels, perf_counter)).decode()
        whole = merged([own, *texts]).encode()
        for at in range(0, len(whole), PIECE_BYTES):
            yield whole[at : at + PIECE_BYTES]


async def _text_of(one: Supervised) -> str:
    """Return a worker's metrics, empty when it does not answer in time."""
    if one.process is None or not one.process.is_ready:
        return ""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return (await one.process.metrics()).decode()
    except (OSError, EOFError, TimeoutError, ValueError) as error:
        log.warning("worker %s gives no metrics: %s", one.worker.name, error or type(error).__name__)
        return ""


async def _healthy() -> AsyncGenerator[bytes]:
    yield b"ok\n"
