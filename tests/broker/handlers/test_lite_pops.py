"""Consumption of lite topics: subscriptions (200071), pops (200070), acknowledgements, and what comes again."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

import pytest

from pymq.broker.pop import lite_popper
from pymq.broker.pop.lite_popper import TRY_AGAIN_MS
from pymq.broker.pop.lite_subscriptions import CLIENT_ID_LENGTH_MAX, SILENT_MS
from pymq.model import pop
from pymq.model.record import StoredMessage, decode_records
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.broker.handlers.test_lites import Lites
from tests.broker.world import Caller, World

NOTHING = 210


class Popped:
    """A lite pop's answer."""

    def __init__(self, code: int, remark: str | None, ext: dict[str, str], body: bytes) -> None:
        self.code, self.remark, self.ext = code, remark or "", ext
        self.messages: list[StoredMessage] = decode_records(body)

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    def receipt(self, number: int = 0) -> dict[str, Any]:
        """Return the fields that name one of the messages, as a client makes them."""
        properties = self.messages[number].properties
        offset = int(properties["INNER_MULTI_QUEUE_OFFSET"])
        receipt = pop.Receipt(
            offset, int(self.ext["popTime"]), int(self.ext["invisibleTime"]), int(self.ext["reviveQid"]), 0, "broker-a"
        )
        return {
            "topic": "P", "liteTopic": properties["__LITE_TOPIC"], "queueId": 0, "offset": offset,
            "extraInfo": pop.encode_receipt(receipt, 0, offset),
        }  # fmt: skip


class LitePops(Lites):
    """Lite topics with the group g, which is bound to P. Each member has a connection of its own."""

    def __init__(self, world: World | None = None, attributes: dict[str, str] | None = None, **settings: Any) -> None:
        super().__init__(world, **settings)
        self.put_group("g", attributes=attributes)
        self.members: dict[str, Caller] = {}

    def put_group(
        self, name: str, attributes: dict[str, str] | None = None, *, retry_max_times: int = 16, bind: str = "P"
    ) -> None:
        wanted = {f"+{key}": value for key, value in {"lite.bind.topic": bind, **(attributes or {})}.items()}
        config = SubscriptionGroupConfig(group_name=name, retry_max_times=retry_max_times, attributes=wanted)
        self.world.parts.metadata.groups.put([config])

    def member(self, client: str) -> Caller:
        if client not in self.members:
            self.members[client] = Caller(self.world, f"127.0.0.1:{6000 + len(self.members)}")
        return self.members[client]

    def control(self, action: str, *lites: str, client: str = "c", group: str = "g", **more: Any) -> tuple[int, str]:
        entry = {"action": action, "clientId": client, "group": group, "topic": "P", "liteTopicSet": lites, **more}
        body = json.dumps({"subscriptionSet": [entry]}).encode()
        reply = self.member(client).ask(Code.LITE_SUBSCRIPTION_CTL, body)
        assert reply is not None
        return reply.code, reply.remark or ""

    def subscribe(self, *lites: str, client: str = "c", **more: Any) -> None:
        assert self.control("PARTIAL_ADD", *lites, client=client, **more) == (0, "")

    def fill(self, lite: str, *bodies: str) -> None:
        for body in bodies:
            assert self.send(lite, body=body.encode()).code == 0

    def fields(self, client: str = "c", count: int = 32, poll_ms: int = 0, **more: Any) -> dict[str, Any]:
        return {
            "clientId": client, "consumerGroup": "g", "topic": "P", "maxMsgNum": count, "invisibleTime": 10_000,
            "pollTime": poll_ms, "bornTime": self.world.clock.now_ms(), **more,
        }  # fmt: skip

    def pop(self, client: str = "c", **more: Any) -> Popped:
        reply = self.member(client).ask(Code.POP_LITE_MESSAGE, **self.fields(client, **more))
        assert reply is not None, "the pop waits"
        return self.popped(reply)

    @staticmethod
    def popped(reply: Reply) -> Popped:
        answer = reply.to_command(Command(0))
        return Popped(answer.code, answer.remark, answer.ext, answer.body)

    def park(self, client: str = "c", **more: Any) -> None:
        """Pop, and find nothing yet."""
        fields = self.fields(client, poll_ms=15_000, **more)
        assert self.member(client).ask(Code.POP_LITE_MESSAGE, **fields) is None

    def late(self, client: str = "c") -> Popped:
        """Return the answer to a pop that waited."""
        self.turn()
        answers = self.member(client).peer.answers
        assert answers, "no answer"
        return self.popped(answers.pop())

    def is_waiting(self, client: str = "c") -> bool:
        self.turn()
        return not self.member(client).peer.answers

    def turn(self) -> None:
        self.world.parts.end_turn()
        while self.world.parts.after_turn():
            self.world.parts.end_turn()

    def ack(self, popped: Popped, number: int = 0, **more: Any) -> int:
        reply = self.caller.ask(Code.ACK_MESSAGE, **{"consumerGroup": "g", **popped.receipt(number), **more})
        assert reply is not None
        return reply.code

    def hide(self, popped: Popped, number: int, invisible_ms: int) -> int:
        fields = {"consumerGroup": "g", **popped.receipt(number), "invisibleTime": invisible_ms}
        reply = self.caller.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, **fields)
        assert reply is not None
        return reply.code

    def wait(self, ms: int) -> None:
        self.world.clock.advance(ms)
        for job in self.world.parts.jobs():
            job.run()
        self.turn()

    def committed(self, lite: str, group: str = "g") -> int:
        return self.world.parts.metadata.cursors.query(group, f"%LMQ%$P${lite}", 0)


