"""Runs of lite pops, acknowledgements, changed subscriptions, expiry, and crashes at any call of the disk.

Offsets and hand-outs of lite topics are saved now and then. What a save holds outlives kills and power losses: no
message comes again that was acknowledged before it, and none before its invisible time is over. What changed since then
may come again, in order. No message of a lite topic is lost, or expires unread.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from pymq.broker.pop.lite_expiry import CHECK_PERIOD_MS, EXPIRATION_MIN_MS
from pymq.model.record import StoredMessage, decode_record, decode_records
from pymq.model.tables import TopicConfig
from tests.broker.handlers.test_lite_pops import NOTHING, LitePops, Popped
from tests.broker.lites.hand_outs import HandOut
from tests.broker.world import World
from tests.crash.crashes import CrashError, Crashes
from tests.store.light.lights import entries_of

LITES = ("a", "b@x", "c$", "%d")
GROUPS = ("shared", "exclusive")
CLIENTS = ("one", "two")
STEP_COUNT = 70
CRASH_CALLS_MAX = (40, 400)
INVISIBLE_MS = (0, 1000, 10_000, 60_000)
TRIES_MAX = 3
SETTINGS: dict[str, Any] = {"flushConsumerOffsetInterval": "1000"}


@dataclass
class Reading:
    """What a client knows of a group in one lite topic. The broker has read at least the first ``read`` messages."""

    read: int = 0
    saved: int = 0  # likewise by the last save
    tried: set[bytes] = field(default_factory=set)  # acknowledged, perhaps late or without effect
    dead: set[bytes] = field(default_factory=set)
    tries: Counter[bytes] = field(default_factory=Counter)
    out: HandOut[bytes] | None = None
    saved_out: HandOut[bytes] | None = None  # if nothing has changed since the save

    def read_at_most(self, bodies: list[bytes]) -> int:
        """Return before which message nothing can be left."""
        done = self.tried | self.dead
        return next((number for number, body in enumerate(bodies) if body not in done), len(bodies))


def _as_saved(out: HandOut[bytes]) -> HandOut[bytes]:
    return replace(out, visible_ms=dict(out.visible_ms), acked=set(out.acked))


class LiteRun:
    """Two groups with two clients each, and a broker that crashes."""

    def __init__(self, seed: int, *, loses_power: bool) -> None:
        self.rng = random.Random(seed)
        self.loses_power = loses_power
        self.counts: Counter[str] = Counter()
        self.bodies: dict[str, list[bytes]] = {lite: [] for lite in LITES}
        self.safe = dict.fromkeys(LITES, 0)  # as many of them must be there after a crash
        self.readings = {(group, lite): Reading() for group in GROUPS for lite in LITES}
        self.wanted: dict[tuple[str, str], set[str]] = {}
        self.dead_counts: dict[str, Counter[bytes]] = {group: Counter() for group in GROUPS}
        self.receipts: list[tuple[str, str, Popped, int]] = []  # group, lite topic, answer, number
        self.crashes = Crashes(self.rng, loses_power=loses_power)
        self._number = 0
        self._open(World(**SETTINGS))
        self._await_crash()

    # -- crashes -------------------------------------------------------------------------------------------------

    def _open(self, world: World) -> None:
        self.p = LitePops(world)
        minutes = str(EXPIRATION_MIN_MS // 60_000)
        attributes = {"message.type": "LITE", "lite.topic.expiration": minutes}
        world.parts.metadata.topics.put([TopicConfig(topic_name="P", attributes=attributes)])
        self.p.put_group("shared", retry_max_times=TRIES_MAX - 1)
        self.p.put_group("exclusive", {"lite.sub.model": "Exclusive"}, retry_max_times=TRIES_MAX - 1)
        world.parts.metadata.groups.delete("g")
        self.wanted = {(group, client): set() for group in GROUPS for client in CLIENTS}
        self.p.wait(0)  # the first round, which looks whether the clock was set back

    def _await_crash(self) -> None:
        self.crashes.await_one(self.p.world.files, self.rng.choice(CRASH_CALLS_MAX))

    def step(self) -> None:
        actions = (
            self._send, self._pop, self._ack, self._hide, self._subscribe, self._wait, self._sync, self._idle,
            self._use_up_tries,
        )  # fmt: skip
        try:
            self.rng.choices(actions, (8, 10, 8, 2, 4, 5, 2, 2, 2))[0]()
        except CrashError:
            self._reopen()
            if self.rng.random() < 0.5:  # else what has changed is known less well
                self._look()
            self._await_crash()

    def _reopen(self) -> None:
        image = self.crashes.left()
        self.counts["crashes"] += 1
        self.p.world.clock.advance(self.rng.choice([0, 500, 20_000]))
        self._open(World(image, self.p.world.clock, **SETTINGS))
        now_ms = self.p.world.clock.now_ms()
        for reading in self.readings.values():
            reading.read, reading.out = reading.saved, reading.saved_out
            if reading.out is not None:
                reading.out = reading.saved_out = _as_saved(reading.out)
                end_ms = now_ms + reading.out.invisible_ms  # a start lets no message wait longer than its pop's time
                if reading.out.free_ms() > end_ms:
                    reading.out.visible_ms = dict.fromkeys(reading.out.numbers, end_ms)
        for lite in LITES:
            self._find(lite)
        self._bury()

    def _find(self, lite: str) -> None:
        """Compare what a lite topic holds after a crash with what was sent, and forget what is lost."""
        store, bodies = self.p.world.parts.store, self.bodies[lite]
        entries = entries_of(store, "P", lite) if store.lights.has("P", lite) else []
        found = [bytes(decode_record(store.record_at(entry.physical_offset)).body) for entry in entries]
        stored = [each.body for each in self._stored("P", 1) if each.properties["__LITE_TOPIC"] == lite]
        end = len(stored)
        assert stored == bodies[:end], f"the log has {stored} of {lite}, {bodies} were sent"
        assert end >= self.safe[lite], f"{lite} ends behind {end} messages, {self.safe[lite]} were safe"
        assert found == stored[end - len(found) :], f"{lite} holds {found} of {stored}"
        self.counts["messages lost"] += len(bodies) - end
        del bodies[end:]
        self.safe[lite] = min(end, self.safe[lite]) if self.loses_power else end
        for group in GROUPS:
            reading = self.readings[group, lite]
            reading.read, reading.saved = min(reading.read, end), min(reading.saved, end)
            assert end - len(found) <= reading.read_at_most(bodies), f"{lite} is gone before {group} has read it"
            if reading.out is not None and not set(reading.out.numbers) <= set(bodies):
                reading.out = reading.saved_out = None  # a hand-out of what is lost is forgotten

    # -- steps ---------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        lite = self.rng.choice(LITES)
        for _ in range(self.rng.randrange(1, 4)):
            self._number += 1
            self.bodies[lite].append(b"%d" % self._number)
            self.p.fill(lite, str(self._number))
            if not self.loses_power:
                self.safe[lite] = len(self.bodies[lite])

    def _pop(self) -> None:
        group, client = self.rng.choice(GROUPS), self.rng.choice(CLIENTS)
        self._take(group, client, self.rng.choice((1, 2, 5, 32)), self.rng.choice(INVISIBLE_MS))

    def _use_up_tries(self) -> None:
        """Pop, and acknowledge nothing, until messages become dead letters."""
        group, client = self.rng.choice(GROUPS), self.rng.choice(CLIENTS)
        self._control(group, client, "PARTIAL_ADD", {self.rng.choice(LITES)})
        for _ in range(TRIES_MAX + 1):
            self._take(group, client, 2, 1000)
            self.p.wait(1100)
            self._note_save()

    def _take(self, group: str, client: str, count: int, invisible_ms: int) -> Popped:
        now_ms = self.p.world.clock.now_ms()
        popped = self.p.pop(f"{group}-{client}", count=count, invisibleTime=invisible_ms, consumerGroup=group)
        self.p.turn()  # dead letters count with the turn's commit
        self._bury()
        found: dict[str, dict[bytes, int]] = {}
        for number, message in enumerate(popped.messages):
            lite = message.properties["__LITE_TOPIC"]
            found.setdefault(lite, {})[message.body] = number
            self.receipts.append((group, lite, popped, number))
        assert popped.code in (0, NOTHING), popped.remark
        assert found.keys() <= self.wanted[group, client], f"{group} {client} has not subscribed to {found.keys()}"
        for lite, numbers in found.items():
            self._took(
                group, lite, HandOut(popped, invisible_ms, numbers, dict.fromkeys(numbers, now_ms + invisible_ms))
            )
        return popped

    def _look(self) -> None:
        """Pop all that can be had."""
        for group in GROUPS:
            self._control(group, "one", "PARTIAL_ADD", set(LITES))
            self._take(group, "one", 32, self.rng.choice(INVISIBLE_MS))

    def _took(self, group: str, lite: str, out: HandOut[bytes]) -> None:
        """Check what a pop got of one lite topic."""
        bodies, reading = self.bodies[lite], self.readings[group, lite]
        first = bodies.index(next(iter(out.numbers)))
        assert list(out.numbers) == bodies[first : first + len(out.numbers)], f"{lite} is not in order for {group}"
        text = f"{group} got {lite} from {first} on: {reading.read} to {reading.read_at_most(bodies)} can be read"
        assert reading.read <= first <= reading.read_at_most(bodies), text
        now_ms, free_ms = self.p.world.clock.now_ms(), reading.out.free_ms() if reading.out is not None else 0
        assert now_ms >= free_ms, f"{group} got {lite} {free_ms - now_ms} ms early"
        reading.read, reading.out, reading.saved_out = first, out, None
        reading.tries.update(list(out.numbers))
        self.counts["messages popped"] += len(out.numbers)
        self.counts["messages popped again"] += sum(reading.tries[body] > 1 for body in out.numbers)

    def _bury(self) -> None:
        """Take note of new dead letters: each was handed out as often as the group may try, and is there once."""
        for group in GROUPS:
            counts: Counter[bytes] = Counter()
            for message in self._stored(f"%DLQ%{group}", 0):
                body, lite = message.body, message.properties["__LITE_TOPIC"]
                reading = self.readings[group, lite]
                assert reading.tries[body] >= TRIES_MAX, f"{body!r} died after {reading.tries[body]} tries of {group}"
                counts[body] += 1
                if body in self.bodies[lite] and counts[body] > self.dead_counts[group][body]:
                    reading.dead.add(body)
                    reading.out = reading.saved_out = None
                    self.counts["dead letters"] += 1
            if counts:
                assert max(counts.values()) <= 1 + self.counts["crashes"], f"dead letters: {counts}"
            self.dead_counts[group] = counts

    def _stored(self, topic: str, queue_id: int) -> list[StoredMessage]:
        store, found = self.p.world.parts.store, list[StoredMessage]()
        while len(found) < store.max_offset(topic, queue_id):
            found += decode_records(b"".join(store.get(topic, queue_id, len(found), 32, 1 << 20).chunks))
        return found

    def _ack(self) -> None:
        for _ in range(min(self.rng.randrange(1, 6), len(self.receipts))):
            self._settle(*self.receipts.pop(self.rng.randrange(len(self.receipts))))

    def _settle(self, group: str, lite: str, popped: Popped, number: int) -> None:
        """Acknowledge a message. It counts for sure if its hand-out is known to be the newest."""
        body, reading = popped.messages[number].body, self.readings[group, lite]
        reading.tried.add(body)
        self.p.ack(popped, number, consumerGroup=group)
        self.counts["acknowledgements"] += 1
        out = reading.out
        reading.saved_out = None
        if out is None or out.popped.ext["popTime"] != popped.ext["popTime"] or body not in out.numbers:
            return  # a receipt of the same ms is as good
        out.acked.add(body)
        left, bodies = out.left(), self.bodies[lite]
        newest = next(reversed(out.numbers))
        reading.read = max(reading.read, bodies.index(left[0]) if left else bodies.index(newest) + 1)
        if not left:
            reading.out = None

    def _hide(self) -> None:
        """Give a message another invisible time."""
        group, lite = self.rng.choice(GROUPS), self.rng.choice(LITES)
        reading = self.readings[group, lite]
        if reading.out is None:
            return
        body, invisible_ms = self.rng.choice(reading.out.left()), self.rng.choice((500, 20_000))
        fields = {**reading.out.popped.receipt(reading.out.numbers[body]), "invisibleTime": invisible_ms}
        reading.saved_out = None
        self.p.caller.ok(200053, consumerGroup=group, **fields)
        reading.out.visible_ms[body] = self.p.world.clock.now_ms() + invisible_ms

    def _subscribe(self) -> None:
        group, client = self.rng.choice(GROUPS), self.rng.choice(CLIENTS)
        lites = set(self.rng.sample(LITES, self.rng.randrange(1, len(LITES) + 1)))
        action = self.rng.choice(("PARTIAL_ADD", "PARTIAL_ADD", "PARTIAL_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE"))
        self._control(group, client, action, lites)

    def _control(self, group: str, client: str, action: str, lites: set[str]) -> None:
        assert self.p.control(action, *sorted(lites), client=f"{group}-{client}", group=group) == (0, "")
        self.counts["subscriptions changed"] += 1
        mine = self.wanted[group, client]
        others = [each for (name, other), each in self.wanted.items() if name == group and other != client]
        if action == "COMPLETE_REMOVE":
            mine.clear()
        elif action == "PARTIAL_REMOVE":
            mine -= lites
        elif action == "PARTIAL_ADD":
            mine |= lites
            for other in others if group == "exclusive" else ():
                other -= lites
        else:
            taken = set().union(*others) if group == "exclusive" else set()
            self.wanted[group, client] = lites - taken

    def _wait(self) -> None:
        self.p.wait(self.rng.choice([10, 400, 1500, 12_000]))
        self._note_save()
        self._renew()

    def _sync(self) -> None:
        self.p.world.parts.store.sync()
        self.safe = {lite: len(bodies) for lite, bodies in self.bodies.items()}

    def _note_save(self) -> None:
        metadata = self.p.world.parts.metadata
        if metadata.cursors._dirty or metadata.order_infos._dirty:
            return
        self.counts["saves"] += 1
        for reading in self.readings.values():
            reading.saved = reading.read
            reading.saved_out = _as_saved(reading.out) if reading.out is not None else None

    def _idle(self) -> None:
        """Let the broker run for as long as its lite topics live, and expire those that were read."""
        if self.rng.random() < 0.7:
            self._drain()
        self.p.world.clock.advance(EXPIRATION_MIN_MS)
        before = self.p.world.parts.pop.lite_expiry.expired_count
        for _ in range(self.rng.randrange(1, 4)):
            self.p.wait(CHECK_PERIOD_MS)
            for _ in range(6):
                self.p.world.parts.pop.lite_expiry.tick()
            for (group, lite), reading in self.readings.items():
                is_read = reading.read_at_most(self.bodies[lite]) == len(self.bodies[lite])
                assert is_read or self.p.world.parts.store.lights.has("P", lite), (
                    f"{lite} is unread by {group}, and gone"
                )
        self.counts["lite topics expired"] += self.p.world.parts.pop.lite_expiry.expired_count - before
        for _ in range(self.rng.randrange(3)):  # they take the places of those that expired
            self._send()
        self.p.wait(12_000)
        self._note_save()
        self._renew()

    def _renew(self) -> None:
        """Send whole sets now and then, as clients do: silence ends subscriptions."""
        for (group, client), lites in self.wanted.items():
            self._control(group, client, "COMPLETE_ADD", set(lites))

    # -- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Acknowledge all that comes until nothing does. Then all lite topics expire, and nothing comes again."""
        self.p.world.files.fault = None
        self._drain()
        for (group, lite), reading in self.readings.items():
            left = self.bodies[lite][reading.read_at_most(self.bodies[lite]) :]
            assert not left, f"{group} never got {left} of {lite}"
        self._crash_now()
        again = self._drain()
        assert not again, f"what was read and saved comes again: {again}"
        for _ in range(4):
            self.p.world.clock.advance(EXPIRATION_MIN_MS)
            self.p.wait(CHECK_PERIOD_MS)
            for _ in range(6):
                self.p.world.parts.pop.lite_expiry.tick()
        self.counts["lite topics expired"] += self.p.world.parts.pop.lite_expiry.expired_count
        lights = self.p.world.parts.store.lights
        assert not lights.count, f"{lights.names_of('P')} do not expire"
        self.p.wait(10_000)
        self._note_save()
        self._crash_now()
        again = self._drain()
        assert not again, f"expired messages come again: {again}"

    def _crash_now(self) -> None:
        self.crashes.crash(self.p.world.files)
        self._reopen()

    def _drain(self) -> list[bytes]:
        """Have the first client of each group acknowledge all that comes; return what came."""
        came = list[bytes]()
        for group in GROUPS:
            self._control(group, "two", "COMPLETE_REMOVE", set())
            rest = 3  # a pop that makes dead letters gets nothing
            while rest:
                self._control(group, "one", "COMPLETE_ADD", set(LITES))
                popped = self._take(group, "one", 32, 10_000)
                for number in range(len(popped.messages)):
                    lite = popped.messages[number].properties["__LITE_TOPIC"]
                    self._settle(group, lite, popped, number)
                came += [message.body for message in popped.messages]
                if not popped.messages:
                    rest -= 1
                    self.p.wait(60_000)
                    self._note_save()
        return came


def run(seed: int, *, loses_power: bool) -> Counter[str]:
    """Run a seed; return what was done."""
    one = LiteRun(seed, loses_power=loses_power)
    for _ in range(STEP_COUNT):
        one.step()
    one.finish()
    return one.counts
