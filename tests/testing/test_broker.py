"""TestBroker and what stands around it: time that moves by hand, faults, kills, an inbox."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue

import pytest

from pymq.client import ConsumeResult, Message, StoredMessage
from pymq.client.sync import LiteConsumer, Producer, PullConsumer, TransactionProducer
from pymq.client.transactions import TransactionState
from pymq.clock import SystemClock
from pymq.errors import PymqError, RequestTimeoutError, UsageError
from pymq.model.sysflag import PULL_SUBSCRIPTION, PULL_SUSPEND
from pymq.net.client import RemotingClient
from pymq.testing.broker import TestBroker
from pymq.testing.clock import MovableClock
from pymq.testing.inbox import Inbox
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.pop import PopMessageHeader
from pymq.wire.headers.pull import PullMessageHeader

TOPIC = "T"
NO_RETRY = 0
ASKED_COUNT_MAX = 10  # a broker asks 15 times


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        broker.create_topic(TOPIC, queue_count=1)
        yield broker


@pytest.fixture
def producer(broker: TestBroker) -> Iterator[Producer]:
    with Producer("P", namesrv=broker.namesrv, clock=broker.clock, retry_count=NO_RETRY) as producer:
        yield producer


def bodies(broker: TestBroker, topic: str = TOPIC) -> list[bytes]:
    """Return what the topic's first queue holds."""
    with PullConsumer("look", namesrv=broker.namesrv) as consumer:
        return [message.body for message in consumer.pull(consumer.queues(topic)[0], 0).messages()]


def ask(broker: TestBroker, command: Command, timeout_s: float = 30) -> Command:
    """Return the answer to one request on a connection of its own."""

    async def invoke() -> Command:
        client = RemotingClient(clock=SystemClock())
        try:
            return await client.invoke(broker.address, command, timeout_s)
        finally:
            await client.close()

    return asyncio.run(invoke())


# -- time --------------------------------------------------------------------------------------------------------


def test_a_delayed_message_arrives_when_the_time_is_moved(broker: TestBroker, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"in two hours", delay_level=18))
    broker.clock.advance(minutes=119)
    assert bodies(broker) == []
    broker.clock.advance(minutes=1)
    assert bodies(broker) == [b"in two hours"]


def test_a_timer_message_arrives_when_the_time_is_moved(broker: TestBroker, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"in a day", properties={"TIMER_DELAY_SEC": "86400"}))
    with Inbox(broker, TOPIC) as inbox:
        broker.clock.advance(hours=23)
        assert inbox.waiting_count == 0
        broker.clock.advance(hours=1)
        assert inbox.receive().body == b"in a day"


def test_many_messages_are_delivered_by_one_move(broker: TestBroker, producer: Producer) -> None:
    sent = [producer.send_async(Message(TOPIC, b"x", delay_level=1 + i % 18)) for i in range(700)]
    assert all(one.result(30) for one in sent)
    broker.clock.advance(hours=2)
    with PullConsumer("look", namesrv=broker.namesrv) as consumer:
        assert consumer.max_offset(consumer.queues(TOPIC)[0]) == 700


def test_a_held_clock_stands_still(broker: TestBroker) -> None:
    broker.clock.hold()
    held = broker.clock.now_ms()
    broker.clock.hold()
    begun_ms = SystemClock().now_ms()
    while SystemClock().now_ms() <= begun_ms + 1:
        assert broker.clock.now_ms() == held
    assert broker.clock.now_ms() == held
    broker.clock.advance(days=1, hours=1, minutes=1, seconds=1.5)
    assert broker.clock.now_ms() == held + (25 * 3600 + 61) * 1000 + 500
    broker.clock.release()
    assert broker.clock.now_ms() >= held + 90_061_500
    assert broker.clock.local_time().timestamp() * 1000 >= held


def test_time_goes_ahead_only() -> None:
    clock = MovableClock()
    assert not clock.is_moved
    with pytest.raises(UsageError, match="by 1000 ms: move it by 0 or more"):
        clock.advance(seconds=-1)
    clock.advance(seconds=1)
    assert clock.is_moved


