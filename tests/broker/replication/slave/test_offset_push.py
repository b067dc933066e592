"""OffsetPush: pending offsets go to the master, a limited number at a time; the effect of each answer."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.replication.slave.offset_push import ASKED_AT_ONCE, OffsetPush
from pymq.clock import ManualClock
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.streams import StreamHandler

MASTER = "10.0.0.1:10911"
OnAnswer = Callable[[Command | str], None]


class Master:
    """Requests wait until a test answers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[Command, OnAnswer]] = []

    def connect(self, address: str, handler: StreamHandler) -> None:
        raise AssertionError("nothing is streamed")

    def ask(self, address: str, command: Command, on_answer: OnAnswer, timeout_ms: int) -> None:
        assert address == MASTER and timeout_ms > 0
        self.asked.append((command, on_answer))

    def answer(self, code: int = ResponseCode.SUCCESS, remark: str | None = None) -> None:
        """Answer all requests that wait now."""
        asked, self.asked = self.asked, []
        for command, on_answer in asked:
            offset = command.ext["commitOffset"] if code == ResponseCode.SUCCESS else ""
            on_answer(Command(code, remark=remark, ext={"offset": offset} if offset else {}))


class Setup:
    def __init__(self, count: int) -> None:
        table = TableSaver(JsonTable(MemoryFiles(), "/pendingOffsets.json"), lambda work, done: None)
        self.pending = PendingOffsets(table, clock=ManualClock())
        for number in range(count):
            self.pending.note("g", "T", number, 7)
        self.master = Master()
        self.push = OffsetPush(self.master, self.pending, self._note_difference)
        self.differences = 0
        self.ended: list[str] = []
        self.push.start(MASTER, self.ended.append)

    def _note_difference(self) -> None:
        self.differences += 1


def test_nothing_to_send_is_done_at_once() -> None:
    setup = Setup(0)
    assert setup.ended == [""] and not setup.push.has_work


def test_a_limited_number_is_sent_at_once_and_all_are_settled() -> None:
    setup = Setup(ASKED_AT_ONCE + 1)
    assert len(setup.master.asked) == ASKED_AT_ONCE
    setup.master.answer()
    assert len(setup.master.asked) == 1 and setup.ended == []
    setup.master.answer()
    assert setup.ended == [""] and len(setup.pending) == 0 and setup.differences == 0


@pytest.mark.parametrize("answer", ["no connection", Command(ResponseCode.SYSTEM_BUSY, remark="later")])
def test_unanswered_offsets_stay_pending(answer: Command | str) -> None:
    setup = Setup(2)
    for _, on_answer in setup.master.asked:
        on_answer(answer)
    (problem,) = setup.ended
    assert ("no connection" if isinstance(answer, str) else "later") in problem
    assert len(setup.pending) == 2 and setup.push.has_work


def test_many_that_are_refused_are_dropped_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup(2 * ASKED_AT_ONCE)
    with caplog.at_level(logging.WARNING):
        setup.master.answer(ResponseCode.TOPIC_NOT_EXIST, "no topic T")
        setup.master.answer(ResponseCode.TOPIC_NOT_EXIST, "no topic T")
    assert setup.ended == [""] and len(setup.pending) == 0 and setup.differences > 0
    (line,) = caplog.messages
    assert (
        "did not take PendingOffset(group='g', topic='T', queue_id=0, offset=7), which is dropped: no topic T" in line
    )
    assert f"and {2 * ASKED_AT_ONCE - 1} others" in line


def test_after_its_end_no_answer_counts_and_nothing_more_is_asked() -> None:
    """The slave's parts are closed by another thread then, which saves what waits."""
    setup = Setup(ASKED_AT_ONCE + 1)
    setup.push.close()
    setup.master.answer()
    assert setup.master.asked == [] and setup.ended == []
    assert len(setup.pending) == ASKED_AT_ONCE + 1
