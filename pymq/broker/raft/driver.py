"""RaftDriver: binds the core of a group (:mod:`pymq.raft`) to a clock, a disk and connections, without I/O of its own.

After each call into the core it carries out the effects in their order: truncate, save the state, write, then send and
tell. While the disk refuses one of the first three, the node is *held*: it takes no message and counts no tick, as if
it were paused, and tries again. So nothing is sent that the disk does not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from pymq.broker.raft.members import GroupSettings
from pymq.broker.raft.outgoing import LogSource, Part
from pymq.broker.raft.sending import Sending
from pymq.config.raft import ELECTION_TIMEOUT_DEFAULT_MS
from pymq.errors import NotFoundError, RaftRefusedError, StoreError
from pymq.raft.core import ELECTION_TICKS, ReadAnswer, Ready, Role
from pymq.raft.messages import AppendRequest, Message, Piece, Snapshot
from pymq.raft.node import RaftNode
from pymq.raft.state import Membership, RaftState, Replica


def tick_ms_of(settings: GroupSettings) -> int:
    """Return the time from one tick of the core to the next, in ms."""
    return settings.election_timeout_ms // ELECTION_TICKS


TICK_MS = ELECTION_TIMEOUT_DEFAULT_MS // ELECTION_TICKS


class GroupLog(LogSource, Protocol):
    """The node's log. A failing disk raises StoreError, and the same call comes again."""

    def truncate(self, end: int) -> None:
        """Remove the bytes from ``end`` on, on the disk too."""
        ...

    def write(self, pieces: Iterable[Piece], request: AppendRequest, data: bytes) -> None:
        """Write these ranges of a leader's request; what a call before has written already is no error."""
        ...

    def replace(self, snapshot: Snapshot) -> None:
        """Make log and tables those of a snapshot that was fetched, on the disk too."""
        ...

    def stage_membership(self, membership: Membership) -> int:
        """Prepare the record of a membership at the log's end; return where it will end."""
        ...

    def write_membership(self) -> None:
        """Write the record that was prepared."""
        ...

    def request_sync(self) -> None:
        """Have the log synced. :meth:`RaftDriver.synced` is called when that is done."""
        ...


class StateFile(Protocol):
    """:class:`pymq.broker.raft.state_files.RaftStateFile`."""

    def save(self, state: RaftState) -> None: ...


class Connections(Protocol):
    """The ways to the other nodes. Nothing is promised: what is lost comes again, or something newer does."""

    def send(self, message: Message) -> None:
        """Send a message that has no bytes of the log."""
        ...

    def wake(self, to: Replica) -> None:
        """There are bytes for ``to``: take them with :meth:`RaftDriver.next_part` while its connection has room."""
        ...


