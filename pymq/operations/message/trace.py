"""Joins what clients traced with what brokers stored."""

from __future__ import annotations

from typing import Any

from pymq.client.admin import Admin
from pymq.client.admin.traces import Trace, Traces
from pymq.errors import NotFoundError, PymqError
from pymq.model.names import RETRY_PREFIX, TRACE_TOPIC
from pymq.model.record import StoredMessage
from pymq.model.trace import EXCEPTION, FAILED, RETURNED_NULL, SUCCESS, TIME_OUT, TraceKind
from pymq.operations.message.lookup import find_by_id

_RESULTS = {
    SUCCESS: "consumed",
    TIME_OUT: "timed out",
    EXCEPTION: "the handler raised",
    RETURNED_NULL: "the handler returned nothing",
    FAILED: "to be retried",
}
_TYPES = ("", "half message", "transactional", "delayed", "ordered")


async def trace(admin: Admin, message_id: str, topic: str | None, trace_topic: str | None) -> dict[str, Any]:
    """Return the events of a message in their order, and why there are no traces if there are none.

    Raises NotFoundError when neither a trace nor the message is found.
    """
    stored, missing = await _stored(admin, message_id, topic)
    trace_id = stored[0].message_id if stored else message_id
    traces = await admin.traces.of_message(trace_id, trace_topic or TRACE_TOPIC)
    found_in = next((one.record.topic for one in traces.found if one.record.topic), None)
    if not stored and topic is None and found_in is not None:
        stored, missing = await _stored(admin, message_id, found_in)
    if not traces.found and not stored:
        raise NotFoundError(f"{missing}; {_why_none(traces, trace_topic)}")
    events = [_event(one, traces) for one in traces.found] + [_stored_event(one) for one in stored]
    groups = {event["group"] for event in events if event["event"] == "delivered"}
    return {
        "message_id": trace_id,
        "topic": stored[0].topic if stored else topic or found_in,
        "events": sorted(events, key=lambda event: (event["time_ms"], _ORDER.index(event["event"]))),
        "groups": sorted(groups),
        "why_no_trace": None if traces.found else _why_none(traces, trace_topic),
        "why_not_stored": None if stored else missing,
        "problems": traces.problems,
    }


_ORDER = ("produced", "stored", "transaction", "recalled", "delivered", "consumed")


async def _stored(admin: Admin, message_id: str, topic: str | None) -> tuple[list[StoredMessage], str]:
    try:
        return await find_by_id(admin, message_id, topic), ""
    except PymqError as error:
        return [], str(error)


def _why_none(traces: Traces, trace_topic: str | None) -> str:
    name = trace_topic or TRACE_TOPIC
    if not traces.topic_exists:
        return (
            f"no traces: the topic {name} does not exist, so no client has written any (brokers make it with "
            "traceTopicEnable=true; clients that use another topic need --trace-topic)"
        )
    if traces.problems:
        return f"no traces: {len(traces.problems)} could not be decoded"
    return (
        f"no traces of it in {name}: clients write them only if they are asked to (PyMQ: trace=True, Java: "
        "enableMsgTrace), up to 5 seconds late, and brokers keep them as long as other messages"
    )


def _stored_event(message: StoredMessage) -> dict[str, Any]:
    return {
        "event": "stored",
        "time_ms": message.store_timestamp_ms,
        "group": "",
        "client": "",
        "ok": True,
        "detail": f"{message.topic} {message.broker_name}/{message.queue_id}@{message.queue_offset}",
        "cost_ms": None,
        "retry": message.reconsume_times if message.topic.startswith(RETRY_PREFIX) else None,
    }


def _event(one: Trace, traces: Traces) -> dict[str, Any]:
    record = one.record
    event: dict[str, Any] = {
        "event": _NAMES[record.kind],
        "time_ms": record.time_ms,
        "group": record.group,
        "client": one.client_host,
        "ok": record.success,
        "detail": "",
        "cost_ms": None,
        "retry": None,
    }
    if record.kind is TraceKind.PUBLISHED:
        event["cost_ms"] = record.cost_ms
        kind = _TYPES[record.message_type] if 0 <= record.message_type < len(_TYPES) else ""
        parts = ["to", record.topic, "at", record.store_host or "?", f"({kind})" if kind else ""]
        event["detail"] = " ".join(filter(None, parts)) + ("" if record.success else ": failed")
    elif record.kind is TraceKind.DELIVERED:
        event["retry"] = record.retry_times
        event["detail"] = f"retry {record.retry_times}" if record.retry_times else "first time"
    elif record.kind is TraceKind.CONSUMED:
        _complete_consumed(event, one, traces)
    elif record.kind is TraceKind.TRANSACTION_ENDED:
        check = ", after a check" if record.from_check else ""
        event["detail"] = f"{record.state} {record.transaction_id}{check}"
    else:
        event["detail"] = "recalled" if record.success else "the recall failed"
    return event


def _complete_consumed(event: dict[str, Any], one: Trace, traces: Traces) -> None:
    """Add what a delivery with the same request id knows: some clients leave out the time and the group."""
    record = one.record
    before = next(
        (
            other.record
            for other in traces.found
            if other.record.kind is TraceKind.DELIVERED and other.record.request_id == record.request_id
        ),
        None,
    )
    if before is not None:
        event["retry"] = before.retry_times
        event["group"] = record.group or before.group
        event["time_ms"] = record.time_ms or before.time_ms + record.cost_ms
    event["cost_ms"] = record.cost_ms
    event["detail"] = _RESULTS.get(record.context_code, f"result {record.context_code}")


_NAMES = {
    TraceKind.PUBLISHED: "produced",
    TraceKind.DELIVERED: "delivered",
    TraceKind.CONSUMED: "consumed",
    TraceKind.TRANSACTION_ENDED: "transaction",
    TraceKind.RECALLED: "recalled",
}
