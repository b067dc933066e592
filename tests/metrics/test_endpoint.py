"""The metrics endpoint: whole texts, concurrent scrapes, their share of the loop's time, a port in use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from pymq.errors import UsageError
from pymq.metrics.endpoint import REST_FACTOR, MetricsEndpoint
from pymq.metrics.exposition import SLICE_S
from pymq.metrics.family import Collector, Family, Metric, Reading, gauge

NUMBERS = gauge("numbers", "Numbers.", "number")


class Numbers:
    """A collector of ``count`` readings."""

    metrics: Sequence[Metric] = (NUMBERS,)

    def __init__(self, count: int) -> None:
        self._count = count

    def collect(self) -> Iterator[Family]:
        yield Family(NUMBERS, (Reading((str(number),), number) for number in range(self._count)))


class Failing:
    metrics: Sequence[Metric] = (NUMBERS,)

    def collect(self) -> Iterator[Family]:
        raise RuntimeError("made to fail")


class Rests:
    """Records the calls of the loop's ``sleep``, with a clock that advances only during work.

    ``is_busy``: others work, too, when a scrape lets them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_busy: bool = True) -> None:
        self.now_s = 0.0
        self._is_busy = is_busy
        self._stands = False
        self.slept_s: list[float] = []
        self._sleep = asyncio.sleep
        monkeypatch.setattr("pymq.metrics.endpoint.asyncio.sleep", self.sleep)

    def work(self) -> float:
        self.now_s += 0 if self._stands else SLICE_S / 4
        self._stands = False
        return self.now_s

    async def sleep(self, time_s: float) -> None:
        if time_s:
            self.slept_s.append(time_s)
        self._stands = not self._is_busy
        await self._sleep(0)


def serve(
    talk: Callable[[MetricsEndpoint], Awaitable[None]],
    *collectors: Collector,
    now_s: Callable[[], float] | None = None,
) -> None:
    async def main() -> None:
        clock: dict[str, Any] = {} if now_s is None else {"now_s": now_s}
        endpoint = MetricsEndpoint(lambda: collectors, lambda: {"node_id": "n"}, **clock)
        await endpoint.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                await talk(endpoint)
        finally:
            await endpoint.stop()

    asyncio.run(main())


async def get(endpoint: MetricsEndpoint, path: str = "/metrics") -> tuple[str, str]:
    """Return status line and body by HTTP/1.0, which does not encode bodies."""
    host, _, port = endpoint.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.partition(b"\r\n")[0].decode(), body.decode()


def test_a_scrape_has_the_roles_figures_and_the_processes() -> None:
    async def talk(endpoint: MetricsEndpoint) -> None:
        status, body = await get(endpoint)
        assert status.endswith("200 OK")
        assert 'numbers{node_id="n",number="2"} 2\n' in body
        assert 'process_cpu_seconds_total{node_id="n"}' in body

    serve(talk, Numbers(3))


def test_health() -> None:
    async def talk(endpoint: MetricsEndpoint) -> None:
        assert await get(endpoint, "/-/healthy") == ("HTTP/1.1 200 OK", "ok\n")

    serve(talk)


def test_many_scrapes_at_once_are_all_whole() -> None:
    async def talk(endpoint: MetricsEndpoint) -> None:
        answers = await asyncio.gather(*[get(endpoint) for _ in range(16)])
        assert [body.count("\nnumbers{") for _, body in answers] == [5000] * 16

    serve(talk, Numbers(5000))


def test_a_failure_reaches_only_its_own_client() -> None:
    async def talk(endpoint: MetricsEndpoint) -> None:
        assert (await get(endpoint))[0].endswith("500 Internal Server Error")
        assert (await get(endpoint, "/-/healthy"))[0].endswith("200 OK")

    serve(talk, Failing())


def test_a_scrape_of_an_idle_role_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    rests = Rests(monkeypatch, is_busy=False)

    async def talk(endpoint: MetricsEndpoint) -> None:
        _, body = await get(endpoint)
        assert body.count("\nnumbers{") == 100

    serve(talk, Numbers(100), now_s=rests.work)
    assert rests.slept_s == []


def test_a_scrape_of_a_busy_role_rests_twice_as_long_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    rests = Rests(monkeypatch)

    async def talk(endpoint: MetricsEndpoint) -> None:
        _, body = await get(endpoint)
        assert body.count("\nnumbers{") == 100

    serve(talk, Numbers(100), now_s=rests.work)
    assert len(rests.slept_s) > 20
    assert all(0 < slept_s <= 3 * SLICE_S * REST_FACTOR for slept_s in rests.slept_s)
    # Clock readings around a slice count for neither.
    assert sum(rests.slept_s) == pytest.approx(REST_FACTOR * rests.now_s, rel=0.3)


def test_a_port_in_use_is_reported_with_the_next_step() -> None:
    async def talk(endpoint: MetricsEndpoint) -> None:
        port = int(endpoint.address.rpartition(":")[2])
        other = MetricsEndpoint(tuple, dict)
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}.*--metrics-port"):
            await other.start("127.0.0.1", port)

    serve(talk)


def test_an_address_of_another_machine_is_reported() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match=r"192\.0\.2\.1:0.*metricsPromExporterHost"):
            await MetricsEndpoint(tuple, dict).start("192.0.2.1", 0)

    asyncio.run(main())
