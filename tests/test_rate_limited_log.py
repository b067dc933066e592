"""RateLimitedLog: no peer can fill the log, and no line of a trusted source is omitted because of others."""

from __future__ import annotations

import itertools
import logging

import pytest

from pymq.clock import ManualClock
from pymq.rate_limited_log import (
    KINDS_MAX,
    LINES_MAX,
    PERIOD_MS,
    REPEAT_MS,
    REPEAT_MS_MAX,
    RateLimitedLog,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def limited_log(clock: ManualClock) -> RateLimitedLog:
    return RateLimitedLog(logging.getLogger("test"), clock, "connections to the HA port")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.message for record in caplog.records]
    caplog.clear()
    return found


def test_the_same_line_comes_again_after_a_while_with_the_number_of_repetitions(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    limited = limited_log(clock)
    for number in range(5):
        limited.write("h", f"from port {number} came 'text {number}'")
    assert lines(caplog) == ["from port 0 came 'text 0'"]
    clock.advance(REPEAT_MS - 1)
    limited.write("h", "from port 6 came 'x'")
    clock.advance(1)
    limited.write("h", "from port 7 came 'y'")
    assert lines(caplog) == ["from port 7 came 'y' (repeated 5 times since it was last logged)"]


def test_repetitions_come_at_growing_intervals(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited, written_at_ms, start_ms = limited_log(clock), [], clock.monotonic_ms()
    for _ in range(5 * REPEAT_MS_MAX // 5000):
        limited.write("h", "it flaps")
        if lines(caplog):
            written_at_ms.append(clock.monotonic_ms() - start_ms)
        clock.advance(5000)
    gaps_ms = [later - sooner for sooner, later in itertools.pairwise(written_at_ms)]
    assert gaps_ms[:4] == [REPEAT_MS, 2 * REPEAT_MS, 4 * REPEAT_MS, 8 * REPEAT_MS]
    assert gaps_ms[-1] == REPEAT_MS_MAX == max(gaps_ms)


def test_after_a_quiet_time_a_line_comes_at_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited = limited_log(clock)
    for _ in range(3):
        limited.write("h", "it went")
        clock.advance(REPEAT_MS)
    assert lines(caplog) == ["it went"] * 3


def test_other_sources_and_other_texts_are_written(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited = limited_log(clock)
    limited.write("h", "it went")
    limited.write("i", "it went")
    limited.write("h", "it came", logging.ERROR)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "ERROR"]


def test_lines_beyond_the_limit_are_counted(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited = limited_log(clock)
    for number in range(LINES_MAX + 30):
        limited.write(f"host {number}", "garbage")
    assert lines(caplog) == ["garbage"] * LINES_MAX
    clock.advance(PERIOD_MS - 1)
    limited.tick()
    assert not lines(caplog)
    clock.advance(1)
    limited.tick()
    (line,) = lines(caplog)
    assert line.startswith("30 more lines about connections to the HA port were omitted")
    clock.advance(PERIOD_MS)
    limited.tick()
    assert not lines(caplog), "nothing was omitted since"


def test_lines_of_a_trusted_source_are_always_written(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited = limited_log(clock)
    for number in range(2 * LINES_MAX):
        limited.write(f"host {number}", "garbage")
    lines(caplog)
    limited.write("slave 1", "its connection ended", is_trusted=True)
    assert lines(caplog) == ["its connection ended"]


def test_the_number_of_kept_kinds_is_limited(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited = limited_log(clock)
    for number in range(KINDS_MAX):
        limited.write(f"slave {number}", "gone", is_trusted=True)
    lines(caplog)
    limited.write("slave 0", "gone", is_trusted=True)
    assert not lines(caplog)
    limited.write(f"slave {KINDS_MAX}", "gone", is_trusted=True)
    limited.write("slave 0", "gone", is_trusted=True)
    assert lines(caplog) == ["gone", "gone"], "the oldest one was forgotten"
    assert len(limited._kinds) == KINDS_MAX


def test_text_from_a_peer_is_one_line(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited_log(clock).write("h", "cluster a\nERROR \x1b[2Jall is lost")
    assert lines(caplog) == ["cluster a\\nERROR \\x1b[2Jall is lost"]
