"""The check of lite topics: can sends and groups find what they need?"""

from __future__ import annotations

from collections.abc import Iterator

from pymq.model.lite_topics import is_parent
from pymq.operations.doctor.finding import Finding, problem, warning
from pymq.operations.doctor.state import Broker, ClusterState

NEARLY_FULL_RATIO = 0.9
_NEEDED = ("enableLmq", "enableMultiDispatch")  # both false by default in RocketMQ


def check_lites(state: ClusterState) -> Iterator[Finding]:
    for broker in state.masters:
        yield from _of_broker(broker)
    for group in state.groups:
        if group.lite_parent:
            yield from _bound(state, group.name, group.lite_parent)


def _of_broker(broker: Broker) -> Iterator[Finding]:
    parents = sorted(name for name, topic in (broker.topics or {}).items() if is_parent(topic.attributes))
    config = broker.config or {}
    missing = [key for key in _NEEDED if config.get(key) == "false"]
    if parents and missing and broker.is_rocketmq:
        yield problem(
            broker.label,
            f"{parents[0]} is of type LITE, but {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} false: "
            "sends are answered, and no lite topic has them",
            f"set {' and '.join(f'{key}=true' for key in missing)} in its broker.conf and start it again",
            topics=parents,
        )
    lites = broker.lites
    if lites is not None and lites.max_lmq_num > 0 and lites.current_lmq_num >= NEARLY_FULL_RATIO * lites.max_lmq_num:
        is_full = lites.current_lmq_num >= lites.max_lmq_num
        yield (problem if is_full else warning)(
            broker.label,
            f"it has {lites.current_lmq_num:,} lite topics, the limit is {lites.max_lmq_num:,}"
            + (": sends to new ones are refused" if is_full else ""),
            "let them expire: pymq topic update TOPIC --expire 1d; or raise the limit",
            lite_topics=lites.current_lmq_num,
            limit=lites.max_lmq_num,
        )


def _bound(state: ClusterState, group: str, parent: str) -> Iterator[Finding]:
    """Look whether a group's parent topic is one. Brokers that don't tell their topics may have it."""
    tables = [broker.topics for broker in state.masters if broker.topics is not None]
    found = [topics[parent] for topics in tables if parent in topics]
    if not found and len(tables) == len(state.masters) and state.is_complete:
        yield problem(
            group,
            f"it reads lite topics of {parent}, and no broker has that topic",
            f"pymq topic create {parent} --type lite, or pymq group update {group} --lite TOPIC",
            topic=parent,
        )
    elif found and not any(is_parent(topic.attributes) for topic in found):
        yield problem(
            group,
            f"it reads lite topics of {parent}, which is not of type LITE, so its pops are refused",
            f"pymq topic update {parent} --type lite, or pymq group update {group} --lite TOPIC",
            topic=parent,
        )
