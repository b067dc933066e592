"""Joining: the answers that a slave accepts, and those it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pymq.broker.replication.history.log_proof import PROOF_BYTES_MIN, OwnLog
from pymq.broker.replication.slave.joining import Joined, Joining, NotJoined, Outcome
from pymq.model.epochs import EPOCH_JUMP_MAX
from pymq.wire.bodies_replication import EPOCH_MAX, NO_TOKEN, TEXT_LENGTH_MAX, JoinRequest, LogDigests
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.ha import OFFSET_MAX
from tests.broker.replication.cable import Cable

MASTER = "10.0.0.1:10911"
TOKEN = -77
EPOCH = {"epoch": 3, "start": 100, "epochId": "a" * 16}


def outcome_of(answer: Command | str, *, log_start: int = 0, log_end: int = 0) -> Outcome:
    cable, outcomes = Cable(), list[Outcome]()
    cable.answerers[MASTER] = lambda command: answer
    request = JoinRequest(
        cluster="c", broker_name="b", broker_id=1, address="10.0.0.2:1", segment_size_bytes=1000, log_start=log_start,
        log_end=log_end,
    )  # fmt: skip
    Joining(cable, MASTER, request, outcomes.append).begin()
    cable.settle()
    (outcome,) = outcomes
    return outcome


def answered(log_start: int = 0, log_end: int = 0, **fields: Any) -> Outcome:
    body = {"token": TOKEN, "haAddress": "10.0.0.1:10912", "start": 0, **fields}
    return outcome_of(
        Command(ResponseCode.SUCCESS, body=msgspec.json.encode(body)), log_start=log_start, log_end=log_end
    )


def refused(log_start: int = 0, log_end: int = 0, **fields: Any) -> str:
    outcome = answered(log_start, log_end, **fields)
    assert isinstance(outcome, NotJoined) and outcome.was_refused
    return outcome.why


@pytest.mark.parametrize("start", [0, 5000, OFFSET_MAX])
def test_an_empty_log_goes_on_where_the_master_says(start: int) -> None:
    outcome = answered(start=start, logEnd=start, epochHistory=[EPOCH])
    assert isinstance(outcome, Joined)
    assert (outcome.start, outcome.token, outcome.log_end) == (start, TOKEN, start)
    assert [entry.epoch for entry in outcome.epoch_history.entries] == [3]


@pytest.mark.parametrize("start", [1000, 1700, 2000])
def test_a_log_continues_at_its_end_or_is_truncated_within(start: int) -> None:
    outcome = answered(1000, 2000, start=start, token=TOKEN if start == 2000 else NO_TOKEN)
    assert isinstance(outcome, Joined) and outcome.start == start


@pytest.mark.parametrize("start", [0, 999, 2001])
def test_no_log_is_truncated_before_its_begin_or_goes_on_after_its_end(start: int) -> None:
    assert f"would continue at {start}, but our log goes from 1000 to 2000" in refused(1000, 2000, start=start)


@pytest.mark.parametrize(("log_start", "log_end", "start"), [(1000, 2000, 2000), (0, 0, 0), (1000, 1000, 5000)])
def test_an_accepted_join_without_a_token_is_refused(log_start: int, log_end: int, start: int) -> None:
    assert "gave no token" in refused(log_start, log_end, start=start, token=NO_TOKEN)


@pytest.mark.parametrize(
    "fields",
    [
        {"start": -1},
        {"start": OFFSET_MAX + 1},
        {"token": 1},
        {"token": -OFFSET_MAX - 1},
        {"token": -(10**30)},
        {"logEnd": -2},
        {"logEnd": OFFSET_MAX + 1},
        {"haAddress": "h" * (TEXT_LENGTH_MAX + 1)},
        {"masterRole": "r" * (TEXT_LENGTH_MAX + 1)},
        {"epochHistory": [{**EPOCH, "start": -1}]},
        {"epochHistory": [{**EPOCH, "start": OFFSET_MAX + 1}]},
        {"epochHistory": [{**EPOCH, "epoch": -1}]},
        {"epochHistory": [{**EPOCH, "epoch": EPOCH_MAX + 1}]},
        {"epochHistory": [{**EPOCH, "epochId": "x" * (TEXT_LENGTH_MAX + 1)}]},
    ],
    ids=str,
)
def test_join_answer_values_beyond_their_limits_are_refused(fields: dict[str, Any]) -> None:
    why = refused(**fields)
    assert f"the answer of {MASTER} to the join request can't be read: not a JoinAnswer: Expected" in why


def test_join_answer_values_at_their_limits_are_accepted() -> None:
    epoch_history = [{"epoch": EPOCH_MAX, "start": OFFSET_MAX, "epochId": "x" * TEXT_LENGTH_MAX}]
    fields: dict[str, Any] = {
        "token": -OFFSET_MAX,
        "start": OFFSET_MAX,
        "logEnd": OFFSET_MAX,
        "haAddress": "h" * TEXT_LENGTH_MAX,
    }
    assert isinstance(answered(epoch_history=epoch_history, **fields), Joined)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"token":-1,"haAddress":"\xff","start":0}', b'{"other":' + b"[" * 100_000]
)
def test_an_unreadable_answer_is_refused(body: bytes) -> None:
    outcome = outcome_of(Command(ResponseCode.SUCCESS, body=body))
    assert isinstance(outcome, NotJoined)
    assert "can't be read: not a JoinAnswer" in outcome.why


@pytest.mark.parametrize(
    ("answer", "was_refused"),
    [
        ("no connection", False),
        (Command(ResponseCode.SERVICE_NOT_AVAILABLE, remark="it starts"), False),
        (Command(ResponseCode.INVALID_PARAMETER, remark="another cluster"), True),
    ],
)
def test_only_an_explicit_no_is_a_refusal(answer: Command | str, was_refused: bool) -> None:
    outcome = outcome_of(answer)
    assert isinstance(outcome, NotJoined) and outcome.was_refused is was_refused


def test_an_abandoned_join_has_no_effect() -> None:
    cable, outcomes = Cable(), list[Outcome]()
    request = JoinRequest(
        cluster="c", broker_name="b", broker_id=1, address="10.0.0.2:1", segment_size_bytes=1000, log_start=0, log_end=0
    )
    joining = Joining(cable, MASTER, request, outcomes.append)
    joining.begin()
    joining.abandon()
    cable.settle()
    assert outcomes == []


@pytest.mark.parametrize("epoch", [EPOCH_JUMP_MAX + 1, 1 << 60])
def test_a_master_with_an_impossible_epoch_is_not_followed(epoch: int) -> None:
    why = refused(epochHistory=[{**EPOCH, "epoch": epoch}])
    assert f"jump from 0 to {epoch}" in why and MASTER in why


OWN_LOG = OwnLog(0, 2000, 4096, lambda end, size: f"digest of {size} bytes before {end}")


def with_proof(start: int, digest: str | Command) -> Outcome:
    """Return the outcome when the master continues at ``start``, and answers ``digest`` to the question for it."""
    cable, outcomes = Cable(), list[Outcome]()
    joined = msgspec.json.encode(
        {"token": TOKEN, "haAddress": "10.0.0.1:10912", "start": start, "epochHistory": [EPOCH]}
    )

    def answer(command: Command) -> Command:
        if command.code == RequestCode.PYMQ_JOIN_MASTER:
            return Command(0, body=joined)
        assert command.code == RequestCode.PYMQ_LIST_LOG_DIGESTS
        if isinstance(digest, Command):
            return digest
        found = LogDigests(
            broker_name="b", cluster="c", segment_size_bytes=4096, log_start=0, log_end=1, start=0, digests=[digest]
        )
        return Command(0, body=msgspec.json.encode(found))

    cable.answerers[MASTER] = answer
    request = JoinRequest(
        cluster="c", broker_name="b", broker_id=1, address="10.0.0.2:1", segment_size_bytes=4096, log_start=0,
        log_end=2000,
    )  # fmt: skip
    Joining(cable, MASTER, request, outcomes.append, OWN_LOG).begin()
    cable.settle()
    (outcome,) = outcomes
    return outcome


def test_a_master_that_has_our_log_is_followed() -> None:
    outcome = with_proof(2000, "digest of 2000 bytes before 2000")
    assert isinstance(outcome, Joined) and not outcome.unproven


@pytest.mark.parametrize("start", [1000, 2000])
def test_a_master_that_can_not_show_our_log_is_not_followed(start: int) -> None:
    outcome = with_proof(start, "another digest")
    assert isinstance(outcome, NotJoined) and outcome.was_refused and "its log is not ours" in outcome.why
    busy = with_proof(start, Command(ResponseCode.SERVICE_NOT_AVAILABLE, remark="it changes its role"))
    assert isinstance(busy, NotJoined) and not busy.was_refused


@pytest.mark.parametrize("start", [0, PROOF_BYTES_MIN - 1])
def test_too_few_common_bytes_prove_nothing(start: int) -> None:
    outcome = with_proof(start, "never asked")
    assert isinstance(outcome, Joined) and "too few bytes" in outcome.unproven
