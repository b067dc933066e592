"""The fast paths of a secured broker leave requests that a white list names to the plain path."""

from __future__ import annotations

import pytest

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.security.gatekeeper import Gatekeeper, OpenRequests
from pymq.security.guard import Checks, Guard
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command, decode_command
from tests.broker.assembly.test_security import guard, signed
from tests.broker.fast.test_pull import fields as pull_fields
from tests.broker.fast.test_send import TOPIC, opened, ordinary
from tests.broker.world import FakePeer

PULL = pull_fields(topic=TOPIC, queueOffset="0")


@pytest.mark.parametrize(("code", "ext"), [(Code.PULL_MESSAGE, PULL), (Code.SEND_MESSAGE_V2, ordinary())])
def test_an_open_request_takes_the_plain_path(code: int, ext: dict[str, str]) -> None:
    world, gatekeeper = opened(), Gatekeeper(guard())
    world.parts.metadata.groups.ensure("G")
    fast_path = world.parts.requests.secured_fast_path(gatekeeper)
    dispatcher = broker_dispatcher(world.parts, gatekeeper)
    gatekeeper.open_requests = OpenRequests(free=frozenset({code}))
    request = signed(Command(code, ext=ext, body=b"x" if code != Code.PULL_MESSAGE else b""), "stranger")
    assert not fast_path(FakePeer(), request)  # type: ignore[arg-type]
    reply = dispatcher.dispatch(FakePeer(), decode_command(request))
    assert reply is None or reply.code != ResponseCode.NO_PERMISSION
    gatekeeper.open_requests = OpenRequests()
    assert not fast_path(FakePeer(), request)  # type: ignore[arg-type]
    reply = dispatcher.dispatch(FakePeer(), decode_command(request))
    assert reply is not None and reply.code == ResponseCode.NO_PERMISSION


def test_a_pull_that_is_open_opens_no_other_code() -> None:
    world, gatekeeper = opened(), Gatekeeper(guard())
    world.parts.metadata.groups.ensure("G")
    fast_path = world.parts.requests.secured_fast_path(gatekeeper)
    gatekeeper.open_requests = OpenRequests(free=frozenset({Code.PULL_MESSAGE}))
    for code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE):
        assert not fast_path(FakePeer(), signed(Command(code, ext=PULL), "stranger"))  # type: ignore[arg-type]


def test_a_server_that_checks_one_half_serves_by_both_paths() -> None:
    world, both = opened(), guard()
    world.parts.metadata.groups.ensure("G")
    send = Command(Code.SEND_MESSAGE_V2, ext=ordinary(), body=b"x")
    for checks, name, secret, is_taken in (
        (Checks(rights=False), "stranger", None, True),
        (Checks(rights=False), "stranger", "wrong-secret", False),
        (Checks(proof=False), "producer", "wrong-secret", True),
        (Checks(proof=False), "stranger", "wrong-secret", False),
    ):
        gatekeeper = Gatekeeper(Guard(both.users, both.policies, "DefaultCluster", checks))
        fast_path = world.parts.requests.secured_fast_path(gatekeeper)
        payload = signed(send, name, secret)
        assert fast_path(FakePeer(), payload) == is_taken  # type: ignore[arg-type]
        reply = broker_dispatcher(world.parts, gatekeeper).dispatch(FakePeer(), decode_command(payload))
        assert (reply is None) == is_taken
        world.parts.messages.writer.commit()
