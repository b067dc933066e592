"""Orderly pops (order=true): one hand-out of a queue at a time, what comes again, order information on the disk."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from typing import Any

import pytest

from pymq.broker.handlers.pop_checks import ATTEMPT_ID_LENGTH_MAX
from pymq.model import fastjson
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_pop import Popping
from tests.broker.world import ROOT, World

REVIVE_QUEUE = 999


class Ordered(Popping):
    """Pops in order."""

    def fields(self, count: int, invisible_ms: int, poll_ms: int, **ext: Any) -> dict[str, Any]:
        return {**super().fields(count, invisible_ms, poll_ms, **ext), "order": "true"}

    def fill(self, count: int = 3, queue_id: int = 0) -> None:
        for number in range(count):
            self.world.put("T", b"%d" % number, queue_id=queue_id)

    def restarted(self, *, killed: bool = False) -> Ordered:
        files = self.world.files.after_kill() if killed else None
        return Ordered(World(files, self.world.clock) if files else self.world.reopened())

    @property
    def committed(self) -> int:
        return self.world.parts.metadata.cursors.query("g", "T", 0)

    def has_message(self, **ext: Any) -> bool:
        fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": -1, "pollTime": 0, "bornTime": 0}
        return self.ask(Code.NOTIFICATION, **fields, order="true", **ext)[1]["hasMsg"] == "true"


def test_a_queue_hands_out_nothing_until_its_messages_are_acknowledged() -> None:
    p = Ordered()
    p.fill(4)
    end = p.world.parts.store.physical_max_offset
    found = p.pop(count=3)
    assert found.bodies == [b"0", b"1", b"2"] and found.ext["reviveQid"] == str(REVIVE_QUEUE)
    assert found.ext["orderCountInfo"] == "0 0 0" and found.ext["restNum"] == "1"
    for number in range(3):
        blocked = p.pop()
        assert blocked.code == ResponseCode.POLLING_TIMEOUT
        assert (blocked.ext["restNum"], blocked.ext["orderCountInfo"]) == ("0", "")
        assert p.committed == number and not p.has_message()
        assert p.ack(found.receipt(number)) == 0
    assert p.committed == 3 and p.has_message()
    assert p.pop().bodies == [b"3"]
    assert p.world.parts.store.physical_max_offset == end  # no check points


def test_messages_come_again_in_order_from_the_first_that_is_not_acknowledged() -> None:
    p = Ordered()
    p.fill(4)
    found = p.pop(count=3, invisible_ms=3000)
    assert p.ack(found.receipt(0)) == p.ack(found.receipt(2)) == 0
    assert p.committed == 1
    p.wait(2999)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    p.wait(1)
    again = p.pop(invisible_ms=3000)
    assert again.bodies == [b"1", b"2", b"3"]
    assert again.ext["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 0"
    assert p.ack(again.receipt(2)) == p.ack(again.receipt(1)) == 0
    p.wait(3000)
    last = p.pop()
    assert last.bodies == [b"1", b"2", b"3"] and last.ext["orderCountInfo"].startswith("0 qo0%1 2;0 qo0%2 2;0 qo0%3 1")
    assert last.ext["orderCountInfo"].endswith(";0 0 1")


def test_a_pop_that_waits_gets_nothing_during_a_hand_over() -> None:
    p = Ordered()
    p.fill(1)
    p.pop(invisible_ms=1000)
    p.park()
    fence = p.world.parts.replication.write_fence
    fence.begin(5000, "a test")
    p.wait(1000)
    assert [answer.code for answer in p.caller.peer.answers] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    fence.end()
    assert p.pop().bodies == [b"0"]


def test_queues_are_ordered_each_for_itself() -> None:
    p = Ordered(queue_count=2)
    p.fill(1, queue_id=0)
    first = p.pop()
    p.fill(1, queue_id=1)
    second = p.pop()
    assert [found.messages[0].queue_id for found in (first, second)] == [0, 1]
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    assert p.pop(consumerGroup="other").ext["startOffsetInfo"].count(";") == 1


def test_the_same_attempt_gets_the_same_messages_again_and_no_other_one_does() -> None:
    p = Ordered()
    p.fill(2)
    first = p.pop(attemptId="a1")
    p.world.clock.advance(10)
    assert p.pop(attemptId="a2").code == p.pop().code == ResponseCode.POLLING_TIMEOUT
    assert p.has_message(attemptId="a1") and not p.has_message(attemptId="a2")
    again = p.pop(attemptId="a1")
    assert again.bodies == first.bodies and again.ext["orderCountInfo"] == "0 0 0"
    assert p.ack(first.receipt()) == 0 and p.committed == 0  # of the earlier hand-out
    assert p.ack(again.receipt()) == 0 and p.committed == 1


def test_an_attempt_has_an_id_of_bounded_length() -> None:
    """It is kept for each queue of each group."""
    p = Ordered()
    p.fill(1)
    long = {**p.fields(1, 1000, 0), "attemptId": "a" * (ATTEMPT_ID_LENGTH_MAX + 1)}
    code, remark = p.caller.refused(Code.POP_MESSAGE, **long)
    assert code == ResponseCode.INVALID_PARAMETER
    assert remark.startswith("attemptId has 256 characters, the limit is 255")
    assert p.world.parts.metadata.order_infos.get("T", "g", 0) is None
    assert p.pop(attemptId="a" * ATTEMPT_ID_LENGTH_MAX).bodies == [b"0"]


def test_a_new_invisible_time_hides_one_message_and_keeps_its_receipt() -> None:
    p = Ordered()
    p.fill(2)
    found = p.pop(invisible_ms=3000)
    p.world.clock.advance(1000)
    code, ext = p.change(found.receipt(1), 10_000)
    assert code == 0 and ext["reviveQid"] == str(REVIVE_QUEUE)
    assert (ext["popTime"], ext["invisibleTime"]) == (found.ext["popTime"], "11000")
    p.wait(9999)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    assert p.ack(found.receipt(1)) == 0
    assert p.pop().bodies == [b"0", b"1"]
    assert p.change(found.receipt(0), 1000)[0] == ResponseCode.NO_MESSAGE


def test_no_invisible_time_brings_the_messages_back_at_once() -> None:
    p = Ordered()
    p.fill(1)
    found = p.pop()
    assert p.change(found.receipt(), 0)[0] == 0
    assert p.pop().ext["orderCountInfo"] == "0 qo0%0 1;0 0 1"


def test_a_waiting_pop_gets_messages_when_the_queue_is_free_again() -> None:
    p = Ordered()
    p.fill(2)
    found = p.pop(count=1, invisible_ms=1000)
    p.park()
    p.world.put("T", b"2")
    p.tick()
    assert not p.peer.answers and not p.peer.frames
    assert p.ack(found.receipt()) == 0
    p.tick()
    assert p.found(p.late()).bodies == [b"1", b"2"]
    p.park(poll_ms=30_000)
    p.wait(29_000)
    p.park(poll_ms=29_000)
    p.wait(1000)
    assert p.late()[0] == ResponseCode.POLLING_TIMEOUT
    p.wait(29_000)
    assert p.late()[0] == ResponseCode.POLLING_TIMEOUT
    p.park()
    p.wait(1000)
    assert p.found(p.late()).bodies == [b"1", b"2"]


def test_acknowledgements_that_are_double_late_forged_or_of_others_change_nothing() -> None:
    p = Ordered()
    p.fill(2)
    found = p.pop(invisible_ms=1000)
    receipt = found.receipt(1)
    start, time, *rest = receipt["extraInfo"].split(" ")
    for forged in (
        {**receipt, "extraInfo": " ".join([start, str(int(time) - 1), *rest])},
        {**receipt, "extraInfo": receipt["extraInfo"].replace("broker-a", "broker-b")},
        {**receipt, "consumerGroup": "other"},
    ):
        assert p.ack(forged) == 0
    assert p.ack(found.receipt(0)) == 0
    assert p.ack(found.receipt(0)) == 0  # twice
    p.wait(1000)
    again = p.pop()
    assert again.bodies == [b"1"]
    assert p.ack(receipt) == 0  # late
    assert p.change(receipt, 1000)[0] == ResponseCode.NO_MESSAGE
    assert p.committed == 1 and p.world.parts.requests.pops.ineffective_ack_count == 5


def test_a_late_acknowledgement_counts_while_nobody_else_has_the_message() -> None:
    p = Ordered()
    p.fill(1)
    found = p.pop(invisible_ms=1000)
    p.wait(5000)
    assert p.ack(found.receipt()) == 0
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT


def test_an_offset_that_was_not_handed_out_is_refused() -> None:
    p = Ordered()
    p.fill(2)
    found = p.pop(count=1)
    fields = {"consumerGroup": "g", **found.receipt(), "offset": 1}
    code, remark = p.caller.refused(Code.ACK_MESSAGE, **fields)
    assert code == ResponseCode.MESSAGE_ILLEGAL and "commit:1" in remark and p.committed == 0


def test_a_batch_acknowledges_by_bits() -> None:
    p = Ordered()
    p.fill(3)
    found = p.pop()
    entry = {
        "c": "g", "t": "T", "r": "0", "so": 0, "q": 0, "rq": REVIVE_QUEUE, "pt": int(found.ext["popTime"]), "it": 1000,
        "b": base64.b64encode(b"\x0b").decode(),
    }  # fmt: skip
    assert p.ask(Code.BATCH_ACK_MESSAGE, json.dumps({"acks": [entry]}).encode())[0] == 0
    assert p.committed == 2 and p.world.parts.requests.pops.ineffective_ack_count == 1


@pytest.mark.parametrize("target", [0, 3])
def test_a_reset_forgets_the_hand_out(target: int) -> None:
    p = Ordered()
    p.fill(4)
    p.ack(p.pop(count=1).receipt())
    found = p.pop(count=1)
    p.park()
    fields: dict[str, Any] = {"topic": "T", "group": "g", "timestamp": -1, "offset": target, "queueId": 0}
    p.caller.ok(Code.INVOKE_BROKER_TO_RESET_OFFSET, **fields, isForce="true")
    assert p.has_message() and p.ack(found.receipt()) == 0
    p.tick()
    assert p.found(p.late()).bodies == [b"0", b"1", b"2", b"3"][target:]


@pytest.mark.parametrize("while_down", [False, True])
def test_a_clock_that_is_set_back_blocks_a_queue_no_longer_than_its_invisible_time(while_down: bool) -> None:
    p = Ordered()
    p.fill(1)
    p.pop(invisible_ms=5000)
    p.tick()
    p.world.clock.set_wall(p.world.clock.now_ms() - 3_600_000)
    if while_down:
        p = p.restarted()
    p.tick()
    p.wait(4999)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    p.wait(1)
    assert p.pop().bodies == [b"0"]


# -- on the disk --------------------------------------------------------------------------------------------------


def test_the_file_is_rocketmqs() -> None:
    p = Ordered()
    p.fill(3)
    p.pop(count=3, invisible_ms=1000, attemptId="x")
    p.wait(1000)
    found = p.pop(count=3, invisible_ms=2000)
    assert p.ack(found.receipt(0)) == p.change(found.receipt(2), 5000)[0] == 0
    now = p.world.clock.now_ms()
    p.wait(5000)
    p.world.parts.metadata.order_infos.tick()
    saved: Any = fastjson.loads(p.world.files.read_bytes(f"{ROOT}/config/consumerOrderInfo.json"))
    assert saved["table"] == {
        "T@g": {
            "0": {
                "popTime": now, "i": 2000, "l": now, "cm": 1, "o": [0, 1, 2], "oc": {"0": 1, "1": 1, "2": 1},
                "ot": {"2": now + 5000},
            }
        }
    }  # fmt: skip


@pytest.mark.parametrize("killed", [False, True])
def test_a_restart_keeps_queues_blocked_and_receipts_valid(killed: bool) -> None:
    p = Ordered()
    p.fill(3)
    found = p.pop(count=2, invisible_ms=60_000)
    assert p.ack(found.receipt(0)) == 0
    p.wait(5000)
    for table in (p.world.parts.metadata.cursors, p.world.parts.metadata.order_infos):
        table.tick()
    p = p.restarted(killed=killed)
    assert p.pop().code == ResponseCode.POLLING_TIMEOUT
    assert p.ack(found.receipt(1)) == 0
    assert p.pop().bodies == [b"2"]


def test_a_kill_before_anything_is_saved_loses_no_message() -> None:
    p = Ordered()
    p.fill(3)
    found = p.pop(count=2)
    assert p.ack(found.receipt(0)) == 0
    p = p.restarted(killed=True)
    assert p.ack(found.receipt(1)) == 0  # means nothing now
    assert p.pop().bodies == [b"0", b"1", b"2"]


def test_hand_outs_past_the_end_of_the_log_are_forgotten() -> None:
    """Another message gets the offset of one that a power loss took: an old receipt must not acknowledge it."""
    p = Ordered()
    p.fill(2)
    p.world.parts.store.sync()
    p.fill(1)
    found = p.pop()
    p.wait(5000)
    p.world.parts.metadata.order_infos.tick()
    lost = p.world.files.after_power_loss(lambda *_: False, lambda *_: True)
    q = Ordered(World(lost, p.world.clock))
    assert q.world.parts.store.max_offset("T", 0) < 3
    q.fill(3)
    assert q.ack(found.receipt(2)) == 0
    assert q.committed <= 0


def test_unusable_entries_of_the_file_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    p = Ordered()
    p.fill(1)
    p.pop()
    p.world.parts.close()
    path = f"{ROOT}/config/consumerOrderInfo.json"
    good = f'{{"popTime":{p.world.clock.now_ms()},"i":60000,"o":[0],"cm":0,"l":0}}'
    bad = ['{"o":[]}', '{"o":[3,1,1],"popTime":1}', "7", '{"o":[1],"popTime":"x"}', '{"o":{},"popTime":1}']
    entries = ",".join(f"{number}:{text}" for number, text in enumerate([good, *bad]))
    p.world.files.remove(path)
    with closing(p.world.files.open(path, create=True)) as file:
        file.pwrite(0, f'{{"table":{{"T@g":{{{entries}}},"U@g":3}}}}'.encode())
    q = Ordered(World(p.world.files, p.world.clock))
    assert caplog.text.count("left out") == len(bad) + 1
    assert q.pop().code == ResponseCode.POLLING_TIMEOUT


def test_what_is_unused_for_a_day_or_has_no_topic_or_group_is_dropped() -> None:
    p = Ordered()
    p.fill(1)
    infos = p.world.parts.metadata.order_infos
    p.pop()
    p.world.clock.advance(24 * 3600 * 1000)
    infos.tick()
    assert list(infos.all())
    p.pop(invisible_ms=0)
    p.world.clock.advance(24 * 3600 * 1000 + 1)
    infos.tick()
    assert not list(infos.all())
    p.pop()
    p.caller.ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="g")
    assert not list(infos.all())
    p.pop()
    p.caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert not list(infos.all())
