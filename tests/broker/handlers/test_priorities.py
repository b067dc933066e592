"""Topics of type PRIORITY: where messages go, in which order pops get them, and what their retries keep.

Expected values are those of a running RocketMQ 5.5.0.
"""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import RequestCode as Code
from tests.broker.disk import Threads
from tests.broker.handlers.test_pop import Popping
from tests.broker.handlers.test_send import fields
from tests.broker.world import Caller, World

PRIORITY = "_SYS_MSG_PRIORITY_"
QUEUES = 8


class Prioritized(Popping):
    """A world whose topic T is of type PRIORITY, with eight queues."""

    def __init__(self, kind: str = "PRIORITY", factor: str | None = None, **settings: Any) -> None:
        super().__init__(World(**settings))
        metadata = self.world.parts.metadata
        metadata.topics.put(
            [
                TopicConfig(
                    topic_name="T",
                    read_queue_nums=QUEUES,
                    write_queue_nums=QUEUES,
                    attributes={"message.type": kind},
                )
            ]
        )
        attributes = {} if factor is None else {"+priority.factor": factor}
        metadata.groups.put([SubscriptionGroupConfig(group_name="g", attributes=attributes)])

    def send(self, body: bytes, priority: str | None, queue_id: int = 2, more: str = "") -> int:
        """Return the queue that the answer names."""
        own = "" if priority is None else f"{PRIORITY}\x01{priority}\x02"
        caller = Caller(self.world)
        header = fields(queue_id=queue_id, properties=f"UNIQ_KEY\x01{body.hex()}\x02{own}{more}")
        assert caller.ask(Code.SEND_MESSAGE_V2, body, **header) is None
        self.world.parts.end_turn()
        return int(caller.peer.frames[0].ext["queueId"])

    def popped(self, count: int = 1, pops: int = QUEUES) -> list[bytes]:
        return [body for _ in range(pops) for body in self.pop(count=count, invisible_ms=5000).bodies]


@pytest.mark.parametrize(
    ("priority", "queue_id"),
    [
        *[("0", 0), ("3", 3), ("7", 7), ("8", 7), ("100", 7), ("2147483647", 7), ("+4", 4), (None, 2), ("-1", 2)],
        *[("abc", 2), ("", 2), ("2147483648", 2), ("9" * 30_000, 2), ("\u0663", 2), ("1.0", 2)],
    ],
)
@pytest.mark.parametrize("kind", ["PRIORITY", "NORMAL"])
def test_a_priority_is_the_number_of_the_queue(priority: str | None, queue_id: int, kind: str) -> None:
    p = Prioritized(kind)
    assert p.send(b"m", priority) == queue_id
    (stored,) = p.world.messages("T", queue_id)
    assert stored.properties.get(PRIORITY) == (priority or None)


@pytest.mark.parametrize("more", ["__SHARDINGKEY\x01s\x02", "DELAY\x011\x02", "TIMER_DELAY_MS\x01600000\x02"])
def test_a_message_of_another_type_loses_its_priority(more: str) -> None:
    p = Prioritized()
    assert p.send(b"m", "6", more=more) == 2
    records = [one for topic, queue_id in p.world.parts.store.queues() for one in p.world.messages(topic, queue_id)]
    assert [one.body for one in records] == [b"m"] and PRIORITY not in records[0].properties


def test_pops_get_higher_priorities_first() -> None:
    p = Prioritized()
    for priority in ("0", "3", "7", "9", None, "6"):
        p.send((priority or "none").encode(), priority)
    assert p.popped(pops=6) == [b"7", b"9", b"6", b"3", b"none", b"0"]


def test_one_pop_gets_higher_priorities_first() -> None:
    p = Prioritized()
    for priority in ("1", "5", "3"):
        p.send(priority.encode(), priority)
    assert p.popped(count=32, pops=1) == [b"5", b"3", b"1"]


def test_a_pop_gives_nothing_of_a_lower_priority_before_all_of_a_higher_one() -> None:
    """One read ends where a file of the queue does, here after 20 messages."""
    p = Prioritized(mappedFileSizeConsumeQueue="400")
    p.send(b"low", "1")
    for number in range(23):
        p.send(b"%d" % number, "5")
    p.world.parts.close()  # from now on the queue is read from its files
    again = Popping(World(p.world.files, p.world.clock, mappedFileSizeConsumeQueue="400"))
    assert again.pop(count=32).bodies == [b"%d" % number for number in range(20)]
    assert again.pop(count=32).bodies == [b"20", b"21", b"22", b"low"]


def test_the_lowest_number_is_first_when_the_broker_is_set_so() -> None:
    p = Prioritized(priorityOrderAsc="false")
    for priority in ("5", "0", "3"):
        p.send(priority.encode(), priority)
    assert p.popped(pops=3) == [b"0", b"3", b"5"]


@pytest.mark.parametrize(("kind", "factor"), [("PRIORITY", "0"), ("NORMAL", None), ("NORMAL", "100")])
def test_without_priority_a_pop_begins_at_any_queue(kind: str, factor: str | None) -> None:
    p = Prioritized(kind, factor)
    firsts = set()
    for _ in range(40):
        for queue_id in range(QUEUES):
            p.send(b"%d" % queue_id, None, queue_id)
        firsts.add(p.popped(pops=1)[0])
        p.popped(count=32, pops=2)
    assert len(firsts) > QUEUES // 2


