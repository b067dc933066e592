"""Streams end with the browser, their owner, their age and a stop; one that is not read holds back its own events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pymq.console.web.streams import EventAnswer, Streams, TooManyStreams


class Browser:
    """What an answer is sent to. It takes ``takes`` messages, and goes away when it is told to."""

    def __init__(self, takes: int = 1_000_000) -> None:
        self.gone = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self.takes = takes
        self.full = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if len(self.sent) >= self.takes:
            self.full.set()
            await self.gone.wait()
            return
        self.sent.append(dict(message))

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()


class Events:
    """Endless events, counted."""

    def __init__(self, count: int = 1_000_000) -> None:
        self.made = 0
        self.closed = False
        self._count = count
        self.many = asyncio.Event()

    async def __call__(self) -> AsyncIterator[bytes]:
        try:
            while self.made < self._count:
                self.made += 1
                if self.made > 10:
                    self.many.set()
                yield b"data: %d" % self.made
                await asyncio.sleep(0)
        finally:
            self.closed = True


class World:
    """One open stream."""

    def __init__(self, browser: Browser, events: Events, age_max_s: float = 3600) -> None:
        self.streams = Streams()
        self.stream = self.streams.open("reader")
        self.browser, self.events = browser, events
        answer = EventAnswer(self.stream, events(), lambda: self.streams.close(self.stream), age_max_s)
        self.running = asyncio.ensure_future(answer({}, browser.receive, browser.send))

    async def ended(self) -> None:
        await asyncio.wait_for(self.running, 10)
        assert self.events.closed and not len(self.streams)


def test_events_are_sent_until_the_browser_goes() -> None:
    async def work() -> None:
        world = World(Browser(), Events())
        await world.events.many.wait()
        world.browser.gone.set()
        await world.ended()
        assert world.browser.text.startswith("data: 1\n\ndata: 2\n\n") and "event: end" not in world.browser.text

    asyncio.run(work())


def test_the_end_has_a_reason_and_completes_the_answer() -> None:
    async def work() -> None:
        world = World(Browser(), Events())
        await world.events.many.wait()
        world.streams.end_all('the "console" stops')
        await world.ended()
        assert world.browser.text.endswith('event: end\ndata: "the \\"console\\" stops"\n\n')
        assert not world.browser.sent[-1].get("more_body")

    asyncio.run(work())


def test_a_stream_ends_at_its_age() -> None:
    async def work() -> None:
        world = World(Browser(), Events(), age_max_s=0.01)
        await world.ended()
        assert "load it again" in world.browser.text

    asyncio.run(work())


def test_events_that_end_complete_the_answer() -> None:
    async def work() -> None:
        world = World(Browser(), Events(3))
        await world.ended()
        assert world.browser.text == "data: 1\n\ndata: 2\n\ndata: 3\n\n" and not world.browser.sent[-1].get("more_body")

    asyncio.run(work())


def test_a_browser_that_does_not_read_holds_back_its_events() -> None:
    async def work() -> None:
        world = World(Browser(takes=3), Events())
        await world.browser.full.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert world.events.made == 3, "the head and two events were taken, one waits"
        world.stream.end("you are logged out")
        for _ in range(100):
            await asyncio.sleep(0)
        assert world.events.made == 3 and not world.running.done(), "the reason waits until the browser reads or goes"
        world.browser.gone.set()
        await world.ended()

    asyncio.run(work())


def test_an_error_of_the_events_ends_the_stream_and_is_raised() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"data: 1"
        raise RuntimeError("broken")

    async def work() -> None:
        streams = Streams()
        stream, browser = streams.open("reader"), Browser()
        with pytest.raises(RuntimeError):
            await EventAnswer(stream, broken(), lambda: streams.close(stream))({}, browser.receive, browser.send)
        assert not len(streams)

    asyncio.run(work())


def test_streams_are_counted_by_owner_and_in_all() -> None:
    streams = Streams(of_owner_max=2, count_max=3)
    first = streams.open("a")
    streams.open("a")
    with pytest.raises(TooManyStreams, match="2 live pages of yours"):
        streams.open("a")
    streams.open("b")
    with pytest.raises(TooManyStreams, match="3 live pages are open"):
        streams.open("c")
    assert streams.refused_count == 2
    streams.close(first)
    assert streams.open("c").owner == "c" and len(streams) == 3
