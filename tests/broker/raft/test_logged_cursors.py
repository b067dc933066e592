"""LoggedCursors: what changed is written once a second, and an answered commit is confirmed first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pymq.broker.raft.logged_cursors import LoggedCursors, confirming, refusing_commits
from pymq.broker.raft.logged_tables import LOG_INTERVAL_MS, LoggedTable
from pymq.broker.raft.table_log import TableLog
from pymq.broker.raft.table_records import decode_part
from pymq.broker.raft.tables import Tables
from pymq.clock import ManualClock
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from pymq.wire.reply import Reply
from tests.broker.world import FakePeer

_NAME = "consumerOffset.json"


class _File:
    """A plain broker's file."""

    def load(self) -> dict[str, Any]:
        return {"offsetTable": {"T@old": {"0": 3}}}

    def save(self, value: dict[str, Any]) -> None:
        raise AssertionError("a group's tables are saved from the log")


class _Leader:
    """A leader's offsets on a log whose records take 10 bytes each."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bodies: list[bytes] = []
        self.log = TableLog(Tables(), self._write)
        self.log.lead([])
        self.saver = LoggedTable(_NAME, _File(), self.log, leads=True)
        self.cursors = LoggedCursors(
            self.saver, clock=self.clock, config=BrokerConfig(), max_offset=lambda topic, queue_id: 1_000
        )
        self.cursors.load()
        self.saver.begin()
        self.confirm()
        self.clock.advance(LOG_INTERVAL_MS)

    def _write(self, bodies: Sequence[bytes]) -> list[int]:
        self.bodies += bodies
        return [len(self.bodies) * 10] * len(bodies)

    def confirm(self) -> None:
        self.log.confirm(len(self.bodies) * 10)

    def tick(self) -> None:
        self.cursors.tick()
        self.clock.advance(LOG_INTERVAL_MS)

    def offsets(self, body: bytes) -> dict[str, Any]:
        """Return what a record changes."""
        table = self.log.tables.get(_NAME)
        assert table is not None
        change = decode_part(body).change
        return {key: value.decode() for key, value in change.entries.get("offsetTable", {}).items()}

    def table(self) -> dict[str, Any]:
        table = self.log.tables.get(_NAME)
        assert table is not None
        found: dict[str, Any] = table.as_object()["offsetTable"]
        return found


def test_commits_become_one_record_a_second_with_what_changed() -> None:
    leader = _Leader()
    assert leader.table() == {"T@old": {"0": 3}}
    for offset in (5, 6, 7):
        leader.cursors.commit("g", "T", 0, offset)
    leader.tick()
    assert leader.offsets(leader.bodies[-1]) == {"T@g": '{"0":7}'}
    leader.confirm()
    before = len(leader.bodies)
    leader.tick()
    assert len(leader.bodies) == before
    leader.cursors.commit("g", "T", 1, 9)
    leader.cursors.tick()
    leader.cursors.commit("g", "T", 1, 10)
    leader.cursors.tick()
    assert len(leader.bodies) == before + 1
    leader.confirm()
    assert leader.table() == {"T@old": {"0": 3}, "T@g": {"0": 7, "1": 9}}


def test_offsets_are_written_before_another_node_leads() -> None:
    leader = _Leader()
    leader.tick()
    leader.cursors.commit("g", "T", 0, 5)
    leader.saver.flush()
    leader.confirm()
    assert leader.table()["T@g"] == {"0": 5}
    before = len(leader.bodies)
    leader.saver.flush()
    assert len(leader.bodies) == before


def test_what_is_removed_is_gone_from_the_log_too() -> None:
    leader = _Leader()
    leader.cursors.commit("g", "T", 0, 5)
    leader.cursors.forget_group("old")
    leader.tick()
    leader.confirm()
    assert leader.table() == {"T@g": {"0": 5}}


def test_an_answer_waits_until_its_offset_is_confirmed_and_shares_the_next_record() -> None:
    leader = _Leader()
    answers: list[str] = []
    before = len(leader.bodies)
    for number in range(3):
        leader.cursors.commit("g", "T", 0, 10 + number)
        leader.cursors.when_logged(lambda error, number=number: answers.append(f"{number} {error}"))
    assert (len(leader.bodies), answers) == (before + 1, [])
    leader.confirm()
    assert (len(leader.bodies), answers) == (before + 2, ["0 None"])
    leader.confirm()
    assert answers == ["0 None", "1 None", "2 None"]
    assert leader.table()["T@g"] == {"0": 12}


def test_a_former_leader_answers_that_it_does_not_know_and_takes_no_more() -> None:
    leader = _Leader()
    answers: list[object] = []
    for offset in (10, 11):
        leader.cursors.commit("g", "T", 0, offset)
        leader.cursors.when_logged(answers.append)
    leader.log.follow()
    assert [error is not None for error in answers] == [True, True]
    leader.cursors.commit("g", "T", 0, 12)
    leader.cursors.when_logged(answers.append)
    assert answers[-1] is not None


def test_a_record_that_was_not_written_comes_again_with_all_offsets() -> None:
    leader = _Leader()
    leader.cursors.commit("g", "T", 0, 10)
    leader.tick()
    leader.bodies.pop()
    leader.log.drop_unwritten(len(leader.bodies) * 10, "the disk is full")
    leader.tick()
    leader.confirm()
    assert leader.table()["T@g"] == {"0": 10}


def test_a_follower_answers_no_commit() -> None:
    committed: list[str] = []

    def handle(asked: Any, header: Any, peer: Any) -> Reply:
        committed.append("once")
        return Reply()

    handler = refusing_commits(handle, lambda what: f"n1 {what}: ask n0")
    asked = request(RequestCode.UPDATE_CONSUMER_OFFSET, None)
    with pytest.raises(Refusal, match="n1 keeps no offsets of consumers: ask n0") as refused:
        handler(asked, None, FakePeer())
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE and committed == []
    handler(request(RequestCode.UPDATE_CONSUMER_OFFSET, None, oneway=True), None, FakePeer())
    assert committed == ["once"]


def test_answers_to_commits_wait_and_refusals_do_not() -> None:
    leader, peer = _Leader(), FakePeer()
    replies = [Reply(), Reply(ResponseCode.INVALID_PARAMETER, "no")]

    def handle(asked: Any, header: Any, peer: Any) -> Reply:
        leader.cursors.commit("g", "T", 0, 10)
        return replies.pop(0)

    handler = confirming(handle, leader.cursors)
    asked = request(RequestCode.UPDATE_CONSUMER_OFFSET, None)
    assert handler(asked, None, peer) is None
    assert peer.answers == []
    leader.confirm()
    assert [answer.code for answer in peer.answers] == [ResponseCode.SUCCESS]
    assert handler(asked, None, peer).code == ResponseCode.INVALID_PARAMETER
