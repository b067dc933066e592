"""Streams between simulated machines: late, in pieces, held up by partitions, broken, half open.

A stream keeps TCP's promise and no more: bytes arrive in order and once, or they do not arrive. What is under way when
a connection breaks is lost; nothing of a dead connection arrives later.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from pymq.wire.streams import StreamHandler
from tests.simulation.timeline import MS, SECOND, Process, Timeline, Timer

WINDOW_BYTES = 65_536  # kernels and wires of one direction hold this much before a writer has to wait
LOW_WATER_BYTES = 16_384
CONNECT_TIMEOUT_US = 3 * SECOND
RETRANSMISSION_US = 900 * SECOND  # the longest time until a kernel gives up a silent connection

Accept = Callable[[str], StreamHandler]


class Link(NamedTuple):
    """How one direction between two machines behaves."""

    delay_us: int = 200
    jitter_us: int = 300
    piece_chance: float = 0.05  # the probability that an arrival is split into pieces


class Listener(NamedTuple):
    process: Process
    accept: Accept


class SimStream:
    """One end of a connection; a :class:`pymq.wire.streams.Stream`."""

    __slots__ = (
        "_arrival",
        "_arrives_us",
        "_in_flight_bytes",
        "_is_closing",
        "_is_wanted",
        "_network",
        "_plan",
        "_state",
        "_under_way",
        "_unsent",
        "handler",
        "is_closed",
        "is_half_open",
        "local_host",
        "other",
        "peer_address",
        "peer_host",
        "process",
        "unsent_bytes",
    )

    def __init__(self, network: SimNetwork, process: Process, peer_address: str) -> None:
        self._network = network
        self.process = process
        self.local_host = process.host
        self.peer_address = peer_address
        self.peer_host = peer_address.rpartition(":")[0]
        self.handler: StreamHandler | None = None  # None until the listening side has taken the connection
        self.other: SimStream
        self.is_closed = False
        self.is_half_open = False
        self.unsent_bytes = 0
        self._unsent: list[bytes] = []
        self._under_way: list[bytes] = []
        self._in_flight_bytes = 0
        self._arrives_us = 0
        self._plan = False
        self._arrival = Timer(None, self._arrive, ())  # at most one is planned
        self._is_closing = False
        self._is_wanted = False
        self._state = network.rng.getrandbits(31) | 1  # of this stream's own random numbers

    # -- Stream -------------------------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        size = len(data)
        if self.is_closed or self._is_closing or not size:
            return
        self._network.byte_count += size
        if not self._unsent and self._in_flight_bytes + size <= WINDOW_BYTES and not self.is_half_open:
            self._under_way.append(bytes(data))
            self._in_flight_bytes += size
            self._plan_arrival()
            return
        self._unsent.append(bytes(data))
        self.unsent_bytes += size
        self._send()

    def close(self) -> None:
        """Close this end. What was written still arrives; the peer learns of the end after it."""
        if self.is_closed or self._is_closing:
            return
        self._is_closing = True
        self.process.after(0, self._gone, "closed here")
        if not self.is_half_open:
            self._under_way += self._unsent
            self._unsent.clear()
            self.unsent_bytes = 0
            self._plan_arrival()

    def _chance(self) -> float:
        """Return a random number from 0 to 1 (Lehmer's generator)."""
        self._state = self._state * 48_271 % 0x7FFF_FFFF
        return self._state / 0x7FFF_FFFF

    # -- the way to the other end -------------------------------------------------------------------------------

    def _send(self) -> None:
        """Puts as much under way as the window takes."""
        if self.is_half_open:
            self._write_into_nothing()
            return
        moved = False
        while self._unsent and self._in_flight_bytes < WINDOW_BYTES:
            data = self._unsent.pop(0)
            room = WINDOW_BYTES - self._in_flight_bytes
            if len(data) > room:
                self._unsent.insert(0, data[room:])
                data = data[:room]
            self._under_way.append(data)
            self._in_flight_bytes += len(data)
            self.unsent_bytes -= len(data)
            moved = True
        if moved:
            self._plan_arrival()

    def _write_into_nothing(self) -> None:
        """Send again and again, as a kernel does.

        The connection breaks when the machine is back and does not know it, or after a timeout.
        """
        if self.other.is_closed and self.peer_host not in self._network.hosts_down:
            self._network.refuse(self)
        elif not self._plan:
            self._plan = True
            limit_us = int(RETRANSMISSION_US * (0.1 + 0.9 * self._chance()))
            self._network.timeline.after(limit_us, self.break_now, "timed out")

    def _plan_arrival(self) -> None:
        network = self._network
        if not self.other.process.is_alive:
            network.refuse(self)
            return
        if self._plan or self.is_half_open:
            return
        if network.cuts and network.is_cut(self.local_host, self.peer_host):
            network.hold(self)
            return
        self._plan = True
        timeline = network.timeline
        now_us = timeline.now_us
        link = network.link_of(self.local_host, self.peer_host) if network.links else network.link
        arrives_us = now_us + link.delay_us + int(self._chance() * link.jitter_us)
        if arrives_us > self._arrives_us:
            self._arrives_us = arrives_us
        timeline.plan(self._arrives_us - now_us, self._arrival)

    def _arrive(self) -> None:
        """Deliver some of what is under way to the other machine."""
        self._plan = False
        other, network, under_way = self.other, self._network, self._under_way
        if self.is_half_open or other.is_closed:
            return
        if network.cuts and network.is_cut(self.local_host, self.peer_host):
            network.hold(self)
            return
        data = under_way[0] if len(under_way) == 1 else b"".join(under_way)
        under_way.clear()
        link = network.link_of(self.local_host, self.peer_host) if network.links else network.link
        if len(data) > 1 and self._chance() < link.piece_chance:
            at = 1 + int(self._chance() * (len(data) - 2))
            under_way.append(data[at:])
            data = data[:at]
        if data:
            if other.process.is_running:
                self._read(data)
            else:
                other.process.hold(self._read, (data,))
        if under_way:
            self._plan_arrival()
        elif self._is_closing:
            other.process.now(other._gone, "closed by the peer")

    def _read(self, data: bytes) -> None:
        """Hand bytes to the other process. Callers hold this call while that process is paused."""
        if self.other.is_closed or self.other._is_closing or self.other.is_half_open:
            return
        self._in_flight_bytes -= len(data)
        reader = self.other.handler
        if reader is None:
            return
        reader.received(data)
        if self._unsent and not self.is_closed:
            self._send()
            if self._is_wanted:
                self._call_writable()

    def want_writable(self) -> None:
        if not self._is_wanted:
            self._is_wanted = True
            self._call_writable()

    def _call_writable(self) -> None:
        if self.unsent_bytes <= LOW_WATER_BYTES:
            self.process.after(0, self._writable)

    def _writable(self) -> None:
        if self._is_wanted and not self.is_closed and not self._is_closing and self.handler is not None:
            self._is_wanted = False
            self.handler.writable()

    # -- ends ---------------------------------------------------------------------------------------------------

    def _gone(self, why: str) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._unsent.clear()
        self.unsent_bytes = 0
        self._network.forget(self)
        if self.handler is not None:
            self.handler.closed(why)

    def break_now(self, why: str) -> None:
        """Break the connection for this end; what is under way in either direction is lost."""
        self._under_way.clear()
        if not self.is_closed and self.process.is_alive:
            self.process.after(0, self._gone, why)

    def process_died(self) -> None:
        """Announce the death to the peer, as the machine's kernel does, after what is already under way."""
        if self.is_closed:
            return
        self.is_closed = True
        self._network.forget(self)
        self._is_closing = True
        if not self.is_half_open:
            self._plan_arrival()

    def vanish(self) -> None:
        """End without a notice to the peer, because the machine lost power."""
        self.is_closed = True
        self._network.forget(self)
        self._under_way.clear()
        self.other.is_half_open = True


class SimNetwork:
    """Connects all machines. The faults set its delays, partitions and accidents."""

    def __init__(self, timeline: Timeline, rng: random.Random) -> None:
        self.timeline = timeline
        self.rng = rng
        self.byte_count = 0
        self.connect_count = 0
        self.link = Link()
        self.links: dict[tuple[str, str], Link] = {}
        self.cuts: set[tuple[str, str]] = set()  # (from host, to host)
        self.healed_us: dict[tuple[str, str], int] = {}  # when a cut direction was mended last
        self.hosts_down: set[str] = set()
        self.streams: dict[SimStream, None] = {}  # open ends, in the order they were opened
        self._listeners: dict[str, Listener] = {}
        self._held: dict[SimStream, None] = {}
        self._port = 20_000

    # -- what processes do --------------------------------------------------------------------------------------

    def listen(self, process: Process, address: str, accept: Accept) -> None:
        """Connections to ``address`` ("host:port") reach ``process`` until it dies or stops listening."""
        self._listeners[address] = Listener(process, accept)

    def is_listening(self, address: str) -> bool:
        listener = self._listeners.get(address)
        return listener is not None and listener.process.is_alive

    def stop_listening(self, address: str) -> None:
        self._listeners.pop(address, None)

    def connect(self, process: Process, address: str, handler: StreamHandler) -> None:
        """See :class:`pymq.wire.streams.Network`."""
        self.connect_count += 1
        host = address.rpartition(":")[0]
        listener = self._listeners.get(address)
        delay_us = self.delay_us(process.host, host) + self.delay_us(host, process.host)
        if host in self.hosts_down or self.is_cut(process.host, host) or self.is_cut(host, process.host):
            process.after(CONNECT_TIMEOUT_US, handler.closed, f"no connection to {address}: timed out")
            return
        if listener is None or not listener.process.is_alive:
            process.after(delay_us, handler.closed, f"no connection to {address}: refused")
            return
        self._port = self._port + 1 if self._port < 60_000 else 20_000
        near = SimStream(self, process, address)
        far = SimStream(self, listener.process, f"{process.host}:{self._port}")
        near.other, far.other = far, near
        near.handler = handler
        self.streams[near] = self.streams[far] = None
        listener.process.after(delay_us // 2, self._opened_far, far, listener)
        process.after(delay_us, self._opened_near, near)

    def _opened_far(self, far: SimStream, listener: Listener) -> None:
        if far.is_closed:
            return
        far.handler = listener.accept(far.peer_address)
        far.handler.opened(far)

    def _opened_near(self, near: SimStream) -> None:
        if near.is_closed:
            return
        assert near.handler is not None
        near.handler.opened(near)

    def process_died(self, process: Process, *, with_power: bool) -> None:
        """End all connections of the process; after a power loss no peer gets a notice."""
        for stream in [stream for stream in self.streams if stream.process is process]:
            if with_power:
                stream.vanish()
            else:
                stream.process_died()

    # -- links and partitions -----------------------------------------------------------------------------------

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self.cuts

    def is_disturbed(self, *pairs: tuple[str, str]) -> bool:
        """Return whether any of these directions is cut, or slower than usual."""
        return any(pair in self.cuts or pair in self.links for pair in pairs)

    def link_of(self, source: str, target: str) -> Link:
        return self.links.get((source, target), self.link)

    def delay_us(self, source: str, target: str) -> int:
        link = self.link_of(source, target)
        return link.delay_us + int(self.rng.random() * link.jitter_us)

    def hold(self, stream: SimStream) -> None:
        """Make what the stream has under way wait for the partition's end."""
        self._held[stream] = None

    def heal(self, cuts: set[tuple[str, str]]) -> None:
        """Make these directions work again: what was held there goes on a little later."""
        self.healed_us.update(dict.fromkeys(cuts & self.cuts, self.timeline.now_us))
        self.cuts -= cuts
        held, self._held = self._held, {}
        for stream in held:
            if self.is_cut(stream.local_host, stream.peer_host):
                self._held[stream] = None
            else:
                self.timeline.after(int(stream._chance() * 200 * MS), stream._plan_arrival)

    def refuse(self, stream: SimStream) -> None:
        """Reset a stream that writes to a dead process, unless a partition stops the reset."""
        if not self.is_cut(stream.peer_host, stream.local_host):
            stream.break_now("reset by the peer")

    def forget(self, stream: SimStream) -> None:
        self.streams.pop(stream, None)
