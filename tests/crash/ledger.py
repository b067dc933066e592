"""The ledger: what a store promised to senders. The driver keeps it, and recovery must fulfill it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pymq.model.lite_topics import light_queue_name


class Record(NamedTuple):
    """One message given to the store, with the bytes that the log must hold for it.

    ``lite``: its lite topic, ``light_offset``: its offset there.
    """

    topic: str
    queue_id: int
    queue_offset: int
    start: int
    raw: bytes
    keys: tuple[str, ...]
    in_queue: bool = True
    lite: str = ""
    light_offset: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.raw)


class Promise(NamedTuple):
    """The ledger at one moment. Offsets are physical.

    ``records[:count]`` were given to the store. Those that end at or below ``acked_end`` were acknowledged, those below
    ``synced_end`` were reported as synced. Records of a topic below ``gone[topic]`` were deleted with it; topics in
    ``going`` are being deleted. The log's start may be any of ``starts``. The version ``table_low`` of the saved table
    was acknowledged, versions up to ``table_high`` may be on the disk.
    """

    records: list[Record]
    count: int  # type: ignore[assignment]  # hides the tuple's own method
    acked_end: int
    synced_end: int
    gone: tuple[tuple[str, int], ...]
    going: tuple[str, ...]
    starts: tuple[int, ...]
    tables: list[dict[str, Any]]
    table_low: int
    table_high: int


class Ledger:
    """Grows with the workload. :meth:`promise` returns what holds now."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.acked_end = 0
        self.synced_end = 0
        self.gone: dict[str, int] = {}
        self.going: tuple[str, ...] = ()
        self.starts: tuple[int, ...] = (0,)
        self.tables: list[dict[str, Any]] = [{}]
        self.table_low = 0

    def promise(self) -> Promise:
        return Promise(
            self.records, len(self.records), self.acked_end, self.synced_end, tuple(sorted(self.gone.items())),
            self.going, self.starts, self.tables, self.table_low, len(self.tables) - 1,
        )  # fmt: skip

    def settle(self, end: int, start: int) -> None:
        """Note the result of a start: what lies behind ``end`` is lost, the rest is on the disk."""
        # A new list, because earlier promises keep the old one.
        self.records = [record for record in self.records if record.end <= end]
        self.acked_end = self.synced_end = end
        self.starts = (start,)


Queue = tuple[str, int]
Queues = dict[Queue, list[Record]]


def expected_queues(promise: Promise, end: int) -> Queues:
    """Return the records of each queue when the log ends at ``end``."""
    gone = dict(promise.gone)
    queues: Queues = {}
    for record in promise.records[: promise.count]:
        if record.end <= end and record.in_queue and record.start >= gone.get(record.topic, 0):
            queues.setdefault((record.topic, record.queue_id), []).append(record)
            if record.lite:
                name = light_queue_name(record.topic, record.lite)
                queues.setdefault((name, 0), []).append(record)
    return queues
