"""Light queues against a dictionary of lists: kills, power losses, lost files, damage, retention, deleted parents."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.light.lights import Held, held_lights, stage_lite
from tests.store.support import ROOT, die, drop_oldest, make_store, put

PARENTS = st.sampled_from(["Jobs", "Chats"])
LITES = st.sampled_from(["a", "b", "c$d%", "ä"])
LIGHTS = f"{ROOT}/lightqueue"


class LightMachine(RuleBasedStateMachine):
    """``model`` holds, per lite topic, (offset, body, physical offset, end) of every acknowledged message."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.files = MemoryFiles(now_ms=self.clock.now_ms)
        self.model: dict[tuple[str, str], list[tuple[int, bytes, int, int]]] = {}
        self.number = 0
        self.store = make_store(self.files, self.clock)
        self.store.open()

    def _stage(self, parent: str, lite: str) -> tuple[tuple[str, str], tuple[int, bytes, int, int]]:
        self.number += 1
        body = b"%06d" % self.number + b"x" * (self.number % 300)
        offset = self.store._lights.place(parent, lite)[1]
        placed = stage_lite(self.store, parent, self.number % 3, lite, body)
        return (parent, lite), (offset, body, placed.physical_offset, placed.physical_offset + placed.size_bytes)

    @rule(parent=PARENTS, lites=st.lists(LITES, min_size=1, max_size=8))
    def send(self, parent: str, lites: list[str]) -> None:
        staged = [self._stage(parent, lite) for lite in lites]
        self.store.commit()
        self._note(staged)

    @rule(parent=PARENTS, lites=st.lists(LITES, min_size=1, max_size=4))
    def send_synchronously(self, parent: str, lites: list[str]) -> None:
        staged = []
        for lite in lites:
            before = self.store.lights.max_offset(parent, lite)
            staged.append(self._stage(parent, lite))
            self.store.commit(await_sync=True)
            assert self.store.lights.max_offset(parent, lite) == before
        self.store.confirm(self.store.sync(log_only=True))
        self._note(staged)

    @rule(parent=PARENTS, lites=st.lists(LITES, min_size=1, max_size=4))
    def send_that_fails(self, parent: str, lites: list[str]) -> None:
        before = {lite: self.store._lights.place(parent, lite)[1] for lite in lites}
        for lite in lites:
            self._stage(parent, lite)
        self.store.drop_staged()
        assert before == {lite: self.store._lights.place(parent, lite)[1] for lite in lites}

    def _note(self, staged: list[tuple[tuple[str, str], tuple[int, bytes, int, int]]]) -> None:
        for names, message in staged:
            queue = self.model.setdefault(names, [])
            assert not queue or message[0] == queue[-1][0] + 1
            queue.append(message)

    @rule(parent=PARENTS)
    def send_without_lite_topic(self, parent: str) -> None:
        put(self.store, parent, 0, b"plain")

    @rule(parent=PARENTS)
    def delete_parent(self, parent: str) -> None:
        self.store.delete_topics(parent)
        self.model = {names: queue for names, queue in self.model.items() if names[0] != parent}

    @rule()
    def delete_segment(self) -> None:
        self.clock.advance(20_000)
        self.store.tick()
        self.store.checkpoint()
        begin = drop_oldest(self.store)
        self.model = {names: [each for each in queue if each[2] >= begin] for names, queue in self.model.items()}
        self.model = {names: queue for names, queue in self.model.items() if queue}

    @rule(advance_ms=st.integers(0, 20_000))
    def tick(self, advance_ms: int) -> None:
        self.clock.advance(advance_ms)
        self.store.tick()

    @rule()
    def sync(self) -> None:
        self.store.sync()

    @rule(
        clean=st.booleans(), lost=st.sampled_from(["", "lightqueue", "consumequeue", "lightqueue/table", "checkpoint"])
    )
    def restart(self, clean: bool, lost: str) -> None:
        self.store.close() if clean else die(self.store)
        path = f"{ROOT}/{lost}"
        if lost and self.files.exists(path):
            self.files.remove_tree(path) if "queue" in lost and "/" not in lost else self.files.remove(path)
        self._reopen()

    @rule(clean=st.booleans(), seed=st.integers(0, 1 << 32))
    def restart_with_damage(self, clean: bool, seed: int) -> None:
        self.store.close() if clean else die(self.store)
        chance = random.Random(seed)
        names = self.files.listdir(LIGHTS) if self.files.exists(LIGHTS) else []
        if names:
            path = f"{LIGHTS}/{chance.choice(sorted(names))}"
            raw = bytearray(self.files.read_bytes(path))
            if raw:
                raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
                self.files.nodes[path].write(0, bytes(raw))
            self.files.remove(f"{LIGHTS}/table") if "table" in names and not path.endswith("table") else None
        self._reopen()

    @rule(seed=st.integers(0, 1 << 32))
    def lose_power(self, seed: int) -> None:
        die(self.store)
        chance = random.Random(seed)
        self.files = self.files.after_power_loss(lambda *_: chance.random() < 0.5, lambda *_: chance.random() < 0.5)
        self._reopen()
        end = self.store.physical_max_offset
        self.model = {names: [each for each in queue if each[3] <= end] for names, queue in self.model.items()}
        self.model = {names: queue for names, queue in self.model.items() if queue}

    def _reopen(self) -> None:
        self.store = make_store(self.files, self.clock)
        self.store.open()

    @invariant()
    def same_as_the_model(self) -> None:
        expected: Held = {names: [each[:2] for each in queue] for names, queue in self.model.items()}
        assert held_lights(self.store) == expected

    def teardown(self) -> None:
        self.store.close()


TestLights = pytest.mark.slow(LightMachine.TestCase)
TestLights.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
