"""HaService: a master's slaves. One feed for each HA connection, how many of them have how much, and who is gone.

What happens for each message is nothing: once a turn each feed is asked to send what is new, with one write.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from pymq.broker.replication.master.ha_connection import HaConnection, HaStore
from pymq.broker.replication.master.join_tokens import JoinedSlave, JoinTokens
from pymq.broker.replication.master.rejected_peers import RejectedPeers
from pymq.broker.replication.rates import LogTimes
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.model.hosts import host_of
from pymq.rate_limited_log import RateLimitedLog, printable
from pymq.wire.bodies_replication import GONE, SlaveState
from pymq.wire.streams import Stream, StreamHandler

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 64
# Slaves that went are remembered until they come back: as many as may go at once, for UnsyncedReplicas decides by what each
# was sent whom to ask after a power loss.
GONE_MAX = CONNECTIONS_MAX


class HaService:
    """Belongs to the event loop's thread. ``on_ack`` is called when a slave has more than before, or has gone."""

    def __init__(self, *, store: HaStore, clock: Clock, config: BrokerConfig, rng: random.Random) -> None:
        self.on_ack: Callable[[], None] = lambda: None
        self._store = store
        self._clock = clock
        self._config = config
        self._join_tokens = JoinTokens(rng, config.ha_housekeeping_interval_ms)
        self._times = LogTimes()
        self._connections: list[HaConnection] = []
        self._gone: dict[tuple[int, str], SlaveState] = {}
        self._rejected_peers = RejectedPeers(clock)
        self._rate_limited_log = RateLimitedLog(log, clock, "connections to the HA port")
        self._seen_end = -1

    # -- connections -----------------------------------------------------------------------------------------------

    def accept(self) -> StreamHandler:
        """For each incoming HA connection. When there are too many, one that has said nothing yet makes room, the
        oldest first: whoever only holds connections keeps no slave out."""
        if len(self._connections) >= CONNECTIONS_MAX and not self._make_room():
            return _TooMany(self._rate_limited_log)
        connection = HaConnection(self, self._store, self._times, clock=self._clock, config=self._config)
        self._connections.append(connection)
        return connection

    def _make_room(self) -> bool:
        candidates = [connection for connection in self._connections if connection.may_make_room]
        if not candidates:
            return False
        silent = [connection for connection in candidates if connection.sent_offset is None]
        connection = (silent or candidates)[0]
        self._connections.remove(connection)
        connection.close(f"it made room for another one: there are {CONNECTIONS_MAX} connections")
        self._rate_limited_log.write("all", f"{connection.name} ended: {connection.problem}")
        return True

    def joined_slave(self, broker_id: int, address: str, start: int) -> int:
        """A token for a slave whose joining was accepted: with it in front its connection goes on from ``start``."""
        self._rejected_peers.forget(broker_id, address)
        return self._join_tokens.give(JoinedSlave(broker_id, address, start), self._clock.monotonic_ms())

    def live_address(self, broker_id: int) -> str:
        """Where the connected slave of this id answers; empty when there is none."""
        return next(
            (
                connection.address
                for connection in self._connections
                if connection.joined_slave.broker_id == broker_id and connection.counts
            ),
            "",
        )

    def redeem(self, connection: HaConnection, token: int) -> JoinedSlave | None:
        joined_slave = self._join_tokens.take(token, self._clock.monotonic_ms())
        if joined_slave is not None:
            for other in list(self._connections):
                if other is not connection and other.joined_slave.broker_id == joined_slave.broker_id:
                    other.close("the same slave has connected again")
        return joined_slave

    def refused(self, broker_id: int, address: str, why: str) -> None:
        """A joining was refused; ``broker_id`` -1 and where it came from when it can't be read."""
        address, why = printable(address), printable(why)
        gone = self._gone.get(_key(broker_id, address))
        if gone is not None and host_of(gone.address) == host_of(address):
            gone.problem = why
        else:
            self._rejected_peers.note(broker_id, address, why)
        who = f"slave {broker_id} at {address}" if broker_id >= 0 else f"a joining from {address}"
        self._rate_limited_log.write(_who(broker_id, address), f"{who} was refused: {why}")

    def on_following(self, connection: HaConnection) -> None:
        self._log(connection, f"{connection.name} follows from offset {connection.sent_offset} on", logging.INFO)

    def on_closed(self, connection: HaConnection, why: str) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        if connection.is_slave:
            self._remember(connection, why)
            self.warn(connection, f"its connection ended: {why}")
        elif connection.problem:  # without one it only looked whether somebody listens
            self._rejected_peers.note(connection.joined_slave.broker_id, connection.address, why)
            self.warn(connection, why)
        self.on_ack()

    def warn(self, connection: HaConnection, what: str) -> None:
        self._log(connection, f"{connection.name}: {what}", logging.WARNING)

    def _log(self, connection: HaConnection, text: str, level: int) -> None:
        self._rate_limited_log.write(
            _who(connection.joined_slave.broker_id, connection.address),
            text,
            level,
            is_trusted=connection.joined_slave.broker_id >= 0,
        )

    def close(self, why: str) -> None:
        """Ends all connections: the broker stops, or is no master any more. Who has caught up gets the last bytes."""
        self.committed()
        for connection in list(self._connections):
            if not connection.is_slave:
                self._connections.remove(connection)  # who it was needs no line any more
            connection.close(why)

    # -- sending ---------------------------------------------------------------------------------------------------

    def committed(self) -> None:
        """At the end of each turn: sends what it brought."""
        if self._connections and self._store.physical_max_offset != self._seen_end:
            self._seen_end = self._store.physical_max_offset
            self._times.note(self._clock.monotonic_ms(), self._seen_end)
            for connection in self._connections:
                connection.pump()

    def tick(self) -> None:
        """Some times a second: heartbeats, silent slaves."""
        now_ms = self._clock.monotonic_ms()
        self._rate_limited_log.tick()
        for connection in self._connections:
            connection.tick(now_ms)
        acks = [connection.ack_offset for connection in self._connections if connection.counts]
        if acks:
            self._times.forget_below(min(acks))

    # -- what they have --------------------------------------------------------------------------------------------

    def offset_acked_by(self, slave_count: int) -> int:
        """The log offset that at least ``slave_count`` slaves have; 0 when there are fewer."""
        acks = sorted([connection.ack_offset for connection in self._connections if connection.counts], reverse=True)
        if slave_count <= 0:
            return self._store.physical_max_offset
        return acks[slave_count - 1] if len(acks) >= slave_count else 0

    @property
    def in_sync_count(self) -> int:
        """Slaves that are less than ``haMaxGapNotInSync`` behind."""
        return sum(connection.is_in_sync for connection in self._connections)

    @property
    def are_all_there(self) -> bool:
        """No slave has gone and is not back yet."""
        self._forget_back()
        return not self._gone

    def states(self) -> list[SlaveState]:
        """Each slave, also those that went and did not come back (state "gone", and why), and who was sent away
        lately (state "refused")."""
        self._forget_back()
        return [
            *(connection.state() for connection in self._connections),
            *self._gone.values(),
            *self._rejected_peers.states(),
        ]

    def _forget_back(self) -> None:
        for connection in self._connections:
            if connection.sent_offset is not None:
                self._gone.pop(_key(connection.joined_slave.broker_id, connection.address), None)

    def _remember(self, connection: HaConnection, why: str) -> None:
        key = _key(connection.joined_slave.broker_id, connection.address)
        if any(_key(other.joined_slave.broker_id, other.address) == key for other in self._connections):
            return
        state = connection.state()
        state.state, state.problem, state.in_sync, state.bytes_per_second = GONE, why, False, 0
        self._gone.pop(key, None)
        self._gone[key] = state
        if len(self._gone) > GONE_MAX:  # those that never joined go first
            del self._gone[next((key for key in self._gone if key[0] < 0), next(iter(self._gone)))]


def _key(broker_id: int, address: str) -> tuple[int, str]:
    """One slave's: its id, wherever it moves; of RocketMQ's, which tell none, the host."""
    return (broker_id, "" if broker_id >= 0 else host_of(address))


def _who(broker_id: int, address: str) -> str:
    return f"{broker_id} {host_of(address)}"


class _TooMany:
    """A connection beyond ``CONNECTIONS_MAX``: closed at once."""

    def __init__(self, rate_limited_log: RateLimitedLog) -> None:
        self._rate_limited_log = rate_limited_log

    def opened(self, stream: Stream) -> None:
        address = stream.peer_address
        self._rate_limited_log.write(
            _who(-1, address),
            f"a connection from {address} to the HA port: there are {CONNECTIONS_MAX} already, no more are taken: stop "
            "some slaves, or who else connects here",
        )
        stream.close()

    def received(self, data: bytes) -> None: ...

    def writable(self) -> None: ...

    def closed(self, why: str) -> None: ...
