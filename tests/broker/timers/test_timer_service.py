"""Timer messages end to end on a clock moved by hand: never early, at their millisecond, once, across restarts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.timers import noted_puts, open_slot, timer_service
from pymq.broker.timers.noted_puts import NotedPuts, Put
from pymq.broker.timers.timer_records import WheelTimes, noted_delay_max_ms, plan, plan_puts
from pymq.model.names import TIMER_TOPIC
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage
from pymq.model.tables import TopicConfig
from pymq.model.timers import RecallHandle, decode_handle
from pymq.store.timer.timer_store import PackedUnit, TimerUnit, pack_unit, unpack_unit
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.world import Caller, World

START_MS = 1_700_000_000_000


def world_with_topic(**keys: Any) -> World:
    world = World(**keys)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    return world


def send(world: World, body: bytes = b"m", topic: str = "T", **properties: str) -> dict[str, str]:
    """Send as a client does; return the answer's fields."""
    caller = Caller(world)
    caller.ask(RequestCode.SEND_MESSAGE_V2, body, False, **send_fields(topic, properties))
    world.parts.messages.writer.commit()
    (answer,) = caller.peer.frames
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return dict(answer.ext)


def refused(world: World, topic: str = "T", **properties: str) -> tuple[int, str]:
    return Caller(world).refused(RequestCode.SEND_MESSAGE_V2, b"m", **send_fields(topic, properties))


def send_fields(topic: str, properties: dict[str, str]) -> dict[str, object]:
    text = encode_properties(properties).decode()
    return {"a": "P", "b": topic, "c": "TBW102", "d": 4, "e": 1, "f": 0, "g": START_MS, "h": 0, "i": text}


def run(world: World, until_ms: int, step_ms: int = 10) -> None:
    """Let time pass in steps, each with a tick as the event loop runs it."""
    while world.clock.now_ms() < until_ms:
        world.clock.advance(min(step_ms, until_ms - world.clock.now_ms()))
        settle(world)


def settle(world: World, tick_count: int = 8) -> None:
    for _ in range(tick_count):
        world.parts.messages.timers.tick()


def bodies(world: World, queue_id: int = 1) -> list[bytes]:
    return [message.body for message in world.messages("T", queue_id)]


