"""How the client calls application handlers, and the meaning of their results."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any, Never

import pytest

from pymq.client import ConsumeResult
from pymq.client.consume_counters import ConsumeCounters
from pymq.client.handler import MessageHandler
from pymq.clock import ManualClock
from pymq.model.record import StoredMessage
from tests.client.messages import message

LATER = ConsumeResult.RECONSUME_LATER
SUCCESS = ConsumeResult.SUCCESS


def outcome(on_message: Any, counters: Any = None) -> Any:
    async def main() -> Any:
        handler = MessageHandler(on_message, counters or ConsumeCounters(), ManualClock(), 2)
        try:
            return await handler.call([message(), message(offset=1)])
        finally:
            handler.close()

    return asyncio.run(main())


def plain(result: Any) -> Any:
    return lambda messages: result


def coroutine(result: Any) -> Any:
    async def handle(messages: list[StoredMessage]) -> Any:
        return result

    return handle


class CallableObject:
    def __init__(self, result: Any) -> None:
        self.result = result

    async def __call__(self, messages: list[StoredMessage]) -> Any:
        return self.result


def partial(result: Any) -> Any:
    async def handle(extra: Any, messages: list[StoredMessage]) -> Any:
        return extra

    return functools.partial(handle, result)


@pytest.mark.parametrize("make", [plain, coroutine, CallableObject, partial])
@pytest.mark.parametrize(("returned", "expected"), [(None, SUCCESS), (SUCCESS, SUCCESS), (LATER, LATER)])
def test_meaning_of_return_values(make: Any, returned: Any, expected: Any) -> None:
    assert outcome(make(returned)) is expected


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_exception_means_later(asynchronous: Any, caplog: Any) -> None:
    def fail(messages: list[StoredMessage]) -> Never:
        raise ValueError("boom")

    async def fail_later(messages: list[StoredMessage]) -> Never:
        raise ValueError("boom")

    assert outcome(fail_later if asynchronous else fail) is LATER
    assert "boom" in caplog.text and "U0-0" in caplog.text


def test_coroutines_run_on_the_loop_and_functions_in_threads() -> None:
    names = []

    async def handle(messages: list[StoredMessage]) -> None:
        names.append(threading.current_thread().name)

    outcome(handle)
    outcome(lambda messages: names.append(threading.current_thread().name))
    assert names[0] == threading.current_thread().name
    assert names[1].startswith("pymq-handler")


def test_outcomes_are_counted_by_topic() -> None:
    counters = ConsumeCounters()
    outcome(plain(None), counters)
    outcome(plain(LATER), counters)
    assert (counters.topics["T"].handled, counters.topics["T"].failed) == (2, 2)
