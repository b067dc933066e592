"""The answers of a broker that starts or changes its role."""

from __future__ import annotations

from pymq.broker.handlers.closed import ClosedDispatcher
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.world import FakePeer


def test_everything_is_answered_with_the_reason() -> None:
    dispatcher = ClosedDispatcher("the broker is starting")
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.PYMQ_CHANGE_ROLE, 424_242):
        reply = dispatcher.dispatch(FakePeer(), Command(code))
        assert reply is not None and (reply.code, reply.remark) == (14, "the broker is starting")
