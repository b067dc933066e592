"""Checks of what clients may do: write, read, and send messages of other types than their topics'."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.model.message_types import wanted_type
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from pymq.operations.broker.writes import forbidden, permission_step, permission_text
from pymq.operations.doctor.finding import Finding, note, unknown, warning
from pymq.operations.doctor.state import ClusterState

TYPE_CHECK = "enableTopicMessageTypeCheck"
_SHOWN_TOPICS = 3
_UNSENT = (DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX)  # topics that applications don't use by themselves


def check_permissions(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        perm = broker.setting("brokerPermission")
        if perm is None:
            yield unknown(broker.label, "what clients may do is not known: it does not report brokerPermission")
        elif text := permission_text(int(perm)):
            yield warning(broker.label, text, permission_step(broker.label), permission=int(perm))
    for broker in state.masters:
        for name, config in sorted((broker.topics or {}).items()):
            missing = forbidden(config.perm)
            if missing and not name.startswith(_UNSENT) and name not in SYSTEM_TOPICS:
                yield note(
                    f"{name} on {broker.label}",
                    f"clients may not {' or '.join(missing)} (permission {config.perm})",
                    f"if that is not wanted: pymq topic update {name} --perm RW",
                    permission=config.perm,
                )


def check_types(state: ClusterState) -> Iterator[Finding]:
    """Brokers of RocketMQ check no types and have no such setting, so nothing is found of them."""
    for broker in state.masters:
        if (broker.config or {}).get(TYPE_CHECK) != "false":
            continue
        typed = sorted(name for name, config in (broker.topics or {}).items() if wanted_type(config.attributes))
        if typed:
            shown = ", ".join(typed[:_SHOWN_TOPICS]) + (", …" if len(typed) > _SHOWN_TOPICS else "")
            yield warning(
                broker.label,
                f"clients may send messages of any type over remoting ({TYPE_CHECK}=false), also to topics with a "
                f"message.type: {shown}",
                f"if only messages of that type may come: set {TYPE_CHECK}=true in broker.conf and start the broker "
                "again",
                topics=typed,
            )
