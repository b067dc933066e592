"""Reads what foreign clients traced, with PyMQ's admin client."""

from __future__ import annotations

import asyncio

from pymq.client.admin import Admin
from pymq.model.trace import SUCCESS, TraceKind


def check_traces(namesrv: str, message_id: str, body: str) -> None:
    """Check what a client wrote of one message with TagA and the key trace-key: sent, delivered once, consumed."""

    async def read() -> None:
        async with Admin(namesrv) as admin:
            traces = await admin.traces.of_message(message_id)
        assert traces.problems == []
        by_kind = {one.record.kind: one.record for one in traces.found}
        assert by_kind.keys() == {TraceKind.PUBLISHED, TraceKind.DELIVERED, TraceKind.CONSUMED}
        published, consumed = by_kind[TraceKind.PUBLISHED], by_kind[TraceKind.CONSUMED]
        assert (published.tags, published.keys, published.success) == ("TagA", "trace-key", True)
        assert published.offset_message_id and published.body_length == len(body)
        assert (consumed.success, consumed.context_code) == (True, SUCCESS)
        assert consumed.request_id == by_kind[TraceKind.DELIVERED].request_id

    asyncio.run(read())
