"""Compares a log's files with another copy of it, chunk by chunk, and copies what is missing or differs.

Nothing is lost: replaced bytes first go to files of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from pymq.errors import StoreError
from pymq.offline.log_files import SegmentFile
from pymq.offline.log_source import DAMAGED, LogSource, SourceFacts
from pymq.store.disk.fs import File, Files, make_directory
from pymq.store.integrity.log_digests import chunk_bounds
from pymq.store.log.cold_file import TEMPORARY_SUFFIX, ColdFiles
from pymq.store.log.zeroing import zero_from

CHUNK_BYTES_MAX = 1 << 20
CHUNK_BYTES_MIN = 4096
CHUNKS_WANTED = 256  # for a small log, so that one damaged byte costs a small part of it
REPLACED_DIRECTORY = "replaced"

Advance = Callable[[int], None]  # bytes done since the last call


@dataclass(slots=True)
class ChunkCounts:
    """Chunks by result. ``missing``: no file, or only zeros; ``unknown``: damaged in the source, with bytes here."""

    equal: int = 0
    differing: int = 0
    missing: int = 0
    unknown: int = 0

    def count(self, state: str) -> None:
        setattr(self, state, getattr(self, state) + 1)

    def add(self, other: ChunkCounts) -> None:
        self.equal += other.equal
        self.differing += other.differing
        self.missing += other.missing
        self.unknown += other.unknown

    @property
    def total(self) -> int:
        return self.equal + self.differing + self.missing + self.unknown


class Chunk(NamedTuple):
    """A part of one segment: its physical range and the source's digest of it."""

    start: int
    end: int
    digest: str


@dataclass(slots=True)
class Fetched:
    """What was copied.

    ``replaced``: files that keep the old bytes; ``damaged``: ranges that the source has bad, too.
    """

    bytes: int
    replaced: list[str]
    damaged: list[tuple[int, int]]


def chunk_bytes_for(log_bytes: int) -> int:
    """Return the chunk size for a log of this size, a power of two."""
    size = CHUNK_BYTES_MAX
    while size > CHUNK_BYTES_MIN and log_bytes < size * CHUNKS_WANTED:
        size //= 2
    return size


