"""A producer of timer messages, and what is checked of them: each comes once it is due, and never before.

Some are recalled. What stands behind a recall in the log is no longer delivered.

A message is due by the clock of the broker that stores it. Clocks jump, so "due" is judged by the clock of the broker
that delivers it: its store time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pymq.model.names import TIMER_TOPIC
from pymq.model.properties import TIMER_DELIVER_MS, UNIQ_KEY
from pymq.model.timers import DELETE_KEY
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.clients import Producer, messages_of
from tests.simulation.history import ACKED, UNSURE, Send, name_of
from tests.simulation.remoting import run
from tests.simulation.timeline import MS, SECOND

if TYPE_CHECKING:
    from pymq.broker.assembly.parts import BrokerParts
    from pymq.model.record import StoredMessage
    from tests.simulation.master_slave.checking import Verdict
    from tests.simulation.master_slave.cluster import MasterSlave

TIMER_TARGET = "Reminders"
DELAYS_MS = (1, 700, 3000, 12_000, 40_000)
SETTINGS = {
    "timerRollWindowSlot": 10,  # so that the longest delays roll over
    "recallMessageEnable": "true",
}
HOUR_MS = 3_600_000
RECALLED_SHARE = 0.3  # of the messages with a handle
ANYWHERE = 1 << 62  # the place of a record that is in no answer


class TimerProducer(Producer):
    """Sends messages that are due some seconds later."""

    cluster: MasterSlave

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

    async def _send(self, address: str, content: bytes) -> Send:
        """Send, and recall the message later if chance wants it."""
        send = await super()._send(address, content)
        if send.recall_handle and self._rng.random() < RECALLED_SHARE:
            run(self._recall(send))
        return send

    async def _recall(self, send: Send) -> None:
        await self.sleep(int(self._rng.random() ** 3 * max(DELAYS_MS)) * MS // 2)
        if self.is_stopping or (address := await self.master()) is None:
            return
        recall = Send(send.content, self.name, 0, address, self.now_us, physical=ANYWHERE)
        self._history.recalls.append(recall)
        fields = {"topic": TIMER_TARGET, "recallHandle": send.recall_handle}
        await self.store(recall, Command(RequestCode.RECALL_MESSAGE, ext=fields))
        if recall.outcome == ACKED and self.cluster.is_broker(address):
            recall.is_sync = self.cluster.broker_at(address).is_sync_master
        elif recall.outcome == ACKED:
            recall.outcome = UNSURE  # a liar answered
        self._history.operations[f"recalls {recall.outcome}"] += 1


def let_all_come(cluster: MasterSlave) -> None:
    """Set the master's clock hours ahead at the end of a run, and wait until nothing is due any more."""
    if (master := cluster.master) is None:
        return  # which is a violation already
    ahead_ms = max(broker.clock.skew_ms for broker in cluster.brokers) - min(b.clock.skew_ms for b in cluster.brokers)
    master.clock.skew_ms += ahead_ms + HOUR_MS

    def is_done() -> bool:
        parts = master.parts
        if parts is None:
            return False
        timers = parts.messages.timers
        return timers.behind_count == 0 and timers.behind_ms < 2 * SECOND // 1000

    cluster.until(cluster.plan.quiet_us, is_done, "not all timer messages that are due were delivered")


def judge(cluster: MasterSlave, verdict: Verdict) -> None:
    """Check what was delivered, on the master at rest."""
    history = cluster.history
    if (found := cluster.only_master()) is None:
        return  # which is a violation already
    _, parts = found
    messages = messages_of(parts, 0, TIMER_TARGET)
    recalled_at = _judge_recalls(cluster, verdict, parts, messages)
    for message in messages:
        due_ms = int(message.properties[TIMER_DELIVER_MS])
        if message.store_timestamp_ms < due_ms:
            history.violated(f"timer {message.body[:20]!r} came {due_ms - message.store_timestamp_ms} ms early")
    counts = Counter(message.body for message in messages)
    unknown = counts.keys() - {send.content for send in history.timer_sends}
    if unknown:
        history.violated(f"timers that were never sent: {sorted(unknown)[:3]}")
    for send in history.timer_sends:
        is_missing = not counts[send.content] and name_of(send.content) not in recalled_at
        if send.outcome == ACKED and is_missing and not verdict.may_be_lost(send):
            history.violated(f"lost timer: {send.content[:20]!r}, log {send.physical}, epoch {send.epoch}")
    history.operations["timers delivered"] += len(counts)
    history.operations["timers delivered again"] += sum(counts.values()) - len(counts)
    disturbances = sum(history.faults.values()) + sum(broker.start_count for broker in cluster.brokers)
    for body, count in counts.items():
        if count > 1 + disturbances:
            history.violated(f"timer {body[:20]!r} came {count} times after {disturbances} faults and starts")


def _judge_recalls(
    cluster: MasterSlave, verdict: Verdict, parts: BrokerParts, messages: list[StoredMessage]
) -> dict[str, int]:
    """Check acknowledged recalls; return where in the log the first recall of each message stands, by unique key."""
    history, recalled_at = cluster.history, dict[str, int]()
    for record in messages_of(parts, 0, TIMER_TOPIC):
        if DELETE_KEY.decode() in record.properties:
            recalled_at.setdefault(record.properties[UNIQ_KEY], record.physical_offset)
    for recall in history.recalls:
        if recall.outcome == ACKED and name_of(recall.content) not in recalled_at and not verdict.may_be_lost(recall):
            history.violated(f"lost recall of {name_of(recall.content)}, answered at {recall.answered_us / SECOND:.4f}")
    acked = {name_of(recall.content) for recall in history.recalls if recall.outcome == ACKED}
    for message in messages:
        key = message.properties[UNIQ_KEY]
        if key in acked and message.physical_offset > recalled_at.get(key, ANYWHERE):
            history.violated(f"timer {key} came at log {message.physical_offset}, recalled at {recalled_at[key]}")
    history.operations["timers recalled"] += len(recalled_at)
    return recalled_at