def test_a_client_gets_its_lite_topics_each_in_order() -> None:
    p = LitePops()
    p.subscribe("a", "b$1", "c%c")
    p.fill("a", "a0", "a1")
    p.fill("other", "o0")
    p.fill("b$1", "b0")
    p.fill("c%c", "c0")
    found = p.pop()
    assert found.bodies == ["a0", "a1", "b0", "c0"]
    assert found.ext == {
        "popTime": str(p.world.clock.now_ms()), "invisibleTime": "10000", "reviveQid": "999",
        "orderCountInfo": "0;0;0;0",
    }  # fmt: skip
    assert [(one.topic, one.queue_id) for one in found.messages] == [("P", 1)] * 4
    assert p.pop().code == NOTHING
    assert [p.ack(found, number) for number in range(4)] == [0, 0, 0, 0]
    assert (p.committed("a"), p.committed("b$1"), p.committed("c%c"), p.committed("other")) == (2, 1, 1, -1)
    assert p.pop().code == NOTHING
    assert not list(p.world.parts.metadata.order_infos.all()), "nothing is kept of what is done"


def test_a_lite_topic_gives_nothing_until_all_of_it_is_acknowledged() -> None:
    p = LitePops()
    p.subscribe("a", "b")
    p.fill("a", "a0", "a1", "a2")
    found = p.pop(count=2)
    assert found.bodies == ["a0", "a1"]
    p.fill("b", "b0")
    p.fill("a", "a3")
    assert p.pop().bodies == ["b0"]
    assert p.ack(found, 1) == 0 and p.committed("a") == 0
    assert p.pop().code == NOTHING
    assert p.ack(found, 0) == 0 and p.committed("a") == 2
    assert p.pop().bodies == ["a2", "a3"]


