"""Lets one call of a workload fail, or all from one on, and checks what the store promised before, during and after."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pymq.errors import CorruptRecordError, StoreError, StoreUnavailableError, UnreadableError
from tests.crash.checking import BrokenPromiseError, Checker, served_by, verify
from tests.crash.driver import Driver
from tests.crash.ledger import Record
from tests.crash.losses import DROP_ALL
from tests.crash.workloads import Workload, workload
from tests.store.support import die

_CHANGING = {"pwrite", "allocate", "truncate", "makedirs", "replace", "sync", "sync_dir"}
NUMBERS = (errno.ENOSPC, errno.EIO, errno.EMFILE)


class Failure(NamedTuple):
    """One way to let a workload's calls fail. Its text form replays it."""

    workload: str
    call: int
    number: int
    lasting: bool

    def __str__(self) -> str:
        return f"{self.workload}:{self.call}:{errno.errorcode[self.number]}:{'lasting' if self.lasting else 'once'}"

    @classmethod
    def parse(cls, text: str) -> Failure:
        name, call, number, how = text.split(":")
        return cls(name, int(call), getattr(errno, number), how == "lasting")


def _may_fail(number: int, call: str, exists: bool) -> bool:
    """Return whether a system gives this error for this call."""
    if number == errno.ENOSPC:
        return call in _CHANGING or (call == "open" and not exists)
    if number == errno.EMFILE:
        return call in ("open", "read_bytes", "sync_dir")
    return True


class _FailingDriver(Driver):
    """Continues after any failure, as a broker does: refused stays refused, a start is repeated when the disk works."""

    def __init__(self, failure: Failure, settings: dict[str, Any]) -> None:
        self._failure = failure
        self._count = 0
        self.is_healthy = False
        self.fault_count = 0
        self.went_read_only = False
        super().__init__(recording=False, on_call=self._fail, **settings)

    def _fail(self, call: str, path: str) -> None:
        self._count += 1
        failure = self._failure
        if self.is_healthy or self._count < failure.call or (self._count > failure.call and not failure.lasting):
            return
        if _may_fail(failure.number, call, self.files.exists(path)):
            self.fault_count += 1
            raise OSError(failure.number, os.strerror(failure.number), path)

    def heal(self) -> None:
        self.is_healthy = True

    def open(self) -> None:
        try:
            super().open()
        except (OSError, StoreError):
            self.heal()
            die(self.store)
            super().open()
        self._adopt()
        for topic in self.ledger.going:
            # Its deletion reached the disk although the sync failed.
            if not any(self.store.max_offset(*queue) for queue in self.store.queues() if queue[0] == topic):
                self.ledger.gone[topic] = self.store.physical_max_offset
                self.ledger.going = ()

    def _adopt(self) -> None:
        """Take over refused records that could not be undone. They must be whole, and behind all acknowledged records.

        The sender knows that the outcome is unknown, as after a lost answer.
        """
        for record in sorted(self.refused, key=lambda record: record.start):
            known_end = max((known.end for known in self.ledger.records), default=0)
            if known_end <= record.start and record.end <= self.store.physical_max_offset and self._is_in_log(record):
                self.ledger.records = [*self.ledger.records, record]
        self.refused = []

    def _is_in_log(self, record: Record) -> bool:
        try:
            return bytes(self.store.record_at(record.start)) == record.raw
        except CorruptRecordError:
            return False

    def delete_topic(self, topic: str) -> None:
        try:
            super().delete_topic(topic)
        except (OSError, StoreUnavailableError):
            if all(name != topic for name, _ in self.store.queues()):
                self.ledger.gone[topic] = self.store.physical_max_offset
                self.ledger.going = ()
            check_reads(self)

    def close(self) -> None:
        try:
            super().close()
        except (OSError, StoreUnavailableError):
            self.ledger.synced_end = 0  # the stop was unclean, and the next start has to notice it


def _guarded(name: str) -> Callable[..., None]:
    def run(self: _FailingDriver, *args: Any, **options: Any) -> None:
        try:
            getattr(Driver, name)(self, *args, **options)
        except (OSError, StoreUnavailableError):
            check_reads(self)

    return run


