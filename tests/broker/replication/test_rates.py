"""Rates, and the times at which the log had its ends."""

from hypothesis import given
from hypothesis import strategies as st

from pymq.broker.replication.rates import MARK_INTERVAL_MS, MARKS_MAX, LogTimes, Rate


def test_a_rate_is_of_whole_seconds() -> None:
    rate = Rate(0, 100)
    rate.look(999, 5000)
    assert rate.per_second == 0
    rate.look(2000, 5100)
    assert rate.per_second == 2500
    rate.look(3000, 5100)
    assert rate.per_second == 0


def test_a_rate_never_falls_below_zero() -> None:
    rate = Rate(0, 100)
    rate.look(1000, 50)
    assert rate.per_second == 0


def test_the_age_of_a_byte_is_that_of_the_first_mark_after_it() -> None:
    times = LogTimes()
    times.note(100, 10)
    times.note(200, 20)
    assert [times.age_ms(offset, 300) for offset in (0, 9, 10, 19, 20)] == [200, 200, 100, 100, 0]


def test_marks_are_not_made_too_often() -> None:
    times = LogTimes()
    times.note(100, 10)
    times.note(100 + MARK_INTERVAL_MS - 1, 20)
    assert times.age_ms(15, 200) == 0
    times.note(100 + MARK_INTERVAL_MS, 30)
    assert times.age_ms(15, 200) == 100 - MARK_INTERVAL_MS


def test_marks_that_all_slaves_have_are_forgotten() -> None:
    times = LogTimes()
    for number in range(10):
        times.note(number * 100, number)
    times.forget_below(5)
    assert times.age_ms(5, 1000) == 400
    assert times.age_ms(0, 1000) == 500, "the age is that of the oldest mark left"


@given(st.integers(1, 3 * MARKS_MAX))
def test_the_age_of_the_oldest_byte_is_kept_in_bounded_memory(count: int) -> None:
    times = LogTimes()
    for number in range(1, count + 1):
        times.note(number * MARK_INTERVAL_MS, number)
    now_ms = count * MARK_INTERVAL_MS
    assert times.age_ms(0, now_ms) == now_ms - MARK_INTERVAL_MS
    assert len(times._marks) <= MARKS_MAX
