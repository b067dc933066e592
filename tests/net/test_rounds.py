"""Rounds: resting connections continue in order, light ones first, and none starves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pymq.clock import ManualClock
from pymq.net.rounds import (
    HEAVY_FACTOR,
    HEAVY_KINDS_MAX,
    HEAVY_MAX_S,
    HEAVY_S,
    KIND_FRAME_BYTES_MAX,
    KIND_HEAVY_S,
    NEW,
    PIECE_BYTES_MIN,
    PIECES_BYTES_MAX,
    PROMPT_ANSWERS_BYTES_MAX,
    PROMPT_FRAMES_MAX,
    PROMPT_MAX,
    ROUND_S,
    Rounds,
    is_prompt,
)
from pymq.net.turn_watch import TurnWatch
from tests.net.hostile import ask


class Loop:
    """Runs what was scheduled, a round at a time, under a clock moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cpu_s = 0.0
        self.scheduled: list[Callable[[], None]] = []
        turns = TurnWatch(ManualClock(), now_s=lambda: self.now_s, cpu_s=lambda: self.cpu_s)
        self.rounds = Rounds(self.scheduled.append, turns)
        self.served: list[str] = []

    def note_work(self, frames: list[bytes], cpu_s: float, begun_s: float = 0.0, took_s: float | None = None) -> float:
        """Note work that took ``cpu_s`` of CPU time, and ``took_s`` by the clock (default: as long)."""
        self.cpu_s = cpu_s
        return self.rounds.note_work(frames, cpu_s if took_s is None else took_s, begun_s, "10.0.0.1:1")

    def run_round(self) -> str:
        scheduled, self.scheduled[:] = list(self.scheduled), []
        for callback in scheduled:
            callback()
        served, self.served = "".join(self.served), []
        return served


class Conversation:
    """A connection that works for a time and rests again, so many times."""

    def __init__(
        self,
        loop: Loop,
        name: str,
        work_s: float,
        count: int,
        *,
        is_heavy: bool = False,
        piece_bytes: int = 0,
        is_prompt: bool = False,
        next_is_large: bool = False,
    ) -> None:
        self.loop, self.name, self.work_s, self.count = loop, name, work_s, count
        self.is_heavy, self.piece_bytes = is_heavy, piece_bytes
        self.is_prompt, self.next_is_large = is_prompt, next_is_large
        self.rested_count = 0
        loop.rounds.rest(self, is_heavy=is_heavy, piece_bytes=piece_bytes)

    def rest_in_frame(self) -> None:
        self.rested_count += 1

    def end_rest(self, *, waits_for_memory: bool = True) -> None:
        self.loop.served.append(self.name if waits_for_memory else f"({self.name})")
        self.loop.now_s += self.work_s
        self.count -= 1
        self.is_prompt = self.is_prompt and not self.next_is_large
        if self.count:
            self.loop.rounds.rest(self, is_heavy=self.is_heavy, piece_bytes=self.piece_bytes)


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


def test_a_few_prompt_connections_go_before_all_others_and_wait_for_no_memory() -> None:
    loop = Loop()
    Conversation(loop, "X", 0.0, 1, is_heavy=True, is_prompt=True)
    Conversation(loop, "a", 0.0, 1)
    for number in range(PROMPT_MAX + 1):
        Conversation(loop, str(number), 0.0, 1, is_prompt=True)
    assert loop.rounds.resting_count == PROMPT_MAX + 3
    first = "".join(f"({number})" for number in range(PROMPT_MAX))
    assert loop.run_round() == f"{first}a{PROMPT_MAX}X"


def test_a_large_answer_ends_the_prompt_part_of_a_round() -> None:
    loop = Loop()
    for name in "abc":
        Conversation(loop, name, 0.0, 2, is_prompt=True, next_is_large=name == "b")
    assert [loop.run_round() for _ in range(3)] == ["(a)(b)b", "(c)(a)", "(c)"]


def test_prompt_connections_end_with_the_round_and_do_not_keep_the_others_from_theirs() -> None:
    loop = Loop()
    for name in "abc":
        Conversation(loop, name, ROUND_S * 0.6, 2, is_prompt=True)
    for name in "de":
        Conversation(loop, name, ROUND_S, 1)
    assert [loop.run_round() for _ in range(4)] == ["(a)(b)d", "(c)(a)e", "(b)(c)", ""]