def test_a_popped_message_is_visible_again_when_the_time_is_moved(broker: TestBroker, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"x"))

    def pop() -> Command:
        header = PopMessageHeader(
            consumer_group="G",
            topic=TOPIC,
            queue_id=-1,
            max_msg_nums=1,
            invisible_time=3_600_000,
            poll_time=10_000,
            born_time=time.time_ns() // 1_000_000,  # a client that knows nothing of the moved clock
        )
        return ask(broker, request(RequestCode.POP_MESSAGE, header))

    assert pop().code == ResponseCode.SUCCESS
    broker.clock.advance(hours=1)
    again = pop()
    assert again.code == ResponseCode.SUCCESS and b"x" in again.body


def test_a_producer_is_asked_about_a_transaction_when_the_time_is_moved(broker: TestBroker) -> None:
    answers: SimpleQueue[TransactionState] = SimpleQueue()  # one for each advance
    asked: SimpleQueue[bytes] = SimpleQueue()

    class Listener:
        def execute(self, message: Message, arg: object) -> TransactionState:
            return TransactionState.UNKNOWN

        def check(self, message: StoredMessage) -> TransactionState:
            asked.put(message.body)
            return answers.get_nowait()

    with (
        TransactionProducer("P", listener=Listener(), namesrv=broker.namesrv, clock=broker.clock) as producer,
        Inbox(broker, TOPIC) as inbox,
    ):
        broker.clock.hold()
        producer.send_in_transaction(Message(TOPIC, b"paid"))
        broker.clock.advance(seconds=5)  # too early to ask
        answers.put(TransactionState.UNKNOWN)
        broker.clock.advance(seconds=2)
        assert asked.get(timeout=30) == b"paid"
        answers.put(TransactionState.COMMIT)
        # A question that comes while the producer still answers the one before is dropped: the broker asks again.
        for _ in range(ASKED_COUNT_MAX):
            broker.clock.advance(minutes=1)
            with suppress(TimeoutError):
                assert inbox.receive(timeout_s=5).body == b"paid"
                break
        else:
            pytest.fail("the broker did not ask again")
        assert answers.empty() and asked.qsize() == 1


# -- consumption -------------------------------------------------------------------------------------------------


def test_retries_are_instant_until_the_dead_letters(broker: TestBroker, producer: Producer) -> None:
    with Inbox(broker, TOPIC, group="G", max_reconsume_times=2) as inbox:
        inbox.fail_next(3)
        producer.send(Message(TOPIC, b"bad"))
        for times in range(3):
            message = inbox.receive()
            assert (message.body, message.reconsume_times) == (b"bad", times)
            broker.clock.advance(hours=3)
        assert inbox.waiting_count == 0
    with Inbox(broker, "%DLQ%G", group="undertaker") as dead:
        assert dead.receive().body == b"bad"


def test_a_handler_of_the_test_decides(broker: TestBroker, producer: Producer) -> None:
    def handler(message: StoredMessage) -> ConsumeResult | None:
        if message.reconsume_times == 0:
            return ConsumeResult.RECONSUME_LATER
        if message.reconsume_times == 1:
            raise ValueError("the handler fails")
        return None

    with Inbox(broker, TOPIC) as inbox:
        inbox.handle_with(handler)
        producer.send(Message(TOPIC, b"x"))
        for times in range(3):
            assert inbox.receive().reconsume_times == times
            broker.clock.advance(minutes=5)
        inbox.handle_with(None)
        producer.send(Message(TOPIC, b"y"))
        assert inbox.receive().body == b"y"
        assert len(inbox.received) == 4


def test_an_inbox_says_what_did_not_come(broker: TestBroker, producer: Producer) -> None:
    with Inbox(broker, TOPIC) as inbox:
        producer.send(Message(TOPIC, b"x"))
        with pytest.raises(TimeoutError, match=r"[01] of 2 messages of T came within 0.01 s: .*advance"):
            inbox.receive_many(2, timeout_s=0.01)
        assert inbox.receive().body == b"x"
        with pytest.raises(UsageError, match="0 messages can't fail"):
            inbox.fail_next(0)


# -- faults ------------------------------------------------------------------------------------------------------


