"""Limits, errors and counts of a running filter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from pymq.clock import ManualClock
from pymq.errors import ExpressionError, FilterError, FilterStopError, UsageError
from pymq.filter import running
from pymq.filter.messages import BodyBudget, FilterMessage, of_stored
from pymq.filter.plugins import CompiledFilter, EachMessage, Outcome
from pymq.filter.running import OnError, RunningFilter, parse_on_error
from pymq.model.compression import InflateError, compress_body
from pymq.model.record import decode_record, encode_record


class Plugin:
    """A filter made of a function; the expression ``slow`` takes ``compile_ms`` to compile."""

    name = "own"
    doc = "of a test"

    def __init__(self, match: Callable[[Sequence[FilterMessage]], list[Outcome]]) -> None:
        self.match = match
        self.clock = ManualClock()
        self.compile_ms = 0

    def compile(self, expression: str) -> CompiledFilter:
        self.clock.advance(self.compile_ms)
        return self


def each(test: Callable[[FilterMessage], bool | None]) -> Plugin:
    return Plugin(EachMessage(test).match)


def start(plugin: Plugin, on_error: OnError = OnError.SKIP, expression: str = "x") -> RunningFilter:
    return RunningFilter(plugin, expression, clock=plugin.clock, on_error=on_error)


def messages(count: int) -> list[FilterMessage]:
    return [FilterMessage(topic="orders", broker_name="b", queue_offset=at, body=b"%d" % at) for at in range(count)]


def kept(filter: RunningFilter, count: int) -> list[int]:
    batch = messages(count)
    return [message.queue_offset for message in filter.keep(batch, batch)[0]]


def third(message: FilterMessage) -> bool | None:
    """Return True, False, unknown and an error in turn."""
    at = message.queue_offset % 4
    if at == 3:
        raise FilterError("three")
    return (True, False, None)[at]


def test_outcomes_are_counted() -> None:
    filter = start(each(third))
    outcomes = filter.match(messages(9))
    assert [outcomes[at] for at in (0, 1, 2, 4, 8)] == [True, False, None, True, True]
    assert isinstance(outcomes[3], FilterError) and isinstance(outcomes[7], FilterError)
    stats = filter.stats
    assert (stats.matched, stats.skipped, stats.errors, stats.batches) == (3, 4, 2, 1)


def test_errors_are_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    filter = start(each(third))
    with caplog.at_level(logging.WARNING):
        assert kept(filter, 8) == [0, 4]
    [record] = caplog.records
    assert record.getMessage() == ("filter own can't judge orders b/0@3: three; it is left out, so are further ones")


def test_errors_are_delivered() -> None:
    assert kept(start(each(third), OnError.DELIVER), 8) == [0, 3, 4, 7]


def test_errors_stop() -> None:
    filter, batch = start(each(third), OnError.STOP), messages(8)
    assert filter.keep(batch, batch) == (batch[:1], 3), "earlier messages are handled"
    with pytest.raises(FilterStopError, match=r"filter own can't judge orders b/0@3: three; on_error is stop"):
        filter.keep(batch[3:], batch[3:])


def test_policy_names() -> None:
    assert [parse_on_error(one.value) for one in OnError] == [*OnError]
    with pytest.raises(UsageError, match="on_error is 'Skip': use one of skip, deliver, stop"):
        parse_on_error("Skip")


def test_an_exception_of_a_plugin_is_an_error_of_its_messages() -> None:
    def match(batch: Sequence[FilterMessage]) -> list[Outcome]:
        raise ZeroDivisionError("by zero")

    [outcome, _] = start(Plugin(match)).match(messages(2))
    assert str(outcome) == "filter own failed: ZeroDivisionError: by zero"


def test_an_exception_affects_only_its_own_message() -> None:
    def match(batch: Sequence[FilterMessage]) -> list[Outcome]:
        if any(message.queue_offset == 2 for message in batch):
            raise RecursionError("deep")
        return [True] * len(batch)

    outcomes = start(Plugin(match)).match(messages(5))
    assert [outcome is True for outcome in outcomes] == [True, True, False, True, True]


def test_a_wrong_number_of_outcomes_is_an_error() -> None:
    [one, two] = start(Plugin(lambda batch: [True])).match(messages(2))
    assert str(one) == str(two) == "filter own gave 1 outcomes for 2 messages"


def test_nothing_to_match() -> None:
    assert start(each(third)).match([]) == []


def test_a_batch_over_its_time_fails_with_filter_and_limit_named() -> None:
    def slow(message: FilterMessage) -> bool:
        plugin.clock.advance(running.BATCH_TIME_MAX_MS // running.SLICE_COUNT)
        return True

    plugin = each(slow)
    filter = start(plugin)
    count = running.SLICE_COUNT
    at_the_edge = count * (running.BATCH_TIME_MAX_MS // count)
    assert at_the_edge <= running.BATCH_TIME_MAX_MS
    outcomes = filter.match(messages(3 * count))
    assert outcomes[: 2 * count] == [True] * (2 * count)
    assert len(outcomes) == 3 * count
    assert "filter own took" in str(outcomes[-1]) and f"the limit is {running.BATCH_TIME_MAX_MS}" in str(outcomes[-1])
    assert filter.stats.time_ms == 2 * at_the_edge
    assert filter.match(messages(count)) == [True] * count  # the next batch has its own time limit


def test_the_longest_expression() -> None:
    start(each(third), expression="x" * running.EXPRESSION_LENGTH_MAX)
    with pytest.raises(ExpressionError, match="has 32769 characters, the limit is 32768"):
        start(each(third), expression="x" * (running.EXPRESSION_LENGTH_MAX + 1))


def test_an_expression_that_compiles_too_slowly_is_refused() -> None:
    plugin = each(third)
    plugin.compile_ms = running.COMPILE_TIME_MAX_MS
    start(plugin)
    plugin.compile_ms += 1
    with pytest.raises(ExpressionError, match="own took 10001 ms to compile it, the limit is 10000"):
        start(plugin)


def test_bodies_of_a_batch_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BATCH_BODIES_MAX_BYTES", 25)
    filter = start(each(lambda message: bool(message.body)))
    batch = [FilterMessage(body=lambda: b"x" * 5) for _ in range(6)]
    *fit, over = filter.match(batch)
    assert fit == [True] * 5
    assert "the bodies of one batch exceed 25 bytes" in str(over)


def test_a_budget_at_its_edge() -> None:
    budget = BodyBudget(10)
    budget.take(10)
    with pytest.raises(FilterError):
        budget.take(1)


def test_a_body_is_inflated_once_and_only_when_asked_for() -> None:
    calls = []

    def load() -> bytes:
        calls.append(1)
        return b"body"

    message = FilterMessage(body=load)
    assert message.tags == "" and not calls
    assert message.body == message.body == b"body" and len(calls) == 1


def test_a_body_that_cannot_be_inflated_is_an_error_of_its_message() -> None:
    def load() -> bytes:
        raise InflateError("ends early")

    with pytest.raises(FilterError, match="the body can't be read: ends early"):
        _ = FilterMessage(body=load).body


def test_a_stored_message_as_filters_see_it() -> None:
    packed, flags = compress_body(b"hello" * 100)
    host = b"\x0a\x00\x00\x01\x00\x00\x2a\x9f"
    record = encode_record(
        topic=b"orders",
        queue_id=3,
        queue_offset=17,
        physical_offset=0,
        body=packed,
        properties=b"TAGS\x01paid\x02KEYS\x01k1 k2\x02",
        flag=0,
        sys_flag=flags,
        born_timestamp_ms=5,
        born_host=host,
        store_timestamp_ms=6,
        store_host=host,
    )
    message = of_stored(decode_record(record))
    assert (message.topic, message.queue_id, message.queue_offset, message.store_timestamp_ms) == ("orders", 3, 17, 6)
    assert (message.tags, message.keys, message.body) == ("paid", "k1 k2", b"hello" * 100)


def test_properties_and_their_stored_form_are_the_same() -> None:
    assert FilterMessage(properties={"a": "1", "b": ""}).raw_properties == b"a\x011\x02"
    assert FilterMessage(properties=b"a\x011\x02").properties == {"a": "1"}
