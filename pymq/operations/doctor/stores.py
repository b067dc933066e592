"""Checks of what brokers' stores say of themselves: do they take messages, and is anything else wrong?"""

from __future__ import annotations

from collections.abc import Iterator

from pymq.operations.broker.writes import other_store_problems, refusal
from pymq.operations.doctor.finding import Finding, problem
from pymq.operations.doctor.state import ClusterState


def check_writes(state: ClusterState) -> Iterator[Finding]:
    """A slave takes none by its role, so only masters are looked at. RocketMQ's brokers don't report it."""
    for broker in state.answering:
        why = refusal(broker.view.runtime) if broker.view.is_master else ""
        if why:
            yield problem(
                broker.label,
                f"takes no messages: {why}",
                f"when that is done, pymq check broker {broker.view.name} is OK again",
                refused_by=broker.view.runtime.get("storeRefusedBy", ""),
            )


def check_stores(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        if text := other_store_problems(broker.view.runtime):
            yield problem(broker.label, text, f"pymq broker status {broker.view.name} shows more")
