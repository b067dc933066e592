"""Rebuilds a stopped broker's directory from another copy of its log, which replaces what is lost or damaged.

It compares the log with the source's chunk by chunk and fetches only what differs. Then it reads everything once, as
``store verify`` does, and drops queues, index and digests that don't fit the log; the next start rebuilds them. A mark
in the directory keeps brokers out until all is done. The next run continues a killed one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from pymq.errors import StoreError, UsageError
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.offline.directory import Directory, open_directory
from pymq.offline.findings import Report
from pymq.offline.log_source import LogSource, SourceFacts
from pymq.offline.recover_log import Advance, ChunkCounts, LocalLog
from pymq.offline.recover_rest import (
    drop_all,
    drop_what_does_not_fit,
    renew_checkpoint,
    take_deletions,
    take_epoch_history,
    take_tables,
)
from pymq.offline.verify import verify
from pymq.store.disk.fs import Files, make_directory
from pymq.store.disk.rebuild_mark import mark_finished, mark_unfinished, unfinished_path
from pymq.store.lifecycle.cold_compressor import COLD_DIRECTORY
from pymq.store.log.cold_file import ColdFiles

# ``stage("compare", bytes)`` shows the progress of one part of the work; its result is called with the bytes done.
Stage = Callable[[str, int], AbstractContextManager[Advance]]


_SOURCE, _OTHER = "from", "otherLog"  # members of the mark


@dataclass(slots=True)
class RecoveryOutcome:
    """What a recovery found and did.

    ``counts`` are the chunks as they were before. ``damaged`` are ranges that are bad in the source. ``beyond_bytes``
    counts this log's bytes after the source's end. ``found`` is the final check, None when logs were only compared.
    """

    directory: str
    facts: SourceFacts
    chunk_bytes: int
    counts: ChunkCounts = field(default_factory=ChunkCounts)
    fetched_bytes: int = 0
    replaced: list[str] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)
    beyond_bytes: int = 0
    tables: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    found: Report | None = None

    @property
    def is_sound(self) -> bool:
        """True when the log equals the source's, as far as that goes, and nothing in it is damaged."""
        if self.found is None:
            return self.counts.equal == self.counts.total
        return not self.damaged and not self.counts.unknown and not self.left_damage

    @property
    def left_damage(self) -> dict[str, int]:
        """The remaining damage by kind: in the log, or in tables that the source lacks."""
        counts = self.found.counts if self.found is not None else {}
        rebuilt = ("queue", "index", "checkpoint", "digest") if not self.damaged else ("checkpoint",)
        return {kind: count for kind, count in counts.items() if kind not in rebuilt}

    def as_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            "directory": self.directory,
            "source": facts.address,
            "cluster": facts.cluster,
            "broker_name": facts.broker_name,
            "log_start": facts.log_start,
            "log_end": facts.log_end,
            "chunk_bytes": self.chunk_bytes,
            "chunks": {
                "equal": self.counts.equal,
                "differing": self.counts.differing,
                "missing": self.counts.missing,
                "damaged_in_source": self.counts.unknown,
            },
            "fetched_bytes": self.fetched_bytes,
            "replaced": self.replaced,
            "damaged_in_source": [{"start": start, "end": end} for start, end in self.damaged],
            "beyond_bytes": self.beyond_bytes,
            "tables": self.tables,
            "dropped": self.dropped,
            "sound": self.is_sound,
            "damage_left": self.left_damage,
            "notes": self.notes,
        }


