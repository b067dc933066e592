"""Checker: Raft's five properties (figure 3 of the paper), and what clients were promised, held at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.raft.messages import Message, VoteAnswer
from pymq.raft.state import Replica
from tests.raft.disk import Disk, Record

if TYPE_CHECKING:
    from tests.raft.world import SimNode, World


class BrokenPromiseError(AssertionError):
    """One of the properties does not hold."""


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromiseError(what)


class Checker:
    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[int, Replica] = {}
        self._votes: dict[tuple[int, Replica], Replica] = {}
        self._chains: dict[tuple[int, int], int] = {}
        self.confirmed: dict[int, int] = {0: 0}  # end of a record -> its chain
        self._confirmed_in: dict[int, int] = {}  # end of a record -> the term in which it was confirmed
        self.confirmed_end = 0

    def on_leader(self, node: SimNode) -> None:
        term = node.raft.term
        first = self._leaders.setdefault(term, node.raft.replica)
        demand(first == node.raft.replica, f"election safety: term {term} has the leaders {first}, {node.raft.replica}")
        self._has_all_confirmed(node, "leader completeness")

    def on_message(self, message: Message) -> None:
        if isinstance(message, VoteAnswer) and message.is_granted:
            first = self._votes.setdefault((message.term, message.sender), message.to)
            demand(first == message.to, f"{message.sender} votes twice in term {message.term}")

    def on_append(self, node: SimNode, record: Record) -> None:
        chain = self._chains.setdefault((record.epoch, record.end), record.chain)
        demand(chain == record.chain, f"log matching: {node.name} has other bytes at {record.epoch}, {record.end}")

    def on_truncate(self, node: SimNode, end: int) -> None:
        demand(node.raft.leadership is None, f"leader append-only: {node.name} truncates to {end}")
        demand(end >= node.raft.confirm_offset, f"{node.name} truncates to {end} what it has shown")

    def on_confirm(self, node: SimNode) -> None:
        """State machine safety: what is confirmed here is confirmed anywhere, and on a majority's disks."""
        disk, end = node.disk, node.raft.confirm_offset
        demand(end <= disk.end, f"{node.name} confirms {end}, its log ends at {disk.end}")
        for record in disk.records_in(node.confirmed_before, end):
            chain = self.confirmed.setdefault(record.end, record.chain)
            self._confirmed_in.setdefault(record.end, node.raft.term)
            demand(chain == record.chain, f"state machine safety: {node.name} confirms other bytes at {record.end}")
        if end > self.confirmed_end:
            self._is_on_majority(node, end)
            self.confirmed_end = end
        node.confirmed_before = end

    def on_read(self, asked_at_end: int, confirm_offset: int | None) -> None:
        if confirm_offset is not None:
            demand(confirm_offset >= asked_at_end, f"a current read sees {confirm_offset} of {asked_at_end}")

    def _is_on_majority(self, node: SimNode, end: int) -> None:
        chain, voters = node.disk.chain_at(end), node.raft.membership.voters
        disks = [self._world.disk_of(voter) for voter in voters]
        count = sum(disk is None or has_synced(disk, end, chain) for disk in disks)
        demand(count * 2 > len(voters), f"{node.name} confirms {end}, on {count} of {len(voters)} disks")

    def _has_all_confirmed(self, node: SimNode, rule: str) -> None:
        """A leader has what earlier terms have confirmed. Late votes may elect it after later terms confirmed more."""
        for end, term in self._confirmed_in.items():
            if term < node.raft.term and end > node.disk.begin:
                there = node.disk.chain_at(end) == self.confirmed[end]
                demand(there, f"{rule}: {node.name} leads term {node.raft.term} without the confirmed bytes at {end}")


def has_synced(disk: Disk, end: int, chain: int | None) -> bool:
    return disk.synced_end >= end and (disk.chain_at(end) == chain or disk.begin >= end)
