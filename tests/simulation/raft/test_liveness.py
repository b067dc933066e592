"""Since when a majority is well: what breaks and mends between two looks counts too."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from pymq.raft.state import Kind, Membership, Replica
from tests.simulation.history import History
from tests.simulation.network import SimNetwork
from tests.simulation.raft.liveness import LOOK_US, WAIT_US_MAX, Liveness
from tests.simulation.timeline import MS, Timeline

NAMES = ("n0", "n1", "n2")


class Group:
    """Three brokers that are well, of which nothing is asked but what a look sees; no send succeeds."""

    def __init__(self) -> None:
        replicas = [Replica(name, f"disk of {name}") for name in NAMES]
        membership = Membership(tuple((replica, Kind.VOTER) for replica in replicas))
        self.timeline = Timeline()
        self.network = SimNetwork(self.timeline, random.Random(1))
        self.brokers: list[Any] = [
            SimpleNamespace(
                name=replica.node_id, host=replica.node_id, start_count=1, is_alive=True, is_broken=False,
                process=SimpleNamespace(is_paused=False),
                disk=SimpleNamespace(is_full=False, failing_sync_count=0, sync_delay_us=200),
                node=SimpleNamespace(replica=replica, membership=membership),
            )
            for replica in replicas
        ]  # fmt: skip
        self.history = History()
        probe: Any = SimpleNamespace(last_acked_us=0)
        self.liveness = Liveness(self.brokers, self.network, probe, self.history)

    def look(self) -> None:
        self.liveness.look(self.timeline.now_us)

    def look_for(self, duration_us: int) -> None:
        end_us = self.timeline.now_us + duration_us
        while self.timeline.now_us < end_us:
            self.timeline.run_until(self.timeline.now_us + LOOK_US)
            self.look()


def test_sends_that_fail_beside_a_majority_for_too_long_are_a_violation() -> None:
    group = Group()
    group.look()
    group.look_for(WAIT_US_MAX)
    assert not group.history.violations
    group.look_for(LOOK_US)
    assert group.history.violations


def test_a_cut_between_two_looks_begins_a_new_time() -> None:
    """As in seed 34,152: the link of the only two brokers that were up was cut for some milliseconds."""
    group = Group()
    group.brokers[1].is_alive = False
    group.look()
    group.look_for(WAIT_US_MAX - LOOK_US)
    cuts = {("n0", "n2")}
    group.timeline.after(50 * MS, group.network.cuts.update, cuts)
    group.timeline.after(100 * MS, group.network.heal, cuts)
    healed_us = group.timeline.now_us + 100 * MS
    group.look_for(WAIT_US_MAX)
    assert not group.history.violations
    group.look_for(LOOK_US)
    assert group.timeline.now_us - healed_us > WAIT_US_MAX
    assert group.history.violations


def test_a_cut_excuses_no_majority_without_that_link() -> None:
    group = Group()
    group.look()
    group.look_for(WAIT_US_MAX - LOOK_US)
    cuts = {("n0", "n2")}
    group.network.cuts.update(cuts)
    group.network.heal(cuts)
    group.look_for(2 * LOOK_US)
    assert group.history.violations


def test_a_start_between_two_looks_begins_a_new_time() -> None:
    group = Group()
    group.brokers[1].is_alive = False
    group.look()
    group.look_for(WAIT_US_MAX - LOOK_US)
    group.brokers[0].start_count += 1
    group.look_for(WAIT_US_MAX)
    assert not group.history.violations
