"""Raft groups: leader, members, and what only a leader knows."""

from __future__ import annotations

from typing import Any

from pymq.console.pages.raft import raft
from tests.console.pages.visits import FakeCluster, html_of, page_of


def member(node: str, **more: Any) -> dict[str, Any]:
    return {
        "node": node,
        "broker_id": 0,
        "address": "10.0.0.1:10911",
        "kind": "voter",
        "role": "leader",
        "term": 7,
        "disk_id": "d",
        "log_end": 4096,
        "confirm_offset": 4096,
        "match_end": 4096,
        "lag_bytes": 0,
        "silent_ms": 0,
        "elections": 3,
        "problem": "",
    } | more


def group(**more: Any) -> dict[str, Any]:
    return {
        "cluster": "DefaultCluster",
        "broker": "shard-a",
        "leader": "n1",
        "leader_address": "10.0.0.1:10911",
        "term": 7,
        "voters": 3,
        "heard_voters": 2,
        "majority": 2,
        "confirm_offset": 4096,
        "problems": [],
        "members": [member("n1"), member("n2", role=None, lag_bytes=None, problem="it does not answer")],
    } | more


def test_a_group_shows_its_leader_and_who_does_not_answer() -> None:
    html = html_of(raft, FakeCluster({"raft": [group()]})).text
    assert "shard-a (DefaultCluster)" in html and "Members of shard-a" in html and "it does not answer" in html
    assert 'title="only a leader knows it"' in html


def test_a_group_without_a_leader_says_so() -> None:
    leaderless = group(leader=None, leader_address=None, problems=["no leader: 1 of 3 voters answer, 2 are a majority"])
    html = html_of(raft, FakeCluster({"raft": [leaderless]})).text
    assert 'title="no node leads now"' in html and "1 of 3 voters answer" in html


def test_without_groups_the_page_says_so() -> None:
    cluster = FakeCluster({"raft": []}, {"broker-b": "timed out"})
    assert page_of(raft, cluster).missing == {"broker-b": "timed out"}
    assert "No broker is in a Raft group." in html_of(raft, cluster).text
