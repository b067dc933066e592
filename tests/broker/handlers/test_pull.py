"""Codes 11 and 361: the answer to a pull in every state of the store, permissions, and parked pulls."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pymq.broker.messages.waiting_table import TURN_BYTES_MAX
from pymq.model.record import decode_records
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.header import Header, encode_header
from pymq.wire.reply import Reply
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
PLACES = {"nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId"}


@pytest.fixture
def world() -> World:
    """Queue 0 of T holds ten messages with the tags A, B, A, B, …; queue 1 is empty."""
    world = opened()
    fill(world, 10)
    return world


def opened(**settings: Any) -> World:
    world = World(**settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    return world


def fill(world: World, count: int, queue_id: int = 0) -> None:
    for number in range(count):
        world.put("T", b"%d" % number, queue_id, TAGS="AB"[number % 2])


def fields(**changes: Any) -> dict[str, Any]:
    header: dict[str, Any] = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subVersion": 0,
        "subscription": "*",
        "expressionType": "TAG",
        **changes,
    }
    return {name: value for name, value in header.items() if value is not None}


def pull(world: World, code: int = Code.PULL_MESSAGE, **changes: Any) -> Reply:
    reply = Caller(world).ask(code, **fields(**changes))
    assert reply is not None, "the pull was parked"
    return reply


def places(reply: Reply) -> tuple[int, int, int]:
    """Return (next, min, max) of an answer, which must have the fields that clients read without a check."""
    assert isinstance(reply.ext, Header)
    ext = encode_header(reply.ext)
    assert ext.keys() >= PLACES and ext["suggestWhichBrokerId"] == "0"
    return int(ext["nextBeginOffset"]), int(ext["minOffset"]), int(ext["maxOffset"])


def bodies(reply: Reply) -> list[bytes]:
    return [message.body for message in decode_records(reply.body)]


def refusal(world: World, **changes: Any) -> tuple[int, str]:
    return Caller(world).refused(Code.PULL_MESSAGE, **fields(**changes))


# -- every state of the store ------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE])
def test_messages_found(world: World, code: int) -> None:
    reply = pull(world, code, queueOffset=3)
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert places(reply) == (10, 0, 10)
    assert bodies(reply) == [b"%d" % number for number in range(3, 10)]
    assert [message.queue_offset for message in decode_records(reply.body)] == list(range(3, 10))


@pytest.mark.parametrize(
    ("changes", "code", "remark", "expected"),
    [
        # scanned, but no tag fits
        ({"subscription": "C"}, ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", (10, 0, 10)),
        # at the end
        ({"queueOffset": 10}, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", (10, 0, 10)),
        # behind the end
        ({"queueOffset": 11}, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", (10, 0, 10)),
        ({"queueOffset": 2**63 - 1}, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", (10, 0, 10)),
        # before the beginning
        ({"queueOffset": -1}, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", (0, 0, 10)),
        # a queue that never had a message
        ({"queueId": 1}, ResponseCode.PULL_NOT_FOUND, "NO_MATCHED_LOGIC_QUEUE", (0, 0, 0)),
        ({"queueId": 1, "queueOffset": 5}, ResponseCode.PULL_OFFSET_MOVED, "NO_MATCHED_LOGIC_QUEUE", (0, 0, 0)),
    ],
)
def test_nothing_found(
    world: World, changes: dict[str, int], code: int, remark: str, expected: tuple[int, int, int]
) -> None:
    reply = pull(world, **changes)
    assert (reply.code, reply.remark, reply.body) == (code, remark, b"")
    assert places(reply) == expected


@pytest.mark.parametrize(("offset", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (3, ResponseCode.PULL_OFFSET_MOVED)])
def test_a_queue_that_was_made_but_is_empty(offset: int, code: int) -> None:
    world = opened()
    world.parts.store._queues.make("T", 0)
    reply = pull(world, queueOffset=offset)
    assert (reply.code, reply.remark) == (code, "NO_MESSAGE_IN_QUEUE")
    assert places(reply) == (0, 0, 0)


def test_messages_whose_segment_was_removed() -> None:
    world = opened(mappedFileSizeCommitLog=65_536)
    for number in range(10):
        world.put("T", b"%d" % number * 20_000)
    world.parts.store._log.drop_oldest()  # three messages fit into a segment
    reply = pull(world, queueOffset=0, maxMsgNums=2)
    assert (reply.code, reply.remark, reply.body) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING", b"")
    assert places(reply) == (2, 0, 10)
    assert [message.queue_offset for message in decode_records(pull(world, queueOffset=2).body)] == list(range(3, 10))
    # The next start sees it: the queue begins behind what was removed.
    reply = pull(world.reopened(mappedFileSizeCommitLog=65_536), queueOffset=1)
    assert (reply.code, reply.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL")
    assert places(reply) == (3, 3, 10)


def test_a_queue_file_that_is_gone() -> None:
    world = opened(mappedFileSizeConsumeQueue=400)
    fill(world, 30)
    world.parts.store._queues.write_tails()
    world.parts.store._queues.close()
    world.files.remove("/data/consumequeue/T/0/00000000000000000000")
    reply = pull(world, queueOffset=5)
    assert (reply.code, reply.remark, reply.body) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_FOUND_NULL", b"")
    assert places(reply) == (20, 0, 30)
    assert bodies(pull(world, queueOffset=20))[0] == b"20"


def damaged(world: World, queue_offset: int) -> None:
    """Damage the head of a record of queue 0."""
    store = world.parts.store
    queue = store.queue_view("T", 0)
    assert queue is not None
    file = world.files.open(f"/data/commitlog/{0:020d}")
    file.pwrite(queue.unit(queue_offset)[0] + 4, b"\0")


def test_a_damaged_record_is_named_and_skipped_by_hand(world: World) -> None:
    damaged(world, 4)
    assert bodies(pull(world)) == [b"0", b"1", b"2", b"3"]
    code, remark = refusal(world, queueOffset=4)
    assert code == ResponseCode.SYSTEM_ERROR and "offset 4 is corrupt" in remark and "offset 5" in remark
    assert bodies(pull(world, queueOffset=5))[0] == b"5"


# -- limits and filters ------------------------------------------------------------------------------------------


def test_count_and_bytes_limit_an_answer_and_the_first_message_always_comes(world: World) -> None:
    reply = pull(world, maxMsgNums=3)
    assert bodies(reply) == [b"0", b"1", b"2"] and places(reply) == (3, 0, 10)
    size = len(pull(world, maxMsgNums=1).body)
    assert len(bodies(pull(world, maxMsgBytes=2 * size))) == 2
    assert len(bodies(pull(world, maxMsgBytes=2 * size - 1))) == 1
    assert bodies(pull(world, maxMsgBytes=1, queueOffset=4)) == [b"4"]
    # No limit of the client's own.
    for changes in ({"maxMsgBytes": 0}, {"maxMsgBytes": -1}, {"maxMsgBytes": 2**31 - 1}):
        assert len(bodies(pull(world, **changes))) == 10
    for count in (0, -1):
        assert bodies(pull(world, maxMsgNums=count)) == [b"0"]


def test_the_broker_s_own_limits() -> None:
    world = opened(maxTransferCountOnMessageInMemory=4)
    fill(world, 10)
    assert len(bodies(pull(world))) == 4
    world = opened(maxTransferBytesOnMessageInMemory=1024)
    for _ in range(5):
        world.put("T", b"x" * 600)
    assert len(bodies(pull(world, maxMsgBytes=1_000_000))) == 1
    world.put("T", b"x" * 5000)
    assert [len(body) for body in bodies(pull(world, queueOffset=5))] == [5000]


@pytest.mark.parametrize("old_client", [True, False])
def test_tags_are_filtered(world: World, old_client: bool) -> None:
    kind: dict[str, Any] = {"expressionType": None if old_client else "TAG"}
    reply = pull(world, subscription="B || C", **kind)
    assert bodies(reply) == [b"1", b"3", b"5", b"7", b"9"] and places(reply) == (10, 0, 10)
    assert len(bodies(pull(world, subscription="A||B", **kind))) == 10
    for everything in ("*", "", None):
        assert len(bodies(pull(world, subscription=everything, **kind))) == 10


def test_other_expressions_are_refused(world: World) -> None:
    code, remark = refusal(world, expressionType="XPATH", subscription="/a")
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "XPATH is unknown" in remark and "run TAG and SQL92" in remark and "pymq filter-server" in remark


# -- permissions -------------------------------------------------------------------------------------------------


def test_a_pull_without_a_subscription_needs_a_heartbeat(world: World) -> None:
    code, remark = refusal(world, sysFlag=0, subscription=None)
    assert code == ResponseCode.SUBSCRIPTION_NOT_EXIST and "group g" in remark and "next heartbeat" in remark
    Caller(world).ok(Code.HEART_BEAT, beat(topic="Other"))
    assert refusal(world, sysFlag=0)[0] == ResponseCode.SUBSCRIPTION_NOT_EXIST
    Caller(world).ok(Code.HEART_BEAT, beat())
    assert len(bodies(pull(world, sysFlag=0, subscription=None, subVersion=5))) == 10


def test_a_pull_newer_than_the_heartbeat_waits_for_the_next(world: World) -> None:
    Caller(world).ok(Code.HEART_BEAT, beat())
    code, remark = refusal(world, sysFlag=0, subVersion=6)
    assert code == ResponseCode.SUBSCRIPTION_NOT_LATEST and "version 5" in remark and "is 6" in remark
    assert len(bodies(pull(world, sysFlag=0, subVersion=4))) == 10


def test_the_heartbeat_s_tags_count_when_the_pull_has_none(world: World) -> None:
    Caller(world).ok(Code.HEART_BEAT, beat().replace(b"A || B", b"B"))
    assert bodies(pull(world, sysFlag=0, subVersion=5)) == [b"1", b"3", b"5", b"7", b"9"]


@pytest.mark.parametrize("queue_id", [2, -1])
def test_a_queue_that_can_t_be_read(world: World, queue_id: int) -> None:
    code, remark = refusal(world, queueId=queue_id)
    assert code == ResponseCode.INVALID_PARAMETER
    assert f"queue {queue_id} of topic T" in remark and "read queues 0 to 1" in remark


def test_read_queues_count_and_not_write_queues(world: World) -> None:
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=1)])
    assert pull(world, queueId=2).code == ResponseCode.PULL_NOT_FOUND
    assert refusal(world, queueId=3)[0] == ResponseCode.INVALID_PARAMETER


def test_no_permission_to_read(world: World) -> None:
    topic = world.parts.metadata.topics.require("T")
    world.parts.metadata.topics.put([msgspec.structs.replace(topic, perm=2)])
    code, remark = refusal(world)
    assert code == ResponseCode.NO_PERMISSION and "topic T has permission 2" in remark and "updateTopicPerm" in remark
    code, remark = refusal(opened(brokerPermission=2))
    assert code == ResponseCode.NO_PERMISSION and "brokerPermission 2" in remark and "6" in remark


def test_groups_that_may_not(world: World) -> None:
    groups = world.parts.metadata.groups
    groups.put([SubscriptionGroupConfig(group_name="g", consume_enable=False)])
    code, remark = refusal(world)
    assert code == ResponseCode.NO_PERMISSION and "consumeEnable" in remark
    assert refusal(opened(autoCreateSubscriptionGroup="false"))[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    code, remark = refusal(world, topic="Nope", consumerGroup="h")
    assert code == ResponseCode.TOPIC_NOT_EXIST and "'Nope'" in remark


# -- offsets that come with a pull -------------------------------------------------------------------------------


def test_an_offset_is_committed_when_its_bit_is_set(world: World) -> None:
    cursors = world.parts.metadata.cursors
    pull(world, commitOffset=3)
    assert cursors.query("g", "T", 0) == -1
    pull(world, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=3)
    assert cursors.query("g", "T", 0) == 3
    # The pull is answered whether or not the offset can be.
    assert pull(world, sysFlag=SUBSCRIPTION | COMMIT, commitOffset=11).code == ResponseCode.SUCCESS
    assert cursors.query("g", "T", 0) == 3


def test_a_parked_pull_has_committed_too(world: World) -> None:
    caller = Caller(world)
    sys_flag = SUBSCRIPTION | SUSPEND | COMMIT
    assert caller.ask(Code.PULL_MESSAGE, **fields(queueOffset=10, commitOffset=9, sysFlag=sys_flag)) is None
    assert world.parts.metadata.cursors.query("g", "T", 0) == 9


def test_a_waiting_pull_keeps_no_body_and_no_fields_of_its_request(world: World) -> None:
    caller, polls = Caller(world), world.parts.requests.long_polls
    asked = fields(queueOffset=10, sysFlag=SUBSCRIPTION | SUSPEND)
    assert caller.ask(Code.PULL_MESSAGE, b"much", **asked) is None
    polls.turn_bytes = TURN_BYTES_MAX + 1
    assert caller.ask(Code.PULL_MESSAGE, b"much", **asked) is None
    waiting = [parked for of_deadline in polls._table._by_deadline.values() for parked in of_deadline.values()]
    kept = [(parked.request.ext, parked.request.body) for parked in waiting]
    assert kept == [({}, b"")] * 2 and polls.count == 2


def test_pulls_that_find_nothing_are_counted_each_time_they_look(world: World) -> None:
    caller, stats = Caller(world), world.parts.stats
    assert pull(world).code == ResponseCode.SUCCESS
    assert stats.missed_pulls == 0
    assert caller.ask(Code.PULL_MESSAGE, **fields(queueOffset=10, sysFlag=SUBSCRIPTION | SUSPEND)) is None
    assert stats.missed_pulls == 1
    world.parts.requests.long_polls.release_some()
    assert stats.missed_pulls == 2
    assert pull(world, queueOffset=11).code == ResponseCode.PULL_OFFSET_MOVED
    assert stats.missed_pulls == 3


def test_a_reset_is_answered_once(world: World) -> None:
    world.parts.metadata.cursors.reset("g", "T", 0, 2)
    reply = pull(world, queueOffset=7)
    assert (reply.code, reply.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert places(reply) == (2, 0, 10)
    assert pull(world, queueOffset=7).code == ResponseCode.SUCCESS


def test_a_reset_to_a_damaged_record_is_answered(world: World) -> None:
    damaged(world, 4)
    world.parts.metadata.cursors.reset("g", "T", 0, 4)
    assert places(pull(world, queueOffset=7)) == (4, 0, 10)


# -- pulls that wait ---------------------------------------------------------------------------------------------


def park(world: World, **changes: Any) -> Caller:
    caller = Caller(world)
    header = {"sysFlag": SUBSCRIPTION | SUSPEND, "queueOffset": 10, **changes}
    assert caller.ask(Code.PULL_MESSAGE, **fields(**header)) is None
    assert caller.peer.answers == []
    return caller


@pytest.mark.parametrize("changes", [{"queueOffset": 10}, {"queueId": 1}])
def test_a_pull_at_the_end_waits_only_when_it_may(world: World, changes: dict[str, int]) -> None:
    assert pull(world, **changes).code == ResponseCode.PULL_NOT_FOUND
    allowed = {"sysFlag": SUBSCRIPTION | SUSPEND, **changes}
    assert pull(world, **{**allowed, "suspendTimeoutMillis": 0}).code == ResponseCode.PULL_NOT_FOUND
    assert Caller(world).ask(Code.PULL_MESSAGE, **fields(**allowed)) is None


@pytest.mark.parametrize("changes", [{"queueOffset": 11}, {"queueOffset": -1}, {"subscription": "C"}])
def test_only_a_pull_at_the_end_waits(world: World, changes: dict[str, Any]) -> None:
    code = pull(world, sysFlag=SUBSCRIPTION | SUSPEND, **changes).code
    assert code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY)


def test_an_arrival_answers_it(world: World) -> None:
    caller = park(world)
    other = park(world, queueId=1, queueOffset=0)
    world.put("T", b"new", TAGS="A")
    assert caller.peer.answers == [], "answered inside the commit"
    world.parts.requests.long_polls.wake()
    (reply,) = caller.peer.answers
    assert reply.code == ResponseCode.SUCCESS and bodies(reply) == [b"new"] and places(reply) == (11, 0, 11)
    assert other.peer.answers == []


def test_an_arrival_with_another_tag_does_not(world: World) -> None:
    caller = park(world, subscription="B")
    world.put("T", b"other", TAGS="A")
    world.parts.requests.long_polls.wake()
    assert caller.peer.answers == []
    world.put("T", b"new", TAGS="B")
    world.parts.requests.long_polls.wake()
    (reply,) = caller.peer.answers
    assert bodies(reply) == [b"new"] and places(reply) == (12, 0, 12)


@pytest.mark.parametrize(("subscription", "code", "offset"), [("*", 19, 10), ("B", 20, 11)])
def test_its_timeout_answers_it(world: World, subscription: str, code: int, offset: int) -> None:
    caller = park(world, subscription=subscription)
    if code == 20:
        world.put("T", b"other", TAGS="A")  # what did not fit is behind the consumer afterwards
    world.clock.advance(14_999)
    world.parts.requests.long_polls.tick()
    assert caller.peer.answers == []
    world.clock.advance(1)
    world.parts.requests.long_polls.tick()
    (reply,) = caller.peer.answers
    assert reply.code == code and places(reply)[0] == offset
    assert world.parts.requests.long_polls.count == 0


def test_short_polling_holds_for_its_own_time() -> None:
    world = opened(longPollingEnable="false", shortPollingTimeMills=500)
    caller = park(world, queueOffset=0)
    world.clock.advance(500)
    world.parts.requests.long_polls.tick()
    assert [reply.code for reply in caller.peer.answers] == [ResponseCode.PULL_NOT_FOUND]


def test_a_full_table_answers_at_once() -> None:
    world = opened(parkedPullCountMax=1)
    park(world, queueOffset=0)
    reply = pull(world, sysFlag=SUBSCRIPTION | SUSPEND)
    assert reply.code == ResponseCode.PULL_NOT_FOUND and places(reply) == (0, 0, 0)


def test_a_parked_pull_is_answered_on_a_reset_to_a_damaged_record(world: World) -> None:
    damaged(world, 4)
    caller, neighbour = park(world), park(world, consumerGroup="h")
    world.parts.metadata.cursors.reset("g", "T", 0, 4)
    world.parts.requests.long_polls.wake_queue("T", 0)
    world.parts.requests.long_polls.wake()
    (reply,) = caller.peer.answers
    assert reply.code == ResponseCode.PULL_OFFSET_MOVED and places(reply) == (4, 0, 10)
    assert [reply.code for reply in neighbour.peer.answers] == [ResponseCode.PULL_NOT_FOUND]


def test_a_parked_pull_that_meets_damage_is_answered(world: World) -> None:
    caller, neighbour = park(world), park(world, consumerGroup="h")
    world.put("T", b"new")
    damaged(world, 10)
    world.parts.requests.long_polls.wake()
    for waiting in (caller, neighbour):
        (reply,) = waiting.peer.answers
        assert reply.code == ResponseCode.SYSTEM_ERROR and "offset 10 is corrupt" in (reply.remark or "")


def test_a_parked_pull_is_answered_after_permissions_are_revoked(world: World) -> None:
    caller = park(world)
    world.parts.metadata.topics.delete("T")
    world.parts.requests.long_polls.release_some()
    assert [reply.code for reply in caller.peer.answers] == [ResponseCode.PULL_NOT_FOUND]


def test_a_read_of_a_topic_that_was_made_again_is_refused() -> None:
    """A reader says what it knew of deletions when it planned; one that says nothing reads on."""
    world = opened()
    caller = Caller(world)
    fill(world, 10)
    assert len(bodies(pull(world, pymqDeletedBelow=0))) == 10
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert refusal(world, pymqDeletedBelow=0)[0] == ResponseCode.TOPIC_NOT_EXIST
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    fill(world, 12)
    deleted_below = world.parts.store.deletions.end("T")
    assert deleted_below > 0
    for known in (0, deleted_below - 1):
        code, remark = refusal(world, pymqDeletedBelow=known)
        assert code == ResponseCode.TOPIC_NOT_EXIST and "deleted and made again after this read was planned" in remark
    assert len(bodies(pull(world, pymqDeletedBelow=deleted_below))) == len(bodies(pull(world))) == 12
