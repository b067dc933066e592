"""The listening side: connections split frames, call the dispatcher, and write all answers of a loop turn at once.

A *turn* is everything read in one round of the event loop. At its end ``on_turn_end`` runs once (a broker commits its
sends there), then each connection gets one joined write, then ``after_turn`` runs (True: again after the next round).

A connection that pours in requests gets a slice of time in each round, and rests until the next one. So others are
served in between, however long its requests take.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from math import inf

from pymq.clock import Clock
from pymq.errors import ProtocolViolation
from pymq.model.hosts import format_address, pack_host
from pymq.net.asks import Asks
from pymq.net.buffer_account import BufferAccount
from pymq.net.connection_table import ConnectionTable
from pymq.net.freed_memory import FreedMemory
from pymq.net.limits import STEP_BYTES, ServerLimits
from pymq.net.listener import Listeners
from pymq.net.memory_budget import MemoryBudget
from pymq.net.rounds import HEAVY_S, NEW, PIECE_BYTES, READ_S_PER_BYTE, ROUND_S, SLICE_S, STEP_FRAMES, Rounds, is_prompt
from pymq.net.server_hooks import ServerHooks
from pymq.net.tls import ServerTls, verified_certificate
from pymq.net.turn_watch import TurnWatch
from pymq.net.unread import take_unread
from pymq.net.writing import EARLY_FLUSH_BYTES, UNCOUNTED_BYTES_MAX, left_to_send, write_frames
from pymq.wire.command import FLAG_ONEWAY, Command, decode_command, encode_command
from pymq.wire.dispatch import Dispatcher
from pymq.wire.framing import FrameBuffer
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

SWEEP_PERIOD_S = 1.0

# Takes (connection, payload). Returns True when it has handled the frame, False when the dispatcher must.
FastPath = Callable[["Connection", bytes], bool]


class Server(ConnectionTable["Connection"]):
    """Listens on one or more addresses. :meth:`start` needs a running event loop."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        clock: Clock,
        limits: ServerLimits | None = None,
        hooks: ServerHooks[Connection] | None = None,
        budget: MemoryBudget | None = None,
        tls: ServerTls | None = None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``budget``: the process's, by default one of its own; ``tls``: None for a server that takes no TLS; ``now_s``
        measures how long work takes."""
        hooks = hooks or ServerHooks()
        super().__init__(limits, clock, hooks.on_disconnect, budget)
        self.dispatcher = dispatcher
        self.request_count = 0
        self.now_ms = 0  # monotonic, as of the last sweep: precise enough for idle checks
        self.turns = TurnWatch(clock, now_s=now_s)
        self._freed_memory = FreedMemory(clock)
        self._clock = clock
        self._on_turn_end = hooks.on_turn_end
        self._after_turn = hooks.after_turn
        self.fast_path: FastPath | None = None
        self.rounds = Rounds(self.call_soon, self.turns)
        self._dirty: list[Connection] = []
        self._turn_scheduled = False
        self._listeners = Listeners(lambda: Connection(self), tls, self.report_refused)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (0: any free port) and return the port. Call it once per address."""
        self._loop = asyncio.get_running_loop()
        bound = await self._listeners.open(host, port, self.limits.backlog)
        if self._sweeper is None:
            self._sweep()
        return bound

    async def stop(self) -> None:
        """Stop listening, write what is queued, close every connection."""
        self._listeners.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
            self.turns.stop()
        self._end_turn()
        self.close_connections()

    # -- turns ---------------------------------------------------------------------------------------------------

    def schedule_turn_end(self) -> None:
        """Make the turn's end run once this round of the loop is over."""
        if not self._turn_scheduled and self._loop is not None:
            self._turn_scheduled = True
            self._loop.call_soon(self._end_turn)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` in the next round of the loop."""
        if self._loop is not None:
            self._loop.call_soon(callback)

    def mark_dirty(self, connection: Connection) -> None:
        """Note that ``connection`` has answers to write at the turn's end."""
        self._dirty.append(connection)
        if not self._turn_scheduled:
            self.schedule_turn_end()

    def _end_turn(self) -> None:
        begun_s = self.turns.begin()
        is_more_left = False
        self.rounds.read_s = 0.0
        try:
            try:
                if self._on_turn_end is not None:
                    self._on_turn_end()
            finally:
                self._write_answers()
            if self._after_turn is not None:
                is_more_left = self._after_turn()
        finally:
            # Only now: answers that the turn's end itself makes are written here, not in another turn.
            self._turn_scheduled = False
            if self._dirty:
                self._write_answers()
            if is_more_left:
                self.schedule_turn_end()
            self.turns.end(begun_s, "end of a turn")

    def _write_answers(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    def note_time(self) -> None:
        """Update the time, after the loop was blocked for long: new connections must not count as idle."""
        self.now_ms = self._clock.monotonic_ms()
        self.turns.skip()

    def _sweep(self) -> None:
        assert self._loop is not None
        begun_s = self.turns.begin()
        self.now_ms = self._clock.monotonic_ms()
        self._violation_log.tick()
        for connection in list(self.connections):
            connection.sweep(self.now_ms)
        self._freed_memory.look(self.budget.total_bytes)
        self.turns.end(begun_s, "sweep of connections")
        self._sweeper = self._loop.call_later(SWEEP_PERIOD_S, self._sweep)


class Connection(asyncio.Protocol):
    """One accepted connection, and the :class:`~pymq.wire.dispatch.Peer` of the handlers it calls."""

    __slots__ = (
        "__weakref__",
        "_asks",
        "_buffers",
        "_frames",
        "_heavy_until_s",
        "_held",
        "_is_resting",
        "_last_write_bytes",
        "_out",
        "_out_bytes",
        "_partial_since_ms",
        "_paused",
        "_read_at_ms",
        "_server",
        "_transport",
        "address",
        "client_certificate",
        "closed",
        "host",
        "host_bytes",
        "out_dirty",
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self._frames = FrameBuffer(server.limits.frame_size_max_bytes)
        self._buffers = BufferAccount(server.budget)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._out_bytes, self._last_write_bytes = 0, sys.maxsize  # no answer so far: the first may be large
        # Frames that wait because the answers to earlier ones fill the write buffer, or because of SLICE_S.
        self._held: deque[bytes] = deque()
        self._is_resting = self._paused = self.out_dirty = self.closed = False
        self._heavy_until_s = NEW
        self._asks = Asks(server.limits.pending_asks_max)
        self._read_at_ms = server.now_ms
        self._partial_since_ms: int | None = None
        self.host = self.address = ""
        self.host_bytes = b""
        self.client_certificate: bytes | None = None

    # -- asyncio calls these -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self.host, port, *_ = transport.get_extra_info("peername") or ("127.0.0.1", 0)
        self.address, self.host_bytes = format_address(self.host, port), pack_host(self.host, port)
        self.client_certificate = verified_certificate(transport)
        transport.set_write_buffer_limits(high=self._server.limits.write_pause_bytes)  # type: ignore[attr-defined]
        if (reason := self._server.admit(self, transport)) is not None:
            self.abort(reason)

    def data_received(self, data: bytes) -> None:
        server = self._server
        turns = server.turns
        begun_s = turns.now_s()
        if begun_s > turns.sample_due_s:
            turns.sample(begun_s)
        self._read_at_ms = server.now_ms
        try:
            frames = self._frames.feed(data)
            server.request_count += len(frames)
            if self._held:
                self._hold(frames)
            elif server.rounds.read_s < ROUND_S:
                self._serve(frames, begun_s + SLICE_S)
            elif server.rounds.read_s < 2 * ROUND_S and not server.rounds.is_heavy(self._heavy_until_s, frames):
                self._serve(frames, begun_s)  # one step
            else:
                self._hold(frames)
        except ProtocolViolation as violation:
            server.report_violation(self, violation)
            self.abort("bad-frame")
            return
        if self._out_bytes > EARLY_FLUSH_BYTES:
            self.flush()
        pending = self._frames.pending_size_bytes
        if pending != self._buffers.unfinished:
            self._buffers.note_unfinished(pending)
        if not pending:
            self._partial_since_ms = None
        elif frames or self._partial_since_ms is None:  # a whole frame came, so the partial one is new
            self._partial_since_ms = server.now_ms
        if frames:
            server.schedule_turn_end()
        took_s = turns.now_s() - begun_s
        rounds = server.rounds
        rounds.read_s += took_s + len(data) * READ_S_PER_BYTE
        if self._heavy_until_s == NEW and frames and not self._held:
            self._heavy_until_s = 0.0
        if took_s > HEAVY_S:
            self._heavy_until_s = rounds.note_work(frames, took_s, begun_s, self.address) or self._heavy_until_s
        # The loop may read many times from one connection before it looks at others.
        if rounds.read_s >= ROUND_S:
            self._rest(0 if frames else len(data))
            if rounds.read_s >= 2 * ROUND_S:
                rounds.end_reads(server.connections)

    def _serve(self, frames: list[bytes], end_s: float, *, waits_for_memory: bool = True) -> None:
        """Handle frames until their answers reach the size of one write, or ``end_s`` is over; holds the rest.

        A few bytes can ask for a MiB, or for much work. Without the first limit one read could ask for more than the
        memory holds, without the second for more than other clients can wait.
        """
        server = self._server
        fast_path, now_s = server.fast_path, server.turns.now_s
        out_max_bytes = server.limits.write_pause_bytes
        look_at = STEP_FRAMES - 1
        for i, payload in enumerate(frames):
            if self._out_bytes > out_max_bytes:
                self._hold(frames[i:])
                self._pause_reading()
                return
            if fast_path is not None and fast_path(self, payload):
                if i != look_at and len(payload) < STEP_BYTES:
                    continue
            elif waits_for_memory and server.budget.closing_bytes:  # an answer may be large
                self._hold(frames[i:])
                self._rest()
                return
            else:
                self._handle(decode_command(payload))
            look_at = i + STEP_FRAMES
            if now_s() > end_s and i + 1 < len(frames):
                self._hold(frames[i + 1 :])
                self._rest()
                return

    def _hold(self, frames: list[bytes]) -> None:
        """Let frames wait."""
        self._held.extend(frames)
        if frames:
            self._buffers.note_waiting(frames)

    def _rest(self, piece_bytes: int = 0) -> None:
        """Read and serve nothing until a later round. ``piece_bytes``: what a read brought that ended no frame."""
        if not self._is_resting and not self.closed:
            self._is_resting = True
            self._pause_reading()
            rounds = self._server.rounds
            rounds.rest(self, is_heavy=rounds.is_heavy(self._heavy_until_s, self._held), piece_bytes=piece_bytes)

    def rest_in_frame(self) -> None:
        """Rest if the peer is in the midst of a frame, or has sent none so far."""
        if not self._held and (self._buffers.unfinished or self._heavy_until_s == NEW):
            self._rest(PIECE_BYTES)

    @property
    def is_prompt(self) -> bool:
        return is_prompt(self._last_write_bytes + self._out_bytes, len(self._held))

    def end_rest(self, *, waits_for_memory: bool = True) -> None:
        """Continue with the waiting frames, then with reading."""
        self._is_resting = False
        self._serve_held(SLICE_S, waits_for_memory=waits_for_memory)

    def _serve_held(self, for_s: float, *, waits_for_memory: bool) -> None:
        """Continue with the waiting frames, once the answers to earlier ones are written."""
        if self.closed or self._paused:
            return
        frames, self._held = list(self._held), deque()
        self._buffers.note_waiting([])
        begun_s = self._server.turns.begin()
        try:
            self._serve(frames, begun_s + for_s, waits_for_memory=waits_for_memory)
        except ProtocolViolation as violation:
            self._server.report_violation(self, violation)
            self.abort("bad-frame")
            return
        if self._out_bytes > EARLY_FLUSH_BYTES:
            self.flush()
        if frames:
            self._server.schedule_turn_end()
            if (took_s := self._server.turns.now_s() - begun_s) > HEAVY_S:
                rounds = self._server.rounds
                self._heavy_until_s = rounds.note_work(frames, took_s, begun_s, self.address) or self._heavy_until_s
        self._resume_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self.closed or self._paused or self._is_resting or self._held:
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Stop reading from a peer that doesn't read its answers, so that it gets no more of them."""
        self._paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._held:
            self._rest()
        else:
            self._resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        try:
            if error is not None and not self.closed and (self._is_resting or not self._held):
                self._serve_unread()
        finally:
            self.closed = True
            self._server.call_soon(self._server.budget.end_close(self))
            self._release_buffers()
            self._asks.end()
            self._server.forget(self)

    def _release_buffers(self) -> None:
        self._frames.clear()
        self._out.clear()
        self._out_bytes = 0
        self._held.clear()
        self._buffers.release()

    def _serve_unread(self) -> None:
        """Serve what came before the connection broke, as the other commits of a client that commits and leaves."""
        if unread := take_unread(self._transport):
            self.data_received(unread)
        self._serve_held(inf, waits_for_memory=False)  # no later round will

    # -- Peer ----------------------------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        return self._paused or self._out_bytes > self._server.limits.write_pause_bytes

    def push(self, command: Command) -> None:
        command.flag |= FLAG_ONEWAY
        command.opaque = self._asks.next_opaque()
        self.write(encode_command(command))

    def ask(self, command: Command, on_answer: Callable[[Command | None], None], timeout_ms: int) -> None:
        opaque = None if self.closed else self._asks.add(on_answer, self._server.now_ms + timeout_ms)
        if opaque is None:
            on_answer(None)
            return
        command.opaque = opaque
        self.write(encode_command(command))

    def answer(self, request: Command, reply: Reply) -> None:
        if not request.is_oneway:
            self.write(encode_command(reply.to_command(request)))

    # -- the rest ------------------------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """Queue a whole frame. It leaves at the turn's end together with the others."""
        if self.closed:
            return
        self._out.append(frame)
        self._out_bytes += len(frame)
        if not self.out_dirty:
            self.out_dirty = True
            self._server.mark_dirty(self)

    def write_all(self, frames: list[bytes]) -> None:
        """As :meth:`write`, for many frames."""
        if self.closed:
            return
        self._out += frames
        self._out_bytes += sum(map(len, frames))
        if not self.out_dirty:
            self.out_dirty = True
            self._server.mark_dirty(self)

    def flush(self) -> None:
        """Write all queued frames with one call."""
        self.out_dirty = False
        if not self._out or self._transport is None or self.closed:
            return
        unread_before, size_bytes = self._transport.get_write_buffer_size(), self._out_bytes
        out, self._out, self._out_bytes, self._last_write_bytes = self._out, [], 0, size_bytes
        write_frames(self._transport, out, size_bytes)
        if unread_before or size_bytes > UNCOUNTED_BYTES_MAX or self._buffers.unread:
            self._buffers.note_write(unread_before, size_bytes)
            if self.closed:
                return  # it held most
        if self._paused and self._transport.get_write_buffer_size() > self._server.limits.write_buffer_max_bytes:
            self.abort("unread-answers")
        elif self._held:
            self._rest()

    def sweep(self, now_ms: int) -> None:
        """Close an idle connection, or one whose frame takes too long. Ends overdue asks."""
        if self.closed or self._transport is None:
            return
        limits, buffers = self._server.limits, self._buffers
        buffers.measure_unread(self._transport)
        if self._paused and buffers.has_stalled(left_to_send(self._transport), now_ms, limits.unread_stall_ms):
            self.abort("unread-answers")
        elif self._is_resting:
            pass  # the server reads nothing from it meanwhile
        elif self._partial_since_ms is not None and now_ms - self._partial_since_ms > limits.frame_complete_within_ms:
            self.abort("slow-frame")
        elif now_ms - self._read_at_ms > limits.idle_close_ms:
            self.abort("idle")
        self._asks.sweep(now_ms)

    def held_bytes(self) -> int:
        """Measure what the peer has not read; return all that is held for it."""
        if self._transport is None:
            return 0
        self._buffers.measure_unread(self._transport)
        return self._buffers.size_bytes + self._server.budget.held_for(self)

    def close(self) -> None:
        """Close after the queued frames are written."""
        self.flush()
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once and count the reason."""
        self._server.closed_for[reason] += 1
        self.closed = True
        transport, self._transport = self._transport, None
        if transport is not None:
            self._server.budget.begin_close(self, self._buffers.unread)
            transport.abort()
        self._release_buffers()

    def _handle(self, command: Command) -> None:
        if command.is_response:
            self._asks.take(command)
            return
        reply = self._server.dispatcher.dispatch(self, command)
        if reply is not None and not command.flag & FLAG_ONEWAY:
            self.write(encode_command(reply.to_command(command)))