def test_a_factor_leaves_some_pops_to_lower_priorities() -> None:
    p = Prioritized(factor="50")
    for number in range(200):
        p.send(b"%d" % number, "7")
        p.send(b"low %d" % number, "0")
    low = sum(body.startswith(b"low") for body in p.popped(pops=200))
    assert 5 < low < 60  # half of the pops begin at a random queue: an eighth of those at queue 0, or wrap to 7


def test_an_orderly_pop_knows_no_priority() -> None:
    p = Prioritized()
    firsts = set()
    for _ in range(20):
        for queue_id in range(QUEUES):
            p.send(b"%d" % queue_id, None, queue_id)
        found = p.pop(count=1, order="true")
        assert p.ack(found.receipt()) == 0
        firsts.add(found.messages[0].queue_id)
    assert len(firsts) > QUEUES // 2


def test_retries_come_after_new_messages_unless_set_otherwise() -> None:
    for percent, first in (("0", b"new"), ("100", b"old")):
        p = Prioritized(popFromRetryProbabilityForPriority=percent)
        p.send(b"old", "7")
        assert p.popped(pops=1) == [b"old"]
        p.wait(6000)
        p.send(b"new", "1")
        assert p.popped(pops=1) == [first]


@pytest.mark.parametrize("enable_v2", ["true", "false"])
def test_a_retry_keeps_its_priority_in_a_retry_topic_with_the_topic_s_queues(enable_v2: str) -> None:
    p = Prioritized(useSeparateRetryQueue="true", enableRetryTopicV2=enable_v2)
    for priority in ("1", "5", "3"):
        p.send(priority.encode(), priority)
    assert p.popped(pops=3) == [b"5", b"3", b"1"]
    p.wait(6000)
    assert p.popped(pops=3) == [b"5", b"3", b"1"]
    p.wait(6000)
    found = p.pop(count=32)
    assert found.bodies == [b"5", b"3", b"1"]
    assert all(p.ack(found.receipt(number)) == 0 for number in range(3))
    p.wait(120_000)
    assert p.popped() == []
    name = "%RETRY%g+T" if enable_v2 == "true" else "%RETRY%g_T"
    retry = p.world.parts.metadata.topics.require(name)
    assert (retry.read_queue_nums, retry.write_queue_nums) == (QUEUES, QUEUES)


def test_a_retry_loses_its_priority_in_one_queue_and_the_topic_grows_later() -> None:
    p = Prioritized()
    for priority in ("1", "5"):
        p.send(priority.encode(), priority)
    p.popped(pops=2)
    p.wait(6000)
    topics = p.world.parts.metadata.topics
    assert topics.require("%RETRY%g+T").write_queue_nums == 1
    p.world.config.use_separate_retry_queue = True
    p.send(b"7", "7")
    assert sorted(p.popped(pops=3)) == [b"1", b"5", b"7"]
    p.wait(6000)
    assert topics.require("%RETRY%g+T").write_queue_nums == QUEUES
    assert p.popped(pops=1) == [b"7"] and sorted(p.popped(pops=2)) == [b"1", b"5"]


def test_a_topic_that_shrank_gives_its_retries_to_the_first_queue() -> None:
    p = Prioritized(useSeparateRetryQueue="true")
    p.send(b"7", "7")
    p.popped(pops=1)
    shrunk = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, attributes={"message.type": "PRIORITY"})
    p.world.parts.metadata.topics.put([shrunk])
    p.wait(6000)
    assert p.popped(pops=1) == [b"7"]


def test_a_restart_keeps_what_pops_get() -> None:
    p = Prioritized(useSeparateRetryQueue="true")
    for priority in ("1", "5", "3"):
        p.send(priority.encode(), priority)
    p.popped(pops=1)
    p.wait(6000)
    again = Popping(World(p.world.files.after_kill(), p.world.clock, useSeparateRetryQueue="true"))
    bodies = [body for _ in range(4) for body in again.pop(count=1, invisible_ms=60_000).bodies]
    assert bodies == [b"3", b"1", b"5"]


def test_deliveries_of_a_dropped_priority_topic_end() -> None:
    p = Prioritized(useSeparateRetryQueue="true")
    p.send(b"5", "5")
    p.popped(pops=1)
    p.caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    p.wait(6000)
    assert p.world.parts.metadata.topics.get("%RETRY%g+T") is None


@pytest.mark.parametrize("had_one_queue", [False, True])
def test_retries_are_found_after_a_kill_before_their_topic_was_saved(had_one_queue: bool) -> None:
    p = Prioritized()
    if had_one_queue:
        p.world.parts.metadata.topics.ensure_internal("%RETRY%g+T")
    p.send(b"5", "5")
    p.popped(pops=1)
    p.world.config.use_separate_retry_queue = True
    p.world.run_in_thread = Threads()
    p.wait(6000)
    again = Popping(World(p.world.files.after_kill(), p.world.clock, useSeparateRetryQueue="true"))
    found = again.world.parts.metadata.topics.get("%RETRY%g+T")
    assert (None if found is None else found.write_queue_nums) == (1 if had_one_queue else None)
    assert again.pop(count=1).bodies == [b"5"]