def test_a_refused_send_is_not_stored(broker: TestBroker, producer: Producer) -> None:
    fault = broker.refuse(ResponseCode.MESSAGE_ILLEGAL, topic=TOPIC, remark="no")
    with pytest.raises(PymqError, match="no"):
        producer.send(Message(TOPIC, b"1"))
    producer.send(Message(TOPIC, b"2"))
    assert fault.is_over and fault.hit_count == 1
    assert bodies(broker) == [b"2"]


def test_a_fault_meets_its_topic_and_kind_of_request_only(broker: TestBroker, producer: Producer) -> None:
    broker.create_topic("other", queue_count=1)
    with broker.refuse(topic="other", count=None) as other, broker.refuse(requests="pop", count=None) as pops:
        producer.send(Message(TOPIC, b"1"))
        assert bodies(broker) == [b"1"]
        with pytest.raises(PymqError):
            producer.send(Message("other", b"1"))
    assert (other.hit_count, pops.hit_count) == (1, 0)
    producer.send(Message("other", b"2"))
    assert bodies(broker, "other") == [b"2"]


def test_a_fault_may_be_about_all_requests_or_one_code(broker: TestBroker, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"1"))
    with PullConsumer("look", namesrv=broker.namesrv) as consumer:
        queue = consumer.queues(TOPIC)[0]
        with broker.refuse(requests=RequestCode.GET_MAX_OFFSET), pytest.raises(PymqError):
            consumer.max_offset(queue)
        with broker.refuse(requests=None), pytest.raises(PymqError):
            consumer.min_offset(queue)
        assert consumer.max_offset(queue) == 1


def test_a_dropped_request_never_arrives(broker: TestBroker, producer: Producer) -> None:
    with broker.drop(), pytest.raises(RequestTimeoutError):
        producer.send(Message(TOPIC, b"1"), timeout_s=1)  # connecting is a part of it
    assert bodies(broker) == []


def test_a_send_whose_answer_is_dropped_is_stored(broker: TestBroker, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"1"))  # the connection is there
    with broker.drop_answer() as fault:
        with pytest.raises(RequestTimeoutError):
            producer.send(Message(TOPIC, b"2"), timeout_s=0.2)
        fault.wait()
    assert bodies(broker) == [b"1", b"2"]


def test_the_answer_to_a_waiting_pull_is_dropped_too(broker: TestBroker, producer: Producer) -> None:
    header = PullMessageHeader(
        consumer_group="G",
        topic=TOPIC,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1,
        sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=100,
        sub_version=0,
        subscription="*",
    )
    with broker.drop_answer(requests="pull"), pytest.raises(RequestTimeoutError):
        ask(broker, request(RequestCode.PULL_MESSAGE, header), timeout_s=0.5)
    assert ask(broker, request(RequestCode.PULL_MESSAGE, header)).code == ResponseCode.PULL_NOT_FOUND


def test_a_delayed_request_is_answered_late(broker: TestBroker, producer: Producer) -> None:
    with broker.delay(0.2) as fault:
        late = producer.send_async(Message(TOPIC, b"1"), timeout_s=30)
        fault.wait()
        assert not late.done()
        late.result(30)
    assert bodies(broker) == [b"1"]


def test_a_watch_counts_and_changes_nothing(broker: TestBroker, producer: Producer) -> None:
    watch = broker.watch(topic=TOPIC)
    with broker.refuse(), pytest.raises(PymqError):
        producer.send(Message(TOPIC, b"1"))
    producer.send(Message(TOPIC, b"2"))
    watch.wait(2)
    with pytest.raises(TimeoutError, match=r"met 2 requests within 0\.01 s, wanted 3"):
        watch.wait(3, timeout_s=0.01)
    broker.clear_faults()
    producer.send(Message(TOPIC, b"3"))
    assert watch.is_over and watch.hit_count == 2
    assert bodies(broker) == [b"2", b"3"]


def test_a_fault_that_means_nothing_is_refused(broker: TestBroker) -> None:
    with pytest.raises(UsageError, match="'sends' is no kind of request: use send, pull"):
        broker.refuse(requests="sends")
    with pytest.raises(UsageError, match="for 0 requests"):
        broker.drop(count=0)


