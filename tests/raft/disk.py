"""A node's disk in the simulation: a state file, and a log that loses what was not synced with the power."""

from __future__ import annotations

import random
from typing import NamedTuple

from pymq.raft.messages import Snapshot
from pymq.raft.state import Membership, RaftState, Replica


class Record(NamedTuple):
    """A record with its place. ``chain`` stands for the bytes of the log up to its end."""

    end: int
    epoch: int
    chain: int
    membership: Membership | None = None


class Disk:
    """What survives a restart. The log is real: it does not come from what the core believes about it."""

    def __init__(self, replica: Replica) -> None:
        self.state = RaftState(replica)
        self.records: list[Record] = []
        self.begin = 0
        self.synced_end = 0

    @property
    def end(self) -> int:
        return self.records[-1].end if self.records else self.begin

    def chain_at(self, end: int) -> int | None:
        """Return the chain of the record that ends at ``end``; None when it is not here."""
        return next((record.chain for record in reversed(self.records) if record.end == end), None)

    def records_in(self, begin: int, end: int) -> list[Record]:
        found = []
        for record in reversed(self.records):
            if record.end <= begin:
                break
            if record.end <= end:
                found.append(record)
        return found[::-1]

    def append(self, record: Record) -> None:
        self.records.append(record)

    def truncate(self, end: int) -> None:
        while self.records and self.records[-1].end > end:
            self.records.pop()
        self.synced_end = min(self.synced_end, end)

    def release(self, begin: int) -> None:
        self.records = self.records_in(begin, self.end)
        self.begin = begin

    def replace(self, snapshot: Snapshot, records: list[Record]) -> None:
        self.records, self.begin, self.synced_end = records, snapshot.begin, snapshot.last.end

    def lose_power(self, rng: random.Random) -> None:
        """Lose some of what was not synced, from the end on."""
        unsynced = self.records_in(self.synced_end, self.end)
        if unsynced:
            self.truncate(rng.choice([self.synced_end, *(record.end for record in unsynced)]))
        self.synced_end = self.end