def test_what_is_not_acknowledged_comes_again_with_its_count() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0", "a1", "a2")
    found = p.pop(count=2)
    p.wait(9_999)
    assert p.pop().code == NOTHING
    p.wait(101)
    again = p.pop()
    assert again.bodies == ["a0", "a1", "a2"] and again.ext["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0"
    assert p.ack(found, 0) == 0 and p.committed("a") == 0, "its receipt is over"
    assert p.ack(again, 0) == 0 and p.committed("a") == 1


def test_a_new_invisible_time() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0", "a1")
    found = p.pop()
    assert p.hide(found, 1, 30_000) == 0
    p.wait(20_000)
    assert p.pop().code == NOTHING
    assert p.hide(found, 1, 0) == 0
    p.wait(100)
    assert p.pop().bodies == ["a0", "a1"]
    assert p.hide(found, 0, 5) == 208, "that receipt is over"


def test_news_of_any_subscription_wakes_a_pop_that_waits() -> None:
    p = LitePops(attributes={"lite.sub.client.quota": "10000"})
    p.subscribe(*[f"s{number}" for number in range(10_000)])
    for number in (0, 4711, 9_999):
        p.park()
        assert p.is_waiting()
        p.fill("elsewhere", "x")
        assert p.is_waiting()
        p.fill(f"s{number}", f"m{number}")
        found = p.late()
        assert found.bodies == [f"m{number}"] and p.ack(found) == 0


def test_an_acknowledgement_wakes_a_pop_that_waits_for_the_next_message() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0", "a1")
    found = p.pop(count=1)
    p.park()
    assert p.is_waiting()
    p.ack(found)
    assert p.late().bodies == ["a1"]


def test_the_end_of_an_invisible_time_wakes_a_pop_that_waits() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0")
    p.pop(invisibleTime=1000)
    p.park()
    p.wait(1100)
    assert p.late().bodies == ["a0"]


def test_a_pop_that_waits_gets_nothing_during_a_hand_over() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0")
    p.pop(invisibleTime=1000)
    p.park()
    fence = p.world.parts.replication.write_fence
    fence.begin(5000, "a test")
    p.wait(1100)
    refused = p.late()
    assert refused.code == 14 and "hands over" in refused.remark
    fence.end()
    assert p.pop().bodies == ["a0"]


def test_a_pop_that_waited_is_answered_at_its_end() -> None:
    p = LitePops()
    p.subscribe("a")
    p.park()
    p.wait(15_000)
    assert p.late().code == NOTHING


def test_a_repeated_attempt_gets_the_same_messages() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0")
    assert p.pop(attemptId="one").bodies == ["a0"]
    assert p.pop(attemptId="two").code == NOTHING
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0")
    assert p.pop(attemptId="one").bodies == ["a0"]
    again = p.pop(attemptId="one")
    assert again.bodies == ["a0"] and again.ext["orderCountInfo"] == "0"


def test_shared_subscribers_take_turns_and_each_message_goes_to_one() -> None:
    p = LitePops()
    p.subscribe("a", client="one")
    p.subscribe("a", client="two")
    p.park("one")
    p.park("two")
    p.fill("a", "a0")
    found = p.late("one")
    assert found.bodies == ["a0"] and p.is_waiting("two")
    p.ack(found)
    p.park("one")
    p.fill("a", "a1")
    found = p.late("two")
    assert found.bodies == ["a1"] and p.is_waiting("one")
    p.fill("a", "a2")
    assert p.is_waiting("one")
    p.ack(found)
    assert p.late("one").bodies == ["a2"]


def test_what_a_lost_client_was_woken_for_wakes_another_one() -> None:
    p = LitePops()
    p.subscribe("a", client="one")
    p.subscribe("a", client="two")
    p.park("two")
    p.park("one")
    p.fill("a", "a0")
    p.world.parts.requests.disconnect(p.member("one").peer)
    assert p.late("two").bodies == ["a0"]


def test_an_exclusive_group_has_one_subscriber_of_a_lite_topic() -> None:
    p = LitePops(attributes={"lite.sub.model": "Exclusive", "lite.sub.reset.offset.exclusive": "true"})
    p.subscribe("a", "b", client="old")
    p.fill("a", "a0")
    p.ack(p.pop("old"))
    p.subscribe("a", client="new")
    (notice,) = p.member("old").peer.pushed
    assert notice.code == Code.NOTIFY_UNSUBSCRIBE_LITE and notice.is_oneway
    assert notice.ext == {"liteTopic": "a", "consumerGroup": "g", "clientId": "old"}
    p.fill("a", "a1")
    assert p.pop("old").code == NOTHING
    assert p.pop("new").bodies == ["a0", "a1"], "the group's offset went back to 0"
    p.fill("b", "b0")
    assert p.pop("old").bodies == ["b0"]
    assert p.control("COMPLETE_ADD", "a", "b", client="old")[0] == 0
    assert p.member("old").peer.pushed[1].ext["liteTopic"] == "a", "a whole set takes nothing away from others"
    assert p.control("COMPLETE_REMOVE", client="new")[0] == 0
    assert p.control("COMPLETE_ADD", "a", "b", client="old")[0] == 0
    assert len(p.member("old").peer.pushed) == 2


def test_members_of_a_wildcard_group_share_all_lite_topics() -> None:
    p = LitePops(attributes={"lite.sub.wildcard": "true"})
    p.fill("a", "a0")
    p.fill("b", "b0")
    assert p.control("PARTIAL_ADD", "a") == (
        604, "group g gets all lite topics (lite.sub.wildcard): its clients can't subscribe to single ones"
    )  # fmt: skip
    assert p.pop().code == NOTHING
    for client in ("one", "two"):
        assert p.control("COMPLETE_ADD", client=client)[0] == 0
    found = p.pop("one", count=1)
    assert found.bodies == ["a0"] and p.pop("two").bodies == ["b0"]
    p.park("two")
    p.fill("new", "n0")
    assert p.late("two").bodies == ["n0"]
    p.park("one")
    p.fill("a", "a1")
    assert p.is_waiting("one")
    p.ack(found)
    assert p.late("one").bodies == ["a1"]


def test_whole_sets_replace_and_parts_change() -> None:
    p = LitePops()
    for lite in ("a", "b", "c"):
        p.fill(lite, lite)
    p.subscribe("a", "b")
    assert p.control("COMPLETE_ADD", "b", "c")[0] == 0
    found = p.pop()
    assert sorted(found.bodies) == ["b", "c"]
    assert p.control("PARTIAL_REMOVE", "b", "unknown")[0] == 0
    p.fill("b", "b1")
    p.fill("a", "a1")
    for number in range(2):
        p.ack(found, number)
    assert p.pop().code == NOTHING
    assert p.control("COMPLETE_REMOVE")[0] == 0
    p.fill("c", "c1")
    gone = p.pop()
    assert gone.code == NOTHING and "has no subscriptions" in gone.remark
    assert p.control("COMPLETE_REMOVE")[0] == p.control("PARTIAL_REMOVE", "a")[0] == 0


def test_a_whole_set_that_is_late_is_passed_over() -> None:
    p = LitePops()
    assert p.control("COMPLETE_ADD", "a", version=7)[0] == 0
    assert p.control("COMPLETE_ADD", "b", version=6)[0] == 0
    p.fill("a", "a0")
    p.fill("b", "b0")
    assert p.pop().bodies == ["a0"]
    assert p.control("COMPLETE_ADD", "b")[0] == 0
    assert p.pop().bodies == ["b0"]


@pytest.mark.parametrize(
    ("option", "bodies"),
    [
        (None, ["m3", "m4"]),
        ({"type": "POLICY", "value": 0}, ["m3", "m4"]),
        ({"type": "POLICY", "value": 1}, ["m0", "m1", "m2", "m3", "m4"]),
        ({"type": "POLICY", "value": 2}, []),
        ({"type": "OFFSET", "value": 4}, ["m4"]),
        ({"type": "OFFSET", "value": 99}, []),
        ({"type": "OFFSET", "value": -5}, ["m0", "m1", "m2", "m3", "m4"]),
        ({"type": "TAIL_N", "value": 2}, ["m1", "m2", "m3", "m4"]),
        ({"type": "TAIL_N", "value": 9}, ["m0", "m1", "m2", "m3", "m4"]),
        ({"type": "TIMESTAMP", "value": 2}, ["m2", "m3", "m4"]),
        ({"type": "TIMESTAMP", "value": 9}, []),
    ],
)
def test_where_a_new_subscription_begins(option: dict[str, Any] | None, bodies: list[str]) -> None:
    p = LitePops()
    begin_ms = p.world.clock.now_ms()
    p.subscribe("a")
    for number in range(5):
        p.fill("a", f"m{number}")
        p.world.clock.advance(1000)
    found = p.pop(count=3)
    for number in range(3):
        p.ack(found, number)
    p.control("COMPLETE_REMOVE")
    if option is not None and option["type"] == "TIMESTAMP":
        option = {**option, "value": begin_ms + 1000 * option["value"]}
    more: dict[str, Any] = {"offsetOption": option} if option else {}
    p.subscribe("a", **more)
    found = p.pop()
    assert found.bodies == bodies
    assert p.control("COMPLETE_ADD", "a", version=1, **more)[0] == 0
    assert p.pop().code == NOTHING, "a whole set leaves what the client has already where it is"


def test_a_client_moves_the_group_in_what_it_has_already() -> None:
    p = LitePops()
    p.fill("a", "a0", "a1")
    p.subscribe("a")
    assert p.pop().bodies == ["a0", "a1"]
    p.subscribe("a", offsetOption={"type": "OFFSET", "value": 1})
    assert p.pop().bodies == ["a1"], "what was out is out no more"
    p.subscribe("a")
    assert p.pop().code == NOTHING, "without an option it stays"


def test_the_last_to_unsubscribe_resets_the_group_where_it_wants_that() -> None:
    p = LitePops(attributes={"lite.sub.reset.offset.unsubscribe": "true"})
    p.subscribe("a")
    p.subscribe("a", client="two")
    p.fill("a", "a0")
    p.ack(p.pop())
    assert p.control("PARTIAL_REMOVE", "a")[0] == 0 and p.committed("a") == 1
    assert p.control("PARTIAL_REMOVE", "a", client="two")[0] == 0 and p.committed("a") == 0
    p.subscribe("a")
    assert p.pop().bodies == ["a0"]


def test_subscriptions_end_with_their_connection_and_with_silence() -> None:
    p = LitePops()
    p.subscribe("a")
    p.subscribe("a", client="two")
    subscriptions = p.world.parts.pop.lite_subscriptions
    p.world.parts.requests.disconnect(p.member("c").peer)
    assert (subscriptions.count, subscriptions.client_count) == (1, 1)
    p.wait(SILENT_MS - 1)
    assert subscriptions.count == 1
    p.pop("two")
    p.wait(SILENT_MS - 1)
    assert subscriptions.count == 1, "a pop is a sign of life"
    p.wait(1)
    assert (subscriptions.count, subscriptions.client_count) == (0, 0)
    assert not p.world.parts.pop.lite_subscriptions.groups_of("P")


def test_a_client_that_comes_back_on_a_new_connection_keeps_its_subscriptions() -> None:
    p = LitePops()
    p.subscribe("a")
    old = p.members.pop("c").peer
    assert p.control("COMPLETE_ADD", "a")[0] == 0
    p.world.parts.requests.disconnect(old)
    p.fill("a", "a0")
    assert p.pop().bodies == ["a0"]


def test_quotas_are_refused_with_2018() -> None:
    p = LitePops(attributes={"lite.sub.client.quota": "2"}, maxLiteSubscriptionCount=3)
    assert p.control("PARTIAL_ADD", "a", "b", "c") == (
        2018,
        "client 'c' of group g wants 3 lite topics, the limit is 2 (lite.sub.client.quota of the group): unsubscribe "
        "from some, or raise the limit",
    )
    p.subscribe("a", "b")
    p.subscribe("a", "b")
    assert p.control("COMPLETE_ADD", "a", "b", "c")[0] == 2018
    assert p.control("COMPLETE_ADD", "b", "c")[0] == 0
    p.subscribe("a", client="two")
    assert p.control("PARTIAL_ADD", "b", client="two") == (
        2018,
        "the broker has 3 subscriptions to lite topics, 1 are new, the limit is 3 (maxLiteSubscriptionCount): "
        "unsubscribe from some, or raise the limit",
    )
    p.subscribe(client="three")
    assert p.control("PARTIAL_ADD", client="four")[0] == 2018
    assert p.control("PARTIAL_REMOVE", "b")[0] == 0
    p.subscribe("b", client="two")


def test_what_can_not_be_subscribed_to_is_refused() -> None:
    p = LitePops()
    p.put_group("bound-to-q", bind="Q")
    p.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="free")])
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"client": " "}, 29, "no clientId"),
        ({"group": ""}, 29, "no group"),
        ({"topic": " "}, 29, "no topic"),
        ({"topic": "None"}, 17, "None"),
        ({"topic": "T"}, 29, "topic T has no lite topics"),
        ({"group": "unknown"}, 29, "lite.bind.topic=P"),
        ({"group": "free"}, 29, "bound to no topic"),
        ({"group": "bound-to-q"}, 29, "bound to topic Q"),
        ({"client": "x" * (CLIENT_ID_LENGTH_MAX + 1)}, 29, "256 characters, the limit is 255"),
    ]
    for more, code, text in cases:
        found = p.control("PARTIAL_ADD", "a", **more)
        assert found[0] == code and text in found[1], (more, found)
    for lite in ("", "a,b", "x" * 256):
        found = p.control("PARTIAL_ADD", lite)
        assert found[0] == 29 and "name" in found[1]
    assert p.world.parts.pop.lite_subscriptions.client_count == 0
    p.subscribe("a", client="x" * CLIENT_ID_LENGTH_MAX)


