"""A master's decision whether a slave may join, and where it continues: a pure function of facts about both logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pymq.broker.replication.history.epoch_body import history_of_body
from pymq.broker.replication.history.epoch_history import EpochHistory, common_point, why_implausible
from pymq.broker.replication.history.log_end import last_segment_start, tail_size
from pymq.config.values import BROKER_ID_MAX
from pymq.errors import Refusal
from pymq.model.hosts import parse_address
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import PROTOCOL_VERSION, JoinRequest
from pymq.wire.codes import ResponseCode


class MasterLog(NamedTuple):
    """A master's facts about itself and its log.

    ``tail_digest(end, size)`` returns the digest of the ``size`` bytes before ``end``. ``live_address`` is the address
    of a connected slave with the id in question; empty without one.
    """

    cluster: str
    broker_name: str
    segment_size_bytes: int
    start: int
    end: int
    epoch_history: EpochHistory
    tail_digest: Callable[[int, int], str]
    live_address: str = ""


def decide(request: JoinRequest, own: MasterLog) -> int:
    """Return the offset where the slave continues. If it is below its log's end, the slave must truncate its log.

    Raises Refusal with a text that names the values, see the table in docs/replication-protocol.md.
    """
    _check_identity(request, own)
    _check_tail_size(request, own)
    _check_epoch(request, own)
    if request.log_start == request.log_end:
        return own.start if request.full_sync else last_segment_start(own.start, own.end, own.segment_size_bytes)
    return _offset_in_log(request, own)


def _check_identity(request: JoinRequest, own: MasterLog) -> None:
    if request.protocol_version != PROTOCOL_VERSION:
        raise Refusal(
            ResponseCode.VERSION_NOT_SUPPORTED,
            f"the slave speaks version {request.protocol_version} of the replication protocol, this master "
            f"{PROTOCOL_VERSION}: run the same version of PyMQ on both",
        )
    for what, theirs, ours in (
        ("brokerClusterName", request.cluster, own.cluster),
        ("brokerName", request.broker_name, own.broker_name),
        ("mappedFileSizeCommitLog", request.segment_size_bytes, own.segment_size_bytes),
    ):
        if theirs != ours:
            raise _refusal(f"{what} is {theirs} on the slave and {ours} on this master: make them equal")
    if not MASTER_ID < request.broker_id <= BROKER_ID_MAX:
        raise _refusal(f"the slave's brokerId is {request.broker_id}, use {MASTER_ID + 1} to {BROKER_ID_MAX}")
    try:
        parse_address(request.address)
    except ValueError as error:
        raise _refusal(f"the slave's own address: {error}") from None
    if own.live_address and own.live_address != request.address:
        raise _refusal(
            f"brokerId {request.broker_id} belongs to the slave at {own.live_address}, which is connected: "
            f"give the one at {request.address} another id"
        )


def _check_tail_size(request: JoinRequest, own: MasterLog) -> None:
    whole = tail_size(request.log_start, request.log_end, own.segment_size_bytes)
    if not 0 <= request.log_start <= request.log_end or request.tail_bytes != whole:
        raise _refusal(
            f"a log from {request.log_start} to {request.log_end} with a tail of {request.tail_bytes} bytes is not "
            f"possible: its tail has {whole}"
        )


def _check_epoch(request: JoinRequest, own: MasterLog) -> None:
    """Refuse a slave that has followed a newer master: it may have confirmed messages that this master never had."""
    history, ours = history_of_body(request.epoch_history), own.epoch_history.epoch
    if why := why_implausible(history, ours):
        raise _refusal(f"the epoch history of the slave at {request.address} can't be true: {why}: {_START_EMPTY}")
    theirs = history.epoch
    if 0 < ours < theirs:
        raise _refusal(
            f"the slave at {request.address} has followed a master of epoch {theirs}, this one's epoch is {ours}: "
            "another broker became the master since; start that one, or promote this slave"
        )


def _offset_in_log(request: JoinRequest, own: MasterLog) -> int:
    theirs = history_of_body(request.epoch_history)
    common = common_point(own.epoch_history, own.end, theirs, request.log_end)
    end = request.log_end
    if end < own.start:
        raise _other_log(f"the slave's log ends at {end}, before this master's oldest byte {own.start}: {_START_EMPTY}")
    if common.is_known and common.offset < end:
        if common.offset < max(own.start, request.log_start):
            raise _other_log(
                f"the logs are equal up to {common.offset} only; the slave's begins at {request.log_start}, this "
                f"master's at {own.start}: {_START_EMPTY}"
            )
        return common.offset
    if common.offset < end:
        raise _other_log(
            f"the slave's log ends at {end}, but its epoch history shares no entry with this master's, and nothing "
            f"after {common.offset} can be equal: {_START_EMPTY}"
        )
    _compare_tails(request, own, is_known=common.is_known)
    return end


def _compare_tails(request: JoinRequest, own: MasterLog, *, is_known: bool) -> None:
    end, size = request.log_end, request.tail_bytes
    if end - size < own.start:
        if is_known:
            return
        raise _other_log(
            f"the slave's log ends at {end}, where this master's begins: nothing is left to compare: {_START_EMPTY}"
        )
    ours = own.tail_digest(end, size)
    if request.tail_digest != ours:
        raise _other_log(
            f"the {size} bytes before offset {end} differ: digest {request.tail_digest} on the slave, {ours} here: "
            f"{_START_EMPTY}"
        )


_START_EMPTY = "move its directory away and start the slave with an empty one"


def _other_log(text: str) -> Refusal:
    """Return the refusal of a log that is not a part of this master's, which the slave knows by the code."""
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, text)


def _refusal(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)
