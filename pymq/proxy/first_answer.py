"""first_answer: what one of several brokers says, when some of them are away or stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from pymq.errors import UnreachableError
from pymq.net.futures import mark_seen

NEXT_AFTER_S: Final = 0.5  # a broker that answers takes less: then the next one is asked, too

T = TypeVar("T")


async def first_answer(addresses: Iterable[str], ask: Callable[[str], Awaitable[T | None]]) -> T | None:
    """Ask brokers one after the other until one knows the answer, and return it; None when none of them knows it.

    ``ask(address)`` returns None where the broker does not know it. The next broker is asked when one can't be reached,
    and when it has not answered for NEXT_AFTER_S: a broker that stands still holds nobody up for its time-out, also
    when the others do not know the answer. Raises what ``ask`` raises; UnreachableError only when no broker answered.
    """
    left = iter(addresses)
    asked: list[asyncio.Future[T | None]] = []  # those that have not answered
    unreached: UnreachableError | None = None
    has_answer = False
    try:
        while True:
            address = next(left, None)
            if address is not None:
                asked.append(asyncio.ensure_future(ask(address)))
                asked[-1].add_done_callback(mark_seen)
            elif not asked:
                break
            timeout_s = NEXT_AFTER_S if address is not None or has_answer else None
            done, _ = await asyncio.wait(asked, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not done and address is None:
                break
            ended = [one for one in asked if one in done]  # in the order of the addresses
            asked = [one for one in asked if one not in done]
            for each in ended:
                try:
                    answer = each.result()
                except UnreachableError as error:
                    unreached = error
                    continue
                if answer is not None:
                    return answer
                has_answer = True
    finally:
        for each in asked:
            each.cancel()
    if unreached is not None and not has_answer:
        raise unreached
    return None
