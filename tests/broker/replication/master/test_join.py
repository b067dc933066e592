"""The decision of a master about a join request, row by row of its table."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.replication.history.epoch_body import history_to_body
from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.history.log_end import tail_size
from pymq.broker.replication.master.join import MasterLog, decide
from pymq.config.values import BROKER_ID_MAX
from pymq.errors import Refusal
from pymq.model.epochs import EPOCH_JUMP_MAX
from pymq.wire.bodies_replication import PROTOCOL_VERSION, JoinRequest
from pymq.wire.codes import ResponseCode

SEGMENT = 100_000
FIRST = EpochHistory().begin(0, "a")
SECOND = FIRST.begin(150_000, "b")


def test_the_highest_id_is_one() -> None:
    assert decide(slave(broker_id=BROKER_ID_MAX), master()) == 200_000


def digest(end: int, size: int) -> str:
    return f"{end}-{size}"


def master(**changes: Any) -> MasterLog:
    own = MasterLog(
        cluster="c",
        broker_name="b",
        segment_size_bytes=SEGMENT,
        start=0,
        end=250_000,
        epoch_history=SECOND,
        tail_digest=digest,
    )
    return own._replace(**changes)


def slave(log_end: int = 0, epoch_history: EpochHistory = FIRST, log_start: int = 0, **changes: Any) -> JoinRequest:
    size = tail_size(log_start, log_end, SEGMENT)
    fields: dict[str, Any] = {
        "cluster": "c",
        "broker_name": "b",
        "broker_id": 1,
        "address": "h:1",
        "segment_size_bytes": SEGMENT,
        "log_start": log_start,
        "log_end": log_end,
        "tail_bytes": size,
        "tail_digest": digest(log_end, size),
        "epoch_history": history_to_body(epoch_history),
    }
    return JoinRequest(**{**fields, **changes})


def refusal(request: JoinRequest, own: MasterLog) -> Refusal:
    with pytest.raises(Refusal) as caught:
        decide(request, own)
    return caught.value


def test_an_empty_log_gets_the_last_segment() -> None:
    assert decide(slave(), master()) == 200_000
    assert decide(slave(log_start=300, log_end=300), master()) == 200_000


def test_an_empty_log_gets_everything_when_it_asks() -> None:
    assert decide(slave(full_sync=True), master(start=100_000)) == 100_000


def test_a_log_that_ends_within_the_masters_goes_on() -> None:
    assert decide(slave(120_000), master()) == 120_000
    assert decide(slave(200_000, SECOND), master()) == 200_000
    assert decide(slave(250_000, SECOND), master()) == 250_000


def test_a_log_that_ends_before_the_oldest_byte_is_refused() -> None:
    error = refusal(slave(99_999), master(start=100_000))
    assert "ends at 99999, before this master's oldest byte 100000" in error.remark
    assert "empty" in error.remark


def test_a_log_that_ends_with_the_oldest_byte_goes_on_when_its_epoch_history_is_known() -> None:
    assert decide(slave(100_000), master(start=100_000)) == 100_000
    assert "nothing is left to compare" in refusal(slave(100_000, EpochHistory()), master(start=100_000)).remark


def test_a_divergent_tail_is_truncated_at_the_common_point() -> None:
    assert decide(slave(180_000), master()) == 150_000
    assert decide(slave(180_000, FIRST.begin(120_000, "z")), master()) == 120_000


def test_a_slave_of_a_newer_master_is_never_truncated_for_an_older_one() -> None:
    newer = SECOND.begin(240_000, "c")
    for request in (slave(245_000, newer), slave(200_000, newer), slave(0, newer)):
        error = refusal(request, master())
        for word in ("epoch 3", "epoch is 2", "promote"):
            assert word in error.remark


def test_a_log_ahead_of_its_master_in_the_same_epoch_is_truncated() -> None:
    assert decide(slave(260_000, SECOND), master()) == 250_000


def test_nothing_is_truncated_when_nothing_would_be_left_to_go_on_from() -> None:
    assert "equal up to 150000 only" in refusal(slave(280_000), master(start=200_000)).remark
    assert "the slave's begins at 160000" in refusal(slave(180_000, log_start=160_000), master()).remark


def test_other_bytes_are_refused_with_and_without_epoch_history() -> None:
    for epoch_history in (FIRST, EpochHistory()):
        error = refusal(slave(120_000, epoch_history, tail_digest="beef"), master())
        assert "the 20000 bytes before offset 120000 differ: digest beef on the slave, 120000-20000 here" in str(error)


def test_logs_without_epoch_history_are_compared_by_their_ends() -> None:
    assert decide(slave(120_000, EpochHistory()), master()) == 120_000
    assert decide(slave(120_000), master(epoch_history=EpochHistory())) == 120_000
    assert "nothing after 250000 can be equal" in refusal(slave(260_000, EpochHistory()), master()).remark


def test_epoch_histories_without_a_common_epoch() -> None:
    other = EpochHistory().begin(120_000, "z")
    assert decide(slave(100_000, other.truncate(100_000)), master(epoch_history=SECOND)) == 100_000  # claims nothing
    late = EpochHistory().begin(150_000, "y")
    assert decide(slave(120_000, other), master(epoch_history=late)) == 120_000
    assert (
        "its epoch history shares no entry with this master's"
        in refusal(slave(130_000, other), master(epoch_history=late)).remark
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"cluster": "other"}, "brokerClusterName is other on the slave and c on this master"),
        ({"broker_name": "other"}, "brokerName is other on the slave and b on this master"),
        ({"segment_size_bytes": 5}, f"mappedFileSizeCommitLog is 5 on the slave and {SEGMENT} on this master"),
        ({"broker_id": 0}, "brokerId is 0, use 1 to 2147483647"),
        ({"broker_id": BROKER_ID_MAX + 1}, "brokerId is 2147483648, use"),
        ({"address": "nowhere"}, "'nowhere' is not an address"),
        ({"tail_bytes": 7}, "a tail of 7 bytes"),
        ({"log_start": 5, "log_end": 4}, "is not possible"),
        ({"log_start": -5}, "is not possible"),
    ],
)
def test_a_slave_of_another_group_is_refused(changes: dict[str, Any], what: str) -> None:
    error = refusal(slave(**changes), master())
    assert what in error.remark
    assert error.code == ResponseCode.INVALID_PARAMETER


def test_another_version_is_refused() -> None:
    error = refusal(slave(protocol_version=PROTOCOL_VERSION + 1), master())
    assert error.code == ResponseCode.VERSION_NOT_SUPPORTED
    assert f"version {PROTOCOL_VERSION + 1}" in error.remark


def test_one_id_is_one_slave() -> None:
    assert "brokerId 1 belongs to the slave at h:2" in refusal(slave(), master(live_address="h:2")).remark
    assert decide(slave(), master(live_address="h:1")) == 200_000


def test_a_slave_with_an_impossible_epoch_history_is_refused() -> None:
    entries = (EpochEntry(1, 0, "a"), EpochEntry(EPOCH_JUMP_MAX + 2, 10, "b"))
    why = str(refusal(slave(epoch_history=EpochHistory(entries)), master()))
    assert f"can't be true: its epochs jump from 1 to {EPOCH_JUMP_MAX + 2}" in why