def test_pops_that_can_not_be_are_refused() -> None:
    p = LitePops()
    p.subscribe("a")
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"maxMsgNum": 0}, 29, "ask for 1 to 32"),
        ({"maxMsgNum": 33}, 29, "ask for 1 to 32"),
        ({"invisibleTime": -1}, 29, "invisibleTime"),
        ({"attemptId": "x" * 256}, 29, "attemptId"),
        ({"topic": "None"}, 17, "None"),
        ({"topic": "T"}, 29, "no lite topics"),
        ({"consumerGroup": "unknown"}, 29, "lite.bind.topic"),
        ({"bornTime": 1}, NOTHING, "compare the client's clock"),
    ]
    for more, code, text in cases:
        found = p.pop(**more)
        assert found.code == code and text in found.remark, (more, found.remark)
        assert found.ext["popTime"] == "0"
    p.fill("a", "a0")
    found = p.pop()
    others: list[tuple[dict[str, Any], int]] = [
        ({"offset": 2}, 208), ({"offset": -1}, 208), ({"topic": "None"}, 17), ({"extraInfo": "x"}, 1)
    ]  # fmt: skip
    for other, code in others:
        assert p.ack(found, **other) == code
    assert p.ack(found, offset=1) == 13 and p.ack(found) == 0


