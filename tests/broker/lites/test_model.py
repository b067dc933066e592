"""Consumption of lite topics against a small model: what a pop must give, and what it must not."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.broker.handlers.test_lite_pops import NOTHING, LitePops
from tests.broker.lites.hand_outs import HandOut
from tests.broker.world import World

LITES = st.sampled_from(["a", "b@x", "c$"])
CLIENTS = st.sampled_from(["one", "two"])
SAVED_MS = 6_000  # offsets and hand-outs are on the disk by then


class Consumption(RuleBasedStateMachine):
    """One shared group with two clients, and two that read all on their own terms."""

    def __init__(self) -> None:
        super().__init__()
        self.p = LitePops()
        self.p.put_group("g", retry_max_times=10_000)
        self.p.wait(0)  # the first round, which looks whether the clock was set back
        self.sent: dict[str, list[str]] = {}
        self.committed: dict[str, int] = {}
        self.out: dict[str, HandOut[int]] = {}
        self.wanted: dict[str, set[str]] = {"one": set(), "two": set()}

    # -- the model -----------------------------------------------------------------------------------------------

    def is_blocked(self, lite: str) -> bool:
        out = self.out.get(lite)
        return out is not None and out.free_ms() > self.p.world.clock.now_ms()

    def readable(self, client: str) -> dict[str, list[str]]:
        """Return by lite topic what a client may get."""
        found = {}
        for lite in self.wanted[client]:
            rest = self.sent.get(lite, [])[self.committed.get(lite, 0) :]
            if rest and not self.is_blocked(lite):
                found[lite] = rest
        return found

    # -- steps ---------------------------------------------------------------------------------------------------

    @rule(lite=LITES, count=st.integers(1, 3))
    def send(self, lite: str, count: int) -> None:
        bodies = self.sent.setdefault(lite, [])
        for _ in range(count):
            bodies.append(f"{lite}{len(bodies)}")
            self.p.fill(lite, bodies[-1])

    @rule(client=CLIENTS, lites=st.sets(LITES), whole=st.booleans())
    def subscribe(self, client: str, lites: set[str], whole: bool) -> None:
        assert self.p.control("COMPLETE_ADD" if whole else "PARTIAL_ADD", *sorted(lites), client=client)[0] == 0
        self.wanted[client] = set(lites) if whole else self.wanted[client] | lites

    @rule(client=CLIENTS, lites=st.sets(LITES))
    def unsubscribe(self, client: str, lites: set[str]) -> None:
        assert self.p.control("PARTIAL_REMOVE", *sorted(lites), client=client)[0] == 0
        self.wanted[client] -= lites

    @rule(client=CLIENTS, count=st.integers(1, 6), invisible_ms=st.sampled_from([0, 1_000, 10_000]))
    def pop(self, client: str, count: int, invisible_ms: int) -> None:
        readable = self.readable(client)
        popped = self.p.pop(client, count=count, invisibleTime=invisible_ms)
        assert (popped.code == 0) == bool(readable), readable
        found: dict[str, dict[int, int]] = {}
        for number, message in enumerate(popped.messages):
            lite, offset = message.properties["__LITE_TOPIC"], int(message.properties["INNER_MULTI_QUEUE_OFFSET"])
            found.setdefault(lite, {})[offset] = number
            assert message.body.decode() == self.sent[lite][offset]
        assert len(popped.messages) <= count and found.keys() <= readable.keys()
        for lite, numbers in found.items():
            start = self.committed.get(lite, 0)
            assert list(numbers) == list(range(start, start + len(numbers))), "each lite topic in order"
            assert len(popped.messages) == count or len(numbers) == len(readable[lite])
            end_ms = self.p.world.clock.now_ms() + invisible_ms
            self.committed[lite] = start
            self.out[lite] = HandOut(popped, invisible_ms, numbers, dict.fromkeys(numbers, end_ms))
        assert len(popped.messages) == count or found.keys() == readable.keys(), "nothing is held back"

    @rule(lite=LITES, which=st.integers(0, 5))
    def ack(self, lite: str, which: int) -> None:
        out = self.out.get(lite)
        if out is None:
            return
        offset = list(out.numbers)[which % len(out.numbers)]
        assert self.p.ack(out.popped, out.numbers[offset]) == 0
        out.acked.add(offset)
        left = out.left()
        self.committed[lite] = max(self.committed[lite], left[0] if left else max(out.numbers) + 1)
        if not left:
            del self.out[lite]

    @rule(lite=LITES, which=st.integers(0, 5), invisible_ms=st.sampled_from([0, 500, 20_000]))
    def hide(self, lite: str, which: int, invisible_ms: int) -> None:
        out = self.out.get(lite)
        if out is None:
            return
        offset = list(out.numbers)[which % len(out.numbers)]
        is_there = offset not in out.acked
        assert self.p.hide(out.popped, out.numbers[offset], invisible_ms) == (0 if is_there else 208)
        if is_there:
            out.visible_ms[offset] = self.p.world.clock.now_ms() + invisible_ms
            self.p.wait(0)  # time has passed for what is visible at once

    @rule(ms=st.sampled_from([1, 999, 1_000, 10_000, 20_000]))
    def wait(self, ms: int) -> None:
        self.p.wait(ms)
        self.renew()

    @rule(is_killed=st.booleans())
    def start_again(self, is_killed: bool) -> None:
        self.p.wait(SAVED_MS)
        world = self.p.world
        world = World(world.files.after_kill(), world.clock) if is_killed else world.reopened()
        again = LitePops(world)
        again.put_group("g", retry_max_times=10_000)
        self.p = again
        self.p.wait(100)
        for out in self.out.values():  # a start lets no message wait longer than its pop's invisible time
            end_ms = world.clock.now_ms() + out.invisible_ms
            if max(out.visible_ms[offset] for offset in out.left()) > end_ms:
                out.visible_ms = dict.fromkeys(out.numbers, end_ms)
        self.renew()

    def renew(self) -> None:
        """Send whole sets, as clients do from time to time."""
        for client, lites in self.wanted.items():
            assert self.p.control("COMPLETE_ADD", *sorted(lites), client=client)[0] == 0

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        for lite, offset in self.committed.items():
            assert self.p.committed(lite) == offset


TestConsumption = Consumption.TestCase
TestConsumption.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_the_model_knows_when_nothing_is_there() -> None:
    machine = Consumption()
    assert machine.p.pop("one").code == NOTHING and machine.readable("one") == {}
