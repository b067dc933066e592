"""Asks the brokers of a topic in turn, until one of them has messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pymq.client.received import Received
from pymq.clock import Clock
from pymq.errors import UnreachableError

# With several brokers, a receive waits this long at one before it looks at the next one.
SLICE_MS = 1000

# Asks a broker, which waits so many ms for a first message.
Ask = Callable[[str, int], Awaitable[list[Received]]]


class BrokerTurns:
    """The turns of one consumer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = 0  # so that no broker is always the first

    async def take(self, brokers: Sequence[str], wait_ms: int, ask: Ask) -> list[Received]:
        """Return the first messages that one of ``brokers`` has within ``wait_ms``, or none.

        A single broker waits all the time, several wait for a second each in turn. Raises UnreachableError when none
        of them answers, else what ``ask`` raises.
        """
        end_ms = self._clock.monotonic_ms() + wait_ms
        ask_ms = wait_ms if len(brokers) == 1 else 0
        while True:
            self._turn += 1
            first = self._turn % len(brokers)
            errors: list[UnreachableError] = []
            for broker in [*brokers[first:], *brokers[:first]]:
                try:
                    found = await ask(broker, ask_ms)
                except UnreachableError as error:
                    errors.append(error)
                    continue
                if found:
                    return found
            if len(errors) == len(brokers):
                raise errors[0]
            left_ms = end_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return []
            ask_ms = left_ms if len(brokers) == 1 else min(left_ms, SLICE_MS)