class Owner(Protocol):
    """The broker around the node. From within these calls it may write records, and ask; it hands in no messages."""

    def on_role(self, role: Role, term: int) -> None:
        """The node is the leader now, or no longer. A new leader writes a record at once: its epoch begins with it."""
        ...

    def on_confirm(self, confirm_offset: int) -> None:
        """What is below may be shown, and its senders be answered."""
        ...

    def on_read(self, answer: ReadAnswer) -> None: ...

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Fetch this snapshot, unless one is being fetched, and call :meth:`RaftDriver.install`."""
        ...

    def on_problem(self, text: str) -> None:
        """Something that an operator should know. The same text may come again with each message."""
        ...


class _Undone(NamedTuple):
    """Effects of the core, and the request whose bytes they are about."""

    ready: Ready
    part: Part | None


_NOTHING = Ready()


class RaftDriver:
    """One node of a group. One thread calls everything."""

    def __init__(
        self,
        node: RaftNode,
        *,
        log: GroupLog,
        state_file: StateFile,
        connections: Connections,
        owner: Owner,
        waits_for_sync: bool,
        now_ms: int,
        tick_ms: int = TICK_MS,
    ) -> None:
        """``waits_for_sync``: bytes count once they are synced (SYNC_FLUSH), else once they are written.

        ``now_ms`` is of a clock that never goes back, as in :meth:`poll`. ``tick_ms``: from one tick to the next.
        """
        self.node = node
        self.problem = ""  # why the node is held
        self._log = log
        self._state_file = state_file
        self._connections = connections
        self._owner = owner
        self._waits_for_sync = waits_for_sync
        self._tick_ms = tick_ms
        self._next_tick_ms = now_ms + tick_ms
        self._sendings: dict[Replica, Sending] = {}
        self._undone: _Undone | None = None
        self._is_driving = False
        self._is_staged = False  # the record of a membership is prepared, and proposed
        self._replacing: Snapshot | None = None
        self._leads_term: int | None = None  # as the owner knows
        self._shown_confirm_offset = node.confirm_offset
        self._asked_sync_of = (node.log.truncation_count, node.log.end)

    @property
    def is_held(self) -> bool:
        """Return True while the disk refuses what must be there before the node goes on."""
        return self._undone is not None

    @property
    def may_write(self) -> bool:
        """Return True when this node may write records of its own now. It must tell each with :meth:`appended`."""
        leader = self.node.leadership
        return leader is not None and leader.transfer_target is None and not self.is_held

    # -- what happens to it ----------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> None:
        """Count a tick when its time has come. However long a pause was, it is one tick: others may have been silent
        for as long as this node was.
        """
        if now_ms >= self._next_tick_ms:
            self._next_tick_ms = now_ms + self._tick_ms
            if self._goes_on():
                self.node.tick()
                self._drive()

    def lost(self, node_id: str) -> None:
        """Take a hint that no process is at a node any more."""
        if self._goes_on():
            self.node.lost(node_id)
            self._drive()

    def take(self, message: Message) -> None:
        """Take a message that came through the gate."""
        if not isinstance(message, AppendRequest) or not message.pieces:
            self._take(message, None)

    def take_part(self, part: Part) -> None:
        """Take bytes of the leader's log, which :func:`pymq.broker.raft.incoming.check_bytes` has checked."""
        self._take(part.request, part)

    def appended(self, end: int) -> None:
        """The leader's own log has records up to ``end`` now. The node must have been allowed to write them."""
        self.node.propose(end)
        self._drive()

    def synced(self, end: int, truncation_count: int) -> None:
        """The disk has the log below ``end``. ``truncation_count`` is ``node.log``'s from when the sync began."""
        self.node.persisted(end, truncation_count)
        self._drive()

    def install(self, snapshot: Snapshot) -> bool:
        """Take a snapshot that was fetched. Returns False when it is of no use any more."""
        if self.is_held or not self.node.install(snapshot):
            return False
        self._replacing = snapshot
        self._drive()
        return True

    def released(self, begin: int) -> None:
        """The store has deleted its log below ``begin``."""
        self.node.released(begin)
        self._drive()

    # -- what is asked of it ---------------------------------------------------------------------------------------

    def next_part(self, to: Replica) -> Part | None:
        """Return the next bytes for a member; None when there are none, or they can't be read."""
        sending = self._sendings.get(to)
        if sending is None:
            return None
        try:
            return sending.next_part(self._log)
        except (StoreError, NotFoundError) as error:
            self._owner.on_problem(f"{to.node_id} gets no bytes of the log: {error}")
            return None

    def read_index(self, request_id: int) -> None:
        """Ask how far a read that promises to be current must see; the owner gets the answer, or none."""
        self.node.read_index(request_id)
        self._drive()

    def transfer(self, node_id: str) -> None:
        """Hand leadership over. Raises RaftRefusedError.

        A held node can't: it sends nothing, and counts no tick that would end the handover.
        """
        if self.is_held:
            raise RaftRefusedError(self.problem)
        self.node.transfer(node_id)
        self._drive()

    def resign(self) -> None:
        """Lead no more, without a successor."""
        self.node.resign()
        self._drive()

    def change(self, membership: Membership) -> None:
        """Change the membership. Raises RaftRefusedError when that can't be now, StoreError when the disk fails."""
        self.node.check_change(membership)
        self._stage(membership)
        self._drive()

    # -- effects ---------------------------------------------------------------------------------------------------

    def _take(self, message: Message, part: Part | None) -> None:
        if self._goes_on():
            self.node.step(message)
            self._drive(part)

    def _goes_on(self) -> bool:
        """Try again what the disk refused. Returns False while the node is held."""
        if self._undone is not None and not self._is_driving:
            undone, self._undone = self._undone, None
            self._run(undone)
        return self._undone is None

    def _drive(self, part: Part | None = None) -> None:
        """Carry out the effects of the last call. Calls from within only add to them."""
        if not self._is_driving and self._undone is None:
            self._run(_Undone(self.node.ready(), part))

    def _run(self, undone: _Undone) -> None:
        self._is_driving = True
        try:
            while True:
                try:
                    self._to_disk(undone)
                except StoreError as error:
                    self._hold(undone, error)
                    return
                self.problem = ""
                self._tell(undone.ready)
                undone = undone._replace(ready=self.node.ready())
                if undone.ready == _NOTHING and not self._is_staged:
                    return
        finally:
            self._is_driving = False

    def _hold(self, undone: _Undone, error: StoreError) -> None:
        self._undone = undone
        self.problem = f"the node is held until its disk takes this: {error}"
        self._owner.on_problem(self.problem)

    def _to_disk(self, undone: _Undone) -> None:
        """Carry out what must be on the disk first. After an error all of it comes again: each step may be repeated."""
        ready = undone.ready
        if ready.truncate_to is not None:
            self._log.truncate(ready.truncate_to)
            self.node.truncated()
        if self._replacing is not None:
            self._log.replace(self._replacing)
            self._replacing = None
        if ready.state is not None:
            self._state_file.save(ready.state)
        if ready.pieces:
            assert undone.part is not None, "only a request with bytes makes the core take pieces"
            self._log.write(ready.pieces, *undone.part)
        if self._is_staged:
            self._log.write_membership()
            self._is_staged = False

    def _tell(self, ready: Ready) -> None:
        """Carry out the rest, which can't fail."""
        self._sync()
        self._tell_role()
        for message in ready.messages:
            self._send(message)
        for text in ready.problems:
            self._owner.on_problem(text)
        if ready.snapshot is not None:
            self._owner.on_snapshot(ready.snapshot)
        for answer in ready.reads:
            self._owner.on_read(answer)
        if self.node.confirm_offset > self._shown_confirm_offset:
            self._shown_confirm_offset = self.node.confirm_offset
            self._owner.on_confirm(self._shown_confirm_offset)
        if ready.membership is not None and self.may_write:
            try:
                self._stage(ready.membership)
            except StoreError as error:  # the core asks again with the next tick
                self._owner.on_problem(f"a change of the membership can't be written: {error}")

    def _stage(self, membership: Membership) -> None:
        """Propose a membership. The state is saved before its record is written: a start reads memberships there."""
        self.node.propose(self._log.stage_membership(membership), membership)
        self._is_staged = True

    def _sync(self) -> None:
        """Have new bytes count at once, or once they are synced."""
        view = self.node.log
        if not self._waits_for_sync:
            self.node.persisted(view.end, view.truncation_count)
        elif view.synced_end < view.end and (view.truncation_count, view.end) != self._asked_sync_of:
            self._asked_sync_of = view.truncation_count, view.end
            self._log.request_sync()

    def _send(self, message: Message) -> None:
        to = message.to
        if to.node_id == self.node.replica.node_id:
            return  # a former disk of this node: nothing answers for it
        if isinstance(message, AppendRequest) and message.pieces:
            self._sendings.setdefault(to, Sending()).offer(message)
            self._connections.wake(to)
        else:
            self._connections.send(message)

    def _tell_role(self) -> None:
        """Tell when leadership began or ended; what a former leader had to send is dropped."""
        leads_term = self.node.term if self.node.leadership is not None else None
        if leads_term != self._leads_term:
            self._leads_term = leads_term
            self._sendings.clear()
            self._owner.on_role(self.node.role, self.node.term)
