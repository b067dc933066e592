"""Answers that wait for the disk or for slaves have a limit, from which on the store takes no sends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pymq.broker.messages.held_answers import HeldAnswers
from pymq.broker.messages.waiting_answers import ANSWER_BYTES, LIMIT_SHARE, WaitingAnswers
from pymq.broker.raft.majority import MajorityMode, Replicas
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.sync_mode import LateReply, SyncMode
from pymq.client.sender import RETRY_CODES
from pymq.clock import ManualClock
from pymq.config import BrokerConfig
from pymq.config.values import SYNC_MASTER
from pymq.net.memory_budget import HELD_ANSWERS, MemoryBudget
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_RESPONSE, Command, decode_command, encode_command

LIMIT_COUNT = 10
FRAME = encode_command(Command(0, flag=FLAG_RESPONSE))


class Log:
    """The part of a store that counts here."""

    physical_max_offset = 0
    has_unconfirmed = False
    unconfirmed_bytes = 0

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

    def given_up_reply(self, why: str, *, keeps_log: bool) -> LateReply:
        return LateReply(ResponseCode.FLUSH_SLAVE_TIMEOUT, why)

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
        setup.answers.give_up("it stops", keeps_log=True)
    else:
        setup.answers.sync_failed("the disk is broken")
    assert setup.budget.total_bytes == 0 and setup.log.refusal is None
    assert len(setup.peer.frames) == LIMIT_COUNT + 1


# -- codes that clients take for a success -----------------------------------------------------------------------------


class OneConfirms:
    """A group whose only member is its leader, that confirms nothing."""

    confirm_offset, voter_count, why_no_writes = 0, 3, ""

    def follower_states(self) -> list[Any]:
        return []


@pytest.mark.parametrize("end", ["late", "stops", "changes its role"])
@pytest.mark.parametrize("is_in_group", [True, False])
def test_an_answer_that_clients_take_for_a_success_is_true(end: str, is_in_group: bool) -> None:
    """A master keeps what it has stored, but not as another one's slave. The next leader may truncate a leader's."""
    setup = Setup()
    config, role, store, group = BrokerConfig(), Role(0), cast(Any, setup.log), OneConfirms()
    config.broker_role = SYNC_MASTER
    slaves: Any = SimpleNamespace(in_sync_count=1, offset_acked_by=lambda count: 0)
    mode = (
        MajorityMode(group, config=config, store=store, role=role, slaves=Replicas(group))
        if is_in_group
        else SyncMode(config=config, store=store, role=role, slaves=slaves)
    )
    setup.answers._copies = mode
    setup.log.physical_max_offset = 100
    stored = Command(0, flag=FLAG_RESPONSE, ext={"queueOffset": "7"})
    setup.answers.add({setup.peer: [encode_command(stored)]}, needs_disk=False, needs_slaves=True)
    if end == "late":
        setup.clock.advance(config.slave_timeout_ms)
        setup.answers.tick()
    else:
        setup.answers.give_up("the broker stops, or changes its role", keeps_log=end == "stops")
    answer = decode_command(setup.peer.frames[0][4:])
    if is_in_group or end == "changes its role":
        assert answer.code == ResponseCode.SYSTEM_ERROR and answer.code in RETRY_CODES and answer.ext == {}
        assert answer.remark is not None and "it is not known whether the message stays stored" in answer.remark
    else:
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT and answer.ext == {"queueOffset": "7"}
