"""Seeds of the simulation of what clients hold, and bugs that it must find."""

from __future__ import annotations

import pytest

pytest.importorskip("google.protobuf")

from tests.planting import Bug, is_caught
from tests.proxy import simulation
from tests.proxy.seeded_bugs import BUGS

SEED_COUNT = 20


def test_seeds() -> None:
    worlds = [simulation.run(seed) for seed in range(SEED_COUNT)]
    assert any(world.kill_count for world in worlds), "no proxy was killed between an effect and its answer"
    assert any(world.uncertain for world in worlds) and all(world.acked_count for world in worlds)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found(bug: Bug) -> None:
    def run(suite: str) -> None:
        for seed in range(SEED_COUNT):
            simulation.run(seed)

    assert is_caught(bug, run), f"{bug.name} passed {SEED_COUNT} seeds"
