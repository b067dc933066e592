"""The tables that slaves copy: how a master tells each and how a slave takes it. One row a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pymq.broker.replication.slave.cursors import SlaveCursors
from pymq.config.values import ASYNC_MASTER, SYNC_MASTER
from pymq.model.tables import DataVersion

if TYPE_CHECKING:
    from pymq.broker.parts import BrokerParts

TOPICS = "topics"
GROUPS = "subscriptionGroup"
OFFSETS = "consumerOffset"
DELAYS = "delayOffset"
DELETIONS = "deletedTopics"
MASTER_ROLE = "masterRole"


# Compared in every turn; made into text for a slave alone.
Stamp = tuple[DataVersion | int, ...]


class TableRead(NamedTuple):
    """A table as it stands in its file; ``is_part``: only what changed since a version."""

    table: dict[str, Any]
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """``name`` is its file's in ``config/``, if it has one, ``member`` the object in it that holds everything.

    ``start_id`` is another one at each start of a broker; ``stamp`` changes with every change since, and is cheap: it
    is looked at in every turn. ``read`` gets the version that the slave has, maybe of another master or none.
    ``take(table, is_part)`` raises StoreError or OSError when the disk fails: the table is asked for again.
    ``waits_for_log``: the table speaks of messages and must not be ahead of them.
    """

    name: str
    member: str
    start_id: str
    stamp: Callable[[], Stamp]
    read: Callable[[str], TableRead]
    take: Callable[[dict[str, Any], bool], None]
    waits_for_log: bool = False

    def version(self) -> str:
        """Changes with every change, also over restarts."""
        return ".".join([self.start_id, *map(_text, self.stamp())])


def copied_tables(parts: BrokerParts, start_id: str) -> list[CopiedTable]:
    """In the order in which a slave takes them. ``start_id`` is another one at each start of a broker."""
    deletions = _Deletions(parts)
    offsets = _Offsets(parts, start_id)
    topics, groups, delays = parts.topics, parts.groups, parts.delays

    def take_topics(table: dict[str, Any], is_part: bool) -> None:
        for topic in topics.take_over(table):
            parts.stats.forget_topic(topic)

    def take_groups(table: dict[str, Any], is_part: bool) -> None:
        for group in groups.take_over(table):
            parts.pending_offsets.forget_group(group)
            parts.stats.forget_group(group)

    def take_master_role(table: dict[str, Any], is_part: bool) -> None:
        parts.watch.note_master_role(str(table[MASTER_ROLE].get("role")))

    return [
        # First, so that what was committed in a deleted topic is forgotten before offsets of a new one come.
        CopiedTable(DELETIONS, DELETIONS, start_id, deletions.stamp, deletions.read, deletions.take),
        CopiedTable(
            TOPICS,
            "topicConfigTable",
            start_id,
            lambda: (topics.data_version,),
            lambda known: TableRead(topics.as_table()),
            take_topics,
        ),
        CopiedTable(
            GROUPS,
            "subscriptionGroupTable",
            start_id,
            lambda: (groups.data_version,),
            lambda known: TableRead(groups.as_table()),
            take_groups,
        ),
        CopiedTable(OFFSETS, "offsetTable", start_id, offsets.stamp, offsets.read, offsets.take),
        # A delayed message counts as delivered on the slave once its log has the delivered one.
        CopiedTable(
            DELAYS,
            "offsetTable",
            start_id,
            lambda: (delays.data_version, delays.change_count),
            lambda known: TableRead(delays.as_table()),
            lambda table, is_part: delays.take_over(table),
            waits_for_log=True,
        ),
        # So that whoever takes over goes on with what senders were promised last.
        CopiedTable(
            MASTER_ROLE,
            MASTER_ROLE,
            start_id,
            lambda: (int(parts.sync_mode.is_on),),
            lambda known: TableRead({MASTER_ROLE: {"role": SYNC_MASTER if parts.sync_mode.is_on else ASYNC_MASTER}}),
            take_master_role,
        ),
    ]


def _text(part: DataVersion | int) -> str:
    return str(part) if isinstance(part, int) else f"{part.counter}.{part.timestamp}.{part.state_version}"


class _Offsets:
    """Change often: a slave that has an earlier state of the same start gets what changed since."""

    def __init__(self, parts: BrokerParts, start_id: str) -> None:
        self._cursors = parts.cursors
        self._start_id = start_id

    def stamp(self) -> tuple[int, int]:
        return self._cursors.change_count, self._cursors.data_version.counter

    def read(self, known: str) -> TableRead:
        start_id, _, rest = known.partition(".")
        number = rest.partition(".")[0]
        if start_id == self._start_id and number.isdigit():
            part = self._cursors.changes_since(int(number))
            if part is not None:
                return TableRead(part, is_part=True)
        return TableRead(self._cursors.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        assert isinstance(self._cursors, SlaveCursors), "only a slave takes tables"
        self._cursors.take_over(table, is_part=is_part)


class _Deletions:
    """Topics and the log offsets below which their records are deleted. A slave goes by them in its own queues, for
    records that are still to come too; it keeps those that its master has forgotten until its own log has."""

    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self._pending = parts.pending_offsets

    def stamp(self) -> tuple[int]:
        return (self._store.deletions.change_count,)

    def read(self, known: str) -> TableRead:
        return TableRead({DELETIONS: self._store.deletions.ends})

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        ends = {topic: end for topic, end in table[DELETIONS].items() if isinstance(end, int)}
        for topic in self._store.delete_topics_below(ends):
            self._pending.forget_topic(topic)