class Recovery:
    """One directory and its source. ``log_directory`` may lie elsewhere; ``options`` are keys of its broker.conf."""

    def __init__(
        self,
        files: Files,
        root: str,
        source: LogSource,
        stage: Stage,
        log_directory: str | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        self._files = files
        self._root = root
        self._log_directory = log_directory or f"{root}/commitlog"
        self._options = options or {}
        self._source = source
        self._stage = stage
        self._facts = source.facts()
        self._cold = ColdFiles(files, f"{root}/{COLD_DIRECTORY}")
        self._log = LocalLog(files, root, self._log_directory, self._cold, self._facts)
        self.outcome = RecoveryOutcome(root, self._facts, self._log.chunk_bytes)

    def compare(self) -> RecoveryOutcome:
        """Compare the logs and change nothing. Raises OSError, PymqError."""
        self._compare()
        return self.outcome

    def run(self, *, force: bool = False) -> RecoveryOutcome:
        """Rebuild the directory. ``force`` does so even if the two logs seem to be of different brokers.

        Raises UsageError for a directory that is not this source's, StoreError, OSError, PymqError.
        """
        make_directory(self._files, self._root)
        lock = self._files.lock(f"{self._root}/lock")
        try:
            return self._run(force)
        finally:
            lock.release()

    def _run(self, force: bool) -> RecoveryOutcome:
        self._check_segments()
        if not force:
            self._check_names()
        differing = self._compare()
        is_other = self._is_other_log(force)
        mark_unfinished(self._files, self._root, msgspec.json.encode({_SOURCE: self._facts.address, _OTHER: is_other}))
        for directory in (self._log_directory, f"{self._root}/config"):
            make_directory(self._files, directory)
        if is_other:
            drop_all(self._files, self._root)
            self.outcome.replaced += self._log.truncate_beyond()
        self._mend(differing)
        tables = self._source.tables()
        self.outcome.tables = take_tables(self._files, self._root, tables)
        take_deletions(self._files, self._root, self._source.deleted_topics())
        self._finish(tables)
        mark_finished(self._files, self._root)
        return self.outcome

    # -- is it the same log ----------------------------------------------------------------------------------------

    def _plain_starts(self) -> list[int]:
        names = self._files.listdir(self._log_directory)
        return [int(name) for name in names if len(name) == 20 and name.isdigit()]

    def _check_segments(self) -> None:
        """Raise UsageError for segments unlike the source's, and for a hole that the source can't fill."""
        size = self._facts.segment_size_bytes
        if self._facts.log_start >= self._facts.log_end:
            raise UsageError(f"the log of {self._facts.address} is empty: choose another source")
        sizes = []
        for start in self._plain_starts():
            with closing(self._files.open(f"{self._log_directory}/{start:020d}")) as file:
                sizes.append(file.size())
        usual = max(set(sizes), key=sizes.count) if sizes else 0
        if usual > size or (sizes.count(usual) > 1 and 0 < usual < size):
            raise UsageError(
                f"segments in {self._log_directory} have {usual} bytes, those of {self._facts.address} {size}: "
                f"this is not the same log"
            )
        starts = sorted({*self._plain_starts(), *self._cold.starts(), *self._log.segment_starts()})
        for start, after in pairwise(starts):
            if after != start + size:
                raise UsageError(
                    f"this log would have a hole from {start + size} to {after}, where {self._facts.address} has "
                    f"nothing either: ask a broker with more of the log, or move the segments on one side of it away"
                )

    def _check_names(self) -> None:
        """Raise UsageError when the topic table lacks the topics that the source's broker has by its own and its
        cluster's name."""
        directory = self._open()
        try:
            topics = directory.topics()
        finally:
            directory.close()
        names = (self._facts.broker_name, self._facts.cluster)
        if topics is not None and not topics.intersection(names):
            raise UsageError(
                f"{self._root}/config/topics.json has neither topic {names[0]} nor {names[1]}, so it is not of broker "
                f"{names[0]} of cluster {names[1]} at {self._facts.address}: --force if you know better"
            )

    def _is_other_log(self, force: bool) -> bool:
        """True when more of the log differs than is equal, or did in an earlier, interrupted run with ``force``.

        Raises UsageError for such a log without ``force``.
        """
        path = unfinished_path(self._root)
        if self._files.exists(path) and _was_other(self._files.read_bytes(path)):
            return True
        counts = self.outcome.counts
        if counts.differing <= counts.equal:
            return False
        if not force:
            raise UsageError(
                f"{counts.differing} of {counts.total} chunks of {self.outcome.chunk_bytes} bytes differ from those of "
                f"{self._facts.address} and only {counts.equal} are equal: this looks like another log, not like a "
                f"damaged one; --force replaces all of it (and keeps the replaced bytes)"
            )
        if any(start + self._facts.segment_size_bytes > self._facts.log_end for start in self._cold.starts()):
            raise UsageError(
                f"compressed segments in {self._root} lie beyond the source's end: run `pymq store thaw` first"
            )
        return True

    # -- the log ---------------------------------------------------------------------------------------------------

    def _compare(self) -> list[int]:
        """Return the starts of the segments that differ from the source's."""
        differing = []
        with self._stage("compare", self._facts.log_end - self._facts.log_start) as advance:
            for start in self._log.segment_starts():
                counts = self._log.compare(self._source, start, advance)
                self.outcome.counts.add(counts)
                if counts.equal != counts.total:
                    differing.append(start)
        return differing

    def _mend(self, differing: list[int]) -> None:
        outcome, size = self.outcome, self._facts.segment_size_bytes
        total = sum(min(start + size, self._facts.log_end) - start for start in differing)
        with self._stage("fetch", total) as advance:
            for start in differing:
                fetched = self._log.mend(self._source, start, advance)
                outcome.fetched_bytes += fetched.bytes
                outcome.replaced += fetched.replaced
                outcome.damaged += fetched.damaged
        with self._stage("compare again", total) as advance:
            for start in differing:
                counts = self._log.compare(self._source, start, advance)
                if counts.differing or (counts.missing and not outcome.damaged):
                    raise StoreError(
                        f"{self._log_directory}/{start:020d} still differs from {self._facts.address} after it was "
                        f"written: check the disk, then run this again"
                    )

    # -- the rest --------------------------------------------------------------------------------------------------

    def _open(self) -> Directory:
        return open_directory(self._files, self._root, self._log_directory, self._options)

    def _finish(self, tables: dict[str, bytes]) -> None:
        """Check everything and drop what derives from the log and does not fit it; then epochs and checkpoint."""
        outcome = self.outcome
        directory = self._open()
        with closing(directory):
            with self._stage("verify", sum(segment.size for segment in directory.log.segments)) as advance:
                outcome.found = verify(directory, advance)
            outcome.beyond_bytes = max(0, outcome.found.log_end - self._facts.log_end)
            outcome.dropped = drop_what_does_not_fit(
                self._files, directory, outcome.found, is_whole=not outcome.damaged
            )
            renew_checkpoint(self._files, directory, outcome.found, outcome.dropped)
        take_epoch_history(
            self._files, self._root, tables, outcome.beyond_bytes, outcome.counts.differing, outcome.notes
        )
        if outcome.beyond_bytes:
            outcome.notes.append(
                f"{outcome.beyond_bytes} bytes of this log lie beyond the source's end and were kept: the source has "
                f"nothing to compare them with"
            )
        if self._facts.is_master:
            outcome.notes.append(
                f"{self._facts.address} is the master of {self._facts.broker_name}: start this broker as its slave, "
                f"pymq broker with --id 1 or another free one"
            )


def _was_other(mark: bytes) -> bool:
    try:
        return decode_json(mark, dict[str, Any]).get(_OTHER) is True
    except JsonError:
        return False
