"""Who may do what through a proxy: signed calls against users and rules."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("google.protobuf")

from pymq.clock import ManualClock
from pymq.model.access import EVERY_NAME
from pymq.proxy.calls import Call
from pymq.proxy.gate import Gate
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.security.acl_file import AclFile
from pymq.security.gatekeeper import Gatekeeper
from tests.proxy.signing import TIME, TIME_MS, signed_metadata

ACL = """
globalWhiteRemoteAddresses:
  - 10.9.9.9
accounts:
  - accessKey: writer-user
    secretKey: writer-secret
    topicPerms:
      - Orders=PUB
  - accessKey: reader-user
    secretKey: reader-secret
    topicPerms:
      - Orders=SUB
    groupPerms:
      - Billing=SUB
"""


@pytest.fixture(scope="module")
def gatekeeper(tmp_path_factory: pytest.TempPathFactory) -> Gatekeeper:
    path: Path = tmp_path_factory.mktemp("acl") / "plain_acl.yml"
    path.write_text(ACL)
    path.chmod(0o600)
    return Gatekeeper(AclFile(str(path), EVERY_NAME, None).load())


@pytest.fixture(scope="module")
def gate(gatekeeper: Gatekeeper) -> Gate:
    return Gate(gatekeeper, None, ManualClock())


def signed(user: str, secret: str, *, content: str = TIME, peer: str = "10.0.0.1:5000") -> Call:
    return Call(signed_metadata(user, secret, content), None, peer)


def code(gate: Gate, name: str, call: Call, request: object) -> int:
    try:
        gate.check(name, call, request)
    except ProxyRefusal as error:
        return error.code
    return Code.OK


def sending() -> object:
    request = m.SendMessageRequest()
    request.messages.add().topic.name = "Orders"
    return request


def receiving(group: str = "Billing") -> object:
    request = m.ReceiveMessageRequest(group=m.Resource(name=group))
    request.message_queue.topic.name = "Orders"
    return request


def test_users_do_what_their_rules_allow(gate: Gate) -> None:
    writer, reader = signed("writer-user", "writer-secret"), signed("reader-user", "reader-secret")
    assert code(gate, "SendMessage", writer, sending()) == Code.OK
    assert code(gate, "SendMessage", reader, sending()) == Code.FORBIDDEN
    assert code(gate, "ReceiveMessage", reader, receiving()) == Code.OK
    assert code(gate, "ReceiveMessage", writer, receiving()) == Code.FORBIDDEN
    assert code(gate, "ReceiveMessage", reader, receiving("Other")) == Code.FORBIDDEN
    route = m.QueryRouteRequest(topic=m.Resource(name="Orders"))
    assert [code(gate, "QueryRoute", each, route) for each in (writer, reader)] == [Code.OK] * 2


def test_settings_are_checked_as_calls_are(gate: Gate) -> None:
    command = m.TelemetryCommand()
    command.settings.subscription.group.name = "Billing"
    command.settings.subscription.subscriptions.add().topic.name = "Orders"
    assert code(gate, "Telemetry", signed("reader-user", "reader-secret"), command) == Code.OK
    assert code(gate, "Telemetry", signed("writer-user", "writer-secret"), command) == Code.FORBIDDEN


@pytest.mark.parametrize(
    "call",
    [
        Call({}, None, "10.0.0.1:5000"),
        Call({"authorization": "Basic abc"}, None, "10.0.0.1:5000"),
        signed("writer-user", "wrong"),
        signed("nobody", "writer-secret"),
        signed("writer-user", "writer-secret", content="another time"),
        Call(
            {"authorization": "MQv2-HMAC-SHA1 Credential=writer-user, SignedHeaders=x-mq-date-time, Signature=ABC"},
            None,
            "10.0.0.1:1",
        ),
    ],
)
def test_a_call_that_proves_nobody_is_unauthorized(gate: Gate, call: Call) -> None:
    assert code(gate, "SendMessage", call, sending()) == Code.UNAUTHORIZED


def test_a_white_list_and_a_server_without_users_take_all(gate: Gate) -> None:
    assert code(gate, "SendMessage", Call({}, None, "10.9.9.9:5000"), sending()) == Code.OK
    assert code(Gate(None, None, ManualClock()), "SendMessage", signed("writer-user", "wrong"), sending()) == Code.OK


@pytest.mark.parametrize(
    ("off_s", "expected"),
    [(0, Code.OK), (60, Code.OK), (-60, Code.OK), (61, Code.UNAUTHORIZED), (-61, Code.UNAUTHORIZED)],
)
def test_a_signed_time_may_be_so_far_from_now(gatekeeper: Gatekeeper, off_s: int, expected: int) -> None:
    clock = ManualClock(TIME_MS + off_s * 1000)
    call = signed("writer-user", "writer-secret")
    assert code(Gate(gatekeeper, None, clock, 60_000), "SendMessage", call, sending()) == expected
    assert code(Gate(gatekeeper, None, clock), "SendMessage", call, sending()) == Code.OK, (
        "without a limit any time will do"
    )


def test_a_signed_time_is_a_time(gatekeeper: Gatekeeper) -> None:
    call = signed("writer-user", "writer-secret")
    call.metadata = {**call.metadata, "x-mq-date-time": "yesterday"}
    gate = Gate(gatekeeper, None, ManualClock(TIME_MS), 60_000)
    with pytest.raises(ProxyRefusal, match="'yesterday' is no x-mq-date-time"):
        gate.check("SendMessage", call, sending())
    assert code(gate, "SendMessage", Call({}, None, "10.9.9.9:5000"), sending()) == Code.OK, (
        "a white list signs nothing"
    )
