"""Answers that wait for the disk or for slaves have a limit, from which on the store takes no sends."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.messages.held_answers import HeldAnswers
from pymq.broker.messages.waiting_answers import ANSWER_BYTES, LIMIT_SHARE, WaitingAnswers
from pymq.clock import ManualClock
from pymq.net.memory_budget import HELD_ANSWERS, MemoryBudget
from pymq.wire.command import FLAG_RESPONSE, Command, encode_command

LIMIT_COUNT = 10
FRAME = encode_command(Command(0, flag=FLAG_RESPONSE))


class Log:
    """The part of a store that counts here."""

    physical_max_offset = 0
    has_unconfirmed = False

    def __init__(self) -> None:
        self.refusal: str | None = None

    def confirm(self, **offsets: int) -> None:
        return

    def refuse_writes(self, why: str | None, *, by: str) -> None:
        self.refusal = why


class NoCopies:
    is_on = is_concerned = counts_own_disk = False
    timeout_ms = 0

    def confirm_offset(self) -> int:
        return 0

    def check(self) -> None:
        return


class Receiver:
    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def write(self, frame: bytes) -> None:
        self.frames.append(frame)

    def write_all(self, frames: list[bytes]) -> None:
        self.frames += frames


class Setup:
    def __init__(self) -> None:
        self.log, self.clock, self.peer = Log(), ManualClock(), Receiver()
        self.budget = MemoryBudget(LIMIT_SHARE * LIMIT_COUNT * ANSWER_BYTES)
        store: Any = self.log
        copies: Any = NoCopies()
        self.answers = WaitingAnswers(
            store=store, clock=self.clock, copies=copies, sync_timeout_ms=lambda: 5000, budget=self.budget
        )

    def add(self, count: int) -> None:
        """Let ``count`` answers of one commit wait for the disk."""
        self.log.physical_max_offset += 100
        held: HeldAnswers = {self.peer: [FRAME] * count}
        self.answers.add(held, needs_disk=True, needs_slaves=False)

    @property
    def held_count(self) -> int:
        return self.budget.held[HELD_ANSWERS] // ANSWER_BYTES


def test_no_sends_are_taken_from_the_limit_on_until_half_of_the_answers_have_gone() -> None:
    setup = Setup()
    for count in (4, 1, 5):
        setup.add(count)
    assert setup.held_count == LIMIT_COUNT and setup.log.refusal is None
    setup.add(1)
    assert setup.log.refusal is not None and "11 answers wait" in setup.log.refusal and "10 is the" in setup.log.refusal
    assert setup.budget.refused_count == 1
    setup.answers.synced(200)
    assert setup.held_count == 6 and setup.log.refusal is not None
    setup.answers.synced(300)
    assert setup.held_count == 1 and setup.log.refusal is None
    assert len(setup.peer.frames) == 10


@pytest.mark.parametrize("end", ["late", "given up", "failed"])
def test_answers_that_are_refused_count_no_longer(end: str) -> None:
    setup = Setup()
    setup.add(LIMIT_COUNT + 1)
    if end == "late":
        setup.clock.advance(5000)
        setup.answers.tick()
    elif end == "given up":
        setup.answers.give_up("it stops")
    else:
        setup.answers.sync_failed("the disk is broken")
    assert setup.budget.total_bytes == 0 and setup.log.refusal is None
    assert len(setup.peer.frames) == LIMIT_COUNT + 1