# -- start and end -----------------------------------------------------------------------------------------------


def test_what_was_answered_is_there_after_a_kill(broker: TestBroker, producer: Producer) -> None:
    address = broker.address
    with broker.refuse(topic="other", count=None) as fault:
        producer.send(Message(TOPIC, b"1"))
        producer.send(Message(TOPIC, b"later", delay_level=1))
        broker.kill()
        assert not broker.is_running
        with pytest.raises(PymqError):
            producer.send(Message(TOPIC, b"2"), timeout_s=0.2)
        broker.kill()  # does nothing
        with pytest.raises(UsageError, match="while the broker is down"):
            broker.create_topic("U")
        broker.clock.advance(seconds=1)  # nobody is there to deliver
        broker.restart()
        assert broker.is_running and broker.address == address
        producer.send(Message(TOPIC, b"3"))
        assert not fault.is_over
        with pytest.raises(PymqError):
            producer.send(Message("other", b"x"))
    broker.clock.advance(seconds=1)
    assert sorted(bodies(broker)) == [b"1", b"3", b"later"]


def test_a_consumer_goes_on_after_a_restart(broker: TestBroker, producer: Producer) -> None:
    with Inbox(broker, TOPIC) as inbox:
        producer.send(Message(TOPIC, b"1"))
        assert inbox.receive().body == b"1"
        broker.restart()
        producer.send(Message(TOPIC, b"2"))
        while inbox.receive().body != b"2":  # a message whose offset was not stored comes again
            pass


def test_a_lite_consumer_goes_on_after_a_kill(broker: TestBroker, producer: Producer) -> None:
    broker.create_topic("sessions", message_type="LITE")
    broker.create_group("workers", "sessions")
    with LiteConsumer("workers", "sessions", namesrv=broker.namesrv, clock=broker.clock) as consumer:
        consumer.subscribe("a")
        producer.send(Message("sessions", b"1", lite_topic="a"))
        (first,) = consumer.receive()
        assert first.content() == b"1"
        broker.kill()
        with pytest.raises(UsageError, match="call restart"):
            broker.create_group("others")
        broker.restart()
        producer.send(Message("sessions", b"2", lite_topic="a"))
        found: list[bytes] = []
        while b"2" not in found:
            broker.clock.advance(minutes=1)
            for received in consumer.receive(wait_ms=1000):
                found.append(received.content())
                consumer.ack(received)
        assert found == [b"1", b"2"], "what was not acknowledged comes again, first"


def test_ten_brokers_run_at_once() -> None:
    def run(number: int) -> tuple[str, list[bytes]]:
        with TestBroker() as broker, Producer("P", namesrv=broker.namesrv) as producer:
            broker.create_topic(TOPIC, queue_count=1)
            producer.send(Message(TOPIC, str(number).encode()))
            broker.kill()
            broker.restart()
            return broker.namesrv, bodies(broker)

    with ThreadPoolExecutor(10) as threads:
        results = list(threads.map(run, range(10)))
    assert [found for _, found in results] == [[str(number).encode()] for number in range(10)]
    assert len({namesrv for namesrv, _ in results}) == 10


def test_a_broker_is_started_and_closed_once() -> None:
    broker = TestBroker(brokerName="mine", autoCreateTopicEnable="false")
    with pytest.raises(UsageError, match="start it first"):
        broker.kill()
    with broker, pytest.raises(UsageError, match="started before"):
        broker.start()
    broker.close()
    with pytest.raises(UsageError, match="started before"):
        broker.start()


def test_a_wrong_setting_ends_the_start() -> None:
    broker = TestBroker(flushDiskType="SOMETIMES")
    with pytest.raises(PymqError, match="flushDiskType"):
        broker.start()
    broker.close()


def test_the_plugin_imports_no_broker_before_a_test_asks() -> None:
    code = (
        "import json, sys, pytest, pymq.testing.plugin\n"
        "print(json.dumps(sorted(name for name in sys.modules if name.startswith('pymq'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == ["pymq", "pymq.testing", "pymq.testing.plugin"]