class LocalLog:
    """The files of a log whose segments are to equal the source's. Replaced bytes go below ``root``."""

    def __init__(self, files: Files, root: str, directory: str, cold: ColdFiles, facts: SourceFacts) -> None:
        self._files = files
        self._root = root
        self._directory = directory
        self._cold = cold
        self._size = facts.segment_size_bytes
        self._facts = facts
        self.chunk_bytes = chunk_bytes_for(facts.log_end - facts.log_start)

    def segment_starts(self) -> range:
        """Return the start of every segment of the source's log."""
        first = self._facts.log_start
        return range(first, self._facts.log_end, self._size)

    # -- comparing -------------------------------------------------------------------------------------------------

    def compare(self, source: LogSource, start: int, advance: Advance) -> ChunkCounts:
        """Compare one segment with the source's. Raises OSError, PymqError."""
        counts = ChunkCounts()
        with self._opened(start) as segment:
            for chunk in self._chunks(source, start):
                counts.count(_state(self._read(segment, chunk), chunk))
                advance(chunk.end - chunk.start)
        return counts

    def _chunks(self, source: LogSource, start: int) -> Iterator[Chunk]:
        end = min(start + self._size, self._facts.log_end)
        while start < end:
            digests = source.digests(start, end, self.chunk_bytes)
            if not digests:
                raise StoreError(f"{self._facts.address} gave no digest of its log at offset {start}: run this again")
            for (chunk_start, stop), digest in zip(
                chunk_bounds(start, end, self.chunk_bytes, self._size), digests, strict=False
            ):
                yield Chunk(chunk_start, stop, digest)
                start = stop

    def _read(self, segment: SegmentFile | None, chunk: Chunk) -> bytes:
        """Return the chunk's bytes, zeros where there is no readable file."""
        size = chunk.end - chunk.start
        return bytes(size) if segment is None else segment.read(chunk.start - segment.start, size)

    @contextmanager
    def _opened(self, start: int) -> Iterator[SegmentFile | None]:
        """Open a segment; None where there is no readable file."""
        segment = self._open(start)
        try:
            yield segment
        finally:
            if segment is not None:
                segment.file.close()

    def _open(self, start: int) -> SegmentFile | None:
        path = f"{self._directory}/{start:020d}"
        if self._files.exists(path):
            return SegmentFile(path, start, self._size, self._files.open(path))
        if start in self._cold.starts():
            try:
                file = self._cold.open(start)
            except StoreError:
                return None
            return SegmentFile(file.path, start, self._size, file)
        return None

    # -- taking over -----------------------------------------------------------------------------------------------

    def mend(self, source: LogSource, start: int, advance: Advance) -> Fetched:
        """Make one segment equal to the source's, and durable. Raises OSError, PymqError.

        Chunks are written one by one. After a crash the next try finds the finished ones equal. A compressed segment
        becomes a plain one, which replaces it when it is complete.
        """
        fetched = Fetched(0, [], [])
        path = f"{self._directory}/{start:020d}"
        is_new = not self._files.exists(path)
        with self._opened(start) as before:
            is_cold = before is not None and before.is_cold
            target = path + TEMPORARY_SUFFIX if is_cold else path
            with closing(self._files.open(target, create=True, size=self._size)) as file:
                if is_cold:
                    file.truncate(0)  # an earlier try may have left bytes, but holes must be zeros
                self._complete(file)
                for chunk in self._chunks(source, start):
                    old = self._read(before, chunk)
                    new = self._chosen(source, chunk, before, old, fetched)
                    if new is not old or is_cold:
                        file.pwrite(chunk.start - start, new)
                    advance(chunk.end - chunk.start)
                if before is not None and is_cold:
                    _copy(before, min(start + self._size, self._facts.log_end) - start, file, 0)
                file.sync()
        if is_cold:
            self._files.replace(target, path)
        if is_new:
            self._files.sync_dir(self._directory)
        if start in self._cold.starts():
            self._cold.remove(start)
        return fetched

    def truncate_beyond(self) -> list[str]:
        """Move the bytes beyond the source's end to files of their own; return their paths. Raises OSError.

        For a log that is not the source's: its remaining bytes would be unreadable.
        """
        end, kept = self._facts.log_end, []
        names = [name for name in self._files.listdir(self._directory) if len(name) == 20 and name.isdigit()]
        for name in reversed(names):
            start = int(name)
            if start + self._size <= end:
                break
            path, at = f"{self._directory}/{name}", max(0, end - start)
            with closing(self._files.open(path)) as file:
                tail = SegmentFile(path, start, self._size, file)
                if tail.first_nonzero(at) is not None:
                    kept.append(self._keep(tail, start + at, start + self._size))
                if at:
                    zero_from(file, at, self._size)
                    file.sync()
            if not at:
                self._files.remove(path)
                self._files.sync_dir(self._directory)
        return kept

    def _complete(self, file: File) -> None:
        size = file.size()
        if size > self._size:
            raise StoreError(
                f"{file.path} has {size} bytes, a segment of this log has {self._size}: move it away and run this again"
            )
        if size < self._size:
            file.truncate(self._size)

    def _chosen(
        self, source: LogSource, chunk: Chunk, before: SegmentFile | None, old: bytes, fetched: Fetched
    ) -> bytes:
        """Return the chunk's final bytes: unchanged, or the source's."""
        state = _state(old, chunk)
        if state not in ("missing", "differing"):
            return old
        new = self._fetch(source, chunk, fetched)
        if state == "differing":
            assert before is not None, "without a file a chunk is missing"
            fetched.replaced.append(self._keep(before, chunk.start, chunk.end))
        fetched.bytes += len(new)
        return new

    def _fetch(self, source: LogSource, chunk: Chunk, fetched: Fetched) -> bytes:
        data = source.read(chunk.start, chunk.end)
        if chunk.digest == DAMAGED:
            fetched.damaged.append((chunk.start, chunk.end))
        elif xxh3_64_hexdigest(data) != chunk.digest:
            raise StoreError(
                f"what {self._facts.address} sent of its log from {chunk.start} to {chunk.end} does not fit its own "
                f"digest: run this again, and `pymq store verify` there when it stays so"
            )
        return data

    def _keep(self, segment: SegmentFile, start: int, end: int) -> str:
        """Save the bytes to be replaced in a file.

        A file of an earlier try stays, because it holds the original bytes.
        """
        directory = f"{self._root}/{REPLACED_DIRECTORY}"
        make_directory(self._files, directory)
        path = f"{directory}/{start:020d}-{end:020d}"
        if self._files.exists(path):
            return path
        temporary = path + TEMPORARY_SUFFIX
        with closing(self._files.open(temporary, create=True)) as file:
            file.truncate(0)
            _copy(segment, start - segment.start, file, start - segment.start, end - segment.start)
            file.truncate(end - start)
            file.sync()
        self._files.replace(temporary, path)
        self._files.sync_dir(directory)
        return path


def _state(data: bytes, chunk: Chunk) -> str:
    """Return the field of :class:`ChunkCounts` for a chunk that reads as ``data`` here."""
    if xxh3_64_hexdigest(data) == chunk.digest:
        return "equal"
    if not data.strip(b"\0"):
        return "missing"
    return "unknown" if chunk.digest == DAMAGED else "differing"


def _copy(segment: SegmentFile, at: int, file: File, begin: int, end: int | None = None) -> None:
    """Copy the segment's bytes from ``at`` to ``end`` (None: all), piece by piece, to position ``at - begin`` on."""
    end = segment.size if end is None else end
    while at < end:
        data = segment.read(at, min(CHUNK_BYTES_MAX, end - at))
        if data.strip(b"\0"):  # holes stay holes
            file.pwrite(at - begin, data)
        at += len(data)
