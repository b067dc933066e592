"""FreedMemory: trims when the process has grown beside its peers' memory, not more often than every few seconds."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from pymq.clock import ManualClock
from pymq.net.freed_memory import (
    GROWTH_BYTES,
    TRIM_PERIOD_MS,
    UNASKED_PERIOD_MS,
    FreedMemory,
    private_bytes,
    return_freed_memory,
)

BASE_BYTES = 10 * GROWTH_BYTES


class Process:
    """A process whose memory a test sets. A trim returns ``freed_bytes``."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.private_bytes = BASE_BYTES
        self.freed_bytes = 0
        self.trim_count = 0
        self.freed_memory = FreedMemory(self.clock, measure=lambda: self.private_bytes, trim=self._trim)

    def _trim(self) -> None:
        self.trim_count += 1
        self.private_bytes -= self.freed_bytes
        self.freed_bytes = 0

    def look(self, held_bytes: int = 0, after_ms: int = TRIM_PERIOD_MS) -> int:
        """Let time pass, look, and return how often memory was returned until now."""
        self.clock.advance(after_ms)
        self.freed_memory.look(held_bytes)
        return self.trim_count


@pytest.fixture
def process() -> Process:
    made = Process()
    assert made.look() == 0
    return made


def test_memory_held_for_peers_is_returned_when_it_is_not_held_any_more(process: Process) -> None:
    process.private_bytes += GROWTH_BYTES
    assert process.look(held_bytes=GROWTH_BYTES) == 0
    process.freed_bytes = GROWTH_BYTES
    assert process.look() == 1
    assert process.private_bytes == BASE_BYTES
    assert process.look() == 1


def test_memory_that_was_never_counted_is_returned_from_the_limit_on(process: Process) -> None:
    process.private_bytes += GROWTH_BYTES - 1
    assert process.look() == 0
    process.private_bytes += 1
    assert process.look() == 1


def test_growth_is_measured_from_the_least_since_the_last_return(process: Process) -> None:
    process.private_bytes += GROWTH_BYTES  # not freed: what the process needs from now on
    assert process.look() == 1
    assert process.look() == 1
    process.private_bytes -= GROWTH_BYTES // 2
    assert process.look() == 1
    process.private_bytes += GROWTH_BYTES
    assert process.look() == 2


def test_memory_is_returned_once_in_a_period(process: Process) -> None:
    process.private_bytes += GROWTH_BYTES
    assert process.look() == 1
    process.private_bytes += GROWTH_BYTES
    assert process.look(after_ms=TRIM_PERIOD_MS - 1) == 1
    assert process.look(after_ms=1) == 2


def test_what_was_in_use_at_one_return_is_returned_by_a_later_one(process: Process) -> None:
    process.private_bytes += GROWTH_BYTES
    assert process.look() == 1  # while it is in use
    process.freed_bytes = GROWTH_BYTES
    assert process.look(after_ms=UNASKED_PERIOD_MS - 1) == 1
    assert process.look(after_ms=1) == 2
    assert process.private_bytes == BASE_BYTES


def test_a_real_process_has_memory_and_any_c_library_is_fine() -> None:
    assert private_bytes() >= 0
    return_freed_memory()


FAULTS = """
import resource, sys
from pymq.net.freed_memory import keep_for_reuse

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    keep_for_reuse()
for turn in range(60):
    if turn == 10:
        before = faults()
    answers = [bytes([turn]) * (250_000 + 4096 * turn) for _ in range(8)]  # each turn's are larger
    del answers
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told what to keep")
def test_answers_take_the_memory_of_earlier_ones() -> None:
    def faults(mode: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, mode], capture_output=True, text=True, check=True)
        return int(done.stdout)

    pages_of_a_turn = 8 * 250_000 // 4096
    assert faults("keep") < 5 * pages_of_a_turn < 20 * pages_of_a_turn < faults("as it is")