def test_a_receipt_is_of_one_group_and_one_lite_topic() -> None:
    p = LitePops()
    p.put_group("h")
    p.subscribe("a", "b")
    p.fill("a", "a0")
    found = p.pop()
    p.fill("b", "b0")
    others: list[dict[str, Any]] = [{"consumerGroup": "h"}, {"liteTopic": "b"}, {"topic": "Q"}]
    for more in others:
        p.ack(found, **more)
    assert (p.committed("a"), p.committed("b"), p.committed("a", "h")) == (0, -1, -1)
    assert p.world.parts.requests.pops.ineffective_ack_count >= 1
    assert p.ack(found) == 0 and p.committed("a") == 1


def test_after_the_last_try_a_message_is_a_dead_letter_with_its_lite_topic() -> None:
    p = LitePops()
    p.put_group("g", retry_max_times=2)
    p.subscribe("a")
    p.fill("a", "a0", "a1", "a2")
    for _ in range(3):
        found = p.pop(count=2)
        assert found.bodies == ["a0", "a1"]
        p.ack(found, 1)
        p.wait(10_100)
    p.park()
    assert p.late().bodies == ["a2"]
    assert p.committed("a") == 2
    (dead,) = p.world.messages("%DLQ%g")
    assert dead.body == b"a0", "a1 was acknowledged"
    assert (dead.properties["__LITE_TOPIC"], dead.properties["DLQ_ORIGIN_TOPIC"]) == ("a", "P")
    assert p.world.parts.store.lights.count == 1


