"""Asking: puts one question to several brokers at once, and knows which of them did not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from pymq.errors import ClosedError, PartialError, PymqError, Refusal, UnreachableError

AT_ONCE = 16  # brokers refuse with 2 when 64 requests for large answers wait

KeyT = TypeVar("KeyT")
T = TypeVar("T")


class BrokerTarget(NamedTuple):
    """One broker to call. Name and cluster are empty for a broker given by an address that is not registered."""

    name: str
    cluster: str
    address: str


class Asking:
    """The questions of one Admin. ``is_partial``: brokers that can't be reached, or whose answers can't be read, are
    left out instead of raised.

    ``unreached`` has the names of those brokers, and always of those without a master, each with the reason. They are
    not asked a second time, so a dead host costs one time-out and not one for each question.
    """

    def __init__(self, *, is_partial: bool = False) -> None:
        self.is_partial = is_partial
        self.unreached: dict[str, str] = {}

    def note(self, broker: str, reason: str) -> None:
        """Count a broker among the unreached ones; the first reason stays."""
        self.unreached.setdefault(broker, reason)

    def reachable(self, targets: Sequence[BrokerTarget]) -> list[BrokerTarget]:
        """Return the targets that have an address, and note the others; unreached ones are left out."""
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
        asked = [target for target in targets if (target.name or target.address) not in self.unreached]
        if targets and not asked:
            raise UnreachableError("; ".join(self.unreached[target.name or target.address] for target in targets))
        answers = await asyncio.gather(*(ask(target.address) for target in asked), return_exceptions=True)
        found: list[tuple[BrokerTarget, T]] = []
        failures: list[UnreachableError] = []
        for target, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, BaseException):
                found.append((target, answer))
            elif self.is_partial and (failure := _silence(answer, target)) is not None:
                failures.append(failure)
                self.note(target.name or target.address, str(failure))
            else:
                raise answer
        if failures and not found:
            raise failures[0]
        return found


def _silence(error: BaseException, target: BrokerTarget) -> UnreachableError | None:
    """Return why there is no answer of a broker that can't be reached, or answers what can't be read; else None."""
    if isinstance(error, Refusal):
        return UnreachableError(f"what {target.address} answers can't be read: {error}")
    return error if isinstance(error, UnreachableError) and not isinstance(error, ClosedError) else None


async def for_each(keys: Iterable[KeyT], ask: Callable[[KeyT], Awaitable[T]], at_once: int = AT_ONCE) -> list[T]:
    """Return what ``ask`` returns for each key, in their order; ``at_once`` are asked at a time.

    Raises the first error of a round.
    """
    waiting = list(keys)
    found: list[T] = []
    for at in range(0, len(waiting), at_once):
        found += await asyncio.gather(*map(ask, waiting[at : at + at_once]))
    return found


async def by_key(keys: Iterable[KeyT], ask: Callable[[KeyT], Awaitable[T]], at_once: int = AT_ONCE) -> dict[KeyT, T]:
    """Do as :func:`for_each`; return the answers by their keys."""
    waiting = list(keys)
    return dict(zip(waiting, await for_each(waiting, ask, at_once), strict=True))


def no_master_text(broker: str) -> str:
    """Return the reason for a broker of which only slaves are registered."""
    return f"broker {broker} has no master now: pymq cluster list shows its brokers"


async def change_each(targets: Sequence[BrokerTarget], change: Callable[[BrokerTarget], Awaitable[T]]) -> list[T]:
    """Make a change on one broker after the other; return the results in their order.

    A failure doesn't keep the change from the others: raises PartialError when some made it, else the first error.
    """
    done: dict[str, T] = {}
    failed: dict[str, PymqError] = {}
    for target in targets:
        name = target.name or target.address
        try:
            done[name] = await change(target)
        except ClosedError:
            raise
        except PymqError as error:
            failed[name] = error
    if failed and done:
        raise PartialError(list(done), failed)
    if failed:
        raise next(iter(failed.values()))
    return list(done.values())
