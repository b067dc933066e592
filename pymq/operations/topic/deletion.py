"""What the deletion of a topic would cost, and the deletion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.draining import Draining, GroupLeft, Mode
from pymq.errors import UnsafeError
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX


@dataclass(frozen=True)
class Deletion:
    """A deletion that is planned. ``retries``: the groups' own topics that go along.

    ``deleted_below``: by what brokers recognize the topic
    (:meth:`~pymq.client.admin.topics.TopicAdmin.deleted_below`).
    """

    state: Draining
    targets: list[BrokerTarget]
    is_everywhere: bool
    retries: list[str]
    deleted_below: dict[str, int]

    def _losers(self) -> list[GroupLeft]:
        """Return the groups that read the topic now, or have not read all of it."""
        return [left for left in self.state.groups if left.unread or left.mode is not Mode.OFFLINE]

    def text(self) -> str:
        """Return what would be lost, for people."""
        lines = [
            f"{self.state.topic}: {self.state.message_count:,} "
            f"message{'' if self.state.message_count == 1 else 's'} on {_names(self.targets)}"
        ]
        lines += [f"  {_group_text(left)}" for left in self._losers()]
        lines += [f"  with it: {name}" for name in self.retries]
        return "\n".join(lines)

    def record(self, *, applied: bool) -> dict[str, Any]:
        """Return what would be lost, or is lost, for programs."""
        groups = [{"group": left.group, "mode": str(left.mode), "unread": left.unread} for left in self._losers()]
        return {
            "topic": self.state.topic,
            "messages": self.state.message_count,
            "brokers": [target.name or target.address for target in self.targets],
            "groups": groups,
            "with": self.retries,
            "applied": applied,
        }

    def check(self, *, is_forced: bool) -> None:
        """Raise UnsafeError when a group would lose messages or its topic, unless forced."""
        losers = self._losers()
        if losers and not is_forced:
            texts = ", ".join(map(_group_text, losers))
            raise UnsafeError(f"{self.state.topic} is still read: {texts}: --force deletes it all the same")


async def plan(admin: Admin, topic: str, clusters: list[str], brokers: list[str], *, with_retries: bool) -> Deletion:
    """Look at what a deletion would cost. Raises NotFoundError."""
    holders = await admin.topics.targets(topic)
    targets = await admin.cluster.select(clusters, brokers) if clusters or brokers else holders
    deleted_below = await admin.topics.deleted_below(topic, targets)
    state = await admin.draining.look(topic, 0, targets)
    is_everywhere = set(holders) <= set(targets)
    retries = await _retries(admin, state) if with_retries and is_everywhere else []
    return Deletion(state, targets, is_everywhere, retries, deleted_below)


async def delete(admin: Admin, deletion: Deletion) -> list[str]:
    """Delete the topic and what goes along; return a line for each.

    Raises RefusedError or PartialError for a topic that was made again since the plan, at PyMQ's brokers.
    """
    topic = deletion.state.topic
    await admin.topics.delete(topic, deletion.targets, everywhere=deletion.is_everywhere, known=deletion.deleted_below)
    lines = [f"deleted {topic} on {_names(deletion.targets)}"]
    for name in deletion.retries:
        targets = await admin.topics.targets(name)
        await admin.topics.delete(name, targets, everywhere=True)
        lines.append(f"deleted {name} on {_names(targets)}")
    return lines


async def _retries(admin: Admin, state: Draining) -> list[str]:
    """Return the retry and dead-letter topics of the groups that read no other topic."""
    existing = await admin.topics.names()
    found = []
    for left in state.groups:
        own = tuple(prefix + left.group for prefix in (RETRY_PREFIX, DLQ_PREFIX))
        pop_retries = tuple(f"{RETRY_PREFIX}{left.group}{mark}{state.topic}" for mark in "_+")
        read = {name for name in await admin.groups.topics(left.group) if not name.startswith(RETRY_PREFIX)}
        if read <= {state.topic}:
            found += [name for name in existing if name in (*own, *pop_retries)]
    return found


def _names(targets: list[BrokerTarget]) -> str:
    return ", ".join(target.name or target.address for target in targets)


def _group_text(left: GroupLeft) -> str:
    unread = "reads it by broadcast" if left.mode is Mode.BROADCAST else f"has {left.unread:,} unread"
    return f"{left.group} ({left.mode}) {unread}"
