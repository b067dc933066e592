"""Raft's properties hold in stories of faults, and each seed tells the same story again."""

from __future__ import annotations

from tests.raft.story import play


def test_raft_s_properties_hold_under_faults() -> None:
    worlds = [play(seed) for seed in range(1, 13)]
    assert sum(world.checker.confirmed_end for world in worlds) > 100


def test_a_seed_is_the_same_story_each_time() -> None:
    first, second = play(5), play(5)
    assert first.checker.confirmed == second.checker.confirmed
    assert [node.disk.state for node in first.nodes.values()] == [node.disk.state for node in second.nodes.values()]
