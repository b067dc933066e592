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
            return await handler.call([message(), message(offset=1)], 0)
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


def raising(error: BaseException) -> Any:
    def fail(messages: list[StoredMessage]) -> Never:
        raise error

    async def fail_later(messages: list[StoredMessage]) -> Never:
        raise error

    return [fail, fail_later]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError("its own"), StopIteration(), TimeoutError()])
def test_no_kind_of_exception_ends_the_client(error: BaseException, asynchronous: bool, caplog: Any) -> None:
    # A future refuses StopIteration, an event loop ends with SystemExit, a task with CancelledError.
    assert outcome(raising(error)[asynchronous]) is LATER
    assert "the message handler failed on ['U0-0', 'U0-1']" in caplog.text


def test_what_no_event_loop_survives_only_ends_its_thread() -> None:
    assert outcome(raising(KeyboardInterrupt())[0]) is LATER


@pytest.mark.parametrize("make", [plain, coroutine])
@pytest.mark.parametrize("nonsense", [True, False, 0, "SUCCESS", b"", [SUCCESS], ConsumeResult, object()])
def test_what_is_no_result_means_later(make: Any, nonsense: Any, caplog: Any) -> None:
    assert outcome(make(nonsense)) is LATER
    assert "return a ConsumeResult, or None for success" in caplog.text and "U0-0" in caplog.text


def test_a_plain_function_may_return_a_coroutine() -> None:
    assert outcome(lambda messages: coroutine(LATER)(messages)) is LATER


def test_a_cancelled_caller_is_cancelled() -> None:
    async def hang(messages: list[StoredMessage]) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        handler = MessageHandler(hang, ConsumeCounters(), ManualClock(), 2)
        task = asyncio.ensure_future(handler.call([message()], 0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


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
