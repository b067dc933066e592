"""The largest message that a broker takes goes every way on which a broker stores it again, and keeps what it said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pymq.model.draft import Draft
from pymq.model.hosts import pack_host
from pymq.model.properties import append_properties, encode_properties
from pymq.model.record import StoredMessage, encode_batch_entry
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.store.scan.scanner import End, scan
from pymq.wire.codes import RequestCode as Code
from pymq.wire.headers.send import ConsumerSendMsgBackHeader
from tests.broker.copies import check_copies
from tests.broker.handlers.test_pop import Popping
from tests.broker.handlers.test_send import fields
from tests.broker.transactions.driver import Half, TransactionProducer, run_round
from tests.broker.world import BORN_HOST, Caller, World

VERSION = 479
LONGEST_TOPIC, LONGEST_GROUP = "t" * 127, "g" * 248  # %RETRY% before it makes 255
NAMES = [("T", "g"), (LONGEST_TOPIC, LONGEST_GROUP)]
HOSTS = {"v4": BORN_HOST, "v6": pack_host("2001:db8::1", 5555)}
SEGMENT_BYTES = 1 << 16
DUE_MS = 60_000


class Setup:
    def __init__(self, topic: str, group: str, host: bytes = BORN_HOST, **settings: Any) -> None:
        self.world = World(messageDelayLevel="1s 2s", mappedFileSizeCommitLog=1 << 20, **settings)
        self.topic, self.group, self.host = topic, group, host
        config = TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1)
        self.world.parts.metadata.topics.put([config])
        self.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name=group, retry_max_times=2)])

    def send(self, properties: dict[str, str], body: bytes = b"b", **more: Any) -> bool:
        """Send one message; return whether it was taken."""
        caller = Caller(self.world)
        caller.peer.host_bytes = self.host
        text = encode_properties({"UNIQ_KEY": "A1", **properties}).decode()
        header = fields(topic=self.topic, queue_id=0, properties=text, **more)
        code = Code.SEND_BATCH_MESSAGE if more.get("batch") else Code.SEND_MESSAGE_V2
        reply = caller.ask(code, body, **header)
        self.world.parts.end_turn()
        return reply is None and caller.peer.frames.pop().code == 0

    def settle(self, ms: int = 3_000) -> None:
        parts = self.world.parts
        for _ in range(ms // 500):
            self.world.clock.advance(500)
            parts.messages.delays.tick()
            parts.messages.timers.tick()
            parts.pop.reviver.tick()
            parts.end_turn()

    def give_back(self, message: StoredMessage) -> None:
        header = ConsumerSendMsgBackHeader(offset=message.physical_offset, group=self.group, delay_level=1)
        assert self.world.parts.messages.retries.send_back(header, VERSION)
        self.world.parts.end_turn()

    def newest(self, topic: str) -> StoredMessage:
        return self.world.messages(topic)[-1]

    def check_log(self) -> None:
        """Every record of the log can be read, here and on brokers that copy it."""
        *records, end = scan(self.world.parts.store._log, 0, check_crc=True)
        assert isinstance(end, End) and end.offset == self.world.parts.store.physical_max_offset
        assert all(not isinstance(record, End) for record in records)
        check_copies(self.world)


def largest(take: Callable[[int], bool], low: int = 30_000, high: int = 32_762) -> int:
    """Return the largest size that is taken; the next one is refused."""
    while low < high:
        middle = (low + high + 1) // 2
        if take(middle):
            low = middle
        else:
            high = middle - 1
    assert 30_000 < low < 32_762
    return low


@pytest.mark.parametrize(("topic", "group"), NAMES)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("way", ["single", "level", "batch", "timer", "tag", "key"])
def test_given_back_until_it_is_a_dead_letter(topic: str, group: str, host: str, way: str) -> None:
    setup = Setup(topic, group, HOSTS[host])
    name = {"tag": "TAGS", "key": "KEYS"}.get(way, "big")

    def take(size: int) -> bool:
        if way == "batch":
            return setup.send({}, encode_batch_entry(b"b", encode_properties({"big": "v" * size})), batch=True)
        extra = {"level": {"DELAY": "1"}, "timer": {"TIMER_DELAY_MS": "2000"}}.get(way, {})
        return setup.send({name: "v" * size, **extra})

    size = largest(take)
    setup.settle()
    message = max(setup.world.messages(topic), key=lambda each: len(each.raw_properties))
    for tries in (1, 2):
        setup.give_back(message)
        setup.settle()
        message = setup.newest(f"%RETRY%{group}")
        assert (message.body, message.reconsume_times) == (b"b", tries)
        assert message.properties[name] == "v" * size
        assert (message.properties["RETRY_TOPIC"], message.properties["UNIQ_KEY"]) == (topic, "A1")
    setup.give_back(message)
    dead = setup.newest(f"%DLQ%{group}")
    assert dead.properties[name] == "v" * size
    assert dead.properties.get("DLQ_ORIGIN_TOPIC", dead.properties["RETRY_TOPIC"]) == topic
    setup.check_log()


@pytest.mark.parametrize("host", HOSTS)
def test_popped_until_it_is_a_dead_letter(host: str) -> None:
    popping = Popping()
    setup = Setup("T", "g", HOSTS[host])
    setup.world, popping.world = popping.world, popping.world
    setup.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=1)])
    size = largest(lambda size: setup.send({"big": "v" * size}))
    assert max(len(message.properties["big"]) for message in popping.pop().messages) == size
    popping.wait(120_000)
    again = popping.pop().messages
    assert max(len(message.properties["big"]) for message in again) == size
    assert all("POP_CK" in message.properties for message in again)
    popping.wait(120_000)
    assert max(len(message.properties["big"]) for message in popping.world.messages("%DLQ%g")) == size
    setup.check_log()


def test_a_transaction_that_is_asked_about_and_committed() -> None:
    producer = TransactionProducer(World())
    producer.world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    halves: dict[int, Half] = {}

    def take(size: int) -> bool:
        try:
            halves[size] = producer.half(big="v" * size)
        except (AssertionError, IndexError):
            return False
        return True

    size = largest(take)
    run_round(producer.world)
    assert len(producer.asked()) == len(halves)
    producer.commit(halves[size])
    assert producer.world.messages("T", 1)[-1].properties["big"] == "v" * size
    *_, end = scan(producer.world.parts.store._log, 0, check_crc=True)
    assert end.offset == producer.world.parts.store.physical_max_offset
    check_copies(producer.world)


def test_the_largest_body_in_small_segments() -> None:
    setup = Setup("T", "g", HOSTS["v6"])
    setup.world = World(messageDelayLevel="1s 2s", mappedFileSizeCommitLog=SEGMENT_BYTES)
    setup.world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1)])
    setup.world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=1)])
    low, high = 30_000, SEGMENT_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if setup.send({}, b"b" * middle) else (low, middle - 1)
    assert 60_000 < low < SEGMENT_BYTES
    message = max(setup.world.messages("T"), key=lambda each: len(each.body))
    setup.give_back(message)
    setup.settle()
    message = setup.newest("%RETRY%g")
    setup.give_back(message)
    assert len(setup.newest("%DLQ%g").body) == low
    setup.check_log()


def test_a_message_of_another_broker_without_room_loses_properties_but_not_itself() -> None:
    setup = Setup(LONGEST_TOPIC, LONGEST_GROUP)
    writer = setup.world.parts.messages.writer
    raw = append_properties(encode_properties({"UNIQ_KEY": "U", "small": "s"}), b"big\x01" + b"v" * 32_743 + b"\x02")
    assert len(raw) == 32_767
    writer.put(LONGEST_TOPIC, 0, Draft(b"b", raw, 0, BORN_HOST))
    writer.commit()
    setup.give_back(setup.newest(LONGEST_TOPIC))
    setup.settle()
    again = setup.newest(f"%RETRY%{LONGEST_GROUP}")
    assert (again.body, again.reconsume_times) == (b"b", 1)
    assert (again.properties["UNIQ_KEY"], again.properties["small"]) == ("U", "s")
    assert "big" not in again.properties
    setup.check_log()
