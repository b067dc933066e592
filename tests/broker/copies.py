"""Copies of a broker's log: a slave's and those of a Raft group's members are equal, readable, and serve the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymq.broker.raft.incoming import check_bytes, write_pieces
from pymq.broker.raft.outgoing import parts
from pymq.broker.replication.roles.role import Role
from pymq.raft.messages import AppendRequest, Piece
from pymq.raft.state import Position, Replica
from pymq.store.replica.follower import Follower
from pymq.store.scan.scanner import End, scan
from pymq.store.store import MessageStore
from tests.broker.world import World, slave_side
from tests.store.support import everything

N0, N1 = Replica("n0", "00aa"), Replica("n1", "11bb")
FRAME_BYTES = 4093  # a slave gets the log in any pieces


def as_slave(store: MessageStore, follower: Follower) -> None:
    """Copy the log as a master sends it."""
    while follower.end < store.physical_max_offset:
        follower.append(follower.end, store.read_log(follower.end, FRAME_BYTES))


def as_member(store: MessageStore, follower: Follower) -> None:
    """Copy the log as the leader of a Raft group sends it: in parts of whole records, each checked."""
    end = store.physical_max_offset
    request = AppendRequest(N0, N1, 1, Position(0, 0), (Piece(1, 0, end),), (), 0)
    for part in parts(request, store):
        check_bytes(part.request, part.data)
        write_pieces(part.request.pieces, part.request, part.data, follower)


COPIERS: tuple[Callable[[MessageStore, Follower], None], ...] = (as_slave, as_member)


def check_copies(source: World) -> None:
    """Check that copies of the whole log have the log, the queues and the messages of ``source``, also when they lead.

    Every record of them can be read.
    """
    store = source.parts.store
    end = store.physical_max_offset
    settings: dict[str, Any] = {"mappedFileSizeCommitLog": source.config.mapped_file_size_commit_log_bytes}
    for copier in COPIERS:
        copy = World(role=Role(1), **settings)
        follower, own = slave_side(copy.parts).follower, copy.parts.store
        copier(store, follower)
        follower.dispatch()
        assert own.physical_max_offset == follower.dispatched_end == end
        assert read(own, end) == read(store, end)
        *_, last = scan(own._log, 0, check_crc=True)
        assert isinstance(last, End) and last.offset == end
        assert everything(own) == everything(store)
        leading = World(copy.files.after_kill(), source.clock, role=Role(0, begins_epoch=True), **settings)
        assert everything(leading.parts.store) == everything(store)


def read(store: MessageStore, end: int) -> bytes:
    """Return the bytes of the log up to an offset."""
    data = b""
    while len(data) < end:
        data += bytes(store.read_log(len(data), end - len(data)))
    return data
