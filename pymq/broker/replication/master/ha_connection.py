"""HaConnection: a master's side of one HA connection. It sends the log and keeps what the slave acknowledged."""

from __future__ import annotations

from typing import Protocol

from pymq.broker.replication.history.log_end import last_segment_start
from pymq.broker.replication.master.join_tokens import NOT_JOINED, JoinedSlave
from pymq.broker.replication.peer_proof import PeerProof
from pymq.broker.replication.rates import LogTimes, Rate
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import ProtocolViolation, PymqError, StoreUnavailableError
from pymq.wire.bodies_replication import AHEAD, CATCHING_UP, CONNECTED, FOLLOWING, GONE, SlaveState
from pymq.wire.ha import ReportReader, Reports, encode_head
from pymq.wire.streams import Stream

# Bytes that wait in this process for one slave, plus one frame. The rest of what a slow slave lacks stays in the log
# until the slave has taken these.
UNSENT_BYTES_MAX = 1024 * 1024
# Sent to one slave in one turn while it catches up, so that it delays neither sends nor the other slaves.
TURN_BYTES_MAX = 1024 * 1024
# How long a peer has to prove that it is a slave: by a join token, or by a name server that lists it. RocketMQ's slave
# sends its first report up to 5 s after it connected.
PROOF_MS_MAX = 10_000
_JOIN_BYTES_MAX = 32 * 1024  # below this one copied write is cheaper than two


class HaStore(Protocol):
    """The part of the store that an HaConnection reads."""

    @property
    def physical_min_offset(self) -> int: ...

    @property
    def physical_max_offset(self) -> int: ...

    def read_log(self, offset: int, size_max: int) -> memoryview: ...


class HaConnectionOwner(Protocol):
    """Receives an HaConnection's events: an HaService."""

    def on_opened(self, connection: HaConnection) -> None:
        """The peer's address is known now."""
        ...

    @property
    def peer_proof(self) -> PeerProof:
        """What slaves must prove."""
        ...

    def redeem(self, connection: HaConnection, token: int, proof: bytes) -> JoinedSlave | str:
        """Return the slave that the token was given to, or why the peer is not that slave."""
        ...

    def may_follow(self, connection: HaConnection) -> bool:
        """Return True when a peer that sent no token may be a slave: RocketMQ's are known by their host."""
        ...

    @property
    def why_not_without_token(self) -> str:
        """Why a peer without a token may not follow, with what to do."""
        ...

    def note_slave(self, connection: HaConnection) -> None:
        """Note a slave before it is sent the log. Raises StoreUnavailableError; then it must not be sent anything."""
        ...

    def on_following(self, connection: HaConnection) -> None:
        """A slave follows the log now."""
        ...

    def on_ack(self) -> None:
        """A slave has acknowledged more than before."""
        ...

    def on_member(self) -> None:
        """A slave has confirmed a part of the log for the first time on its connection."""
        ...

    def warn(self, connection: HaConnection, what: str) -> None:
        """Log a problem."""
        ...

    def on_closed(self, connection: HaConnection, why: str) -> None: ...


