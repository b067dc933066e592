"""The trace of a message: its events, its time line, and why there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client.admin.traces import Trace, Traces
from pymq.console.messages import trace as module
from pymq.console.pages.page import Page
from pymq.errors import NotFoundError
from pymq.model.trace import TraceKind, TraceRecord
from tests.console.messages.world import BEGUN_MS, FakeTopic, html, stored, visit


def shown(traces: Traces, *, message_id: str = "7F01") -> tuple[Page, str]:
    visited = visit(FakeTopic(stored(5, UNIQ_KEY="7F01")), {"topic": "orders", "id": message_id})
    admin: Any = visited.cluster._admin

    class OfMessage:
        async def of_message(self, trace_id: str, topic: str) -> Traces:
            assert (trace_id, topic) in (("7F01", "RMQ_SYS_TRACE_TOPIC"), ("7F02", "RMQ_SYS_TRACE_TOPIC"))
            return traces

    admin.traces = OfMessage()
    page = asyncio.run(module.trace(visited))
    assert isinstance(page, Page)
    return page, html(page, visited)


def delivered(group: str, **fields: Any) -> Trace:
    return Trace(TraceRecord(TraceKind.DELIVERED, "7F01", group=group, **fields), "10.0.0.7")


@pytest.mark.parametrize("message_id", ["7F01", "broker-a:0:5"])
def test_events_are_a_table_and_a_time_line(message_id: str) -> None:
    page, text = shown(Traces([delivered("bill<ing", time_ms=BEGUN_MS + 9000)]), message_id=message_id)
    assert [event["event"] for event in page.data["events"]] == ["stored", "delivered"]
    assert "<svg" in text and "bill&lt;ing" in text and "<rect" in text and page.data["why_no_trace"] is None
    assert page.command == ("message", "trace", "7F01", "--topic", "orders")


def test_why_there_is_none_is_said_and_what_is_stored_is_shown() -> None:
    page, text = shown(Traces(topic_exists=False))
    assert "does not exist" in text and [event["event"] for event in page.data["events"]] == ["stored"]
    assert "traceTopicEnable" in text


def test_what_could_not_be_decoded_is_named_within_limits() -> None:
    page, _ = shown(Traces([delivered("a", time_ms=5)], [f"problem {at}" for at in range(50)]))
    assert len(page.missing) == module.PROBLEMS_MAX + 1 and "30 more" in page.missing["more trace messages"]


def test_neither_a_message_nor_a_trace_is_not_found_with_both_reasons() -> None:
    with pytest.raises(NotFoundError, match=r"no message 7F02.*no traces"):
        shown(Traces(topic_exists=False), message_id="7F02")