def test_offsets_and_hand_outs_survive_a_stop_and_a_kill_loses_no_message() -> None:
    p = LitePops()
    p.subscribe("a@b", "c")
    p.fill("a@b", "a0", "a1")
    p.fill("c", "c0")
    found = p.pop(count=1)
    p.ack(found)
    assert sorted(p.pop().bodies) == ["a1", "c0"]
    p = LitePops(p.world.reopened())
    assert p.committed("a@b") == 1
    assert p.control("COMPLETE_ADD", "a@b", "c")[0] == 0
    assert p.pop().code == NOTHING, "what was handed out is invisible still"
    p.wait(10_100)
    again = p.pop()
    assert sorted(again.bodies) == ["a1", "c0"]
    for number in range(2):
        p.ack(again, number)
    p.wait(5_100)
    p = LitePops(World(p.world.files.after_kill(), p.world.clock))
    assert p.control("COMPLETE_ADD", "a@b", "c")[0] == 0
    assert p.pop().code == NOTHING, "the offsets were saved"


def test_a_parent_that_is_made_again_begins_without_offsets() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0", "a1")
    found = p.pop(count=1)
    p.ack(found)
    p.pop()
    p.caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="P")
    assert p.committed("a") == -1 and not list(p.world.parts.metadata.order_infos.all())
    assert p.pop().code == 17
    p = LitePops(p.world)
    p.subscribe("a")
    p.fill("a", "new")
    assert p.pop().bodies == ["new"]
    assert p.ack(found) == 0 and p.committed("a") != 1


def test_offsets_past_the_end_go_back_to_it() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0")
    p.world.parts.metadata.cursors.advance("g", "%LMQ%$P$a", 0, 9)
    p.world.parts.metadata.cursors.advance("g", "%LMQ%$P$unknown", 0, 9)
    p = LitePops(p.world.reopened())
    assert (p.committed("a"), p.committed("unknown")) == (1, 0)


