"""RaftStateFile: term, vote, identity, memberships and epochs of a node, in ``config/raftState.json``.

A vote or term counts only when it is on the disk. So a save returns after both the file and its directory entry are
there, and a load syncs what it found: a start after a kill may read what a power loss would still take back.

The file has no backup. An older content is worse than none: with it the node could vote twice in one term. A file that
fails its checksum is refused. A node without the file, and one whose log lost confirmed bytes, draws a new disk id: it
is another replica, which the group takes as a learner before it may vote.
"""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Annotated

import msgspec
from xxhash import xxh3_64_hexdigest

from pymq.broker.raft.node_directory import RAFT_STATE_FILE
from pymq.errors import StoreError, StoreUnavailableError, UsageError
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.raft.core import TERM_MAX
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, RaftState, Replica
from pymq.store.disk.fs import Files, make_directory, put_file, sync_if_there

FORMAT = 1
DISK_ID_BITS = 64  # as 16 hex digits

log = logging.getLogger(__name__)

_Number = Annotated[int, msgspec.Meta(ge=0)]
_Id = Annotated[str, msgspec.Meta(min_length=1)]


class _Replica(msgspec.Struct, rename="camel", frozen=True):
    node_id: _Id
    disk_id: _Id


class _Member(msgspec.Struct, rename="camel", frozen=True):
    node_id: _Id
    disk_id: _Id
    kind: Kind


class _Membership(msgspec.Struct, rename="camel", frozen=True):
    """``end``: where the record with it ends in the log."""

    end: _Number
    members: list[_Member]


class _Epoch(msgspec.Struct, rename="camel", frozen=True):
    number: _Number
    start: _Number


