"""Rounds: resting connections continue in order, light ones first, and none starves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pymq.clock import ManualClock
from pymq.net.rounds import (
    HEAVY_FACTOR,
    HEAVY_KINDS_MAX,
    HEAVY_MAX_S,
    KIND_FRAME_BYTES_MAX,
    KIND_HEAVY_S,
    NEW,
    ROUND_S,
    Rounds,
)
from pymq.net.turn_watch import TurnWatch
from tests.net.hostile import ask


class Loop:
    """Runs what was scheduled, a round at a time, under a clock moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.scheduled: list[Callable[[], None]] = []
        turns = TurnWatch(ManualClock(), now_s=lambda: self.now_s, cpu_s=lambda: 0.0)
        self.rounds = Rounds(self.scheduled.append, turns)
        self.served: list[str] = []

    def run_round(self) -> str:
        scheduled, self.scheduled[:] = list(self.scheduled), []
        for callback in scheduled:
            callback()
        served, self.served = "".join(self.served), []
        return served


class Conversation:
    """A connection that works for a time and rests again, so many times."""

    def __init__(self, loop: Loop, name: str, work_s: float, count: int, *, is_heavy: bool = False) -> None:
        self.loop, self.name, self.work_s, self.count, self.is_heavy = loop, name, work_s, count, is_heavy
        loop.rounds.rest(self, is_heavy=is_heavy)

    def end_rest(self) -> None:
        self.loop.served.append(self.name)
        self.loop.now_s += self.work_s
        self.count -= 1
        if self.count:
            self.loop.rounds.rest(self, is_heavy=self.is_heavy)


def test_connections_continue_in_turn_once_a_round() -> None:
    loop = Loop()
    for name in "abc":
        Conversation(loop, name, ROUND_S / 10, 2)
    assert [loop.run_round(), loop.run_round(), loop.run_round()] == ["abc", "abc", ""]
    assert not loop.scheduled and loop.rounds.resting_count == 0


def test_a_round_ends_in_time_and_the_next_one_begins_where_it_ended() -> None:
    loop = Loop()
    for name in "abcd":
        Conversation(loop, name, ROUND_S * 0.6, 2)
    assert [loop.run_round() for _ in range(4)] == ["ab", "cd", "ab", "cd"]


def test_light_connections_go_first_and_one_heavy_one_goes_in_every_round() -> None:
    loop = Loop()
    for name in "XYZ":
        Conversation(loop, name, ROUND_S, 2, is_heavy=True)
    for name in "ab":
        Conversation(loop, name, ROUND_S * 0.6, 2)
    assert [loop.run_round() for _ in range(6)] == ["abX", "abY", "Z", "X", "Y", "Z"]


def test_an_error_does_not_end_the_rounds() -> None:
    loop = Loop()

    class Broken:
        def end_rest(self) -> None:
            raise RuntimeError("a bug")

    loop.rounds.rest(Broken(), is_heavy=False)
    Conversation(loop, "a", 0.0, 1)
    with pytest.raises(RuntimeError):
        loop.run_round()
    assert loop.run_round() == "a"


VIEW, PROBE = ask(33), ask(999)


def payload(frame: bytes) -> bytes:
    return frame[4:]


def test_a_connection_is_heavy_for_a_thousand_times_its_work_but_not_for_ever() -> None:
    loop = Loop()
    until_s = loop.rounds.note_heavy([payload(VIEW)], 0.006, 0.0)
    assert until_s == 0.006 * HEAVY_FACTOR
    loop.now_s = until_s - 0.001
    assert loop.rounds.is_heavy(until_s, [payload(PROBE)])
    loop.now_s = until_s
    assert not loop.rounds.is_heavy(until_s, [payload(VIEW)])
    assert loop.rounds.note_heavy([], 1.0, 5.0) == 5.0 + HEAVY_MAX_S


def test_a_new_connection_is_as_heavy_as_others_of_its_kind_were_a_moment_ago() -> None:
    loop = Loop()
    broken, large = b"\x00", payload(ask(33, body=bytes(KIND_FRAME_BYTES_MAX)))
    assert not loop.rounds.is_heavy(NEW, [payload(VIEW)])
    for frames in ([payload(VIEW)], [broken], []):
        loop.rounds.note_heavy(frames, 0.006, 0.0)
    assert loop.rounds.is_heavy(NEW, [payload(VIEW)])
    for frames in ([payload(PROBE)], [broken], [large], []):
        assert not loop.rounds.is_heavy(NEW, frames)
    assert not loop.rounds.is_heavy(0.0, [payload(VIEW)]), "it is known to be light"
    loop.now_s = KIND_HEAVY_S
    assert not loop.rounds.is_heavy(NEW, [payload(VIEW)])


def test_kinds_that_peers_invent_take_no_memory() -> None:
    loop = Loop()
    for code in range(3 * HEAVY_KINDS_MAX):
        loop.rounds.note_heavy([payload(ask(code))], 0.006, 0.0)
    assert len(loop.rounds._heavy_kinds) <= HEAVY_KINDS_MAX