def test_a_message_is_delivered_at_its_millisecond() -> None:
    world = world_with_topic()
    due_ms = world.clock.now_ms() + 2345
    answer = send(world, TIMER_DELIVER_MS=str(due_ms), TAGS="A", KEYS="k")
    assert answer["queueId"] == "1" and answer["queueOffset"] == "0" and answer["recallHandle"]
    run(world, due_ms - 1, 1)
    assert bodies(world) == []
    run(world, due_ms, 1)
    (message,) = world.messages("T", 1)
    assert message.body == b"m" and message.tags == "A" and message.store_timestamp_ms == due_ms
    names = message.properties
    assert names["REAL_TOPIC"] == "T" and names["REAL_QID"] == "1"
    assert names["TIMER_OUT_MS"] == str(due_ms // 1000 * 1000) and names["TIMER_DEQUEUE_MS"] == str(due_ms)
    assert names["TIMER_DELIVER_MS"] == str(due_ms) and int(names["TIMER_ENQUEUE_MS"]) <= due_ms
    run(world, due_ms + 60_000, 500)
    assert len(bodies(world)) == 1


def test_the_three_delays_and_which_counts() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    send(world, b"sec", TIMER_DELAY_SEC="3", TIMER_DELAY_MS="1", TIMER_DELIVER_MS="1")
    send(world, b"ms", TIMER_DELAY_MS="1500", TIMER_DELIVER_MS="1")
    send(world, b"at", TIMER_DELIVER_MS=str(now_ms + 4000))
    send(world, b"past", TIMER_DELIVER_MS=str(now_ms))
    send(world, b"level", TIMER_DELIVER_MS=str(now_ms + 1), DELAY="1")
    send(world, b"was one", TIMER_DELIVER_MS=str(now_ms + 5000), TIMER_OUT_MS="1")
    assert bodies(world) == [b"past", b"was one"]
    (level,) = world.messages("SCHEDULE_TOPIC_XXXX", 0)
    assert "TIMER_DELIVER_MS" not in level.properties
    for at_ms, body in ((1500, b"ms"), (3000, b"sec"), (4000, b"at")):
        run(world, now_ms + at_ms - 1)
        assert body not in bodies(world)
        run(world, now_ms + at_ms)
        assert bodies(world)[-1] == body


def test_a_restart_delivers_what_waits_and_nothing_twice() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    for number in range(5):
        send(world, b"%d" % number, TIMER_DELAY_MS=str(1000 + 300 * number))
    run(world, now_ms + 1300)
    assert bodies(world) == [b"0", b"1"]
    world = world.reopened()
    run(world, now_ms + 1900)
    assert bodies(world) == [b"0", b"1", b"2", b"3"]
    world.clock.advance(3_600_000)
    world = world.reopened()
    settle(world, 50)
    assert bodies(world) == [b"0", b"1", b"2", b"3", b"4"]


def test_recalled() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    kept = send(world, b"kept", TIMER_DELAY_MS="5000", UNIQ_KEY="K1")
    gone = send(world, b"gone", TIMER_DELAY_MS="5000", UNIQ_KEY="K2")
    run(world, now_ms + 1000)
    caller = Caller(world)
    caller.ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=gone["recallHandle"])
    world.parts.messages.writer.commit()
    (answer,) = caller.peer.frames
    assert answer.code == 0 and answer.ext["msgId"] == "K2"
    run(world, now_ms + 6000)
    assert bodies(world) == [b"kept"]
    assert world.parts.messages.timers.delivery.recalled_count == 1
    assert world.parts.messages.timers.counts.waiting == {}
    code, remark = Caller(world).refused(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=kept["recallHandle"])
    assert code == ResponseCode.ILLEGAL_OPERATION and "due or delivered" in remark


@pytest.mark.parametrize("event", ["restart", "clock set back"])
def test_a_recall_that_was_read_counts_when_its_slot_is_opened_again(event: str) -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    due_ms = now_ms // 1000 * 1000 + 5000
    send(world, b"first", TIMER_DELIVER_MS=str(due_ms + 100))
    gone = send(world, b"gone", TIMER_DELIVER_MS=str(due_ms + 900), UNIQ_KEY="K2")
    run(world, now_ms + 1000)
    Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=gone["recallHandle"])
    world.parts.messages.writer.commit()
    run(world, due_ms + 500)
    assert bodies(world) == [b"first"]
    if event == "restart":
        world = world.reopened()
    else:
        world.clock.set_wall(now_ms)
        settle(world)
    run(world, due_ms + 2000)
    assert bodies(world) == [b"first"]


def test_the_wheels_topic_takes_no_clients_send() -> None:
    world = world_with_topic()
    assert refused(world, TIMER_TOPIC)[0] == ResponseCode.NO_PERMISSION


def test_an_unreadable_record_stalls_nothing() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    world.put(TIMER_TOPIC, b"poison")
    world.put(TIMER_TOPIC, b"poison", TIMER_OUT_MS="x", REAL_TOPIC="T", REAL_QID="1")
    send(world, TIMER_DELAY_MS="1000")
    run(world, now_ms + 1000)
    assert bodies(world) == [b"m"] and world.parts.messages.timers.skipped_count == 2


@pytest.mark.slow
def test_beyond_the_window_it_rolls() -> None:
    world = world_with_topic(timerMaxDelaySec="1000000")
    now_ms = world.clock.now_ms()
    send(world, TIMER_DELAY_SEC="20000")
    run(world, now_ms + 19_999_000, 1000)
    assert bodies(world) == []
    run(world, now_ms + 20_000_000)
    (message,) = world.messages("T", 1)
    assert int(message.properties["TIMER_ROLL_TIMES"]) >= 4
    assert message.raw_properties.count(b"TIMER_ROLL_TIMES\x01") == 1


