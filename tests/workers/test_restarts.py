"""The restart policy: within a second, and not more than four times a minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pymq.workers.restarts import DELAYS_MS, ENDS_MAX, WINDOW_MS, Restarts


def test_the_fifth_end_of_a_minute_leaves_a_worker_down() -> None:
    restarts = Restarts()
    assert [restarts.ended(1000 + number) for number in range(ENDS_MAX)] == [*DELAYS_MS, None]
    assert restarts.is_left_down and restarts.restart_count == ENDS_MAX - 1


def test_an_end_counts_for_a_minute() -> None:
    restarts = Restarts()
    for number in range(ENDS_MAX - 1):
        restarts.ended(number)
    assert restarts.ended(WINDOW_MS) is not None, "the first one is a minute old"
    assert restarts.ended(WINDOW_MS) is None, "the four of the last minute count"


def test_an_operator_lets_it_start_again() -> None:
    restarts = Restarts()
    assert not restarts.forgive()
    for number in range(ENDS_MAX):
        restarts.ended(number)
    assert restarts.forgive() and not restarts.is_left_down
    assert restarts.restart_count == ENDS_MAX
    assert restarts.ended(ENDS_MAX) == DELAYS_MS[0]


@given(st.lists(st.integers(0, 40_000), max_size=60))
def test_it_starts_again_within_a_second_and_is_down_only_after_five_ends_in_a_minute(gaps_ms: list[int]) -> None:
    restarts, ends, now_ms = Restarts(), list[int](), 0
    for gap_ms in gaps_ms:
        now_ms += gap_ms
        ends.append(now_ms)
        delay_ms = restarts.ended(now_ms)
        recent = sum(end > now_ms - WINDOW_MS for end in ends)
        assert (delay_ms is None) == (recent >= ENDS_MAX)
        if delay_ms is None:
            assert restarts.forgive()
            ends.clear()
        else:
            assert 0 <= delay_ms < 1000
