"""Runs of pops, acknowledgements and crashes at any call of the disk: each message is acknowledged or comes again.

A kill keeps what was written. After it no message comes twice within its invisible time, and none that was acknowledged
comes again. A power loss may take acknowledgements and hand-outs, never a message that was on the disk.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode
from tests.broker.handlers.test_pop import Found, Popping
from tests.broker.handlers.test_pop_orderly import Ordered
from tests.broker.world import World
from tests.crash.crashes import CrashError, Crashes

MESSAGE_COUNT = 24
STEP_COUNT = 60
CRASH_CALLS_MAX = 60
SETTINGS: dict[str, Any] = {"reviveQueueNum": "2", "flushConsumerOffsetInterval": "1000"}


@dataclass
class Model:
    """What the client knows: each message's newest receipt, and until when it must stay away (Unix ms)."""

    receipts: dict[bytes, dict[str, Any]] = field(default_factory=dict)
    hidden_until: dict[bytes, int] = field(default_factory=dict)
    acked: set[bytes] = field(default_factory=set)
    tried: set[bytes] = field(default_factory=set)  # acknowledged, perhaps late or without an answer

    def take(self, found: Found, now_ms: int, invisible_ms: int, *, is_strict: bool) -> None:
        for number, body in enumerate(found.bodies):
            assert not is_strict or body not in self.acked, f"{body!r} was acknowledged"
            assert not is_strict or now_ms >= self.hidden_until.get(body, 0), f"{body!r} came too early"
            self.receipts[body] = found.receipt(number)
            self.hidden_until[body] = now_ms + invisible_ms


class Run:
    """A client that pops at random from a broker that crashes."""

    popping_class: type[Popping] = Popping
    settings = SETTINGS

    def __init__(self, seed: int, *, loses_power: bool) -> None:
        self.rng = random.Random(seed)
        self.loses_power = loses_power
        self.model = Model()
        self.popping = self.popping_class(World(**self.settings))
        self._make_topic()
        for number in range(MESSAGE_COUNT):
            self.popping.world.put("T", b"%d" % number, queue_id=number % 2)
        self.popping.world.parts.store.sync()
        self.crashes = Crashes(self.rng, loses_power=loses_power)
        self._await_crash()

    def _make_topic(self) -> None:
        self.popping.world.parts.metadata.topics.ensure_internal("T", 2)

    def _await_crash(self) -> None:
        self.crashes.await_one(self.popping.world.files, CRASH_CALLS_MAX)

    def _reopen(self) -> None:
        world = World(self.crashes.left(), self.popping.world.clock, **self.settings)
        self.popping = self.popping_class(world)

    def step(self) -> None:
        try:
            self._act()
        except CrashError:
            self._reopen()
            self._await_crash()

    def _act(self) -> None:
        p, rng, model = self.popping, self.rng, self.model
        now_ms = p.world.clock.now_ms()
        action = rng.randrange(10)
        if action < 4:
            invisible_ms = rng.choice([500, 2000, 10_000])
            found = p.pop(count=rng.randrange(1, 8), invisible_ms=invisible_ms)
            model.take(found, now_ms, invisible_ms, is_strict=not self.loses_power)
        elif action < 7 and model.receipts:
            bodies = rng.sample(sorted(model.receipts), min(rng.randrange(1, 5), len(model.receipts)))
            model.tried.update(bodies)
            codes = p.ack_together([model.receipts.pop(body) for body in bodies], lambda: rng.random() < 0.5)
            for body, code in zip(bodies, codes, strict=True):
                if code == 0 and now_ms < model.hidden_until[body]:
                    model.acked.add(body)
        elif action < 8 and model.receipts:
            body = rng.choice(sorted(model.receipts))
            if p.change(model.receipts.pop(body), 5000)[0] == 0:  # its new receipt is lost: it comes again
                model.hidden_until[body] = now_ms + 5000
        else:
            p.wait(rng.choice([10, 400, 1500]))
            p.world.parts.metadata.cursors.tick()
            if rng.random() < 0.3:
                p.world.parts.store.sync()

    def finish(self) -> None:
        """Acknowledge all that comes until nothing does."""
        self.popping.world.files.fault = None
        for _ in range(3 * MESSAGE_COUNT):
            self.popping.wait(10_000)
            found = self.popping.pop(invisible_ms=10_000)
            self.model.take(found, self.popping.world.clock.now_ms(), 10_000, is_strict=not self.loses_power)
            for number, body in enumerate(found.bodies):
                assert self.popping.ack(found.receipt(number)) == 0
                self.model.tried.add(body)
            if not found.bodies and not self.popping.world.parts.pop.revive_log.check_points:
                break
        assert self.model.tried == {b"%d" % number for number in range(MESSAGE_COUNT)}, "messages are lost"