def test_a_clock_that_is_set_back_delivers_nothing_early_and_nothing_twice() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    for number in range(6):
        send(world, b"%d" % number, TIMER_DELAY_MS=str(1000 + 400 * number))
    run(world, now_ms + 1900)
    assert bodies(world) == [b"0", b"1", b"2"]
    world.clock.set_wall(now_ms - 3_600_000)
    settle(world)
    send(world, b"new", TIMER_DELIVER_MS=str(now_ms - 3_600_000 + 700))
    run(world, now_ms - 3_600_000 + 699)
    assert bodies(world) == [b"0", b"1", b"2"]
    run(world, now_ms - 3_600_000 + 700)
    assert bodies(world)[3:] == [b"new"]
    run(world, now_ms + 1900, 500)
    assert bodies(world)[4:] == []
    run(world, now_ms + 4000)
    assert bodies(world)[4:] == [b"3", b"4", b"5"]


def test_a_clock_that_jumps_ahead_delivers_in_order_and_in_slices() -> None:
    world = world_with_topic()
    order = [7, 3, 5, 1, 6, 2, 4, 0]
    for number in order:
        send(world, b"%d" % number, TIMER_DELAY_SEC=str(10 + 400 * number))
    settle(world)
    world.clock.advance(3_600_000)
    counts = []
    while len(bodies(world)) < 8:
        world.parts.messages.timers.tick()
        counts.append(len(bodies(world)))
    assert bodies(world) == [b"%d" % number for number in range(8)] and len(counts) >= 8


def test_after_a_kill_all_is_delivered_and_little_twice() -> None:
    world = world_with_topic(timerFlushIntervalMs="10")
    now_ms = world.clock.now_ms()
    for number in range(20):
        send(world, b"%d" % number, TIMER_DELAY_MS=str(500 + 250 * number))
    run(world, now_ms + 2600)
    delivered = bodies(world)
    world.parts.store.checkpoint()
    killed = World(world.files.after_power_loss(lambda *_: False, lambda *_: True), world.clock)
    run(killed, now_ms + 10_000)
    found = bodies(killed)
    assert set(found) == {b"%d" % number for number in range(20)}
    assert len(found) <= 20 + 4 and found[: len(delivered)] == delivered


def test_a_recall_counts_when_both_were_never_saved_and_the_broker_was_down() -> None:
    world = world_with_topic()
    send(world, b"kept", TIMER_DELAY_MS="5000", UNIQ_KEY="K1")
    handle = send(world, b"gone", TIMER_DELAY_MS="5000", UNIQ_KEY="K2")["recallHandle"]
    Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=handle)
    world.parts.messages.writer.commit()
    world.clock.advance(60_000)
    killed = World(world.files.after_kill(), world.clock)
    settle(killed, 50)
    assert bodies(killed) == [b"kept"]


def test_recalls_of_messages_that_reach_the_wheel_late() -> None:
    world = world_with_topic()
    send(world, b"first", TIMER_DELAY_MS="1000")
    run(world, world.clock.now_ms() + 3000)
    send(world, b"kept", TIMER_DELAY_MS="2000", UNIQ_KEY="K1")
    handle = send(world, b"gone", TIMER_DELAY_MS="2000", UNIQ_KEY="K2")["recallHandle"]
    Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=handle)
    world.parts.messages.writer.commit()
    world.parts.messages.timers.progress.read_ms += 10_000  # the wheel went on without them
    world.clock.advance(10_000)
    settle(world)
    assert bodies(world) == [b"first", b"kept"]