class HaConnection:
    """A :class:`~pymq.wire.streams.StreamHandler`."""

    def __init__(
        self, owner: HaConnectionOwner, store: HaStore, times: LogTimes, *, clock: Clock, config: BrokerConfig
    ) -> None:
        """``times`` belongs to the master's log; all connections share it."""
        self._owner = owner
        self._store = store
        self._times = times
        self._clock = clock
        self._config = config
        self._stream: Stream | None = None
        self._reader = ReportReader(owner.peer_proof.size_bytes)
        self.joined_slave = NOT_JOINED
        self.sent_offset: int | None = None  # the log is sent up to here; None before the first report
        self.ack_offset = 0
        self.problem = ""
        self.is_ahead = False
        self.has_followed = False
        self._claimed_offset: int | None = None  # reported before it proved that it is a slave
        self._begun_at = 0
        self._is_closed = False
        self._is_waiting = False  # for the stream to take more
        now_ms = clock.monotonic_ms()
        self._opened_ms = self._heard_ms = self._sent_ms = now_ms
        self._rate = Rate(now_ms, 0)

    # -- StreamHandler -----------------------------------------------------------------------------------------------

    def opened(self, stream: Stream) -> None:
        self._stream = stream
        if self._is_closed:  # another connection took its place before it opened
            stream.close()
        else:
            self._owner.on_opened(self)
        self._opened_ms = self._heard_ms = self._sent_ms = self._clock.monotonic_ms()

    def received(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._heard_ms = self._clock.monotonic_ms()
        try:
            reports = self._reader.feed(data)
            if reports.token is not None:
                self._take_token(reports.token, reports.proof)
            if reports.offset is not None and not self._is_closed:
                self._take_report(reports)
        except ProtocolViolation as violation:
            self.close(str(violation))

    def writable(self) -> None:
        self._is_waiting = False
        self.pump()

    def closed(self, why: str) -> None:
        self._is_closed = True
        self._owner.on_closed(self, self.problem or why)

    # -- receiving ---------------------------------------------------------------------------------------------------

    def _take_token(self, token: int, proof: bytes) -> None:
        joined_slave = self._owner.redeem(self, token, proof)
        if isinstance(joined_slave, str):
            self.close(joined_slave)
        else:
            self.joined_slave = joined_slave

    def prove_to_slave(self, proof: bytes) -> None:
        """Send what the slave asked for, before the first frame."""
        if proof and self._stream is not None:
            self._stream.write(proof)

    def _take_report(self, reports: Reports) -> None:
        assert reports.offset is not None
        if self.sent_offset is None:
            self._claimed_offset = reports.offset
            self._prove()
        elif not self.is_ahead:
            self._note_ack(reports)
        if not self._is_closed:
            self.pump()

    def _prove(self) -> None:
        """Begin to send once the peer is known to be a slave. Eight bytes of any other program get nothing."""
        offset = self._claimed_offset
        if offset is None or not (self.joined_slave is not NOT_JOINED or self._owner.may_follow(self)):
            return
        start = self.joined_slave.start
        if self.joined_slave is not NOT_JOINED and offset != start:
            self.close(f"it joined to continue at {start}, but reports {offset}: it must join again")
            return
        try:
            self._owner.note_slave(self)
        except StoreUnavailableError as error:
            self.close(str(error))
            return
        self._begin(offset)

    def _begin(self, offset: int) -> None:
        """Start at the offset of the first report. Java: DefaultHAConnection.WriteSocketService, without the checks."""
        start, end = self._store.physical_min_offset, self._store.physical_max_offset
        if self.joined_slave is NOT_JOINED and offset == 0:
            offset = last_segment_start(start, end, self._config.mapped_file_size_commit_log_bytes)
        if offset > end:
            self.is_ahead = True
            self.problem = (
                f"its log ends at {offset}, this master's at {end}: these are not the same log, nothing is sent; "
                f"{_START_EMPTY}"
            )
            self._owner.warn(self, self.problem)
        elif offset < start:
            self.close(f"its log ends at {offset}, before this master's oldest byte {start}: {_START_EMPTY}")
            return
        self.sent_offset = self.ack_offset = self._begun_at = offset
        if self.joined_slave is not NOT_JOINED or offset == end:
            self._note_following()
        self._rate = Rate(self._heard_ms, offset)
        self._beat()  # the slave learns at once that it follows
        self._owner.on_ack()
        if offset > 0:
            self._owner.on_member()

    def _note_ack(self, reports: Reports) -> None:
        offset = reports.offset
        assert offset is not None and self.sent_offset is not None
        if offset > self.sent_offset:
            raise ProtocolViolation(
                "ha-report", f"it reported offset {offset}, but was sent no more than {self.sent_offset}"
            )
        if reports.went_back:
            self.problem = f"its reports went back, now to {offset}: it may have lost a part of its log"
        has_more, is_first = offset > self.ack_offset, self.ack_offset == 0
        self.ack_offset = offset
        if offset > self._begun_at and not self.has_followed:
            self._note_following()
        if has_more:
            self._owner.on_ack()
            if is_first:
                self._owner.on_member()

    def _note_following(self) -> None:
        self.has_followed = True
        self._owner.on_following(self)

    # -- sending -----------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send the new part of the log, until the slave takes no more."""
        stream, at = self._stream, self.sent_offset
        if at is None or stream is None or self._is_waiting or self._is_closed or self.is_ahead:
            return
        end = self._store.physical_max_offset
        if at >= end:
            return
        try:
            self._send(stream, at, end)
        except (PymqError, OSError) as error:
            start = self._store.physical_min_offset
            at = self.sent_offset or at
            deleted = f"the offset it needs next ({at}) was deleted, the log begins at {start}: {_START_EMPTY}"
            self.close(deleted if at < start else f"the log can't be read at {at}: {error}")

    def _send(self, stream: Stream, at: int, end: int) -> None:
        stop = at + TURN_BYTES_MAX
        batch_bytes = self._config.ha_transfer_batch_bytes
        while at < end:
            if at >= stop or stream.unsent_bytes >= UNSENT_BYTES_MAX:
                self._is_waiting = True
                stream.want_writable()
                break
            data = self._store.read_log(at, min(end - at, batch_bytes))
            head = encode_head(at, len(data))
            if len(data) <= _JOIN_BYTES_MAX:
                stream.write(b"".join((head, data)))
            else:
                stream.write(head)
                stream.write(data)
            at += len(data)
            self.sent_offset = at
        self._sent_ms = self._clock.monotonic_ms()

    # -- timers ------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Send a heartbeat when one is due, close a silent connection, update the rate."""
        self._rate.look(now_ms, self.ack_offset)
        if self._is_closed or self._stream is None:
            return
        silence_ms_max = self._config.ha_housekeeping_interval_ms
        if now_ms - self._heard_ms >= silence_ms_max:
            self.close(f"it sent nothing for {silence_ms_max} ms (haHousekeepingInterval)")
            return
        if self.sent_offset is None and not self._is_proven_in_time(now_ms):
            return
        self.pump()
        is_due = now_ms - self._sent_ms >= self._config.ha_send_heartbeat_interval_ms
        if is_due and not self._stream.unsent_bytes:
            self._beat()

    def _is_proven_in_time(self, now_ms: int) -> bool:
        self._prove()
        if self.sent_offset is not None or self._is_closed:
            return not self._is_closed
        if now_ms - self._opened_ms >= PROOF_MS_MAX:
            self.close(f"it sent no join token within {PROOF_MS_MAX} ms, and {self._owner.why_not_without_token}")
        return False

    def _beat(self) -> None:
        if self._stream is not None and self.sent_offset is not None:
            self._stream.write(encode_head(self.sent_offset, 0))
            self._sent_ms = self._clock.monotonic_ms()

    def close(self, why: str) -> None:
        """Close the connection. ``why`` is logged and appears in the status."""
        if not self._is_closed:
            self._is_closed = True
            self.problem = why
            if self._stream is not None:
                self._stream.close()

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The slave's own address; for a slave that did not join, the address of its connection."""
        return self.joined_slave.address or (self._stream.peer_address if self._stream is not None else "")

    @property
    def is_slave(self) -> bool:
        """True when it joined or has taken some of our log. Any program may send eight zero bytes."""
        return self.joined_slave is not NOT_JOINED or self.has_followed

    @property
    def name(self) -> str:
        """The peer, as a log line names it."""
        if not self.is_slave:
            return f"a connection from {self.address} to the HA port"
        return (
            f"slave {self.joined_slave.broker_id} at {self.address}"
            if self.joined_slave is not NOT_JOINED
            else f"slave {self.address}"
        )

    @property
    def is_unproven(self) -> bool:
        """True while the peer may be any program: it has no join token, and is sent nothing."""
        return self.joined_slave is NOT_JOINED and self.sent_offset is None

    @property
    def may_make_room(self) -> bool:
        """True when the peer reported no offset yet, or one that nothing can be sent for."""
        return not self._is_closed and (self.sent_offset is None or self.is_ahead)

    @property
    def counts(self) -> bool:
        """True when its reports are offsets of our log. One that did not join must first report what it was sent."""
        return self.sent_offset is not None and self.is_slave and not self.is_ahead and not self._is_closed

    @property
    def is_in_sync(self) -> bool:
        return (
            self.counts
            and self._store.physical_max_offset - self.ack_offset < self._config.ha_max_gap_not_in_sync_bytes
        )

    def state(self) -> SlaveState:
        end = self._store.physical_max_offset
        lag_bytes = max(end - self.ack_offset, 0)
        return SlaveState(
            address=self.address,
            broker_id=self.joined_slave.broker_id,
            ack_offset=self.ack_offset,
            sent_offset=self.sent_offset or 0,
            lag_bytes=lag_bytes,
            lag_ms=self._times.age_ms(self.ack_offset, self._clock.monotonic_ms()) if lag_bytes else 0,
            in_sync=self.is_in_sync,
            bytes_per_second=self._rate.per_second,
            state=self._state_name(),
            problem=self.problem,
            is_unproven=self._owner.peer_proof.is_required and self.joined_slave is NOT_JOINED,
        )

    def _state_name(self) -> str:
        if self._is_closed:
            return GONE
        if self.sent_offset is None:
            return CONNECTED
        if self.is_ahead:
            return AHEAD
        return CATCHING_UP if self._is_waiting else FOLLOWING


_START_EMPTY = "move its directory away and start it with an empty one"
