"""Checks of consumer groups: do members agree, and does every group get on?"""

from __future__ import annotations

from collections.abc import Iterator

from pymq.model.names import RETRY_PREFIX
from pymq.operations.doctor.finding import Finding, note, problem, unknown, warning
from pymq.operations.doctor.state import ClusterState, Group
from pymq.units import format_count, format_duration_ms


def check_subscriptions(state: ClusterState) -> Iterator[Finding]:
    for group in state.groups:
        if group.differing is None:
            yield unknown(
                group.name,
                f"whether its members subscribe alike is not known: {group.error}",
                "mend the brokers that do not answer, and run this again",
            )
        for topic, selections in (group.differing or {}).items():
            found = ", ".join(f"{selection!r} by {count}" for selection, count in selections.items())
            yield problem(
                group.name,
                f"its members subscribe to {topic} differently ({found}): messages are lost",
                f"give all members the same subscriptions; pymq group describe {group.name} shows them",
                topic=topic,
                selections=selections,
            )


def check_stuck_groups(state: ClusterState) -> Iterator[Finding]:
    for address, error in state.places_unknown.items():
        yield unknown(address, f"where groups are is not known: {error}", "pymq group lag GROUP asks for one of them")
    for group in state.groups:
        if group.lag > 0:
            yield _behind(group, state.observed_ms)


def _online(group: Group) -> str:
    if group.members is None:
        return "how many members are online is not known"
    return f"{format_count(group.members, 'member')} online"


def _behind(group: Group, observed_ms: int) -> Finding:
    lag, taken = group.lag, group.taken()
    topics = sorted(topic for topic, of_topic in group.lags.items() if of_topic.lag > 0)
    of = ", ".join(topic.replace(RETRY_PREFIX, "retries of ") for topic in topics[:3]) + (", …" if topics[3:] else "")
    waiting = f"{format_count(lag, 'message')} of {of} {'waits' if lag == 1 else 'wait'}"
    values = {"lag": lag, "members": group.members, "topics": topics, "taken": taken, "observed_ms": observed_ms}
    if not group.is_enabled:
        return warning(
            group.name,
            f"{waiting}, and the group may not consume on some broker",
            f"allow it again (consumeEnable); pymq group describe {group.name}",
            **values,
        )
    if group.members is None and taken is None:
        return unknown(
            group.name,
            f"{waiting}, and whether a member is online is not known: {group.error}",
            f"pymq group describe {group.name}",
            **values,
        )
    if group.members == 0:
        return warning(
            group.name,
            f"{waiting}, and no member is online",
            f"start its members, or move it: pymq offset skip {group.name}",
            **values,
        )
    if taken is None:
        return note(
            group.name,
            f"{waiting}; whether the group gets on was not observed",
            "update the brokers: they do not report committed offsets"
            if observed_ms
            else "run this again without --observe 0",
            **values,
        )
    if taken <= 0:
        return problem(
            group.name,
            f"is stuck: {waiting}, {_online(group)}, and none was committed in {format_duration_ms(observed_ms)}",
            f"pymq group describe {group.name}; look at the members' logs for a handler that fails or does not return",
            **values,
        )
    per_second = taken * 1000 / observed_ms
    return note(group.name, f"{waiting}; the group takes {per_second:.0f} a second", "", **values)
