"""RateLimitedLog: nobody who connects can fill the log, and nothing that happens to a slave is left out for it."""

from __future__ import annotations

import itertools
import logging

import pytest

from pymq.broker.replication.master.rate_limited_log import (
    AGAIN_MS,
    AGAIN_MS_MAX,
    KINDS_MAX,
    LINES_MAX,
    PERIOD_MS,
    RateLimitedLog,
    printable,
)
from pymq.clock import ManualClock


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.message for record in caplog.records]
    caplog.clear()
    return found


def test_the_same_is_said_again_after_a_while_with_how_often_it_was_meant(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    told = RateLimitedLog(clock)
    for number in range(5):
        told.tell("h", f"from port {number} came 'text {number}'")
    assert lines(caplog) == ["from port 0 came 'text 0'"]
    clock.advance(AGAIN_MS - 1)
    told.tell("h", "from port 6 came 'x'")
    clock.advance(1)
    told.tell("h", "from port 7 came 'y'")
    assert lines(caplog) == ["from port 7 came 'y' (and 5 times more since that was said last)"]


def test_it_is_said_ever_later_while_it_goes_on(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    told, said_at_ms, start_ms = RateLimitedLog(clock), [], clock.monotonic_ms()
    for _ in range(5 * AGAIN_MS_MAX // 5000):
        told.tell("h", "it flaps")
        if lines(caplog):
            said_at_ms.append(clock.monotonic_ms() - start_ms)
        clock.advance(5000)
    gaps_ms = [later - sooner for sooner, later in itertools.pairwise(said_at_ms)]
    assert gaps_ms[:4] == [AGAIN_MS, 2 * AGAIN_MS, 4 * AGAIN_MS, 8 * AGAIN_MS]
    assert gaps_ms[-1] == AGAIN_MS_MAX == max(gaps_ms)


def test_after_a_quiet_time_it_is_said_at_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    told = RateLimitedLog(clock)
    for _ in range(3):
        told.tell("h", "it went")
        clock.advance(AGAIN_MS)
    assert lines(caplog) == ["it went"] * 3


def test_others_and_other_things_are_said(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    told = RateLimitedLog(clock)
    told.tell("h", "it went")
    told.tell("i", "it went")
    told.tell("h", "it came", logging.ERROR)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "ERROR"]


def test_so_many_lines_a_minute_are_written_and_the_rest_is_counted(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    told = RateLimitedLog(clock)
    for number in range(LINES_MAX + 30):
        told.tell(f"host {number}", "garbage")
    assert lines(caplog) == ["garbage"] * LINES_MAX
    clock.advance(PERIOD_MS - 1)
    told.tick()
    assert not lines(caplog)
    clock.advance(1)
    told.tick()
    (line,) = lines(caplog)
    assert line.startswith("30 more lines about connections to the HA port were left out")
    clock.advance(PERIOD_MS)
    told.tick()
    assert not lines(caplog), "nothing was left out since"


def test_slaves_are_heard_in_the_greatest_noise(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    told = RateLimitedLog(clock)
    for number in range(2 * LINES_MAX):
        told.tell(f"host {number}", "garbage")
    lines(caplog)
    told.tell("slave 1", "its connection ended", is_slave=True)
    assert lines(caplog) == ["its connection ended"]


def test_so_many_kinds_are_remembered(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    told = RateLimitedLog(clock)
    for number in range(KINDS_MAX):
        told.tell(f"slave {number}", "gone", is_slave=True)
    lines(caplog)
    told.tell("slave 0", "gone", is_slave=True)
    assert not lines(caplog)
    told.tell(f"slave {KINDS_MAX}", "gone", is_slave=True)
    told.tell("slave 0", "gone", is_slave=True)
    assert lines(caplog) == ["gone", "gone"], "the oldest one was forgotten"
    assert len(told._kinds) == KINDS_MAX


def test_what_a_peer_says_is_one_line(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    RateLimitedLog(clock).tell("h", "cluster a\nERROR \x1b[2Jall is lost")
    assert lines(caplog) == ["cluster a?ERROR ?[2Jall is lost"]
    assert printable("Größe") == "Größe"
