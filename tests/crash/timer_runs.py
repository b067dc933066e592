"""Runs of timer messages and crashes at any call of the disk: each is delivered, once, and not before it is due.

The calls of a run include every write of a timer message: the put, the timer log, the wheel, the check point, the
roll-over, the delivery and the recall. A kill keeps what was written. After it, only what was delivered since the last
save may come twice, and nothing that was recalled comes. A power loss may take what was never on the disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pymq.model.record import StoredMessage, decode_records
from pymq.store.timer.timer_store import MAGIC_DELETE
from pymq.wire.codes import RequestCode
from tests.broker.handlers.test_send import fields
from tests.broker.world import Caller, World
from tests.crash.crashes import CrashError, Crashes

STEP_COUNT = 40
TICK_MS = 100
FLUSH_INTERVAL_MS = 1000
PRECISION_MS = 1000
DELAY_MS_MAX = 14_000
# A delivery is saved with the slot's end and the next save behind it: what a kill may bring again is not older.
DOUBLED_AGE_MS_MAX = PRECISION_MS + FLUSH_INTERVAL_MS + 2 * TICK_MS
CRASH_CALLS_MAX = 200
WINDOW_MS = 5000
SETTINGS: dict[str, Any] = {
    "recallMessageEnable": "true",
    "timerRollWindowSlot": "5",
    "timerFlushIntervalMs": str(FLUSH_INTERVAL_MS),
    "mappedFileSizeTimerLog": "1024",
}


@dataclass
class Sent:
    """What the client knows about one message. ``is_durable``: it was on the disk, with all that led to it."""

    sent_ms: int
    due_ms: int
    handle: str
    is_durable: bool = False
    is_recall_tried: bool = False
    is_recalled: bool = False


@dataclass
class Model:
    """What was answered, when it crashed, and when each body was met in its topic."""

    sent: dict[bytes, Sent] = field(default_factory=dict)
    crashes_ms: list[int] = field(default_factory=list)
    met: dict[bytes, set[tuple[int, int]]] = field(default_factory=dict)  # (queue offset, store time) of each copy
    dues_ms: dict[bytes, int] = field(default_factory=dict)  # also of those that were not answered
    rolls: dict[bytes, bool] = field(default_factory=dict)  # whether it was stored again before it was delivered

    def meet(self, message: StoredMessage) -> None:
        early_ms = self.dues_ms[message.body] - message.store_timestamp_ms
        assert early_ms <= 0, f"{message.body!r} came {early_ms} ms early"
        self.rolls[message.body] = self.rolls.get(message.body, False) or b"TIMER_ROLL_TIMES" in message.raw_properties
        self.met.setdefault(message.body, set()).add((message.queue_offset, message.store_timestamp_ms))

    def check(self, *, loses_power: bool) -> None:
        """Check all promises at the end of a run."""
        for body, sent in self.sent.items():
            must_come = not sent.is_recall_tried and (sent.is_durable or not loses_power)
            assert not must_come or body in self.met, f"{body!r} is lost"
            if not loses_power:
                assert not sent.is_recalled or body not in self.met, f"{body!r} was recalled"
        if not loses_power:
            for body, copies in self.met.items():
                self._check_doubles(body, sorted(stored_ms for _, stored_ms in copies))

    def _check_doubles(self, body: bytes, times_ms: list[int]) -> None:
        for stored_ms in times_ms[:-1]:
            begin_ms = stored_ms
            if self.rolls.get(body):
                begin_ms = min(begin_ms, self.dues_ms[body] - DELAY_MS_MAX)
            is_excused = any(begin_ms <= at_ms <= stored_ms + DOUBLED_AGE_MS_MAX for at_ms in self.crashes_ms)
            assert is_excused, f"{body!r} came again long after it was saved: {times_ms}, crashes {self.crashes_ms}"
        assert self.rolls.get(body) or len(times_ms) <= 1 + len(self.crashes_ms)


class Run:
    """A client of timer messages, and a broker that crashes."""

    def __init__(self, seed: int, *, loses_power: bool) -> None:
        self.rng = random.Random(seed)
        self.loses_power = loses_power
        self.model = Model()
        self.world = World(**SETTINGS)
        self.world.parts.metadata.topics.ensure_internal("T", 1)
        self.crashes = Crashes(self.rng, loses_power=loses_power)
        self._number = 0
        self._await_crash()

    def _await_crash(self) -> None:
        self.crashes.await_one(self.world.files, CRASH_CALLS_MAX)

    def step(self) -> None:
        try:
            self.rng.choices(self._actions, (8, 8, 3, 1, 1))[0]()
        except CrashError:
            self._reopen()

    @property
    def _actions(self) -> list[Callable[[], None]]:
        return [self._send, self._wait, self._recall, self._sync, self._restart]

    def _reopen(self) -> None:
        while self.crashes.image is not None:  # a start may crash as well
            image = self.crashes.left()
            self.model.crashes_ms.append(self.world.clock.now_ms())
            if self.loses_power:  # the rest may be lost
                self.model.sent = {body: sent for body, sent in self.model.sent.items() if sent.is_durable}
            self.world.clock.advance(self.rng.choice([0, 300, 4000]))
            self.world = World(image, self.world.clock, open_at_once=False, **SETTINGS)
            if self.rng.random() < 0.3:
                self._await_crash()
            try:
                self.world.parts.open()
            except CrashError:
                continue
            if self.world.files.fault is None:
                self.check_counts()
                self._await_crash()

    def check_counts(self) -> None:
        """Check that as many messages count as waiting as the chains of the slots hold."""
        timers = self.world.parts.messages.timers
        for _ in range(4):
            timers.tick()
        if timers.behind_count or timers._slot is not None:
            return
        slots = [slot for slot_ms, slot in timers._timers.wheel.slots() if slot_ms >= timers.progress.read_ms]
        units = [unit for slot in slots for _, unit in timers._timers.chain(slot.last)]
        waiting = sum(not unit.magic & MAGIC_DELETE for unit in units)
        assert timers.counts.waiting.get("T", 0) == waiting, "waiting messages"

    def _restart(self) -> None:
        self.world.parts.close()
        self.world.files.fault, fault = None, self.world.files.fault
        self.world = World(self.world.files, self.world.clock, **SETTINGS)
        self.world.files.fault = fault

    def _send(self) -> None:
        self._number += 1
        body, now_ms = b"%d" % self._number, self.world.clock.now_ms()
        due_ms = self.model.dues_ms[body] = now_ms + self.rng.randrange(1, DELAY_MS_MAX)
        text = f"UNIQ_KEY\x01K{self._number}\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
        caller = Caller(self.world)
        caller.ask(RequestCode.SEND_MESSAGE_V2, body, **fields(topic="T", queue_id=0, properties=text))
        self.world.parts.messages.writer.commit()
        (answer,) = caller.peer.frames
        assert answer.code == 0, answer.remark
        self.model.sent[body] = Sent(now_ms, due_ms, answer.ext.get("recallHandle", ""))

    def _wait(self) -> None:
        end_ms = self.world.clock.now_ms() + self.rng.choice([100, 500, 2000])
        while self.world.clock.now_ms() < end_ms:
            self.world.clock.advance(TICK_MS)
            for _ in range(4):
                self.world.parts.messages.timers.tick()

    def _recall(self) -> None:
        now_ms = self.world.clock.now_ms()
        waiting = [one for one in self.model.sent.values() if one.due_ms > now_ms + 2 * PRECISION_MS]
        if not waiting:
            return
        sent = self.rng.choice(waiting)
        sent.is_recall_tried = True
        caller = Caller(self.world)
        reply = caller.ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=sent.handle)
        if reply is not None:
            assert self.loses_power and not sent.is_durable, reply.remark
            return
        self.world.parts.messages.writer.commit()
        sent.is_recalled = caller.peer.frames[0].code == 0

    def _sync(self) -> None:
        known = list(self.model.sent.values())
        self.world.parts.store.sync()
        for sent in known:
            sent.is_durable = True

    def finish(self) -> None:
        """Let all come due, and check."""
        self.world.files.fault = None
        for _ in range((DELAY_MS_MAX + 2000) // TICK_MS):
            self.world.clock.advance(TICK_MS)
            for _ in range(4):
                self.world.parts.messages.timers.tick()
        for message in self.messages():
            self.model.meet(message)
        self.model.check(loses_power=self.loses_power)
        self.check_counts()

    def messages(self) -> list[StoredMessage]:
        """Return what was delivered."""
        found: list[StoredMessage] = []
        while True:
            result = self.world.parts.store.get("T", 0, len(found), 32, 1 << 20)
            some = decode_records(b"".join(result.chunks))
            if not some:
                return found
            found += some


def run(seed: int, *, loses_power: bool) -> None:
    one = Run(seed, loses_power=loses_power)
    for _ in range(STEP_COUNT):
        one.step()
    one.finish()