def test_a_recall_counts_for_a_message_that_rolls_again_after_its_slot_is_done_with() -> None:
    """As on a broker that was a slave when the message rolled, and gets the progress of a master with an old clock."""
    world = world_with_topic(timerRollWindowSlot="10")
    timers, now_ms = world.parts.messages.timers, world.clock.now_ms()
    send(world, b"kept", TIMER_DELAY_MS="12000", UNIQ_KEY="K1")
    handle = send(world, b"gone", TIMER_DELAY_MS="12000", UNIQ_KEY="K2")["recallHandle"]
    settle(world)
    ((roll_ms, roll_slot),) = timers._timers.wheel.slots()
    run(world, now_ms + 9000, 100)
    Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=handle)
    world.parts.messages.writer.commit()
    run(world, now_ms + 15_000, 100)
    assert bodies(world) == [b"kept"] and timers.delivery.recalled_count == 1
    timers._timers.wheel.put(roll_ms, roll_slot)
    timers.progress.read_ms = roll_ms
    run(world, now_ms + 18_000, 100)
    assert bodies(world) == [b"kept", b"kept"] and timers.delivery.recalled_count == 2


def test_a_recall_counts_for_a_message_that_rolled_before_the_wheel_has_the_recall() -> None:
    """As with slaves that don't confirm the recall's record in time."""
    world = world_with_topic(timerRollWindowSlot="10")
    timers, now_ms = world.parts.messages.timers, world.clock.now_ms()
    handle = send(world, b"gone", TIMER_DELAY_MS="12000", UNIQ_KEY="K2")["recallHandle"]
    run(world, now_ms + 9000, 100)
    Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=handle)
    world.parts.messages.writer.commit()
    timers.progress.queue_offset += 1
    run(world, now_ms + 15_000, 100)
    assert bodies(world) == [] and timers.delivery.recalled_count == 1


def test_a_recall_rolls_with_its_message_and_needs_no_index() -> None:
    """The index may be off, and retention may have deleted the record of the recall."""
    world = world_with_topic(timerRollWindowSlot="10", messageIndexEnable="false")
    timers, now_ms = world.parts.messages.timers, world.clock.now_ms()
    send(world, b"kept", TIMER_DELAY_MS="22000", UNIQ_KEY="K1")
    handle = send(world, b"gone", TIMER_DELAY_MS="22000", UNIQ_KEY="K2")["recallHandle"]
    Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=handle)
    world.parts.messages.writer.commit()
    run(world, now_ms + 23_000, 100)
    assert bodies(world) == [b"kept"] and timers.delivery.recalled_count == 1


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_MS": "2345"}, {"TIMER_DELAY_SEC": "7"}, {"TIMER_DELIVER_MS": ""}])
def test_a_unit_noted_at_its_put_is_that_of_its_record(properties: dict[str, str]) -> None:
    world = world_with_topic()
    values: dict[str, Any] = {name: value or str(world.clock.now_ms() + 3000) for name, value in properties.items()}
    send(world, **values)
    puts = world.parts.messages.timers._noted.take(0, 1, 0)
    (record,) = world.messages(TIMER_TOPIC)
    times = world.parts.messages.timers.times
    planned = plan(record, world.clock.now_ms() // 1000 * 1000, times)
    assert [unpack_unit(unit) for unit in plan_puts(puts, times)] == [planned.unit]
    assert [put[2] for put in puts] == [planned.real_topic]


@cache
def some_record() -> StoredMessage:
    world = world_with_topic()
    send(world, TIMER_DELAY_SEC="9")
    return world.messages(TIMER_TOPIC)[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(1, 6000), st.integers(0, 3)), min_size=1, max_size=6))
