"""SlicedWork: long work in slices with rests between, small work at once, all work in turn."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from pymq.broker.work.sliced_work import SLICE_S, WAITING_COUNT_MAX, SlicedWork, Steps, inline_work
from pymq.errors import NotFoundError, Refusal
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.broker.world import FakePeer

STEP_S = SLICE_S / 4 + 1e-9  # four fill a slice, however their sum is rounded
REQUEST = Command(317, opaque=7, body=b"x" * 1000)


class Loop:
    """A loop by hand: time passes when work says so, and when the next timer is due."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.ends = 0
        self.served = 0
        self.serves_all_the_time = True
        self.work = SlicedWork(
            self.call_later, now_s=lambda: self.now_s, served_count=self.served_count, after_each=self.end
        )

    def served_count(self) -> int:
        self.served += self.serves_all_the_time
        return self.served

    def call_later(self, delay_s: float, run: Callable[[], None]) -> None:
        self.timers.append((self.now_s + delay_s, run))

    def end(self) -> None:
        self.ends += 1

    def run_one(self) -> None:
        when_s, run = self.timers.pop(0)
        self.now_s = max(self.now_s, when_s)
        run()

    def run(self) -> None:
        while self.timers:
            self.run_one()

    def steps(self, count: int, result: Reply | None = None, step_s: float = STEP_S) -> Steps[Reply]:
        for _ in range(count):
            self.now_s += step_s
            yield
        return result or Reply(remark=f"{count} steps")


def test_work_of_one_slice_is_answered_at_once() -> None:
    loop, peer = Loop(), FakePeer()
    reply = loop.work.answer(REQUEST, peer, loop.steps(3))
    assert reply is not None and reply.remark == "3 steps"
    assert not loop.timers and not peer.answers and loop.work.waiting_count == 0


def test_longer_work_rests_as_long_as_it_works_and_is_answered_late() -> None:
    loop, peer = Loop(), FakePeer()
    assert loop.work.answer(REQUEST, peer, loop.steps(40)) is None
    loop.run()
    assert [reply.remark for reply in peer.answers] == ["40 steps"]
    assert 10 <= loop.work.slice_count <= 11 and loop.ends == loop.work.slice_count - 1
    assert loop.now_s == pytest.approx((10 + loop.ends) * SLICE_S, abs=SLICE_S / 2), "10 slices, and a rest after each"


def test_a_loop_that_serves_nobody_meanwhile_does_not_rest() -> None:
    loop, peer = Loop(), FakePeer()
    loop.serves_all_the_time = False
    assert loop.work.answer(REQUEST, peer, loop.steps(40)) is None
    assert [when_s - loop.now_s for when_s, _ in loop.timers] == [0.0], "clients come first"
    loop.run()
    assert [reply.remark for reply in peer.answers] == ["40 steps"]
    assert loop.now_s == pytest.approx(10 * SLICE_S, abs=SLICE_S / 2), "10 slices"


def test_a_request_that_comes_meanwhile_makes_it_rest_once() -> None:
    loop, peer = Loop(), FakePeer()
    loop.serves_all_the_time = False
    assert loop.work.answer(REQUEST, peer, loop.steps(12)) is None
    loop.served += 1
    loop.run_one()
    assert loop.work.slice_count == 1 and [when_s - loop.now_s for when_s, _ in loop.timers] == [
        pytest.approx(SLICE_S, rel=0.01)
    ]
    loop.run()
    assert [reply.remark for reply in peer.answers] == ["12 steps"]
    assert loop.now_s == pytest.approx((3 + 1) * SLICE_S, abs=SLICE_S / 2), "3 slices, and one rest"


def test_work_takes_turns_and_begins_only_after_a_rest() -> None:
    loop, peer = Loop(), FakePeer()
    assert loop.work.answer(REQUEST, peer, loop.steps(18)) is None
    assert loop.work.answer(REQUEST, peer, loop.steps(2)) is None, "other work waits"
    loop.run()
    assert [reply.remark for reply in peer.answers] == ["2 steps", "18 steps"]
    assert loop.work.answer(REQUEST, peer, loop.steps(1)) is None, "the last slice was just now"
    loop.run()
    assert loop.work.answer(REQUEST, peer, loop.steps(0)) is None
    loop.now_s += 2 * SLICE_S
    loop.run()
    loop.now_s += SLICE_S
    assert loop.work.answer(REQUEST, peer, loop.steps(0)) is not None


def test_work_for_a_connection_that_ended_is_dropped() -> None:
    loop, peer = Loop(), FakePeer()
    loop.work.answer(REQUEST, peer, loop.steps(1000))
    peer.closed = True
    loop.run()
    assert loop.work.slice_count == 1 and not peer.answers and loop.work.waiting_count == 0


def test_too_much_waiting_work_is_refused() -> None:
    loop, peer = Loop(), FakePeer()
    for _ in range(WAITING_COUNT_MAX):
        assert loop.work.answer(REQUEST, peer, loop.steps(1000)) is None
    with pytest.raises(Refusal) as error:
        loop.work.answer(REQUEST, peer, loop.steps(1))
    assert error.value.code == ResponseCode.SYSTEM_BUSY and "ask again" in error.value.remark
    loop.run()
    assert len(peer.answers) == WAITING_COUNT_MAX


@pytest.mark.parametrize(("error", "text"), [(NotFoundError("gone"), "gone"), (ValueError("bug"), "ValueError: bug")])
def test_errors_are_answered_early_and_late(error: Exception, text: str, caplog: pytest.LogCaptureFixture) -> None:
    def failing(loop: Loop, count: int) -> Steps[Reply]:
        yield from loop.steps(count)
        raise error

    loop, peer = Loop(), FakePeer()
    with pytest.raises(type(error)):
        loop.work.answer(REQUEST, peer, failing(loop, 1))
    loop.now_s += 1
    with caplog.at_level(logging.ERROR):
        assert loop.work.answer(REQUEST, peer, failing(loop, 100)) is None
        loop.run()
    (reply,) = peer.answers
    assert reply.code == ResponseCode.SYSTEM_ERROR and text in (reply.remark or "")
    assert ("317" in caplog.text) == isinstance(error, ValueError)
    assert loop.work.waiting_count == 0


def test_inline_work_is_done_at_once() -> None:
    loop = Loop()
    assert inline_work().answer(REQUEST, FakePeer(), loop.steps(1000)) is not None