def test_a_trigger_has_subscriptions_looked_through() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0")
    p.pop()
    p.park()
    p.world.parts.metadata.order_infos.forget("%LMQ%$P$a", "g", 0)
    assert p.is_waiting()
    p.caller.ok(Code.TRIGGER_LITE_DISPATCH, group="g", clientId="other")
    assert p.is_waiting()
    p.caller.ok(Code.TRIGGER_LITE_DISPATCH, group="g")
    assert p.late().bodies == ["a0"]
    assert p.caller.refused(Code.TRIGGER_LITE_DISPATCH, group="unknown")[0] == 26


def test_a_record_is_handed_out_without_a_foreign_receipt() -> None:
    p = LitePops()
    p.subscribe("a")
    assert p.send("a", more="POP_CK\x010 1 2 3 0 other-broker 0 0\x02").code == 0
    (message,) = p.pop().messages
    assert "POP_CK" not in message.properties and message.properties["__LITE_TOPIC"] == "a"


def test_look_ups_of_subscriptions_and_lags() -> None:
    p = LitePops()
    p.put_group("w", {"lite.sub.wildcard": "true"})
    begin_ms = p.world.clock.now_ms()
    p.subscribe("a", "b", client="one")
    p.subscribe("a", client="two")
    assert p.control("COMPLETE_ADD", client="three", group="w")[0] == 0
    for lite, count in (("a", 3), ("b", 5), ("c", 1)):
        p.world.clock.advance(1000)
        p.fill(lite, *["m"] * count)
    p.ack(p.pop("one", count=1))
    whole = p.caller.json(Code.GET_BROKER_LITE_INFO)
    assert (whole["liteSubscriptionCount"], whole["offsetTableSize"], whole["orderInfoCount"]) == (3, 1, 0)
    assert whole["groupMeta"] == {"P": ["g", "w"]} and whole["eventMapSize"] == 5
    assert p.caller.json(Code.GET_PARENT_TOPIC_INFO, topic="P")["groups"] == ["g", "w"]
    client: dict[str, Any] = {"parentTopic": "P", "group": "g", "clientId": "one", "maxCount": 1}
    assert p.caller.json(Code.GET_LITE_CLIENT_INFO, **client) == {
        "parentTopic": "P", "group": "g", "clientId": "one", "lastAccessTime": p.world.clock.now_ms(),
        "lastConsumeTime": 0, "liteTopicCount": 2, "liteTopicSet": ["%LMQ%$P$a"],
    }  # fmt: skip
    client["clientId"] = "none"
    unknown = p.caller.json(Code.GET_LITE_CLIENT_INFO, **client)
    assert (unknown["liteTopicCount"], unknown["lastAccessTime"]) == (-1, -1)
    lag = p.caller.json(Code.GET_LITE_GROUP_INFO, group="g", topK=2)
    assert lag["totalLagCount"] == 8 and lag["earliestUnconsumedTimestamp"] == begin_ms + 1000
    assert [(one["liteTopic"], one["lagCount"]) for one in lag["lagCountTopK"]] == [("b", 5), ("a", 2)]
    assert [one["liteTopic"] for one in lag["lagTimestampTopK"]] == ["a", "b"]
    one = p.caller.json(Code.GET_LITE_GROUP_INFO, group="g", liteTopic="a")
    assert (one["totalLagCount"], one["earliestUnconsumedTimestamp"]) == (2, begin_ms + 1000)
    assert (one["liteTopicOffsetWrapper"]["brokerOffset"], one["liteTopicOffsetWrapper"]["consumerOffset"]) == (3, 1)
    assert p.caller.json(Code.GET_LITE_GROUP_INFO, group="g", liteTopic="none")["totalLagCount"] == -1
    assert p.caller.refused(Code.GET_LITE_GROUP_INFO, group="unknown")[0] == 26
    p.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="free")])
    assert p.caller.refused(Code.GET_LITE_GROUP_INFO, group="free")[0] == 29
    subscribers = p.world.parts.pop.lite_subscriptions.groups_of("P")
    assert sorted(group.name for group in subscribers) == ["g", "w"]


