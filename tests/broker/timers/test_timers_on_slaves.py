"""A slave fills its wheel from the log, delivers nothing, and goes on from its master's place when it is promoted."""

from __future__ import annotations

from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.replication.pair import Pair
from tests.broker.timers.test_timer_service import bodies, run, send, settle
from tests.broker.world import Caller


def follow(pair: Pair) -> None:
    pair.copy_log()
    pair.run(1000)
    settle(pair.slave)


def test_a_promoted_slave_goes_on() -> None:
    pair = Pair()
    master = pair.master
    master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    now_ms = master.clock.now_ms()
    for number in range(6):
        answer = send(master, b"%d" % number, TIMER_DELAY_MS=str(2100 + 1000 * number))
    caller = Caller(master)
    caller.ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=answer["recallHandle"])
    master.parts.messages.writer.commit()
    run(master, now_ms + 5000)  # to the end of a slot: an open one is delivered again
    assert bodies(master) == [b"0", b"1", b"2"]
    follow(pair)
    timers = pair.slave.parts.messages.timers
    assert timers.progress == master.parts.messages.timers.progress
    run(pair.slave, master.clock.now_ms() + 60_000, 1000)
    assert len(bodies(pair.slave)) == 3, "a slave delivers nothing"
    refused = Caller(pair.slave).refused(RequestCode.RECALL_MESSAGE, topic="T", recallHandle="x")
    assert refused[0] == ResponseCode.SLAVE_NOT_AVAILABLE
    promoted = pair.promote()
    settle(promoted, 50)
    assert bodies(promoted) == [b"0", b"1", b"2", b"3", b"4"]
    assert promoted.parts.messages.timers.delivery.recalled_count == 1


def test_a_slave_waits_with_what_its_master_has_not_taken_in() -> None:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    pair.run(1000)
    send(pair.master, b"m", TIMER_DELAY_MS="500")
    pair.copy_log()
    settle(pair.slave)
    assert pair.slave.parts.messages.timers.progress.queue_offset == 0
    pair.clock.advance(5000)
    promoted = pair.promote()
    settle(promoted, 50)
    assert bodies(promoted) == [b"m"]


def test_the_progress_waits_for_the_slave_s_log() -> None:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    now_ms = pair.clock.now_ms()
    send(pair.master, b"m", TIMER_DELAY_MS="1500")
    follow(pair)
    run(pair.master, now_ms + 9000)
    assert bodies(pair.master) == [b"m"]
    pair.run(1000)  # the tables come, the log does not
    promoted = pair.promote()
    settle(promoted, 50)
    assert bodies(promoted) == [b"m"]


def test_a_slave_chooses_its_master_s_slot_for_a_message_that_rolls_over() -> None:
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    times = pair.master.parts.messages.timers.times
    send(pair.master, b"m", TIMER_DELAY_MS=str(times.window_ms + times.window_ms // 3 + 1500))
    settle(pair.master)
    pair.clock.advance(5000)
    follow(pair)
    wheels = [world.parts.messages.timers._timers.wheel for world in (pair.master, pair.slave)]
    assert dict(wheels[0].slots()) == dict(wheels[1].slots()) != {}


def test_a_recall_that_reaches_a_slave_late_stays_with_its_message() -> None:
    """Both are read again when the progress goes back, as after a master whose clock was behind."""
    pair = Pair()
    pair.master.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    now_ms = pair.clock.now_ms()
    handle = send(pair.master, b"gone", TIMER_DELAY_MS="4000", UNIQ_KEY="K")["recallHandle"]
    settle(pair.master)
    follow(pair)
    Caller(pair.master).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=handle)
    pair.master.parts.messages.writer.commit()
    run(pair.master, now_ms + 9000)
    follow(pair)
    timers = pair.slave.parts.messages.timers
    assert timers.progress.queue_offset == 2 and timers.progress.read_ms > now_ms + 5000
    timers.take_over(now_ms // 1000 * 1000, 2, timers._timers.version)
    promoted = pair.promote()
    settle(promoted, 50)
    assert bodies(promoted) == [] and promoted.parts.messages.timers.delivery.recalled_count == 1
