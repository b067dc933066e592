"""Asks: the requests that a server has sent to one connected client, until their answers come."""

from __future__ import annotations

from collections.abc import Callable

from pymq.wire.command import Command

OnAnswer = Callable[[Command | None], None]


class Asks:
    """Open requests by opaque. ``on_answer`` gets None when the answer does not come."""

    __slots__ = ("_count_max", "_last_opaque", "_open")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._last_opaque = 0
        self._open: dict[int, tuple[OnAnswer, int]] = {}

    def next_opaque(self) -> int:
        """Return the opaque for another request."""
        self._last_opaque = (self._last_opaque + 1) & 0x7FFFFFFF
        return self._last_opaque

    def add(self, on_answer: OnAnswer, deadline_ms: int) -> int | None:
        """Return the opaque of a request that waits until ``deadline_ms``; None when too many wait already."""
        if len(self._open) >= self._count_max:
            return None
        opaque = self.next_opaque()
        self._open[opaque] = (on_answer, deadline_ms)
        return opaque

    def take(self, answer: Command) -> None:
        """Pass an answer on. One that is not expected is dropped."""
        found = self._open.pop(answer.opaque, None)
        if found is not None:
            found[0](answer)

    def sweep(self, now_ms: int) -> None:
        """End the requests whose time is over."""
        for opaque, (on_answer, deadline_ms) in list(self._open.items()):
            if deadline_ms <= now_ms and self._open.pop(opaque, None) is not None:
                on_answer(None)

    def end(self) -> None:
        """End all requests: the connection is gone."""
        open_asks, self._open = self._open, {}
        for on_answer, _ in open_asks.values():
            on_answer(None)