def test_a_pop_that_comes_before_its_subscriptions_waits_for_them() -> None:
    p = LitePops()
    p.fill("a", "a0")
    p.park()
    assert p.is_waiting()
    p.subscribe("a")
    assert p.late().bodies == ["a0"]
    p.put_group("w", {"lite.sub.wildcard": "true"})
    p.park("d", consumerGroup="w")
    assert p.control("COMPLETE_ADD", client="d", group="w")[0] == 0
    assert p.late("d").bodies == ["a0"]


def test_subscriptions_that_end_leave_a_pop_that_waits() -> None:
    p = LitePops()
    p.subscribe("a")
    p.park()
    assert p.control("COMPLETE_REMOVE")[0] == 0
    p.fill("a", "a0")
    assert p.is_waiting()
    p.subscribe("a")
    assert p.late().bodies == ["a0"]


def test_a_dead_letter_is_stored_once() -> None:
    p = LitePops()
    p.put_group("g", retry_max_times=0)
    p.subscribe("a", client="one")
    p.subscribe("a", client="two")
    p.fill("a", "a0")
    p.pop("one")
    p.wait(10_100)
    assert p.pop("one").code == p.pop("two").code == NOTHING
    p.subscribe("a", client="three")
    assert p.pop("three").code == NOTHING
    p.turn()
    assert [dead.body for dead in p.world.messages("%DLQ%g")] == [b"a0"] and p.committed("a") == 1


def test_dead_letters_that_a_full_disk_refuses_are_tried_again_later() -> None:
    p = LitePops()
    p.put_group("g", retry_max_times=0)
    p.subscribe("a")
    p.fill("a", "a0", "a1")
    p.pop(count=1)
    p.wait(10_100)
    refused = 0

    def is_full(call: str, path: str) -> None:
        nonlocal refused
        if call == "pwrite" and "/commitlog/" in path:
            refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    p.park()
    p.world.files.fault = is_full
    p.subscribe("b")
    p.wait(0)
    assert refused == 1 and p.is_waiting(), "one try, and others have their turn"
    p.world.files.fault = None
    p.wait(TRY_AGAIN_MS - 1)
    assert p.is_waiting() and not p.world.messages("%DLQ%g")
    p.wait(1)
    assert p.late().bodies == ["a1"]
    assert [dead.body for dead in p.world.messages("%DLQ%g")] == [b"a0"]


def test_messages_beyond_the_parents_queue_are_acknowledged() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "a0")
    for number in range(4):
        found = p.pop()
        assert p.ack(found) == 0, "queue 0 of the parent is empty"
        p.fill("a", f"a{number + 1}")


@pytest.mark.parametrize("attributes", [{"lite.sub.wildcard": "true"}, {}])
def test_a_pop_looks_at_some_lite_topics_at_a_time_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, attributes: dict[str, str]
) -> None:
    monkeypatch.setattr(lite_popper, "LOOKS_A_POP", 2)
    p = LitePops(attributes=attributes)
    lites = [f"s{number}" for number in range(9)]
    assert p.control("COMPLETE_ADD", *lites, client="first")[0] == 0
    for lite in lites:
        p.fill(lite, "m")
    while (found := p.pop("first")).code == 0:  # all are out
        assert len(found.messages) <= 2
    assert p.pop("first").code == NOTHING
    p.control("COMPLETE_REMOVE", client="first")
    assert p.control("COMPLETE_ADD", *lites)[0] == 0
    p.park()
    assert p.is_waiting()
    p.fill("s8", "n")
    p.fill("s9", "new")
    assert p.control("COMPLETE_ADD", *lites, "s9")[0] == 0
    assert p.late().bodies == ["new"]


@pytest.mark.parametrize("top", [0, 1, 3, 6, 9])
def test_the_lists_of_a_groups_lag_are_those_of_a_sort(top: int) -> None:
    p = LitePops()
    counts = {"a": 3, "b": 5, "c": 1, "d": 5, "e": 2, "f": 4}
    for lite, count in counts.items():
        p.world.clock.advance(1000)
        p.fill(lite, *["m"] * count)
    lag = p.caller.json(Code.GET_LITE_GROUP_INFO, group="g", topK=top)
    assert lag["totalLagCount"] == 20
    assert [one["liteTopic"] for one in lag["lagCountTopK"]] == sorted(counts, key=lambda lite: -counts[lite])[:top]
    assert [one["liteTopic"] for one in lag["lagTimestampTopK"]] == list(counts)[:top]