for _name in (
    "send", "send_to", "send_lite", "send_batch", "send_half", "send_delayed", "tick", "sync", "save_table", "expire",
    "grow",
):  # fmt: skip
    setattr(_FailingDriver, _name, _guarded(_name))


def check_reads(driver: _FailingDriver) -> None:
    """Check that every acknowledged record is served, and nothing wrong even while reads fail."""
    promise = driver.ledger.promise()
    if driver.origin is not None:  # records of an unreachable queue wait
        promise = promise._replace(acked_end=min(promise.acked_end, driver.follower.dispatched_end))
    visible = [record for record in promise.records if record.end <= promise.acked_end]
    try:
        served = served_by(driver.store)._replace(end=promise.acked_end, table=promise.tables[promise.table_low])
    except (OSError, UnreadableError, CorruptRecordError):
        if driver.is_healthy or not driver._failure.lasting:
            raise
        return
    verify(served, promise._replace(records=visible, count=len(visible)), 0)


@dataclass(slots=True)
class ErrorTally:
    """Counts runs, and calls that really failed."""

    runs: int = 0
    faults: int = 0
    read_only: int = 0

    def __str__(self) -> str:
        return f"{self.runs:,} runs, {self.faults:,} calls really failed, {self.read_only:,} stores went read-only"


def call_count(work: Workload) -> int:
    """Return how many calls the workload makes without failures."""
    driver = _FailingDriver(Failure(work.name, 1 << 30, errno.EIO, False), work.settings)
    work.run(driver)
    return driver._count


def fail(work: Workload, failure: Failure, tally: ErrorTally) -> None:
    """Run one failure. Raises BrokenPromiseError that names it."""
    try:
        driver = _FailingDriver(failure, work.settings)
        driver.files.failing_write_bytes = failure.call * 37 % 200
        work.run(driver)
        _check_recovery(driver)
    except (BrokenPromiseError, OSError, StoreError, AssertionError, IndexError, KeyError) as error:
        raise BrokenPromiseError(f"{error!r}\nreplay: scripts/crash --fail {failure}") from error
    tally.runs += 1
    tally.faults += driver.fault_count
    tally.read_only += driver.went_read_only


def _check_disk(driver: _FailingDriver) -> None:
    """Check that a power loss now would keep everything that the store reported as synced."""
    image = DROP_ALL.of(driver.files.snapshot())
    store, _ = Checker(driver.settings).start(image, driver.clock.now_ms() + 5_000)
    ledger = driver.ledger
    if store.physical_max_offset < ledger.synced_end:
        raise BrokenPromiseError(f"the disk has {store.physical_max_offset} of {ledger.synced_end} synced bytes")
    for record in ledger.records:
        kept = store.physical_min_offset <= record.start and record.end <= ledger.synced_end
        if kept and bytes(store.record_at(record.start)) != record.raw:
            raise BrokenPromiseError(f"the disk has other bytes at {record.start}")
    die(store)


def _check_recovery(driver: _FailingDriver) -> None:
    """Check that the store serves and takes messages when the disk works again (after a failed fsync: and restarts)."""
    _check_disk(driver)
    driver.heal()
    driver.tick()
    check_reads(driver)
    driver.went_read_only = driver.store._log.broken is not None
    before = driver.ledger.acked_end
    if driver.origin is None:
        driver.send("Alpha", 0, (20,))
    else:
        driver.origin.send("Alpha", 0, (20,))
        driver.grow(1 << 20)
        check_reads(driver)
    if driver.went_read_only != (driver.ledger.acked_end == before):
        raise BrokenPromiseError(
            f"sends are {'taken' if driver.went_read_only else 'refused'}: {driver.store.problems}"
        )
    driver.kill()
    verify(_served(driver), driver.ledger.promise(), driver.ledger.acked_end)
    if driver.origin is not None:
        driver.lead()
    driver.send_to(("Alpha", 0), ("Gamma", 0))
    driver.restart()
    verify(_served(driver), driver.ledger.promise(), driver.ledger.acked_end)


def _served(driver: _FailingDriver) -> Any:
    return served_by(driver.store)._replace(table=driver.table.load())


def replay_failure(text: str) -> ErrorTally:
    """Replay one failure. Raises what it finds."""
    failure = Failure.parse(text)
    tally = ErrorTally()
    fail(workload(failure.workload), failure, tally)
    return tally
