from __future__ import annotations

from typing import Any, cast

import pytest

from pymq.broker.raft.current_reads import CurrentReads, current
from pymq.broker.raft.driver import RaftDriver
from pymq.errors import Refusal
from pymq.raft.core import ReadAnswer
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.dispatch import Peer
from pymq.wire.headers.offset import OffsetAnswer
from pymq.wire.reply import Reply
from tests.broker.world import FakePeer


class _Leader:
    """A leader with one offset, and a request for it."""

    def __init__(self) -> None:
        self.asked: list[int] = []  # the node's numbers of reads
        self.reads = CurrentReads(lambda: cast(RaftDriver, self))
        self.peer = FakePeer()
        self.offset = 5
        self.handler = current(self._handle, self.reads)

    def read_index(self, request_id: int) -> None:
        self.asked.append(request_id)

    def _handle(self, request: Command, header: Any, peer: Peer) -> Reply:
        if self.offset < 0:
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, "nothing is committed")
        return Reply(ext=OffsetAnswer(offset=self.offset))

    def ask(self) -> None:
        assert self.handler(request(RequestCode.QUERY_CONSUMER_OFFSET, None), None, self.peer) is None

    @property
    def codes(self) -> list[int]:
        return [answer.code for answer in self.peer.answers]


def test_an_answer_waits_until_the_node_still_leads_and_is_the_newest() -> None:
    leader = _Leader()
    leader.ask()
    leader.offset = 9
    assert leader.codes == []
    leader.reads.answered(ReadAnswer(leader.asked[0], 100))
    assert leader.codes == [ResponseCode.SUCCESS]
    assert "9" in str(leader.peer.answers[0].ext)


def test_a_refusal_of_the_request_itself_is_its_answer() -> None:
    leader = _Leader()
    leader.offset = -1
    leader.ask()
    leader.reads.answered(ReadAnswer(leader.asked[0], 100))
    assert leader.codes == [ResponseCode.QUERY_NOT_FOUND]


@pytest.mark.parametrize("is_closed", [False, True], ids=["leads no more", "parts are closed"])
def test_a_node_that_may_not_lead_refuses(is_closed: bool) -> None:
    leader = _Leader()
    leader.ask()
    if is_closed:
        leader.reads.refuse_all()
    leader.reads.answered(ReadAnswer(leader.asked[0], None))
    assert leader.codes == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert "still leads its Raft group" in (leader.peer.answers[0].remark or "")


def test_reads_are_answered_each_by_its_own_number() -> None:
    leader = _Leader()
    leader.ask()
    leader.ask()
    assert len(set(leader.asked)) == 2
    leader.reads.answered(ReadAnswer(leader.asked[1], 100))
    assert len(leader.codes) == 1
    leader.reads.answered(ReadAnswer(leader.asked[1], 100))
    assert len(leader.codes) == 1, "an answer counts once"
    leader.reads.answered(ReadAnswer(leader.asked[0], None))
    assert leader.codes == [ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE]
