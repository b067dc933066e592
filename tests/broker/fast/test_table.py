"""The table of fast paths: what may take a frame, by its first bytes, and whose frames a secured broker lets pass."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.assembly.wiring import make_handlers
from pymq.broker.fast.table import FastRow, FastTable
from pymq.broker.routes import broker_rows
from pymq.broker.row_access import PUBLISH
from pymq.model.transactions import COMMIT, ROLLBACK
from pymq.security.gatekeeper import Gatekeeper
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, Command, encode_command
from pymq.wire.headers.send import SendMessageV2Header
from tests.broker.assembly.test_security import guard, signed
from tests.broker.fast.test_ack import popped
from tests.broker.fast.test_transaction import begun, end
from tests.broker.world import FakePeer, World

ACL = """
accounts:
- {accessKey: ada-user, secretKey: ada-user-secret, topicPerms: [T=PUB|SUB], groupPerms: [g=SUB]}
- {accessKey: bob-user, secretKey: bob-user-secret, topicPerms: [U=PUB|SUB], groupPerms: [g=SUB]}
- {accessKey: eve-user, secretKey: eve-user-secret, topicPerms: [T=PUB|SUB], groupPerms: [h=SUB]}
"""


@pytest.mark.parametrize("broker_id", ["0", "1"])
def test_each_fast_row_asks_for_what_the_table_of_requests_asks_for(broker_id: str) -> None:
    world = World(brokerId=broker_id)
    rows = {row.code: row for row in broker_rows(make_handlers(world.parts))}
    fast = world.parts.requests._fast_rows()
    assert {row.code for row in fast} >= {Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE}
    for row in fast:
        assert (row.header, row.access) == (rows[row.code].header, rows[row.code].access)


def test_the_first_bytes_name_the_row() -> None:
    taken: list[int] = []
    codes = (11, 37, 310, 320, 200051)
    table = FastTable(
        FastRow(code, SendMessageV2Header, PUBLISH, lambda peer, payload, code=code: taken.append(code) is None)
        for code in codes
    )
    peer: Any = FakePeer()
    for code in codes:
        assert table(peer, encode_command(Command(code, ext={"a": "1"}))[4:])
        binary = encode_command(Command(code & 0xFFFF, ext={"a": "1"}, serialize=SERIALIZE_ROCKETMQ))[4:]
        assert table(peer, binary)
        assert not table(peer, b"\x02" + binary[1:])
    assert taken == [code for code in codes for _ in range(2)]
    for payload in (encode_command(Command(34, ext={}))[4:], b"\0", b"\0\0\0\0", b"\x01\0\0\0", b"\0\0\0\x02{}"):
        assert not table(peer, payload)


@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_ROCKETMQ])
def test_signed_acknowledgements_take_the_fast_path_of_a_secured_broker(serialize: int) -> None:
    p, receipts = popped()
    requests = p.world.parts.requests
    fast_path = requests.secured_fast_path(Gatekeeper(guard(ACL)))
    code = Code.ACK_MESSAGE if serialize == SERIALIZE_JSON else Code.ACK_MESSAGE & 0xFFFF
    ext = next(each for each in receipts if each["topic"] == "T" and " 1000 " not in each["extraInfo"])
    retried = next(each for each in receipts if each["topic"] == "%RETRY%g+T")

    def takes(fields: dict[str, str], name: str | None, secret: str | None = None) -> bool:
        payload = signed(Command(code, ext=dict(fields), serialize=serialize), name, secret)
        return fast_path(FakePeer(), payload)  # type: ignore[arg-type]

    for name, secret in (("bob-user", None), ("eve-user", None), (None, None), ("nobody", "x"), ("ada-user", "wrong")):
        assert not takes(ext, name, secret)
    assert requests.fast_acks.count == 0
    # The right to the group is enough for its own retry topic, and opens the topic itself for nobody.
    assert takes(retried, "bob-user") and not takes(ext, "bob-user")
    assert takes(ext, "ada-user")
    assert requests.fast_acks.count == 2


def test_acknowledgements_of_made_up_retry_topics_fill_no_memory() -> None:
    """The right to a group allows each of its retry topics, however long and whether or not there is one."""
    p, receipts = popped()
    gatekeeper = Gatekeeper(guard(ACL))
    fast_path = p.world.parts.requests.secured_fast_path(gatekeeper)
    ext = next(each for each in receipts if each["topic"] == "%RETRY%g+T")
    for number in range(20):
        forged = {**ext, "topic": f"%RETRY%g+{number:0100000}"}
        payload = signed(Command(Code.ACK_MESSAGE, ext=forged), "bob-user")
        assert not fast_path(FakePeer(), payload)  # type: ignore[arg-type]
    assert gatekeeper.guard._allowed == set()


@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_ROCKETMQ])
@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
def test_signed_ends_of_transactions_take_the_fast_path_of_a_secured_broker(serialize: int, state: int) -> None:
    side, message = begun()
    requests = side.world.parts.requests
    fast_path = requests.secured_fast_path(Gatekeeper(guard(ACL)))

    def takes(name: str | None, topic: str | None, secret: str | None = None) -> bool:
        command = end(message, state, serialize=serialize)
        if topic is not None:
            command.ext["topic"] = topic
        return fast_path(FakePeer(), signed(command, name, secret))  # type: ignore[arg-type]

    for name, topic, secret in (
        ("bob-user", "T", None),
        ("bob-user", "U", None),  # a right to the topic that the request names, not to the half message's
        (None, "T", None),
        ("ada-user", "T", "wrong"),
        ("ada-user", None, None),  # without a name the handler finds the topic, and asks for the right to it
    ):
        assert not takes(name, topic, secret)
    assert requests.fast_ends.count == 0
    assert takes("ada-user", "T") and requests.fast_ends.count == 1
    assert not takes("ada-user", "T"), "it has ended"
