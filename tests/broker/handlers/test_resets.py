"""Codes 222 and 314, and the push to consumers (220)."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import QueueOffsets, decode_admin_body
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World

RESET: dict[str, Any] = {"topic": "T", "group": "g", "isForce": "true"}


def make(**settings: Any) -> World:
    """T with two queues of four messages, a second apart; g has consumed three of each."""
    world = World(**settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    world.parts.metadata.groups.ensure("g")
    for _ in range(4):
        world.put("T")
        world.put("T", queue_id=1)
        world.clock.advance(1000)
    for queue_id in (0, 1):
        world.parts.metadata.cursors.commit("g", "T", queue_id, 3)
    return world


def reset(world: World, **fields: Any) -> dict[int, int]:
    reply = Caller(world).ok(Code.INVOKE_BROKER_TO_RESET_OFFSET, **{**RESET, **fields})
    table = decode_admin_body(QueueOffsets, reply.body).offset_table
    assert all((queue.topic, queue.broker_name) == ("T", "broker-a") for queue in table)
    return {queue.queue_id: offset for queue, offset in table.items()}


def test_by_time_to_the_end_and_to_an_offset() -> None:
    world = make()
    start_ms = world.clock.now_ms() - 4000
    assert reset(world, timestamp=start_ms + 1000) == {0: 1, 1: 1}
    assert world.parts.metadata.cursors.query("g", "T", 1) == 1
    assert reset(world, timestamp=-1) == {0: 4, 1: 4}
    assert reset(world, timestamp=start_ms, queueId=1, offset=-1) == {1: 0}
    assert reset(world, timestamp=-1, queueId=0, offset=2) == {0: 2}
    assert world.parts.metadata.cursors.offsets("g", "T") == {0: 2, 1: 0}
    assert world.parts.metadata.cursors.take_reset("g", "T", 0) == 2


def test_without_force_a_group_only_goes_back() -> None:
    world = make()
    assert reset(world, timestamp=-1, isForce="false") == {}
    assert reset(world, timestamp=0, isForce="false") == {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "Nope"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"group": "nope"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": 0, "offset": 5}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_an_impossible_reset_is_refused_and_changes_nothing(change: dict[str, Any], code: int) -> None:
    world = make()
    fields = {**RESET, "timestamp": 0, **change}
    assert Caller(world).refused(Code.INVOKE_BROKER_TO_RESET_OFFSET, **fields)[0] == code
    assert world.parts.metadata.cursors.offsets("g", "T") == {0: 3, 1: 3}


def test_without_server_side_resets_the_consumers_are_notified() -> None:
    world = make(useServerSideResetOffset="false")
    code, _ = Caller(world).refused(Code.INVOKE_BROKER_TO_RESET_OFFSET, **RESET, timestamp=0)
    assert code == ResponseCode.CONSUMER_NOT_ONLINE
    java, cpp = Caller(world), Caller(world, language="CPP")
    java.ok(Code.HEART_BEAT, beat("java"))
    cpp.ok(Code.HEART_BEAT, beat("cpp"))
    assert reset(world, timestamp=-1, queueId=1) == {1: 4}
    pushed = [caller.peer.pushed[-1] for caller in (java, cpp)]
    assert all(command.code == Code.RESET_CONSUMER_CLIENT_OFFSET and command.is_oneway for command in pushed)
    assert pushed[0].body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:4}}'
    assert pushed[1].body == b'{"offsetTable":[{"topic":"T","brokerName":"broker-a","queueId":1,"offset":4}]}'
    assert pushed[0].ext["isForce"] == "true" and pushed[0].ext["timestamp"] == "-1"
    assert world.parts.metadata.cursors.offsets("g", "T") == {0: 3, 1: 3}


def test_cloning_a_group_s_offsets() -> None:
    world = make()
    caller = Caller(world)
    caller.ok(Code.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="h", topic="T", offline="true")
    assert world.parts.metadata.cursors.offsets("h", "T") == {0: 3, 1: 3}
    assert world.parts.metadata.groups.get("h") is not None
    assert caller.refused(Code.CLONE_GROUP_OFFSET, srcGroup="none", destGroup="h")[0] == ResponseCode.SYSTEM_ERROR
    assert caller.refused(Code.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="a/b")[0] == ResponseCode.INVALID_PARAMETER
    refused = caller.refused(Code.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="h", topic="U")
    assert refused[0] == ResponseCode.TOPIC_NOT_EXIST


def test_queue_names_are_whole_objects_in_the_answer() -> None:
    reply = Caller(make()).ok(Code.INVOKE_BROKER_TO_RESET_OFFSET, **RESET, timestamp=-1, queueId=0)
    assert reply.body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:4}}'
    assert list(decode_admin_body(QueueOffsets, reply.body).offset_table) == [MessageQueue("T", "broker-a", 0)]


def test_a_reset_and_a_clone_of_many_queues_are_worked_on_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()
    work = world.parts.runtime.sliced_work
    world.parts.metadata.topics.put([TopicConfig(topic_name="W", read_queue_nums=4000, write_queue_nums=4000)])
    steps = []
    answer = work.answer

    def counting(request: Any, peer: Any, made: Any) -> Any:
        def counted() -> Any:
            result = None
            while True:
                try:
                    next(made)
                except StopIteration as stop:
                    result = stop.value
                    break
                steps.append(request.code)
                yield
            return result

        return answer(request, peer, counted())

    monkeypatch.setattr(work, "answer", counting)
    reply = Caller(world).ok(Code.INVOKE_BROKER_TO_RESET_OFFSET, **{**RESET, "topic": "W", "timestamp": -1})
    assert len(decode_admin_body(QueueOffsets, reply.body).offset_table) == 4000
    Caller(world).ok(Code.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="h", topic="W")
    assert world.parts.metadata.cursors.offsets("h", "W") == dict.fromkeys(range(4000), 0)
    assert steps.count(Code.INVOKE_BROKER_TO_RESET_OFFSET) >= 2 * 4000 // 32
    assert steps.count(Code.CLONE_GROUP_OFFSET) >= 4
