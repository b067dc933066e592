"""Since when the upper queues of a topic are quiet."""

from __future__ import annotations

from pymq.client.admin import BrokerTarget
from pymq.client.admin.draining import Draining
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.operations.topic.resizing import SETTLING_COUNT_MAX, Settling

QUEUE = MessageQueue("orders", "broker-a", 3)


def state(end: int, write_queues: int = 2) -> Draining:
    config = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=write_queues)
    target = BrokerTarget("broker-a", "10.0.0.1:10911", "c")
    return Draining("orders", 2, [(target, config)], {QUEUE: end}, end, [])


class Time:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_count_begins_with_the_first_look_and_again_with_each_message() -> None:
    time = Time()
    settling = Settling(time)
    assert settling.quiet_s("a", state(5)) == 0
    time.now_s += 30
    assert settling.quiet_s("a", state(5)) == 30
    assert settling.quiet_s("a", state(6)) == 0
    time.now_s += 10
    assert settling.quiet_s("a", state(6)) == 10
    assert settling.quiet_s("b", state(6)) == 0, "of another topic"


def test_queues_that_are_written_are_never_quiet() -> None:
    time = Time()
    settling = Settling(time)
    settling.quiet_s("a", state(5, write_queues=4))
    time.now_s += 40
    assert settling.quiet_s("a", state(5, write_queues=4)) == 0
    assert settling.quiet_s("a", state(5)) == 0, "the write queues have gone just now"
    time.now_s += 40
    assert settling.quiet_s("a", state(5)) == 40


def test_the_topic_that_was_looked_at_longest_ago_is_forgotten() -> None:
    time = Time()
    settling = Settling(time)
    for number in range(SETTLING_COUNT_MAX):
        settling.quiet_s(number, state(5))
    time.now_s += 40
    assert settling.quiet_s(0, state(5)) == 40
    settling.quiet_s("one more", state(5))
    assert settling.quiet_s(0, state(5)) == 40 and settling.quiet_s(1, state(5)) == 0
