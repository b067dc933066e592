"""Feeds: a master's slaves. One feed for each HA connection, how many of them have how much, and who is gone.

What happens for each message is nothing: once a turn each feed is asked to send what is new, with one write.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable

from pymq.broker.replication.master.feed import GONE, Feed, FeedStore
from pymq.broker.replication.master.grants import Grant, Grants
from pymq.broker.replication.rates import LogTimes
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.wire.bodies_replication import SlaveState
from pymq.wire.streams import Stream, StreamHandler

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 64
GONE_MAX = 16  # slaves that went are shown until they come back; so many of them
TOLD_MAX = 256  # (peer, problem) pairs that were logged already
_NUMBER = re.compile(r"\d+")


class Feeds:
    """Belongs to the event loop's thread. ``on_acked`` is called when a slave has more than before, or has gone."""

    def __init__(self, *, store: FeedStore, clock: Clock, config: BrokerConfig, rng: random.Random) -> None:
        self.on_acked: Callable[[], None] = lambda: None
        self._store = store
        self._clock = clock
        self._config = config
        self._grants = Grants(rng, config.ha_housekeeping_interval_ms)
        self._times = LogTimes()
        self._feeds: list[Feed] = []
        self._gone: dict[tuple[int, str], SlaveState] = {}  # by id and address or host
        self._told: dict[tuple[str, str], None] = {}
        self._seen_end = -1

    # -- connections -----------------------------------------------------------------------------------------------

    def accept(self) -> StreamHandler:
        """For each incoming HA connection."""
        if len(self._feeds) >= CONNECTIONS_MAX:
            return _TooMany(self._tell)
        feed = Feed(self, self._store, self._times, clock=self._clock, config=self._config)
        self._feeds.append(feed)
        return feed

    def grant(self, broker_id: int, address: str, start: int) -> int:
        """A token for a slave whose joining was accepted: with it in front its connection goes on from ``start``."""
        return self._grants.give(Grant(broker_id, address, start), self._clock.monotonic_ms())

    def live_address(self, broker_id: int) -> str:
        """Where the connected slave of this id answers; empty when there is none."""
        return next((feed.address for feed in self._feeds if feed.grant.broker_id == broker_id and feed.counts), "")

    def redeem(self, feed: Feed, token: int) -> Grant | None:
        grant = self._grants.take(token, self._clock.monotonic_ms())
        if grant is not None:
            for other in list(self._feeds):
                if other is not feed and other.grant.broker_id == grant.broker_id:
                    other.close("the same slave has connected again")
        return grant

    def acked(self) -> None:
        self.on_acked()

    def ended(self, feed: Feed, why: str) -> None:
        if feed not in self._feeds:
            return
        self._feeds.remove(feed)
        self._remember(feed, why)
        self.tell(feed, f"its connection ended: {why}")
        self.on_acked()

    def tell(self, feed: Feed, what: str) -> None:
        self._tell(feed.address, what)

    def close(self, why: str) -> None:
        """Ends all connections: the broker stops, or is no master any more. Who has caught up gets the last bytes."""
        self.committed()
        for feed in list(self._feeds):
            feed.close(why)

    # -- sending ---------------------------------------------------------------------------------------------------

    def committed(self) -> None:
        """At the end of each turn: sends what it brought."""
        if self._feeds and self._store.physical_max_offset != self._seen_end:
            self._seen_end = self._store.physical_max_offset
            self._times.note(self._clock.monotonic_ms(), self._seen_end)
            for feed in self._feeds:
                feed.pump()

    def tick(self) -> None:
        """Some times a second: heartbeats, silent slaves."""
        now_ms = self._clock.monotonic_ms()
        for feed in self._feeds:
            feed.tick(now_ms)
        acks = [feed.acked for feed in self._feeds if feed.counts]
        if acks:
            self._times.forget_below(min(acks))

    # -- what they have --------------------------------------------------------------------------------------------

    def confirmed(self, copies: int) -> int:
        """The log offset that at least ``copies`` slaves have; 0 when there are fewer."""
        acks = sorted([feed.acked for feed in self._feeds if feed.counts], reverse=True)
        if copies <= 0:
            return self._store.physical_max_offset
        return acks[copies - 1] if len(acks) >= copies else 0

    @property
    def in_sync_count(self) -> int:
        """Slaves that are less than ``haMaxGapNotInSync`` behind."""
        return sum(feed.is_in_sync for feed in self._feeds)

    @property
    def are_all_there(self) -> bool:
        """No slave has gone and is not back yet."""
        return all(state.state != GONE for state in self.states())

    def states(self) -> list[SlaveState]:
        """Each slave, also those that went and did not come back (state "gone", and why)."""
        for feed in self._feeds:
            if feed.next is not None:
                self._gone.pop(_key(feed), None)
        return [*(feed.state() for feed in self._feeds), *self._gone.values()]

    def _remember(self, feed: Feed, why: str) -> None:
        key = _key(feed)
        if any(_key(other) == key for other in self._feeds):
            return
        state = feed.state()
        state.state, state.problem, state.in_sync, state.bytes_per_second = GONE, why, False, 0
        self._gone.pop(key, None)
        self._gone[key] = state
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _tell(self, address: str, what: str) -> None:
        """Once for each host and kind of problem: one that comes back every few seconds must not fill the log."""
        about = (address.rpartition(":")[0], _NUMBER.sub("", what))
        if about not in self._told:
            if len(self._told) >= TOLD_MAX:
                del self._told[next(iter(self._told))]
            self._told[about] = None
            log.warning("slave %s: %s", address, what)


def _key(feed: Feed) -> tuple[int, str]:
    return (feed.grant.broker_id, feed.address.rpartition(":")[0])


class _TooMany:
    """A connection beyond ``CONNECTIONS_MAX``: closed at once."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell

    def opened(self, stream: Stream) -> None:
        why = f"there are {CONNECTIONS_MAX} already, no more are taken: stop some slaves, or who else connects here"
        self._tell(stream.peer_address, why)
        stream.close()

    def received(self, data: bytes) -> None: ...

    def writable(self) -> None: ...

    def closed(self, why: str) -> None: ...
