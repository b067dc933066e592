"""Dispatcher: the table's row selects the handler; refusals and faults become replies."""

from __future__ import annotations

import pytest

from pymq.errors import PymqError, Refusal, StoreUnavailableError
from pymq.wire.access import any_user
from pymq.wire.command import FLAG_RESPONSE, Command
from pymq.wire.dispatch import BODY_SIZE_MAX_BYTES, Dispatcher, Peer, Route
from pymq.wire.headers.route import KvValueAnswer, RouteHeader
from pymq.wire.reply import Reply
from tests.namesrv.support import FakePeer


def dispatcher(handler: object, header: type[RouteHeader] | None = None) -> Dispatcher:
    return Dispatcher([Route(105, header, handler, any_user())], "name server", {310: "ask a broker"})  # type: ignore[arg-type]


def raising(error: Exception) -> Dispatcher:
    def handler(command: Command, header: object, peer: Peer) -> Reply:
        raise error

    return dispatcher(handler)


def test_the_handler_gets_its_typed_header() -> None:
    seen: list[object] = []

    def handler(command: Command, header: RouteHeader, peer: Peer) -> Reply:
        seen.append((command.opaque, header.topic, peer.address))
        return Reply(body=b"x")

    reply = dispatcher(handler, RouteHeader).dispatch(FakePeer(), Command(105, opaque=9, ext={"topic": "T"}))
    assert seen == [(9, "T", "127.0.0.1:50000")]
    assert reply is not None
    assert reply.body == b"x"


def test_a_deferred_answer_dispatches_to_none() -> None:
    assert dispatcher(lambda command, header, peer: None).dispatch(FakePeer(), Command(105)) is None


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Refusal(17, "no such topic"), 17, "no such topic"),
        (StoreUnavailableError("disk full"), 14, "disk full"),
        (PymqError("odd"), 1, "odd"),
        (ZeroDivisionError("a bug"), 1, "ZeroDivisionError: a bug"),
        (RecursionError("deep"), 1, "RecursionError"),
    ],
)
def test_errors_become_replies(error: Exception, code: int, text: str) -> None:
    reply = raising(error).dispatch(FakePeer(), Command(105))
    assert reply is not None
    assert reply.code == code
    assert text in (reply.remark or "")


@pytest.mark.parametrize(("code", "text"), [(310, "ask a broker"), (999, "not served here"), (-1, "not served here")])
def test_unknown_codes_answer_3_with_a_reason(code: int, text: str) -> None:
    reply = dispatcher(lambda command, header, peer: Reply()).dispatch(FakePeer(), Command(code))
    assert reply is not None
    assert reply.code == 3
    assert f"request type {code} not supported" in (reply.remark or "")
    assert text in (reply.remark or "")


def test_a_reply_goes_back_in_the_requests_codec() -> None:
    request = Command(101, opaque=5, serialize=1)
    answer = Reply(ext=KvValueAnswer(value="v")).to_command(request)
    assert (answer.opaque, answer.flag, answer.ext, answer.serialize) == (5, FLAG_RESPONSE, {"value": "v"}, 1)


def test_two_handlers_for_a_code_are_a_bug() -> None:
    route = Route(105, None, lambda command, header, peer: None, any_user())
    with pytest.raises(AssertionError, match="two handlers"):
        Dispatcher([route, route], "name server")
    assert route.name == "GET_ROUTEINFO_BY_TOPIC"


@pytest.mark.parametrize("code", [105, 34])
def test_a_request_that_is_no_message_has_a_body_of_a_largest_size(code: int) -> None:
    served = Dispatcher([Route(code, None, lambda command, header, peer: Reply(), any_user())], "broker")
    fits = served.dispatch(FakePeer(), Command(code, body=bytes(BODY_SIZE_MAX_BYTES)))
    assert fits is not None and fits.code == 0
    large = served.dispatch(FakePeer(), Command(code, body=bytes(BODY_SIZE_MAX_BYTES + 1)))
    assert large is not None and large.code == 29
    assert f"has {BODY_SIZE_MAX_BYTES + 1} bytes, the limit is {BODY_SIZE_MAX_BYTES}" in (large.remark or "")


def test_messages_and_registrations_may_be_larger() -> None:
    row = Route(10, None, lambda command, header, peer: Reply(), any_user(), has_large_body=True)
    reply = Dispatcher([row], "broker").dispatch(FakePeer(), Command(10, body=bytes(BODY_SIZE_MAX_BYTES + 1)))
    assert reply is not None and reply.code == 0
