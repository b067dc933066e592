"""Compares each slave with its master."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pymq.client.admin import Admin
from pymq.client.admin.replication import TableEntries
from pymq.errors import PymqError, RefusedError
from pymq.operations.check.line import Figure, Level, Limits, Part, Result
from pymq.operations.replica_view import (
    NO_SLAVE,
    START_SLAVE,
    BrokerView,
    SlaveLag,
    ask,
    in_sync_text,
    lag_of,
    problems_of,
    registered,
)
from pymq.units import format_bytes, format_count
from pymq.wire.bodies_replication import GONE, LogDigestsRequest, ReplicationStatus
from pymq.wire.codes import ResponseCode

SAMPLE_BYTES = 64 * 1024
CHUNK_BYTES = 1 << 20  # one digest of a full comparison
DIFFERENCES_SHOWN_MAX = 10
UNKNOWN_LAG = SlaveLag()


@dataclass(slots=True)
class ReplicaCheck:
    """The result for one slave, or for a master without slaves.

    ``problems`` fail the check and name the next step; ``notes`` don't fail it, as the doctor's notes don't.
    """

    master: BrokerView
    slave: BrokerView | None = None
    lag: SlaveLag = UNKNOWN_LAG
    compared_bytes: int | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_record(self) -> dict[str, Any]:
        """Return the record to print."""
        slave = self.slave
        return {
            "cluster": self.master.cluster,
            "broker": self.master.name,
            "slave_id": slave.broker_id if slave else None,
            "address": slave.address if slave else self.master.address,
            "lag_bytes": self.lag.lag_bytes,
            "lag_messages": self.lag.lag_messages,
            "in_sync": self.lag.in_sync,
            "compared_bytes": self.compared_bytes,
            "ok": not self.problems,
            "problems": self.problems,
            "notes": self.notes,
        }


async def check_replicas(
    admin: Admin, name: str | None, samples: int, *, full: bool, count_min: int = 0
) -> list[dict[str, Any]]:
    """Return a record per slave, and one per master that has none, or fewer than ``count_min``.

    Raises NotFoundError.
    """
    asked = await ask(admin, await registered(admin, name))
    outcomes: list[ReplicaCheck] = []
    for key in sorted({(view.cluster, view.name) for view in asked}):
        members = [view for view in asked if (view.cluster, view.name) == key]
        outcomes += await _check_group(admin, members, samples, full, count_min)
    return [outcome.as_record() for outcome in outcomes]


def as_result(records: Sequence[dict[str, Any]], limits: Limits) -> Result:
    """Return the result for monitoring: problems are critical, and ``limits`` are about the bytes that slaves lack."""
    slaves = sum(record["slave_id"] is not None for record in records)
    masters = "its master" if slaves == 1 else "their masters"
    result = Result("replica", f"{format_count(slaves, 'slave')} in step with {masters}")
    for record in records:
        subject = f"{record['broker']} slave {record['slave_id']}" if record["slave_id"] else record["broker"]
        figure = Figure(subject, record["lag_bytes"], "B", limits)
        result.figures.append(figure)
        result.parts += [Part(subject, Level.CRITICAL, problem) for problem in record["problems"]]
        if not record["problems"] and record["slave_id"] is None:
            result.parts += [Part(subject, Level.OK, note) for note in record["notes"]]
        elif not record["problems"]:
            lag = "an unknown number of bytes" if figure.value is None else format_bytes(figure.value)
            result.parts.append(Part(subject, figure.level, f"lacks {lag} of its master's log"))
    return result


async def _check_group(
    admin: Admin, views: Sequence[BrokerView], samples: int, full: bool, count_min: int
) -> list[ReplicaCheck]:
    masters = [view for view in views if view.is_master]
    slaves = [view for view in views if not view.is_master]
    if not masters:
        why = "no master is registered: start it, or make a slave the master with pymq broker promote"
        return [ReplicaCheck(views[0], slave, problems=[why]) for slave in slaves]
    master = masters[0]
    if len(slaves) < count_min:
        step = START_SLAVE.format(master.name)
        text = f"{format_count(len(slaves), 'slave')} registered, {count_min} must be (--count): {step}"
        return [ReplicaCheck(master, problems=[text])]
    if master.status is None:
        return [ReplicaCheck(master, problems=[f"the master does not answer: {master.error}"])]
    if not slaves:
        return [_check_lone(master)]
    return [await _check_slave(admin, master, slave, samples, full) for slave in slaves]


def _check_lone(master: BrokerView) -> ReplicaCheck:
    """Slaves that are gone, and slaves that sends wait for, are missing. Else the master is alone on purpose."""
    assert master.status is not None
    status = master.status
    gone = [slave for slave in status.slaves if slave.state == GONE]
    if gone:
        names = ", ".join(f"{slave.address} (id {slave.broker_id}: {slave.problem})" for slave in gone)
        return ReplicaCheck(master, problems=[f"its slaves are gone: start them again: {names}"])
    if status.knows_slaves and status.in_sync_slaves < status.required_slaves:
        return ReplicaCheck(master, problems=[f"{in_sync_text(status)}: {START_SLAVE.format(master.name)}"])
    return ReplicaCheck(master, notes=[f"{NO_SLAVE}; {START_SLAVE.format(master.name)}"])


async def _check_slave(admin: Admin, master: BrokerView, slave: BrokerView, samples: int, full: bool) -> ReplicaCheck:
    outcome = ReplicaCheck(master, slave)
    if slave.status is None or master.status is None:
        outcome.problems.append(f"it does not answer: {slave.error}")
        return outcome
    outcome.lag = lag_of(slave, master)
    outcome.problems += problems_of(slave)
    mine, theirs = slave.status, master.status
    if mine.segment_size_bytes != theirs.segment_size_bytes:
        outcome.problems.append(
            f"its segments have {mine.segment_size_bytes} bytes, the master's {theirs.segment_size_bytes}: set "
            f"the same mappedFileSizeCommitLog and start the slave with an empty directory"
        )
    if mine.log_end > theirs.log_end and mine.epoch_history[-1:] != theirs.epoch_history[-1:]:
        outcome.problems.append(
            f"its log ends at {mine.log_end}, beyond the master's end at {theirs.log_end}: it followed another master"
        )
    if outcome.lag.in_sync is False:
        outcome.problems.append(f"it is not in sync, {_behind(outcome.lag)}: see pymq broker status {slave.name}")
    await _compare_logs(admin, outcome, mine, theirs, samples, full)
    await _compare_tables(admin, outcome, slave, master)
    return outcome


def _behind(lag: SlaveLag) -> str:
    return "and its lag is unknown" if lag.lag_bytes is None else f"{format_bytes(lag.lag_bytes)} behind"


async def _compare_logs(
    admin: Admin, outcome: ReplicaCheck, mine: ReplicationStatus, theirs: ReplicationStatus, samples: int, full: bool
) -> None:
    low, high = max(mine.log_start, theirs.log_start), min(mine.log_end, theirs.log_end)
    if low >= high:
        outcome.notes.append("the two logs have no offset in common, so nothing was compared")
        return
    chunk_bytes = CHUNK_BYTES if full else SAMPLE_BYTES
    ranges = [(low, high)] if full else sample_ranges(low, high, samples, random.Random())
    slave, master = outcome.slave, outcome.master
    assert slave is not None
    try:
        different = [
            part
            for start, end in ranges
            for part in await _differences(admin, slave.address, master.address, start, end, chunk_bytes)
        ]
    except RefusedError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            outcome.notes.append("one of the two brokers has no digests, so the bytes of the logs were not compared")
            return
        outcome.problems.append(f"the logs can't be compared: {error}")
        return
    except PymqError as error:
        outcome.problems.append(f"the logs can't be compared: {error}")
        return
    outcome.compared_bytes = sum(end - start for start, end in ranges)
    outcome.problems += different[:DIFFERENCES_SHOWN_MAX]
    if len(different) > DIFFERENCES_SHOWN_MAX:
        outcome.problems.append(f"and {len(different) - DIFFERENCES_SHOWN_MAX} more places differ")


def sample_ranges(low: int, high: int, count: int, rng: random.Random) -> list[tuple[int, int]]:
    """Return the last bytes of a log, and ``count`` random places: one in each of ``count`` equal parts.

    Overlapping ranges are joined.
    """
    found = [(max(low, high - SAMPLE_BYTES), high)]
    step = (high - low) / count if count else 0
    for number in range(count):
        start = low + int(number * step + rng.random() * step)
        found.append((start, min(start + SAMPLE_BYTES, high)))
    return _joined([(start, end) for start, end in sorted(found) if start < end])


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join sorted ranges that overlap."""
    result: list[tuple[int, int]] = []
    for start, end in ranges:
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


