"""Every call against every kind of sender, whose users and rules are those of the matrix of remoting."""

from __future__ import annotations

from typing import Any, Final

import pytest

pytest.importorskip("grpc")

import grpc

from pymq.clock import ManualClock
from pymq.proxy.calls import Call
from pymq.proxy.gate import NEEDS, Gate
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import POOL, SERVICE
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.sender_limits import FAILED_PROOFS_MAX, SenderLimits
from pymq.testing.broker import TestBroker
from tests.proxy.harness import RawClient, proxy_of, run
from tests.proxy.signing import signed_metadata
from tests.security.matrix import EXPECTED as REMOTING
from tests.security.matrix import SENDERS
from tests.security.test_guard import ANONYMOUS, BROKER, SECRETS, WRONG

PEER = "10.0.0.1:5555"
# As in tests/security/matrix.py: one letter for each sender that passes.
EXPECTED: Final = {
    "QueryRoute": "--rwgt-sA",
    "QueryAssignment": "--r-g--sA",
    "Heartbeat": "--r-g--sA",
    "SendMessage": "---w-t--A",
    "EndTransaction": "---w-t--A",
    "RecallMessage": "---w-t--A",
    "ReceiveMessage": "--r-g--sA",
    "AckMessage": "--r-g--sA",
    "ChangeInvisibleDuration": "--r-g--sA",
    "ForwardMessageToDeadLetterQueue": "--r-g--sA",
    "SyncLiteSubscription": "--r-g--sA",
    "NotifyClientTermination": "--r-g--sA",
    "PullMessage": "--r-g--sA",
    "UpdateOffset": "--r-g--sA",
    "GetOffset": "--r-g--sA",
    "QueryOffset": "--r-gt-sA",
    "Telemetry of a consumer": "--r-g--sA",
    "Telemetry of a producer": "---w-t--A",
}
# What does the same by remoting.
SAME: Final = {
    "QueryAssignment": "QUERY_ASSIGNMENT",
    "Heartbeat": "HEART_BEAT",
    "SendMessage": "SEND_MESSAGE_V2",
    "EndTransaction": "END_TRANSACTION",
    "RecallMessage": "RECALL_MESSAGE",
    "ReceiveMessage": "POP_MESSAGE",
    "AckMessage": "ACK_MESSAGE",
    "ChangeInvisibleDuration": "CHANGE_MESSAGE_INVISIBLETIME",
    "ForwardMessageToDeadLetterQueue": "CONSUMER_SEND_MSG_BACK",
    "SyncLiteSubscription": "LITE_SUBSCRIPTION_CTL",
    "NotifyClientTermination": "UNREGISTER_CLIENT",
    "PullMessage": "PULL_MESSAGE",
    "UpdateOffset": "UPDATE_CONSUMER_OFFSET",
    "GetOffset": "QUERY_CONSUMER_OFFSET",
    "QueryOffset": "GET_MAX_OFFSET",
}
METHODS: Final = {method.name: method for method in POOL.FindServiceByName(SERVICE).methods}


def sample(name: str) -> Any:
    """Return a request about topic T and group G."""
    if name == "Telemetry of a consumer":
        command = m.TelemetryCommand()
        command.settings.subscription.group.name = "G"
        command.settings.subscription.subscriptions.add().topic.name = "T"
        return command
    if name == "Telemetry of a producer":
        command = m.TelemetryCommand()
        command.settings.publishing.topics.add().name = "T"
        return command
    request = getattr(m, f"{name}Request")()
    fields = request.DESCRIPTOR.fields_by_name
    if "topic" in fields:
        request.topic.name = "T"
    if "group" in fields:
        request.group.name = "G"
    if "message_queue" in fields:
        request.message_queue.topic.name = "T"
    if "messages" in fields:
        request.messages.add().topic.name = "T"
    return request


def metadata(sender: str) -> dict[str, str]:
    if sender == ANONYMOUS:
        return {}
    if sender == WRONG:
        return signed_metadata("administrator", SECRETS["reader"].reveal())
    return signed_metadata(sender, SECRETS[sender].reveal())


def code(gate: Gate, sender: str, name: str) -> int:
    try:
        gate.check(name.partition(" ")[0], Call(metadata(sender), None, PEER), sample(name))
    except ProxyRefusal as error:
        return error.code
    return Code.OK


@pytest.mark.parametrize("name", EXPECTED)
def test_the_matrix_of_calls_and_senders(name: str) -> None:
    gate = Gate(Gatekeeper(BROKER), None, ManualClock())
    codes = {sender: code(gate, sender, name) for sender in SENDERS.values()}
    found = "".join(letter if codes[sender] == Code.OK else "-" for letter, sender in SENDERS.items())
    assert found == EXPECTED[name]
    assert {codes.pop(sender) for sender in (ANONYMOUS, WRONG)} == {Code.UNAUTHORIZED}
    assert set(codes.values()) <= {Code.OK, Code.FORBIDDEN}


def test_no_call_is_missing_and_calls_need_what_requests_need() -> None:
    assert {name.partition(" ")[0] for name in EXPECTED} == NEEDS.keys()
    assert SAME.keys() == {name for name in EXPECTED if " " not in name} - {"QueryRoute"}
    assert {name: EXPECTED[name] for name in SAME} == {name: REMOTING["broker"][code] for name, code in SAME.items()}
    assert EXPECTED["QueryRoute"] == REMOTING["name server"]["GET_ROUTEINFO_BY_TOPIC"]


def test_every_call_is_served_and_checked_on_the_wire() -> None:
    async def work() -> None:
        with TestBroker() as broker:
            async with proxy_of(broker, Gatekeeper(BROKER)) as (_, address):
                client = RawClient(address)
                for name in METHODS.keys() - {"ReceiveMessage", "PullMessage", "Telemetry"}:
                    ask = client.channel.unary_unary(f"/{SERVICE}/{name}", None, m.HeartbeatResponse.FromString)
                    answer = await ask(b"", metadata=client.metadata)  # each answer begins with the status
                    assert answer.status.code == Code.UNAUTHORIZED, name
                frames = [each async for each in client.receive_call(client.receiving("T", "G"))]
                assert frames[0].status.code == Code.UNAUTHORIZED
                (frame,) = [each async for each in client.pull_call(m.PullMessageRequest())]
                assert frame.status.code == Code.UNAUTHORIZED
                stream = client.telemetry()
                await stream.write(sample("Telemetry of a consumer"))
                assert await stream.code() == grpc.StatusCode.UNAUTHENTICATED
                await client.close()

    run(work())
    assert METHODS.keys() == NEEDS.keys()


def test_a_user_whose_calls_often_fail_is_blocked_at_the_address_and_others_are_not() -> None:
    clock = ManualClock()
    gatekeeper = Gatekeeper(BROKER)
    gatekeeper.limits = SenderLimits(clock)
    gate = Gate(gatekeeper, None, clock)
    for _ in range(FAILED_PROOFS_MAX - 1):
        assert code(gate, WRONG, "SendMessage") == Code.UNAUTHORIZED
    assert code(gate, "administrator", "SendMessage") == Code.OK
    assert code(gate, WRONG, "SendMessage") == Code.UNAUTHORIZED
    assert code(gate, "administrator", "SendMessage") == Code.UNAUTHORIZED
    assert code(gate, "writer", "SendMessage") == Code.OK
    clock.advance(10_000)
    assert code(gate, "administrator", "SendMessage") == Code.OK
