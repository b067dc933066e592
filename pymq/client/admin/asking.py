"""Asking: puts one question to several brokers at once, and knows which of them did not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from pymq.errors import ClosedError, UnreachableError

T = TypeVar("T")


class BrokerTarget(NamedTuple):
    """One broker to call. Name and cluster are empty for a broker given by an address that is not registered."""

    name: str
    cluster: str
    address: str


class Asking:
    """The questions of one Admin. ``is_partial``: brokers that can't be reached are left out instead of raised.

    ``unreached`` has the names of those brokers, each with the reason. They are not asked a second time, so a dead host
    costs one time-out and not one for each question.
    """

    def __init__(self, *, is_partial: bool = False) -> None:
        self.is_partial = is_partial
        self.unreached: dict[str, str] = {}

    def note(self, broker: str, reason: str) -> None:
        """Count a broker among the unreached ones; the first reason stays."""
        if self.is_partial:
            self.unreached.setdefault(broker, reason)

    def reachable(self, targets: Sequence[BrokerTarget]) -> list[BrokerTarget]:
        """Return the targets that have an address. A partial Admin notes the others, and leaves out unreached ones."""
        for target in targets:
            if not target.address:
                self.note(target.name, no_master_text(target.name))
        return [target for target in targets if target.address and target.name not in self.unreached]

    async def each(
        self, targets: Sequence[BrokerTarget], ask: Callable[[str], Awaitable[T]]
    ) -> list[tuple[BrokerTarget, T]]:
        """Call ``ask`` with the address of every broker at once; return the answers in the order of ``targets``.

        Raises the first error; UnreachableError, in a partial Admin, only when no broker can be reached.
        """
        asked = [target for target in targets if target.name not in self.unreached]
        if targets and not asked:
            raise UnreachableError("; ".join(self.unreached[target.name] for target in targets))
        answers = await asyncio.gather(*(ask(target.address) for target in asked), return_exceptions=True)
        found: list[tuple[BrokerTarget, T]] = []
        failures: list[UnreachableError] = []
        for target, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, BaseException):
                found.append((target, answer))
            elif self.is_partial and isinstance(answer, UnreachableError) and not isinstance(answer, ClosedError):
                failures.append(answer)
                self.note(target.name or target.address, str(answer))
            else:
                raise answer
        if failures and not found:
            raise failures[0]
        return found


def no_master_text(broker: str) -> str:
    """Return the reason for a broker of which only slaves are registered."""
    return f"broker {broker} has no master now: pymq cluster list shows its brokers"