class PriorityRun(Run):
    """A client that pops by priority, from a broker whose retry topics have a queue for each priority."""

    settings = SETTINGS | {"useSeparateRetryQueue": "true"}

    def _make_topic(self) -> None:
        topic = TopicConfig(
            topic_name="T", read_queue_nums=2, write_queue_nums=2, attributes={"message.type": "PRIORITY"}
        )
        self.popping.world.parts.metadata.topics.put([topic])


class OrderedRun(Run):
    """A client that pops in order. What comes of a queue begins at its first message without an acknowledgement or
    before, in one piece; between crashes nothing comes of a queue whose messages are out."""

    popping_class = Ordered

    def __init__(self, seed: int, *, loses_power: bool) -> None:
        self.out_until = [0, 0]  # by queue
        super().__init__(seed, loses_power=loses_power)

    def _reopen(self) -> None:
        super()._reopen()
        self.out_until = [0, 0]

    def _act(self) -> None:
        p, rng = self.popping, self.rng
        now_ms, action = p.world.clock.now_ms(), rng.randrange(10)
        if action < 4:
            self._take(p.pop(count=rng.randrange(1, 8), invisible_ms=2000), now_ms)
        elif action < 8 and self.model.receipts:
            body = rng.choice(sorted(self.model.receipts))
            self.model.tried.add(body)
            p.ask(RequestCode.ACK_MESSAGE, consumerGroup="g", **self.model.receipts.pop(body))
            self.out_until[int(body) % 2] = 0  # it may have been the last one
        else:
            p.wait(rng.choice([10, 400, 1500]))
            for table in (p.world.parts.metadata.cursors, p.world.parts.metadata.order_infos):
                table.tick()
            if rng.random() < 0.3:
                p.world.parts.store.sync()

    def _take(self, found: Found, now_ms: int) -> None:
        for queue_id in (0, 1):
            numbers = [int(body) // 2 for body in found.bodies if int(body) % 2 == queue_id]
            if not numbers:
                continue
            assert now_ms >= self.out_until[queue_id], f"queue {queue_id} is out"
            left = [n for n in range(MESSAGE_COUNT // 2) if b"%d" % (2 * n + queue_id) not in self.model.tried]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
            assert not left or numbers[0] <= left[0], f"queue {queue_id} skips {left[0]}"
            self.out_until[queue_id] = now_ms + 2000
        for number, body in enumerate(found.bodies):
            self.model.receipts[body] = found.receipt(number)

    def finish(self) -> None:
        """Acknowledge all that comes until nothing does."""
        self.popping.world.files.fault = None
        for _ in range(3 * MESSAGE_COUNT):
            self.popping.wait(2000)
            found = self.popping.pop(invisible_ms=2000)
            self._take(found, self.popping.world.clock.now_ms())
            for number, body in enumerate(found.bodies):
                assert self.popping.ack(found.receipt(number)) == 0
                self.model.tried.add(body)
        assert len(self.model.tried) == MESSAGE_COUNT, "messages are lost"


def run(seed: int, *, loses_power: bool, kind: type[Run] = Run) -> None:
    one = kind(seed, loses_power=loses_power)
    for _ in range(STEP_COUNT):
        one.step()
    one.finish()