class _State(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The members of the file; see :class:`RaftState`."""

    format: int
    replica: _Replica
    term: _Number
    vote: _Replica | None
    promised: list[_Replica]
    confirm_offset: _Number
    epochs: list[_Epoch]
    memberships: list[_Membership]


class _File(msgspec.Struct):
    """``checksum``: the xxh3-64 of ``state`` as it stands in the file, in hex."""

    checksum: str
    state: msgspec.Raw


class RaftStateFile:
    """Reads and writes one node's state. One thread calls it. :meth:`open` comes first."""

    def __init__(self, files: Files, root: str, rng: random.Random) -> None:
        """``root``: the broker's directory. ``rng`` draws the disk id of a new replica."""
        self._files = files
        self._directory = f"{root}/config"
        self.path = f"{self._directory}/{RAFT_STATE_FILE}"
        self._rng = rng
        self._saved: RaftState | None = None

    def open(self, node_id: str, log_end: int, *, lost: str = "") -> RaftState:
        """Return the state of the node ``node_id``, whose log ends at ``log_end``; of a new replica without a file.

        ``lost`` says why the log may lack bytes that this node has acknowledged; empty when it has all of them. Raises
        StoreError for a file that can't be trusted, UsageError for another node's, StoreUnavailableError when the disk
        fails.
        """
        state = self._load()
        if state is None:
            make_directory(self._files, self._directory)
            return self._begin(RaftState(Replica(node_id, self._draw())))
        if state.replica.node_id != node_id:
            raise UsageError(
                f"{self.path} belongs to {state.replica.node_id}, this broker is {node_id}: start it with its own "
                f"directory, or with dLegerSelfId={state.replica.node_id} if it is that member"
            )
        if not lost and log_end < state.confirm_offset:
            lost = f"its log ends at {log_end}, and was confirmed up to {state.confirm_offset}"
        if lost:
            fresh = replace(within(state, log_end), replica=Replica(node_id, self._draw()), vote=None, promised=())
            log.warning(
                "%s: %s; it joins with the new disk id %s, as a learner, before it votes again",
                node_id,
                lost,
                fresh.replica.disk_id,
            )
            return self._begin(fresh)
        self._saved = state
        return within(state, log_end)

    def read(self) -> RaftState:
        """Return the state of a node that is stopped. Raises StoreError, StoreUnavailableError."""
        state = self._load()
        assert state is not None
        return state

    def set_term(self, term: int) -> RaftState:
        """Set the term of a node that is stopped, without a vote in it; return its state.

        It is safe when all members are stopped, and get the same term: no vote of a later one is left anywhere. Raises
        UsageError for a term in which the node's bytes can't be.
        """
        state = self.read()
        newest = state.epochs[-1].number if state.epochs else 0
        if not newest <= term < TERM_MAX:
            raise UsageError(
                f"term {term}: the newest bytes are of term {newest}, allowed are {newest} to {TERM_MAX - 1}"
            )
        changed = replace(state, term=term, vote=None)
        self._put(encode(changed))
        return changed

    def _draw(self) -> str:
        return f"{self._rng.getrandbits(DISK_ID_BITS):016x}"

    def _begin(self, state: RaftState) -> RaftState:
        self._saved = None
        self.save(state)
        return state

    def save(self, state: RaftState) -> None:
        """Replace the file; it is on the disk on return. An unchanged state costs no write.

        Raises StoreUnavailableError; then nothing that follows from ``state`` may be sent or written.
        """
        if state == self._saved:
            return
        assert self._saved is None or goes_on(self._saved, state), f"{state} does not follow {self._saved}"
        try:
            self._put(encode(state))
        except OSError as error:
            raise StoreUnavailableError(
                f"{self.path} can't be saved: {_text(error)} on {error.filename or 'the disk'}; "
                "the node neither votes nor leads until it can: make room or mend the disk"
            ) from error
        self._saved = state

    def _put(self, raw: bytes) -> None:
        put_file(self._files, self.path, raw)
        self._files.sync_dir(self._directory)

    def _load(self) -> RaftState | None:
        try:
            raw = self._files.read_bytes(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damage(f"it can't be read: {_text(error)}") from error
        try:
            state = decode(raw)
        except ValueError as error:
            raise self._damage(str(error)) from error
        try:
            sync_if_there(self._files, self.path)
            self._files.sync_dir(self._directory)
        except OSError as error:
            raise StoreUnavailableError(
                f"{self.path} can't be synced: {_text(error)}; the node does not vote with what "
                "a power loss may take back: mend the disk"
            ) from error
        return state

    def _damage(self, why: str) -> StoreError:
        return StoreError(
            f"{self.path}: {why}. The node may have voted in a term that it no longer knows, so it does not start. Do "
            "not put back an older copy. Move the file away: the node then joins with a new disk id, as a learner that "
            "copies the log before it votes"
        )


def _text(error: OSError) -> str:
    return f"{error.strerror} (errno {error.errno})"


def within(state: RaftState, log_end: int) -> RaftState:
    """Return the state of a log that ends at ``log_end``: epochs and memberships of bytes that it lacks are dropped.

    The first membership stays in any case, or the node could help to found its group a second time.
    """
    return replace(
        state,
        confirm_offset=min(state.confirm_offset, log_end),
        epochs=tuple(epoch for epoch in state.epochs if epoch.start < log_end),
        memberships=state.memberships[:1] + tuple(entry for entry in state.memberships[1:] if entry.end <= log_end),
    )


def goes_on(before: RaftState, after: RaftState) -> bool:
    """Return True when ``after`` may follow ``before``: neither a term nor a vote in it is taken back."""
    if before.replica != after.replica or after.term < before.term:
        return False
    return after.term > before.term or before.vote is None or after.vote == before.vote


# -- the file's bytes --------------------------------------------------------------------------------------------------


def encode(state: RaftState) -> bytes:
    """Return the content of the file."""
    body = msgspec.json.format(msgspec.json.encode(_body(state)), indent=1)
    return b'{"checksum": "%s",\n"state": %s}\n' % (xxh3_64_hexdigest(body).encode(), body)


def decode(raw: bytes) -> RaftState:
    """The inverse of :func:`encode`. Raises ValueError with the reason for anything else."""
    try:
        file = decode_json(raw, _File)
    except JsonError as error:
        raise ValueError(f"it is damaged ({error})") from error
    if xxh3_64_hexdigest(bytes(file.state)) != file.checksum:
        raise ValueError("it does not match its checksum: it is damaged, or was edited")
    try:
        return _state(decode_json(file.state, _State))
    except JsonError as error:
        raise ValueError(f"it is of another version than {FORMAT}, which this PyMQ reads ({error})") from error


def _body(state: RaftState) -> _State:
    return _State(
        format=FORMAT,
        replica=_Replica(*state.replica),
        term=state.term,
        vote=None if state.vote is None else _Replica(*state.vote),
        promised=[_Replica(*founder) for founder in state.promised],
        confirm_offset=state.confirm_offset,
        epochs=[_Epoch(*epoch) for epoch in state.epochs],
        memberships=[
            _Membership(end, [_Member(*replica, kind) for replica, kind in membership.members])
            for end, membership in state.memberships
        ],
    )


def _state(body: _State) -> RaftState:
    if body.format != FORMAT:
        raise JsonError(f"format {body.format}")
    return RaftState(
        replica=_replica(body.replica),
        term=body.term,
        vote=None if body.vote is None else _replica(body.vote),
        promised=tuple(map(_replica, body.promised)),
        confirm_offset=body.confirm_offset,
        epochs=tuple(Epoch(epoch.number, epoch.start) for epoch in body.epochs),
        memberships=tuple(
            MembershipEntry(entry.end, Membership(tuple((_replica(member), member.kind) for member in entry.members)))
            for entry in body.memberships
        ),
    )


def _replica(body: _Replica | _Member) -> Replica:
    return Replica(body.node_id, body.disk_id)