def test_a_connection_is_prompt_by_what_it_got_last_and_what_waits() -> None:
    assert is_prompt(PROMPT_ANSWERS_BYTES_MAX, PROMPT_FRAMES_MAX)
    assert not is_prompt(PROMPT_ANSWERS_BYTES_MAX + 1, 0)
    assert not is_prompt(0, PROMPT_FRAMES_MAX + 1)


def test_a_round_reads_a_few_mib_of_unfinished_frames_after_all_others() -> None:
    loop = Loop()
    for name in "ABC":
        Conversation(loop, name, 0.0, 2, piece_bytes=PIECES_BYTES_MAX // 2)
    Conversation(loop, "a", 0.0, 2)
    Conversation(loop, "s", 0.0, 1, piece_bytes=PIECE_BYTES_MIN - 1)
    assert loop.rounds.resting_count == 5
    assert [loop.run_round() for _ in range(4)] == ["asAB", "aCA", "BC", ""]


def test_unfinished_frames_end_with_the_round_but_one_goes_on_in_every_round() -> None:
    loop = Loop()
    for name in "AB":
        Conversation(loop, name, 0.0, 1, piece_bytes=PIECE_BYTES_MIN)
    Conversation(loop, "a", ROUND_S, 1)
    assert [loop.run_round() for _ in range(3)] == ["aA", "B", ""]


def test_connections_in_the_midst_of_frames_rest_once_a_round() -> None:
    loop = Loop()
    others = [Conversation(loop, name, 0.0, 1) for name in "ab"]
    loop.rounds.read_s = 1.0
    for _ in range(2):
        loop.rounds.end_reads(others)
    assert [other.rested_count for other in others] == [1, 1]
    assert loop.run_round() == "ab" and loop.rounds.read_s == 0.0
    loop.rounds.end_reads(others)
    assert [other.rested_count for other in others] == [2, 2]


def test_an_error_does_not_end_the_rounds() -> None:
    loop = Loop()

    class Broken:
        is_prompt = False

        def end_rest(self, *, waits_for_memory: bool = True) -> None:
            raise RuntimeError("a bug")

        def rest_in_frame(self) -> None: ...

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
    until_s = loop.note_work([payload(VIEW)], 0.006)
    assert until_s == 0.006 * HEAVY_FACTOR
    loop.now_s = until_s - 0.001
    assert loop.rounds.is_heavy(until_s, [payload(PROBE)])
    loop.now_s = until_s
    assert not loop.rounds.is_heavy(until_s, [payload(VIEW)])
    assert loop.note_work([], 1.0, 5.0) == 5.0 + HEAVY_MAX_S


def test_time_that_others_had_the_cpu_makes_no_connection_heavy() -> None:
    loop = Loop()
    assert loop.note_work([payload(PROBE)], HEAVY_S, took_s=1.0) == 0.0
    assert not loop.rounds.is_heavy(NEW, [payload(PROBE)])
    assert loop.note_work([payload(PROBE)], HEAVY_S + 0.001, took_s=1.0) == (HEAVY_S + 0.001) * HEAVY_FACTOR


def test_a_new_connection_is_as_heavy_as_others_of_its_kind_were_a_moment_ago() -> None:
    loop = Loop()
    broken, large = b"\x00", payload(ask(33, body=bytes(KIND_FRAME_BYTES_MAX)))
    assert not loop.rounds.is_heavy(NEW, [payload(VIEW)])
    for frames in ([payload(VIEW)], [broken], []):
        loop.note_work(frames, 0.006)
    assert loop.rounds.is_heavy(NEW, [payload(VIEW)])
    for frames in ([payload(PROBE)], [broken], [large], []):
        assert not loop.rounds.is_heavy(NEW, frames)
    assert not loop.rounds.is_heavy(0.0, [payload(VIEW)]), "it is known to be light"
    loop.now_s = KIND_HEAVY_S
    assert not loop.rounds.is_heavy(NEW, [payload(VIEW)])


def test_kinds_that_peers_invent_take_no_memory() -> None:
    loop = Loop()
    for code in range(3 * HEAVY_KINDS_MAX):
        loop.note_work([payload(ask(code))], 0.006)
    assert len(loop.rounds._heavy_kinds) <= HEAVY_KINDS_MAX
