"""A producer of timer messages, and what is checked of them: each comes once it is due, and never before.

A message is due by the clock of the broker that stores it. Clocks jump, so "due" is judged by the clock of the broker
that delivers it: its store time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pymq.broker.parts import BrokerParts
from pymq.model.properties import TIMER_DELIVER_MS
from pymq.model.record import StoredMessage, decode_records
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.clients import Producer
from tests.simulation.history import ACKED, Send
from tests.simulation.timeline import SECOND

if TYPE_CHECKING:
    from tests.simulation.checking import Verdict
    from tests.simulation.cluster import Cluster

TIMER_TARGET = "Reminders"
DELAYS_MS = (1, 700, 3000, 12_000, 40_000)
ROLL_WINDOW_SLOTS = 10  # so that the longest delays roll over
HOUR_MS = 3_600_000


class TimerProducer(Producer):
    """Sends messages that are due some seconds later."""

    cluster: Cluster

    def start(self, pace_us: int, size_max_bytes: int) -> None:
        """Send at the pace of the other producers, but not more than a message in 200 ms."""
        super().start(max(pace_us, SECOND // 5), min(size_max_bytes, 500))

    def begin(self, send: Send) -> None:
        """Note the send apart from those that are delivered at once."""
        self._history.timer_sends.append(send)

    def request(self, send: Send) -> Command:
        """Return the send with a time by its broker's clock."""
        cluster = self.cluster
        skew_ms = cluster.broker_at(send.address).clock.skew_ms if cluster.is_broker(send.address) else 0
        command = super().request(send)
        due_ms = cluster.brokers[0].clock.now_ms() - cluster.brokers[0].clock.skew_ms + skew_ms
        due_ms += int(self._rng.choice(DELAYS_MS) * self._rng.random())
        fields = {**(command.ext or {}), "b": TIMER_TARGET, "e": "0"}
        fields["i"] += f"{TIMER_DELIVER_MS}\x01{due_ms}\x02"
        return Command(RequestCode.SEND_MESSAGE_V2, ext=fields, body=command.body, version=479)


def delivered(parts: BrokerParts) -> list[StoredMessage]:
    """Return all timer messages that were delivered."""
    found, at = list[StoredMessage](), parts.store.min_offset(TIMER_TARGET, 0)
    while at < parts.store.max_offset(TIMER_TARGET, 0):
        result = parts.store.get(TIMER_TARGET, 0, at, 1024, 1 << 24)
        found += decode_records(b"".join(result.chunks))
        if result.next_offset <= at:
            break
        at = result.next_offset
    return found


def let_all_come(cluster: Cluster) -> None:
    """Set the master's clock hours ahead at the end of a run, and wait until nothing is due any more."""
    (master,) = (broker for broker in cluster.brokers if broker.is_master)
    ahead_ms = max(broker.clock.skew_ms for broker in cluster.brokers) - min(b.clock.skew_ms for b in cluster.brokers)
    master.clock.skew_ms += ahead_ms + HOUR_MS

    def is_done() -> bool:
        parts = master.parts
        if parts is None:
            return False
        timers = parts.messages.timers
        return timers.behind_count == 0 and timers.behind_ms < 2 * SECOND // 1000

    cluster._until(cluster.plan.quiet_us, is_done, "not all timer messages that are due were delivered")


def judge(cluster: Cluster, verdict: Verdict) -> None:
    """Check what was delivered, on the master at rest."""
    history = cluster.history
    masters = [broker for broker in cluster.brokers if broker.is_master]
    if len(masters) != 1 or masters[0].parts is None:
        return  # which is a violation already
    messages = delivered(masters[0].parts)
    for message in messages:
        due_ms = int(message.properties[TIMER_DELIVER_MS])
        if message.store_timestamp_ms < due_ms:
            history.violated(f"timer {message.body[:20]!r} came {due_ms - message.store_timestamp_ms} ms early")
    counts = Counter(message.body for message in messages)
    unknown = counts.keys() - {send.content for send in history.timer_sends}
    if unknown:
        history.violated(f"timers that were never sent: {sorted(unknown)[:3]}")
    for send in history.timer_sends:
        if send.outcome == ACKED and not counts[send.content] and not verdict.may_be_lost(send):
            history.violated(f"lost timer: {send.content[:20]!r}, log {send.physical}, epoch {send.epoch}")
    history.operations["timers delivered"] += len(counts)
    history.operations["timers delivered again"] += sum(counts.values()) - len(counts)
    disturbances = sum(history.faults.values()) + sum(broker.start_count for broker in cluster.brokers)
    for body, count in counts.items():
        if count > 1 + disturbances:
            history.violated(f"timer {body[:20]!r} came {count} times after {disturbances} faults and starts")
