"""The work of ``pymq filter test``: reads messages of a topic as ``pymq tail`` does, and runs a filter on them."""

from __future__ import annotations

import asyncio
import io
from typing import Any

from pymq.cli.common.message_text import shown_body
from pymq.cli.output import print_fields, print_line
from pymq.cli.tail.options import TailOptions
from pymq.cli.tail.work import Tail
from pymq.client import StoredMessage
from pymq.clock import SystemClock
from pymq.errors import FilterError
from pymq.filter.messages import of_stored
from pymq.filter.plugins import Outcome
from pymq.filter.registry import installed_filters
from pymq.filter.running import RunningFilter
from pymq.operations.message.selection import MessageSelection
from pymq.operations.start import Start

EXAMPLE_COUNT = 3  # per outcome
BATCH_COUNT = 32  # as many as a consumer's pull returns
GROUP = "TOOLS_CONSUMER"


def try_on_topic(topic: str, name: str, expression: str, start: Start, count: int, namesrv: str) -> dict[str, Any]:
    """Return counts, time in ms, and examples by outcome. Raises UsageError, ExpressionError, NotFoundError, ..."""
    running = RunningFilter(installed_filters().find(name), expression, clock=SystemClock())
    messages = asyncio.run(_read(topic, start, count, namesrv))
    examples: dict[str, list[dict[str, Any]]] = {"matched": [], "skipped": [], "errors": []}
    unknown = 0
    for at in range(0, len(messages), BATCH_COUNT):
        batch = messages[at : at + BATCH_COUNT]
        for message, outcome in zip(batch, running.match([of_stored(one) for one in batch]), strict=True):
            unknown += outcome is None
            kept = examples[_kind(outcome)]
            if len(kept) < EXAMPLE_COUNT:
                kept.append(_example(message, outcome))
    stats = running.stats
    return {
        "topic": topic,
        "filter": running.name,
        "expression": expression,
        "messages": len(messages),
        "matched": stats.matched,
        "skipped": stats.skipped,
        "unknown": unknown,
        "errors": stats.errors,
        "time_ms": stats.time_ms,
        "examples": examples,
    }


def print_report(report: dict[str, Any]) -> None:
    """Print the report for people."""
    examples = report["examples"]
    print_fields({name: value for name, value in report.items() if name != "examples"})
    for kind, found in examples.items():
        for example in found:
            why = f"  ({example['why']})" if example["why"] else ""
            print_line(f"{kind.rstrip('s')}: {example['place']}  {example['body']}{why}")


async def _read(topic: str, start: Start, count: int, namesrv: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []

    def take(message: StoredMessage) -> bytes:
        found.append(message)
        return b""

    options = TailOptions(
        topics=[topic],
        start=start,
        count=count,
        follow=False,
        selection=MessageSelection(),
        queue=None,
        group=GROUP,
        commit=False,
        namesrv=namesrv,
    )
    await Tail(options, take, io.BytesIO()).run()
    return found


def _kind(outcome: Outcome) -> str:
    if isinstance(outcome, FilterError):
        return "errors"
    return "matched" if outcome else "skipped"


def _example(message: StoredMessage, outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, FilterError):
        why = str(outcome)
    else:
        why = "unknown" if outcome is None else ""
    return {
        "place": f"{message.broker_name}/{message.queue_id}@{message.queue_offset}",
        "properties": dict(message.properties),
        "body": shown_body(message),
        "why": why,
    }
