"""LogLimit: lines of one place in the code are limited, those of others are not; omitted ones are counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pymq.clock import ManualClock
from pymq.log_limit import LINES_MAX, PERIOD_MS, TEXT_LENGTH_MAX, LogLimit
from pymq.rate_limited_log import RateLimitedLog


class Lines(logging.Handler):
    """Keeps the text of each line."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Log:
    """A logger behind a limit."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lines = Lines()
        self.lines.addFilter(LogLimit(self.clock))
        self.logger = logging.Logger("limited", logging.DEBUG)
        self.logger.addHandler(self.lines)

    def warn(self, count: int) -> None:
        for number in range(count):
            self.logger.warning("group %d commits an offset that can't be", number)


@pytest.fixture
def log() -> Iterator[Log]:
    limited = Log()
    yield limited
    limited.lines.close()


def test_lines_of_one_place_are_limited_and_the_last_one_says_so(log: Log) -> None:
    log.warn(LINES_MAX - 1)
    assert not any("omitted" in text for text in log.lines.texts)
    log.warn(1000)
    assert len(log.lines.texts) == LINES_MAX
    assert "the limit is 20 lines of a kind in 60 s" in log.lines.texts[-1]


def test_the_next_period_begins_with_the_number_of_omitted_lines(log: Log) -> None:
    log.warn(LINES_MAX + 5)
    log.clock.advance(PERIOD_MS - 1)
    log.warn(1)
    log.clock.advance(1)
    log.warn(2)
    assert len(log.lines.texts) == LINES_MAX + 2
    assert log.lines.texts[-2].endswith("(6 more lines of this kind were omitted before)")
    assert "omitted" not in log.lines.texts[-1]


def test_other_places_have_their_own_limit(log: Log) -> None:
    log.warn(1000)
    log.logger.error("the disk is full")
    assert log.lines.texts[-1] == "the disk is full"


def test_lines_for_debugging_and_those_with_a_limit_of_their_own_pass(log: Log) -> None:
    for number in range(LINES_MAX * 2):
        log.logger.debug("frame %d", number)
    own = RateLimitedLog(log.logger, log.clock, "peers")
    for number in range(LINES_MAX * 2):
        own.write(f"source {number}", f"text of {chr(65 + number % 26)}", is_trusted=True)
    assert len(log.lines.texts) == LINES_MAX * 4


def test_a_long_line_is_shortened(log: Log) -> None:
    log.logger.warning("%s", "x" * TEXT_LENGTH_MAX)
    log.logger.warning("%s", "x" * 1_000_000)
    assert log.lines.texts[0] == "x" * TEXT_LENGTH_MAX
    assert log.lines.texts[1] == "x" * TEXT_LENGTH_MAX + "... (1000000 characters)"


def test_a_line_stays_one_that_no_terminal_obeys() -> None:
    log = Log()
    log.logger.warning("the directory %s is odd", "/data/a\n\x1b[2J100% new")
    assert log.lines.texts == ["the directory /data/a\\n\\x1b[2J100% new is odd"]
