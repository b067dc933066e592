"""Raft's five properties (figure 3 of the paper), checked on real brokers after each of their turns.

The ledger of a group knows, independently of any node: which replica led which term, the bytes of each epoch and where
it begins, which replica's disk ever had how much of each epoch, and what was confirmed. Every node's log, confirm
offset and tables are compared with that as they change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from pymq.broker.raft.tables import Tables
from pymq.raft.log_view import LogView
from pymq.raft.node import RaftNode
from pymq.raft.state import Epoch, Position, Replica
from pymq.store.store import MessageStore
from tests.simulation.history import History
from tests.simulation.raft.node import RaftBroker
from tests.simulation.timeline import SECOND


@dataclass
class _EpochLog:
    """The bytes that the leader of one term wrote, from ``start`` on; ``before`` is the epoch of the byte before."""

    start: int
    before: int
    data: bytearray = field(default_factory=bytearray)


class _Look(NamedTuple):
    """What a node was when it was looked at last."""

    start_count: int
    replica: Replica
    term: int
    leads: bool
    end: int
    truncation_count: int
    disk_end: int
    confirm_offset: int
    is_member: bool
    table_end: int
    is_open: bool


class Ledger:
    """What is known of one group."""

    def __init__(self, history: History, now_us: Callable[[], int], *, is_sync_flush: bool) -> None:
        self._history = history
        self._now_us = now_us
        self._is_sync_flush = is_sync_flush
        self._looks: dict[str, _Look] = {}
        self._checked_ends: dict[str, int] = {}
        self._leaders: dict[int, Replica] = {}
        self._epochs: dict[int, _EpochLog] = {}
        self._had: defaultdict[Replica, dict[int, int]] = defaultdict(dict)  # replica -> epoch -> end on its disk
        self._tables: dict[int, str] = {}
        self.emptied: set[Replica] = set()  # replicas whose disk is gone: none may be one of these again
        self._confirmed_epochs: tuple[Epoch, ...] = ()
        self.confirmed = Position(0, 0)

    def look(self, broker: RaftBroker) -> None:
        """Look at a broker whose turn has ended."""
        raft = broker.raft
        if raft is None:
            return
        node, parts = raft.node, broker.parts
        view = node.log
        disk_end = view.end if not self._is_sync_flush or parts is None else min(parts.store.synced_offset, view.end)
        tables = raft.tables.tables
        now = _Look(
            broker.start_count, node.replica, node.term, node.leadership is not None, view.end, view.truncation_count,
            disk_end, node.confirm_offset, bool(view.memberships), tables.end, parts is not None,
        )  # fmt: skip
        before = self._looks.get(broker.name)
        if now == before:
            return
        if node.replica in self.emptied:
            self._violated(f"{broker.name} has an empty disk and is still {node.replica}, which may have voted")
        self._looks[broker.name] = now
        if before is None or before.start_count != now.start_count or before.replica != now.replica:
            before = None
            self._checked_ends[broker.name] = 0
        elif before.truncation_count != now.truncation_count:
            self._checked_ends[broker.name] = 0
            kind = "divergent tails truncated" if before.is_member else "joinings by a snapshot"
            self._history.operations[kind] += 1
        self._check_leader(broker, node, before, now)
        if parts is not None:
            self._check_bytes(broker, view, parts.store)
            self._note_disk(node.replica, view, disk_end)
        self._check_confirmed(broker, node, before)
        self._check_tables(broker, tables)

    def has_all_confirmed(self, broker: RaftBroker) -> bool:
        """Return whether a running broker's disk has everything that was ever confirmed."""
        node = broker.node
        look = self._looks.get(broker.name)
        return node is not None and look is not None and look.disk_end >= self.confirmed.end and self._has(node.log)

    # -- the properties ------------------------------------------------------------------------------------------

    def _check_leader(self, broker: RaftBroker, node: RaftNode, before: _Look | None, now: _Look) -> None:
        if not now.leads:
            return
        known = self._leaders.get(now.term)
        if known is None:
            self._leaders[now.term] = node.replica
            self._history.operations["elections"] += 1
            self._note(f"{broker.name} leads term {now.term}, log to {now.end}, confirmed {self.confirmed}")
            if not self._has(node.log):
                self._violated(
                    f"leader completeness: {broker.name} leads term {now.term} without what is confirmed up to "
                    f"{self.confirmed}: {node.log.epochs}, end {node.log.end}"
                )
        elif known != node.replica:
            self._violated(f"election safety: {known} and {node.replica} both lead term {now.term}")
        if before is None or not before.leads or before.term != now.term:
            return
        if now.end < before.end or now.truncation_count != before.truncation_count:
            self._violated(f"leader append-only: {broker.name} had {before.end} bytes, has {now.end} as a leader")

    def _check_bytes(self, broker: RaftBroker, view: LogView, store: MessageStore) -> None:
        """Log matching: bytes of one epoch are the same in all logs, and so is what comes before an epoch."""
        start = max(self._checked_ends[broker.name], view.begin, store.physical_min_offset)
        end = min(view.end, store.physical_max_offset)
        for epoch in view.epochs:
            self._check_start(broker, view, epoch)
        for number, begin, behind in view.pieces(start, end):
            self._compare(broker, number, begin, _read(store, begin, behind))
        self._checked_ends[broker.name] = max(start, end)

    def _check_start(self, broker: RaftBroker, view: LogView, epoch: Epoch) -> None:
        known = self._epochs.get(epoch.number)
        if epoch.start >= view.end or epoch.start < view.begin:
            return
        before = view.position(epoch.start).epoch if epoch.start > view.begin or not view.begin else -1
        if known is None:
            self._epochs[epoch.number] = _EpochLog(epoch.start, before)
        elif known.start != epoch.start or before not in (-1, known.before):
            self._violated(
                f"log matching: epoch {epoch.number} begins at {epoch.start} behind epoch {before} in {broker.name}, "
                f"elsewhere at {known.start} behind {known.before}"
            )

    def _compare(self, broker: RaftBroker, number: int, begin: int, data: bytes) -> None:
        known = self._epochs.get(number)
        if known is None:
            self._violated(f"log matching: {broker.name} has bytes of epoch {number}, of which nobody has the begin")
            return
        at = begin - known.start
        if at < 0 or at > len(known.data):
            self._violated(f"log matching: {broker.name} has {begin} of epoch {number}, of which nobody had it all")
            return
        common = min(len(known.data) - at, len(data))
        if known.data[at : at + common] != data[:common]:
            self._violated(f"log matching: epoch {number} from {begin} on differs in {broker.name}")
        known.data += data[common:]

    def _note_disk(self, replica: Replica, view: LogView, disk_end: int) -> None:
        had, end = self._had[replica], disk_end
        for number, start in reversed(view.epochs):
            if start < end:
                had[number] = max(had.get(number, 0), end)
                end = start

    def _check_confirmed(self, broker: RaftBroker, node: RaftNode, before: _Look | None) -> None:
        view, offset = node.log, node.confirm_offset
        if before is not None and offset < before.confirm_offset:
            self._violated(f"{broker.name} takes back what it confirmed: {before.confirm_offset}, now {offset}")
        if not offset or (before is not None and offset == before.confirm_offset):
            return
        at = view.position(offset)
        if offset > self.confirmed.end:
            if not self._has(view):
                self._violated(f"state machine safety: {broker.name} confirms {at}, its log lacks {self.confirmed}")
            self._check_majority(broker, node, at)
            self.confirmed = at
            self._confirmed_epochs = tuple(epoch for epoch in view.epochs if epoch.start < offset)
        elif offset >= view.begin and at != self._confirmed_at(offset):
            self._violated(
                f"state machine safety: {broker.name} confirms {at}, confirmed is {self._confirmed_at(offset)}"
            )

    def _check_majority(self, broker: RaftBroker, node: RaftNode, at: Position) -> None:
        voters = node.log.membership.voters
        having = [replica for replica in voters if self._had[replica].get(at.epoch, 0) >= at.end]
        if len(having) < node.log.membership.majority_count:
            self._violated(
                f"{broker.name} confirms {at}, which only {sorted(having)} of the voters {sorted(voters)} ever had"
            )

    def _check_tables(self, broker: RaftBroker, tables: Tables) -> None:
        """State machine safety: tables of the same records are equal, and made of what is confirmed."""
        newest = max((table.end for table in tables.all()), default=0)
        if newest > self.confirmed.end:
            self._violated(f"tables of {broker.name} have a record up to {newest}, confirmed is {self.confirmed}")
        if not newest or self._looks[broker.name].table_end != tables.end:
            return
        parts = [(table.name, sorted(table.values.items()), _entries(table.entries)) for table in tables.all()]
        digest = xxh3_64_hexdigest(repr(sorted(parts)).encode())
        if self._tables.setdefault(newest, digest) != digest:
            self._violated(f"state machine safety: tables of {broker.name} as of {newest} differ from another's")

    # -- small things --------------------------------------------------------------------------------------------

    def _has(self, view: LogView) -> bool:
        return not self.confirmed.end or view.has(self.confirmed)

    def _confirmed_at(self, offset: int) -> Position:
        number = next((epoch.number for epoch in reversed(self._confirmed_epochs) if epoch.start < offset), 0)
        return Position(number, offset)

    def _note(self, text: str) -> None:
        self._history.note(f"{self._now_us() / SECOND:.4f} {text}")

    def _violated(self, text: str) -> None:
        self._history.violated(f"at {self._now_us() / SECOND:.3f} s: {text}")


def _entries(entries: dict[str, dict[str, bytes]]) -> list[tuple[str, list[tuple[str, bytes]]]]:
    return [(member, sorted(found.items())) for member, found in sorted(entries.items()) if found]


def _read(store: MessageStore, begin: int, end: int) -> bytes:
    found = bytearray()
    while begin < end:
        data = store.read_log(begin, end - begin)
        found += data
        begin += len(data)
    return bytes(found)
