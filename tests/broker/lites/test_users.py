"""Lite topics of a broker with users: a client belongs to who made it, and rights are those of all pops."""

from __future__ import annotations

import json
from typing import Any

from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_auth import acl, caller, make_user, secured
from tests.broker.handlers.test_lite_pops import LitePops
from tests.broker.world import Caller

EVERYWHERE = {"sourceIps": [], "decision": "Allow"}


def entries(action: str, client: str, *lites: str, **more: Any) -> bytes:
    entry = {"action": action, "clientId": client, "group": "g", "topic": "P", "liteTopicSet": lites, **more}
    return json.dumps({"subscriptionSet": [entry]}).encode()


def users() -> tuple[LitePops, Caller, Caller, Caller]:
    """Return a broker, two users that may consume P with group g, and one that may not."""
    world, dispatcher = secured()
    p = LitePops(world)
    root = caller(world, dispatcher)
    for name, resources in (("ada", ("Topic:P", "Group:g")), ("bob", ("Topic:P", "Group:g")), ("eve", ("Topic:P",))):
        make_user(root, name)
        rules = [{"resource": resource, "actions": ["Sub"], **EVERYWHERE} for resource in resources]
        root.ok(Code.AUTH_CREATE_ACL, acl(name, *rules), subject=f"User:{name}")
    ada, bob, eve = (caller(world, dispatcher, name) for name in ("ada", "bob", "eve"))
    return p, ada, bob, eve


def test_a_client_id_belongs_to_the_user_that_made_it() -> None:
    p, ada, bob, _ = users()
    ada.ok(Code.LITE_SUBSCRIPTION_CTL, entries("PARTIAL_ADD", "a-1", "x"))
    for action in ("PARTIAL_ADD", "PARTIAL_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE"):
        code, remark = bob.refused(Code.LITE_SUBSCRIPTION_CTL, entries(action, "a-1", "x"))
        assert code == ResponseCode.NO_PERMISSION and "belongs to another user" in remark, action
    code, remark = bob.refused(Code.POP_LITE_MESSAGE, **p.fields("a-1"))
    assert code == ResponseCode.NO_PERMISSION and "belongs to another user" in remark
    bob.ok(Code.LITE_SUBSCRIPTION_CTL, entries("PARTIAL_ADD", "b-1", "x"))
    ada.ok(Code.LITE_SUBSCRIPTION_CTL, entries("COMPLETE_REMOVE", "a-1"))
    bob.ok(Code.LITE_SUBSCRIPTION_CTL, entries("PARTIAL_ADD", "a-1", "x"))


def test_a_waiting_pop_gets_nothing_once_its_client_id_is_another_users() -> None:
    p, ada, bob, _ = users()
    assert ada.ask(Code.POP_LITE_MESSAGE, **p.fields("a-1", poll_ms=10_000)) is None
    bob.ok(Code.LITE_SUBSCRIPTION_CTL, entries("PARTIAL_ADD", "a-1", "x"))
    p.fill("x", "secret")
    p.turn()
    assert [answer.code for answer in ada.peer.answers] == [ResponseCode.NO_PERMISSION]


def test_group_and_parent_need_the_right_to_consume() -> None:
    p, ada, _, eve = users()
    ada.ok(Code.LITE_SUBSCRIPTION_CTL, entries("PARTIAL_ADD", "a-1", "x"))
    p.fill("x", "m")
    for code, body, ext in (
        (Code.LITE_SUBSCRIPTION_CTL, entries("PARTIAL_ADD", "e-1", "x"), {}),
        (Code.POP_LITE_MESSAGE, b"", p.fields("e-1")),
        (Code.GET_LITE_GROUP_INFO, b"", {"group": "g"}),
        (Code.GET_LITE_CLIENT_INFO, b"", {"parentTopic": "P", "group": "g", "clientId": "a-1"}),
        (Code.TRIGGER_LITE_DISPATCH, b"", {"group": "g"}),
    ):
        fields: dict[str, Any] = ext
        assert eve.refused(code, body, **fields)[0] == ResponseCode.NO_PERMISSION, code
    found = p.popped(ada.ok(Code.POP_LITE_MESSAGE, **p.fields("a-1")))
    assert found.bodies == ["m"]
    fields = {"consumerGroup": "g", **found.receipt()}
    assert eve.refused(Code.ACK_MESSAGE, **fields)[0] == ResponseCode.NO_PERMISSION
    ada.ok(Code.ACK_MESSAGE, **fields)
    assert p.committed("x") == 1
