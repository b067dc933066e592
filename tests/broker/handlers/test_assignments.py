"""Codes 400, 401 and 402: what members of a group consume, as the broker decides it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pymq.broker.metadata import request_modes
from pymq.broker.pop.topic_routes import FRESH_MS
from pymq.model.route import BrokerData, QueueData, TopicRoute
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.bodies_route import encode_route
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, NoNetwork, World


class NameServer(NoNetwork):
    """Knows T with two queues on each of two brokers. Answers wait until a test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Callable[[], None]] = []
        self.is_down = False

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        if command.code != Code.GET_ROUTEINFO_BY_TOPIC:
            super().ask(address, command, on_answer, timeout_ms)
            return
        known = command.ext["topic"] == "T" and not self.is_down
        answer = Command(0, body=ROUTE) if known else Command(ResponseCode.TOPIC_NOT_EXIST)
        self.asked.append(lambda: on_answer(answer))

    def answer(self) -> None:
        asked, self.asked = self.asked, []
        for each in asked:
            each()


def route(*brokers: str) -> bytes:
    return encode_route(
        TopicRoute(
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6) for name in brokers
            ],
            broker_datas=[BrokerData(cluster="c", broker_name=name, broker_addrs={0: "h:1"}) for name in brokers],
        )
    )


ROUTE = route("broker-a", "broker-b")


class Assigned:
    """A world whose group g has members, and its name server."""

    def __init__(self, *members: str) -> None:
        self.name_server = NameServer()
        self.world = World(network=self.name_server, namesrvAddr="127.0.0.1:9876")
        self.world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
        self.callers = {member: Caller(self.world) for member in members}
        for member, caller in self.callers.items():
            caller.ok(Code.HEART_BEAT, beat(member))
        self.caller = next(iter(self.callers.values()))

    def query(self, client_id: str, **changed: Any) -> Any:
        """Return (mode, broker, queue) of each assignment; None for "keep what you have"."""
        body = {"topic": "T", "consumerGroup": "g", "clientId": client_id, "strategyName": "AVG", **changed}
        reply = self.caller.ask(Code.QUERY_ASSIGNMENT, json.dumps(body).encode())
        if reply is None:
            self.name_server.answer()
            reply = self.caller.peer.answers.pop()
        assert reply.code == 0
        answer = json.loads(reply.body)
        if not answer:
            return None
        found = [(each["mode"], each["messageQueue"]) for each in answer["messageQueueAssignments"]]
        return [(mode, queue["brokerName"][-1], queue["queueId"]) for mode, queue in found]

    def set_mode(self, mode: str = "POP", share: int = 0, **changed: Any) -> None:
        body = {"topic": "T", "consumerGroup": "g", "mode": mode, "popShareQueueNum": share, **changed}
        self.caller.ok(Code.SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode())


def test_members_pull_their_share_of_all_brokers_queues() -> None:
    a = Assigned("x", "y")
    assert a.query("x") == [("PULL", "a", 0), ("PULL", "a", 1)]
    assert a.query("y") == [("PULL", "b", 0), ("PULL", "b", 1)]
    assert a.query("y", strategyName="AVG_BY_CIRCLE") == [("PULL", "a", 1), ("PULL", "b", 1)]
    assert len(a.query("y", messageModel="BROADCASTING")) == 4


@pytest.mark.parametrize("changed", [{"clientId": "stranger"}, {"strategyName": "MINE"}, {"topic": "U"}])
def test_without_an_answer_a_client_keeps_what_it_has(changed: dict[str, Any]) -> None:
    assert Assigned("x").query("x", **changed) is None


def test_a_group_that_pops_takes_any_queue_of_each_broker() -> None:
    a = Assigned("x", "y")
    a.set_mode()
    assert a.query("x") == a.query("y") == [("POP", "a", -1), ("POP", "b", -1)]
    a.set_mode("PULL")
    assert a.query("x") == [("PULL", "a", 0), ("PULL", "a", 1)]


def test_a_share_adds_the_queues_of_the_next_members() -> None:
    a = Assigned("w", "x", "y", "z")
    a.set_mode(share=1)
    assert a.query("w") == [("POP", "a", 0), ("POP", "a", 1)]
    assert a.query("z") == [("POP", "b", 1), ("POP", "a", 0)]
    a.set_mode(share=3)
    assert a.query("z") == [("POP", "a", -1), ("POP", "b", -1)]


def test_with_more_members_than_queues_each_has_one() -> None:
    a = Assigned("u", "v", "w", "x", "y", "z")
    a.set_mode(share=1)
    assert [a.query(member) for member in "uvz"] == [[("POP", "a", 0)], [("POP", "a", 1)], [("POP", "a", 1)]]


def test_name_servers_are_asked_once_in_a_while_and_not_needed_then() -> None:
    a = Assigned("x")
    a.query("x")
    a.name_server.is_down = True
    assert a.query("x") is not None and not a.name_server.asked
    a.world.clock.advance(FRESH_MS)
    assert len(a.query("x")) == 4  # what was known


def test_modes_that_make_no_sense_are_refused() -> None:
    a = Assigned("x")
    for changed, code in (
        ({"topic": "%RETRY%g"}, ResponseCode.NO_PERMISSION),
        ({"topic": "No"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"mode": "PUSH"}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": "g/g"}, ResponseCode.INVALID_PARAMETER),
        ({"popShareQueueNum": "x"}, ResponseCode.SYSTEM_ERROR),
    ):
        body = {"topic": "T", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0, **changed}
        assert a.caller.refused(Code.SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode())[0] == code


def test_modes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_modes, "MODES_MAX", 1)
    a = Assigned("x")
    a.set_mode()
    a.set_mode("PULL")
    body = {"topic": "T", "consumerGroup": "other", "mode": "POP"}
    code, _ = a.caller.refused(Code.SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode())
    assert code == ResponseCode.NO_PERMISSION


def test_modes_outlive_a_restart_and_go_with_their_topic_or_group() -> None:
    a = Assigned("x")
    a.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="h")])
    a.set_mode(share=2)
    a.set_mode(consumerGroup="h")
    entry = {"topic": "T", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2}
    caller = Caller(a.world.reopened())
    table = caller.json(Code.GET_ALL_MESSAGE_REQUEST_MODE)["messageRequestModeMap"]
    assert table["T"]["g"] == entry and sorted(table["T"]) == ["g", "h"]
    caller.ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="h")
    assert list(caller.json(Code.GET_ALL_MESSAGE_REQUEST_MODE)["messageRequestModeMap"]["T"]) == ["g"]
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert caller.json(Code.GET_ALL_MESSAGE_REQUEST_MODE) == {"messageRequestModeMap": {}}
