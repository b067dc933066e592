"""Streams of server-sent events: so many by owner and in all, each ended by its browser, its owner, its age or a stop.

A browser that does not read holds back its own stream: an event is made when the one before it has been taken.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from pymq.console.web.asgi import Receive, Scope, Send

STREAMS_OF_OWNER_MAX: Final = 20
STREAM_COUNT_MAX: Final = 200
STREAM_AGE_MAX_S: Final = 3600.0
EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"


class TooManyStreams(Exception):
    """As many streams are open as may be."""


class Stream:
    """One open stream. ``why``: the reason of its end."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.why = ""
        self._ended = asyncio.Event()

    def end(self, why: str) -> None:
        """End the stream. The browser reads the reason."""
        if not self._ended.is_set():
            self.why = why
            self._ended.set()

    async def wait(self) -> None:
        """Wait for the end."""
        await self._ended.wait()


class Streams:
    """The open streams of one console."""

    def __init__(self, of_owner_max: int = STREAMS_OF_OWNER_MAX, count_max: int = STREAM_COUNT_MAX) -> None:
        self._of_owner_max = of_owner_max
        self._count_max = count_max
        self.refused_count = 0
        self._streams: set[Stream] = set()

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, owner: str) -> Stream:
        """Return a new stream of an owner. Raises TooManyStreams."""
        if sum(stream.owner == owner for stream in self._streams) >= self._of_owner_max:
            self.refused_count += 1
            raise TooManyStreams(f"{self._of_owner_max} live pages of yours are open: close one")
        if len(self._streams) >= self._count_max:
            self.refused_count += 1
            raise TooManyStreams(f"{self._count_max} live pages are open: try again later")
        stream = Stream(owner)
        self._streams.add(stream)
        return stream

    def close(self, stream: Stream) -> None:
        """Forget a stream that has ended."""
        self._streams.discard(stream)

    def end_all(self, why: str) -> None:
        """End all streams."""
        for stream in list(self._streams):
            stream.end(why)


class EventAnswer:
    """The answer that sends the events of an iterator until one of the ends of its stream."""

    def __init__(
        self,
        stream: Stream,
        events: AsyncIterator[bytes],
        on_close: Callable[[], None],
        age_max_s: float = STREAM_AGE_MAX_S,
    ) -> None:
        self._stream = stream
        self._events = events
        self._on_close = on_close
        self._age_max_s = age_max_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer. An error of the iterator ends the stream, and is raised."""
        headers = [(b"content-type", EVENT_STREAM), (b"x-accel-buffering", b"no")]
        gone = asyncio.ensure_future(_disconnected(receive))
        ended = asyncio.ensure_future(self._stream.wait())
        sending = asyncio.ensure_future(self._send(send))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            done, _ = await asyncio.wait(
                {gone, ended, sending}, timeout=self._age_max_s, return_when=asyncio.FIRST_COMPLETED
            )
            await _cancelled(sending, ended)
            if gone not in done:
                if not done:
                    self._stream.end(f"a live page ends after {self._age_max_s / 60:g} minutes: load it again")
                await self._say_end(send, gone)
            if sending in done:
                sending.result()
        finally:
            await _cancelled(gone, ended, sending)
            self._on_close()
            await _closed(self._events)

    async def _send(self, send: Send) -> None:
        async for event in self._events:
            await send({"type": "http.response.body", "body": event + b"\n\n", "more_body": True})

    async def _say_end(self, send: Send, gone: asyncio.Future[None]) -> None:
        """Send the reason, unless the browser goes away before it reads."""
        last = b"event: end\ndata: " + json.dumps(self._stream.why).encode() + b"\n\n" if self._stream.why else b""
        saying = asyncio.ensure_future(send({"type": "http.response.body", "body": last}))
        await asyncio.wait({saying, gone}, return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(saying)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _closed(events: AsyncIterator[bytes]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(events, "aclose", None)
    if close is not None:
        await close()