def test_puts_are_planned_together_as_their_records_are_one_by_one(wanted: list[tuple[str, int, int]]) -> None:
    times, some = WheelTimes(1000, 8000), some_record()
    puts: list[Put] = []
    plain: list[PackedUnit] = []
    now_ms = 1_700_000_000_000
    for number, (topic, delay_ms, step_ms) in enumerate(wanted):
        now_ms += step_ms
        deliver_ms = now_ms + delay_ms
        assert delay_ms <= noted_delay_max_ms(times)
        puts.append((1000 * number, 400 + number, topic, deliver_ms, now_ms))
        slot_ms, precise = (deliver_ms - 1) // 1000 * 1000, f"TIMER_DELIVER_MS\x01{deliver_ms}\x02"
        raw = f"{precise}TIMER_OUT_MS\x01{slot_ms}\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02".encode()
        stored = replace(some, raw_properties=raw, store_timestamp_ms=now_ms, _properties=None)
        record = replace(stored, physical_offset=1000 * number, size_bytes=400 + number)
        plain.append(pack_unit(plan(record, now_ms // 1000 * 1000, times).unit))
    assert plan_puts(puts, times) == plain


def test_what_may_lie_beyond_the_wheel_is_not_planned_when_it_is_put() -> None:
    times = WheelTimes(1000, 8000)
    for now_ms in range(1_000_000, 1_001_000, 37):
        for delay_ms in range(5000, 9000, 41):
            slot_ms = (now_ms + delay_ms - 1) // 1000 * 1000
            rolls = slot_ms - now_ms // 1000 * 1000 >= times.window_ms - times.precision_ms
            assert delay_ms > noted_delay_max_ms(times) or not rolls


def test_units_of_a_failed_commit_are_not_taken_for_others() -> None:
    noted, puts = NotedPuts(), [(number, 400, "T", 9000, 0) for number in range(5)]
    noted.note(7, puts[0], 0, 9000)
    noted.note(8, puts[1], 0, 9000)
    assert noted.take(7, 8, 0) == [puts[0]] and noted.take(7, 9, 0) == []
    noted.note(9, puts[2], 1, 9000)  # a commit failed: what was noted at 8 is gone
    assert noted.take(8, 10, 1) == [] and noted.take(9, 10, 1) == [puts[2]]
    noted.note(10, puts[3], 1, 9000)
    assert noted.take(10, 11, 2) == []
    noted.note(20, puts[4], 2, 9000)
    assert noted.take(20, 20, 2) == [] and noted.take(20, 21, 2) == [puts[4]]


def test_a_full_run_of_noted_units_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_puts, "NOTED_MAX", 2)
    noted, puts = NotedPuts(), [(number, 400, "T", 9000, 0) for number in range(5)]
    for number in range(4):
        noted.note(number, puts[number], 0, 9000)
    assert noted.end == 2 and noted.take(0, 4, 0) == puts[:2]
    noted.note(4, puts[4], 0, 9000)
    assert noted.take(2, 5, 0) == [] and noted.take(4, 5, 0) == [puts[4]]


def test_only_messages_that_are_due_soon_or_not_noted_hasten_the_wheel() -> None:
    world = world_with_topic()
    woken: list[int] = []
    world.parts.messages.timers._wake_in = woken.append
    send(world, b"later", TIMER_DELAY_SEC="60")
    assert woken == []
    send(world, b"soon", TIMER_DELAY_MS="1500")
    assert woken == [timer_service.GATHER_MS]
    send(world, b"later", TIMER_DELAY_SEC="60")
    assert woken == [timer_service.GATHER_MS]
    world.put(TIMER_TOPIC, b"not noted")
    assert woken == [timer_service.GATHER_MS] * 2


def test_a_foreign_record_at_a_unit_s_place_is_not_delivered() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    send(world, b"later", TIMER_DELIVER_MS=str(now_ms + 9000))
    settle(world)
    (record,) = world.messages(TIMER_TOPIC)
    wrong = TimerUnit(-1, 1, now_ms, 2000, record.physical_offset, record.size_bytes, 0, 0)
    world.parts.messages.timers._timers.add([wrong])
    run(world, now_ms + 8999)
    assert bodies(world) == []
    run(world, now_ms + 9000)
    assert bodies(world) == [b"later"]


def test_a_lost_wheel_is_made_again_from_the_topic() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    send(world, b"early", TIMER_DELAY_MS="1000")
    send(world, b"late", TIMER_DELAY_MS="9000")
    run(world, now_ms + 3000)
    world.parts.close()
    world.files.remove("/data/timerwheel")
    world = World(world.files, world.clock)
    run(world, now_ms + 12_000)
    assert bodies(world) == [b"early", b"late"]


def test_delays_that_are_refused_say_value_and_limit() -> None:
    world = world_with_topic()
    for properties, words in (
        ({"TIMER_DELAY_SEC": "259201"}, "this one is 259201000 ms: send it later, or raise the limit"),
        ({"TIMER_DELAY_MS": "soon"}, "TIMER_DELAY_MS is 'soon': write a whole number"),
        ({"TIMER_DELIVER_MS": "9" * 19}, "write a whole number"),
    ):
        code, remark = refused(world, **properties)
        assert code == ResponseCode.MESSAGE_ILLEGAL and words in remark and "259200000ms (timerMaxDelaySec)" in remark
    send(world, b"exactly", TIMER_DELAY_SEC="259200")
    send(world, b"negative", TIMER_DELAY_MS="-5")
    assert bodies(world) == [b"negative"]


def test_a_full_slot_is_refused() -> None:
    world = world_with_topic(timerCongestNumEachSlot="2")
    for _ in range(2):
        send(world, TIMER_DELAY_MS="5500")
        settle(world)
    code, remark = refused(world, TIMER_DELAY_MS="5500")
    assert code == ResponseCode.SYSTEM_ERROR and "flow control" in remark and "timerCongestNumEachSlot" in remark


def test_a_refused_write_delays_and_loses_nothing() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    send(world, TIMER_DELAY_MS="1000")
    settle(world)
    world.parts.store.refuse_writes("the disk is full")
    run(world, now_ms + 3000)
    assert bodies(world) == []
    world.parts.store.refuse_writes(None)
    run(world, now_ms + 3010)
    assert bodies(world) == [b"m"]


def test_recalls_that_are_refused() -> None:
    world = world_with_topic()
    handle = send(world, TIMER_DELAY_MS="5000", UNIQ_KEY="K")["recallHandle"]
    for topic, text, code, words in (
        ("T", "%%%", 604, "not URL-safe base64"),
        ("T", "bm9uZQ==", 604, "version v1"),
        ("T", RecallHandle("U", "broker-a", 1, "K").encode(), 604, "topic not match"),
        ("T", RecallHandle("T", "broker-b", 1, "K").encode(), 604, "ask that broker"),
        ("T", RecallHandle("T", "broker-a", 1, "K").encode(), 604, "due or delivered"),
        ("T", RecallHandle("T", "broker-a", START_MS * 2, "K").encode(), 604, "timerMaxDelaySec"),
        ("None", handle, ResponseCode.TOPIC_NOT_EXIST, "not exist"),
    ):
        found, remark = Caller(world).refused(RequestCode.RECALL_MESSAGE, topic=topic, recallHandle=text)
        assert found == code and words in remark, remark
    world.config.recall_message_enable = False
    assert Caller(world).refused(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=handle)[0] == 16
    assert "recallHandle" not in send(world, TIMER_DELAY_MS="5000")


def test_a_recall_of_a_message_that_was_never_stored_is_taken() -> None:
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    handle = send(world, TIMER_DELAY_MS="5000", UNIQ_KEY="K")["recallHandle"]
    other = RecallHandle("T", "broker-a", decode_handle(handle).deliver_ms, "NEVER").encode()
    Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=other)
    world.parts.messages.writer.commit()
    run(world, now_ms + 6000)
    assert bodies(world) == [b"m"]


def test_a_large_slot_leaves_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_slot, "EXACT_UNITS_MAX", 5)
    monkeypatch.setattr(open_slot, "CHUNK_UNITS", 3)
    world = world_with_topic()
    now_ms = world.clock.now_ms()
    for number in range(14):
        answer = send(world, b"%d" % number, TIMER_DELAY_MS=str(2100 + number))
        if number == 4:
            Caller(world).ask(RequestCode.RECALL_MESSAGE, topic="T", recallHandle=answer["recallHandle"])
            world.parts.messages.writer.commit()
    run(world, now_ms + 2999)
    assert bodies(world) == []
    run(world, now_ms + 3000)
    assert bodies(world) == [b"%d" % number for number in range(14) if number != 4]
