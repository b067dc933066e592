"""A worker's side of the pipes to its parent: it answers what the parent asks on its standard input.

A request is a line, and the parent sends one at a time. An answer is a line with the number of bytes, then the bytes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

METRICS_REQUEST: Final = "metrics"  # the text of all metrics
LEFT_REQUEST: Final = "left"  # JSON: what the worker still has to give, by kind
INPUT_MAX_BYTES = 4096

Answer = Callable[[], AsyncIterator[bytes]]


def answer_head(size_bytes: int) -> bytes:
    """Return the line before an answer of so many bytes."""
    return b'{"bytes":%d}\n' % size_bytes


class ParentLink:
    """Writes answers to the descriptor ``output``, a pipe, without waiting for the parent to read them."""

    def __init__(self, answers: Mapping[str, Answer], output: int = 1) -> None:
        """``answers`` makes the answer to each request, in pieces."""
        self._answers = answers
        self._output = output
        self._received = b""
        self._answering: asyncio.Task[None] | None = None
        self._transport: asyncio.WriteTransport | None = None

    def take(self, data: bytes) -> None:
        """Take bytes of the parent. A request that comes before the last one is answered counts for nothing."""
        *lines, self._received = (self._received + data)[-INPUT_MAX_BYTES:].split(b"\n")
        for line in lines:
            answer = self._answers.get(line.decode("latin-1"))
            if answer is not None and (self._answering is None or self._answering.done()):
                self._answering = asyncio.ensure_future(self._answer(answer))

    async def _answer(self, answer: Answer) -> None:
        pieces = [piece async for piece in answer()]
        if self._transport is None:
            own = os.fdopen(os.dup(self._output), "wb", 0)  # the transport closes what it gets
            self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, own)
        self._transport.write(answer_head(sum(map(len, pieces))))
        self._transport.writelines(pieces)

    async def close(self) -> None:
        """End, without the answer that is being made."""
        if self._answering is not None:
            self._answering.cancel()
            _: Any = await asyncio.gather(self._answering, return_exceptions=True)
        if self._transport is not None:
            self._transport.abort()
