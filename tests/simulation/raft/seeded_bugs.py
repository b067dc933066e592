"""Bugs put into brokers of Raft groups on purpose: a seed must catch each.

``suites`` name the seed that is tried first, of plans with lite topics or priorities where
they begin with "lites" or "priorities".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymq.broker.messages.writer import Writer
from pymq.broker.pop.popper import Popper
from pymq.broker.pop.reviver import Reviver
from pymq.broker.raft.broker_log import BrokerLog
from pymq.broker.raft.disk_watch import FailingDisk
from pymq.broker.raft.driver import RaftDriver
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.group_tables import GroupTables
from pymq.broker.raft.state_files import RaftStateFile
from pymq.raft.leader import Leader
from pymq.store.lifecycle import recovery
from pymq.store.light.light_queues import LightQueues
from pymq.store.write.appender import Appender
from tests.planting import Bug, Seam, Text, does_nothing, gives


def _shows_at_once(
    real: Callable[..., Any], appender: Appender, *, await_sync: bool = False, await_confirm: bool = False
) -> None:
    real(appender, await_sync=await_sync, await_confirm=False)


BUGS = (
    Bug("a leader confirms what its own disk has",
        Text(Leader.confirm, "self._majority_of(log.synced_end, lambda progress: progress.match_end)",
             "log.synced_end"),
        ("seed 1",)),
    Bug("a send is answered before a majority has it",
        Text(Writer._commit, "needs_disk, needs_slaves = self._sync_flush(), self._copies.is_on",
             "needs_disk, needs_slaves = self._sync_flush(), False"),
        ("seed 1",)),
    Bug("a leader shows what is not confirmed", Seam(Appender.commit, _shows_at_once), ("seed 1",)),
    Bug("a follower shows what is not confirmed",
        Text(RaftGroup._follow_node, "show(node.confirm_offset)", "show(node.log.end)"), ("seed 3",)),
    Bug("a leader makes changes of tables before they are confirmed",
        Text(GroupTables.confirmed, "self.table_log.confirm(offset)", "self.table_log.confirm(1 << 60)"),
        ("seed 1",)),
    Bug("a divergent tail is not truncated",
        Text(BrokerLog.truncate, "if self.store.physical_max_offset > end:", "if False:"), ("seed 3",)),
    Bug("a node with an empty disk votes as the old one", Seam(RaftStateFile._draw, gives("disk")), ("seed 1",)),
    Bug("a leader whose log is read-only leads on", Seam(FailingDisk.tick, does_nothing), ("fsync 9",)),
    Bug("a log with a hole counts as whole",
        Text(recovery._end_at_damage, "if end is None:", "if True:"), ("lying 3",)),
    Bug("bytes count before they are synced",
        Text(RaftDriver._sync, "if not self._waits_for_sync:", "if True:"), ("seed 2",)),
    Bug("a follower makes no entries of light queues", Seam(LightQueues.take, does_nothing), ("lites 1",)),
    Bug("retries lose their priority",
        Text(Reviver._retry_queue, "return message.queue_id if message.queue_id < count else 0", "return 0"),
        ("priorities 1",)),
    Bug("a pop by priority begins at the lowest",
        Text(Popper._in_turn, "range(count - 1, -1, -1) if self._config.priority_order_asc else range(count)",
             "range(count)"),
        ("priorities 1",)),
    Bug("light queues keep a divergent tail", Seam(LightQueues.truncate, does_nothing), ("lites 3",)),
)  # fmt: skip
