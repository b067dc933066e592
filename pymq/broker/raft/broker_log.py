"""BrokerLog: the commit log of a broker as its Raft node's log, while parts come and go with the broker's role.

A part of a broker writes its log in one role alone: a leader's parts append records, a follower's take bytes. So what
does not fit the present role is refused with StoreUnavailableError: the driver holds the node, has asked for the other
role, and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from pymq.broker.raft.incoming import write_pieces
from pymq.clock import Clock
from pymq.errors import StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.names import RAFT_TOPIC
from pymq.raft.messages import AppendRequest, Piece, Snapshot
from pymq.raft.state import Membership
from pymq.store.store import Follower, MessageStore

CHANGING = "the broker changes its role: it takes the log again in a moment"
# Kinds of records in the system topic.
EPOCH_RECORD, MEMBERSHIP_RECORD = "epoch", "membership"
QUEUE_ID = 0


class _Staged(NamedTuple):
    """A record that is to be written: its body, when it was made (ms), and where it will end."""

    body: bytes
    born_ms: int
    end: int


class BrokerLog:
    """The driver's ``GroupLog``. One thread calls everything."""

    def __init__(self, clock: Clock, store_host: bytes, request_truncation: Callable[[int], None]) -> None:
        """``request_truncation`` has the log truncated at an offset: the broker closes its store for that."""
        self._clock = clock
        self._store_host = store_host
        self._request_truncation = request_truncation
        self._store: MessageStore | None = None
        self._follower: Follower | None = None
        self._request_sync: Callable[[], None] = lambda: None
        self.check_writes: Callable[[], None] = lambda: None
        self._staged: _Staged | None = None

    def attach(self, store: MessageStore, follower: Follower | None, request_sync: Callable[[], None]) -> None:
        """Use this open store from now on; ``follower`` is None on a leader."""
        self._store, self._follower, self._request_sync = store, follower, request_sync

    def detach(self) -> None:
        """Use no store: the present one is about to be closed."""
        self._store = self._follower = None
        self._request_sync = lambda: None

    @property
    def store(self) -> MessageStore:
        """The open store. Raises StoreUnavailableError without one."""
        if self._store is None:
            raise StoreUnavailableError(CHANGING)
        return self._store

    # -- what the driver asks for ------------------------------------------------------------------------------------

    def read_log(self, offset: int, size_max: int) -> memoryview:
        return self.store.read_log(offset, size_max)

    def truncate(self, end: int) -> None:
        if self.store.physical_max_offset > end:
            self._request_truncation(end)
            raise StoreUnavailableError(f"the log is truncated at {end}")

    def write(self, pieces: Iterable[Piece], request: AppendRequest, data: bytes) -> None:
        if self._follower is None:
            raise StoreUnavailableError(CHANGING)
        write_pieces(pieces, request, data, self._follower)

    def replace(self, snapshot: Snapshot) -> None:
        """The log was fetched into this store, which was empty."""
        store = self.store
        if (store.physical_min_offset, store.physical_max_offset) != (snapshot.begin, snapshot.last.end):
            raise StoreUnavailableError(f"the log is not the one of the snapshot that ends at {snapshot.last.end}")

    def stage_membership(self, membership: Membership) -> int:
        """The record is staged to learn where it will end, and dropped again: its write comes after the state's."""
        body = record_body(MEMBERSHIP_RECORD, membership=membership)
        born_ms = self._clock.now_ms()
        end = self._stage(body, born_ms)
        self._leader_store().drop_staged()
        self._staged = _Staged(body, born_ms, end)
        return end

    def write_membership(self) -> None:
        staged = self._staged
        assert staged is not None
        self.check_writes()  # a held node's store takes no records, and this one ends that
        end = self._stage(staged.body, staged.born_ms)
        assert end == staged.end, f"the record of a membership ends at {end}, it was proposed to end at {staged.end}"
        self._leader_store().commit(await_confirm=True)
        self._staged = None

    def request_sync(self) -> None:
        self._request_sync()

    # -- a leader's own records --------------------------------------------------------------------------------------

    def write_epoch(self, term: int) -> int:
        """Write the first record of a leader's epoch; return where it ends. Raises StoreUnavailableError."""
        end = self._stage(record_body(EPOCH_RECORD, term=term), self._clock.now_ms())
        self._leader_store().commit(await_confirm=True)
        return end

    def _leader_store(self) -> MessageStore:
        if self._follower is not None:
            raise StoreUnavailableError(CHANGING)
        return self.store

    def _stage(self, body: bytes, born_ms: int) -> int:
        placed = self._leader_store().stage(RAFT_TOPIC, QUEUE_ID, Draft(body, b"", born_ms, self._store_host))
        return placed.physical_offset + placed.size_bytes


def record_body(kind: str, **members: object) -> bytes:
    """Return the body of a record in the system topic."""
    return msgspec.json.encode({"kind": kind, **members})