async def _differences(admin: Admin, slave: str, master: str, start: int, end: int, chunk_bytes: int) -> list[str]:
    """Return a text for each chunk that differs between the two brokers."""
    found = []
    while start < end:
        request = LogDigestsRequest(start=start, end=end, chunk_bytes=chunk_bytes)
        mine = await admin.replication.digests(slave, request)
        theirs = await admin.replication.digests(master, request)
        size = theirs.segment_size_bytes
        count = min(len(mine.digests), len(theirs.digests))
        if count == 0:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"it returned no digest for offset {start}", master)
        for one, other in zip(mine.digests, theirs.digests, strict=False):
            stop = min(start + chunk_bytes, start - start % size + size, end)
            if one != other or not one:
                found.append(_difference(start, stop, one, other))
            start = stop
    return found


def _difference(start: int, end: int, mine: str, theirs: str) -> str:
    where = f"from offset {start} to {end}"
    damaged = [side for side, digest in (("slave", mine), ("master", theirs)) if not digest]
    if damaged:
        return (
            f"the log is damaged on the {' and the '.join(damaged)} {where}: stop that broker and run pymq store "
            f"recover --from the other"
        )
    return f"the logs differ {where}: start the slave with an empty directory, or find out which of the two is correct"


async def _compare_tables(admin: Admin, outcome: ReplicaCheck, slave: BrokerView, master: BrokerView) -> None:
    try:
        mine = await admin.replication.replicated_tables(slave.address)
        theirs = await admin.replication.replicated_tables(master.address)
    except PymqError as error:
        outcome.problems.append(f"the tables can't be compared: {error}")
        return
    for name, table in mine.items():
        different = _different_entries(table, theirs[name])
        if different:
            outcome.problems.append(
                f"its table of {name} differs from the master's in {', '.join(different[:DIFFERENCES_SHOWN_MAX])}"
                f"{' and more' if len(different) > DIFFERENCES_SHOWN_MAX else ''}: run this again, because a slave "
                f"copies a change after a moment (a RocketMQ slave once a minute)"
            )


def _different_entries(mine: TableEntries, theirs: TableEntries) -> list[str]:
    """Return the names of entries that one side lacks or that differ; none if the tables' versions are equal."""
    if mine.version == theirs.version:
        return []
    names = mine.entries.keys() | theirs.entries.keys()
    return sorted(name for name in names if mine.entries.get(name) != theirs.entries.get(name))
