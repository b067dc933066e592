"""A parent topic that is deleted and made again: subscriptions stand, and nothing of the former topic is left."""

from __future__ import annotations

from typing import Any

from pymq.wire.codes import RequestCode as Code
from tests.broker.handlers.test_lite_pops import NOTHING, LitePops
from tests.broker.world import World


class Parent(LitePops):
    """The parent P, which operators delete and make again."""

    def delete(self) -> None:
        self.caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="P")
        self.turn()

    def make(self, attributes: str = "+message.type=LITE") -> None:
        fields: dict[str, Any] = {
            "topic": "P", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "order": "false", "attributes": attributes,
        }  # fmt: skip
        self.caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **fields)
        self.turn()

    def make_again(self) -> None:
        self.delete()
        self.make()


def test_what_a_client_subscribed_to_comes_from_the_new_topic() -> None:
    p = Parent()
    p.subscribe("a", "b")
    p.fill("a", "a0", "a1")
    p.fill("c", "c0")
    assert p.ack(p.pop(count=1)) == 0
    p.make_again()
    assert p.pop().code == NOTHING, "the former topic's messages are gone"
    p.fill("a", "new a")
    p.fill("b", "new b")
    p.fill("c", "new c")
    found = p.pop()
    assert found.bodies == ["new a", "new b"]
    assert [p.ack(found, number) for number in range(2)] == [0, 0]
    assert p.pop().code == NOTHING
    assert p.control("COMPLETE_ADD", "c")[0] == 0
    assert p.pop().bodies == ["new c"]


def test_a_pop_that_waited_for_the_former_topic_gets_messages_of_the_new_one() -> None:
    p = Parent()
    p.subscribe("a")
    p.park()
    p.make_again()
    assert p.is_waiting()
    p.fill("a", "new")
    assert p.late().bodies == ["new"]


def test_while_the_parent_is_gone_clients_hear_so() -> None:
    p = Parent()
    p.subscribe("a")
    p.delete()
    assert p.pop().code == 17
    assert p.control("COMPLETE_ADD", "a", "b")[0] == p.control("PARTIAL_REMOVE", "a")[0] == 17
    p.make("+message.type=NORMAL")
    refused = p.pop()
    assert refused.code == 29 and "has no lite topics" in refused.remark
    p.make_again()
    p.fill("a", "new")
    p.fill("b", "b0")
    assert p.pop().bodies == ["new"], "what was refused changed nothing"


def test_hand_outs_of_the_former_topic_are_forgotten() -> None:
    p = Parent()
    p.put_group("g", retry_max_times=1)
    p.subscribe("a")
    p.fill("a", "a0", "a1")
    p.pop(count=1)
    p.wait(10_100)
    old = p.pop(count=1)
    p.make_again()
    p.fill("a", "n0", "n1")
    assert p.ack(old) == 0 and p.committed("a") == -1
    found = p.pop(count=1)
    assert found.bodies == ["n0"] and found.ext["orderCountInfo"] == "0"
    assert p.ack(old) == 0 and p.hide(old, 0, 0) != 0
    assert p.pop().code == NOTHING, "n0 is out"
    p.wait(10_100)
    assert p.pop().bodies == ["n0", "n1"], "tries of the former topic do not count"
    assert not p.world.messages("%DLQ%g")


def test_a_parent_that_is_made_again_outlives_a_kill() -> None:
    p = Parent()
    p.subscribe("a")
    p.fill("a", "a0", "a1", "a2")
    found = p.pop()
    assert [p.ack(found, number) for number in range(3)] == [0, 0, 0]
    p.wait(6_000)
    p.make_again()
    p.fill("a", "n0", "n1")
    again = Parent(World(p.world.files.after_kill(), p.world.clock))
    again.subscribe("a")
    assert again.pop().bodies == ["n0", "n1"]
