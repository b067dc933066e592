"""Cold segments: old ones are compressed into a directory of their own, and made plain again by :func:`thaw`.

The order is safe at any crash point. Freezing: temporary file, sync, every byte read back and compared, rename, sync of
the directory, only then the plain file goes. Thawing is the same the other way round. When both forms are there, the
plain one counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from threading import Lock

from pymq.errors import StoreError
from pymq.store.disk.checkpoint import Durable
from pymq.store.disk.fs import File, Files, make_directory
from pymq.store.log.cold_file import (
    FRAME_BYTES,
    TEMPORARY_SUFFIX,
    ColdFile,
    ColdFiles,
    FrameCache,
    compress_frame,
    encode_seek_table,
)
from pymq.store.log.commit_log import CommitLog, Segment

log = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20  # compressed, or compared, in one go
COLD_DIRECTORY = "coldlog"
_ZEROS = bytes(FRAME_BYTES)


class _Compression:
    """The way of one segment into its compressed form. :meth:`run` goes one piece on; any thread may call it."""

    def __init__(self, cold: ColdFiles, segment: Segment) -> None:
        self.segment = segment
        self.size = PIECE_BYTES
        self.is_done = False
        self.error: OSError | StoreError | None = None
        self.made: ColdFile | None = None
        self._cold = cold
        self._files = cold.files
        self._steps = self._freeze()
        self._lock = Lock()  # held while a piece runs

    def run(self) -> None:
        with self._lock:
            try:
                next(self._steps)
            except StopIteration:
                self.is_done = True
            except (OSError, StoreError) as error:
                self.error = error

    def abandon(self) -> None:
        """Takes back what was made so far, as far as the disk lets us. Waits for a piece that runs."""
        with self._lock:
            self._steps.close()
        if self.made is not None:
            self.made.close()
        for path in (self._temporary, self._cold.path(self.segment.start)):
            try:
                if self._files.exists(path):
                    self._files.remove(path)
            except OSError:
                pass  # the next start removes it: the plain one counts

    @property
    def _temporary(self) -> str:
        return self._cold.path(self.segment.start) + TEMPORARY_SUFFIX

    def _freeze(self) -> Generator[None, None, None]:
        segment, path = self.segment, self._cold.path(self.segment.start)
        modified_ms = self._files.modified_ms(segment.file.path)
        make_directory(self._files, self._cold.directory)
        file = self._files.open(self._temporary, create=True)
        try:
            file.truncate(0)
            yield from self._write(file)
            file.sync()
            yield
            yield from self._compare(ColdFile(file, FrameCache(PIECE_BYTES)))
        finally:
            file.close()
        self._files.set_modified_ms(self._temporary, modified_ms)
        self._files.replace(self._temporary, path)
        self._files.sync_dir(self._cold.directory)
        self.made = self._cold.open(segment.start)

    def _write(self, file: File) -> Iterator[None]:
        segment, sizes, end = self.segment, [], 0
        size = segment.end - segment.start
        for at in range(0, size, FRAME_BYTES):
            data = segment.read(at, min(FRAME_BYTES, size - at))
            frame = compress_frame(data)
            file.pwrite(end, frame)
            sizes.append((len(frame), len(data)))
            end += len(frame)
            if (at + FRAME_BYTES) % PIECE_BYTES == 0:
                yield
        file.pwrite(end, encode_seek_table(sizes))

    def _compare(self, made: ColdFile) -> Iterator[None]:
        segment = self.segment
        size = segment.end - segment.start
        for at in range(0, size, PIECE_BYTES):
            length = min(PIECE_BYTES, size - at)
            if made.pread(at, length) != segment.read(at, length):
                raise StoreError(f"{made.path} does not give back what {segment.file.path} holds at {at}")
            yield


class _Removal:
    """The plain form goes, now that the compressed one is served."""

    size = PIECE_BYTES

    def __init__(self, files: Files, file: File) -> None:
        self._files = files
        self._file = file
        self.error: OSError | None = None

    def run(self) -> None:
        self._file.close()
        try:
            self._files.remove(self._file.path)
            self._files.sync_dir(self._file.path.rpartition("/")[0])
        except FileNotFoundError:
            pass  # retention was faster
        except OSError as error:
            self.error = error


ColdPiece = _Compression | _Removal


class ColdCompressor:
    """Compresses sealed segments that are old enough, one at a time, piece by piece.

    One thread calls everything but the pieces' ``run``. A piece is always finished before the next one is asked for.
    """

    def __init__(self, log: CommitLog, cold: ColdFiles, durable: Callable[[], Durable | None]) -> None:
        self._log = log
        self._cold = cold
        self._durable = durable
        self._work: ColdPiece | None = None
        self.problem: str | None = None
        self.compressed_count = 0

    def next_piece(self, older_than_ms: int) -> ColdPiece | None:
        """What to do next; None when no segment was last changed before ``older_than_ms`` (wall clock)."""
        if self._work is None:
            segment = self._choose(older_than_ms)
            if segment is not None:
                self._work = _Compression(self._cold, segment)
        return self._work

    def _choose(self, older_than_ms: int) -> Segment | None:
        durable = self._durable()
        vouched = min(durable.log_offset, durable.queue_offset) if durable is not None else 0
        for segment in self._log.segments[:-1]:
            if isinstance(segment.file, ColdFile):
                continue
            try:
                is_old = self._log.modified_ms(segment) < older_than_ms
            except OSError:
                return None  # being deleted
            # The oldest come first: what follows a younger one is younger still.
            return segment if is_old and segment.end <= vouched else None
        return None

    def finish(self, piece: ColdPiece) -> None:
        """Takes over what a piece did."""
        if isinstance(piece, _Removal):
            self._work = None
            if piece.error is not None:
                self._tell("a plain segment can't be removed", piece.error)
        elif piece.error is not None:
            self._work = None
            piece.abandon()
            self._tell(f"{piece.segment.file.path} can't be compressed", piece.error)
        elif piece.made is not None and piece.is_done:
            self._take_over(piece, piece.made)

    def _take_over(self, piece: _Compression, made: ColdFile) -> None:
        self._work = None
        if self._log.find(piece.segment.start) is not piece.segment:
            piece.abandon()  # deleted meanwhile
            return
        plain = self._log.replace_file(piece.segment, made)
        self._work = _Removal(self._cold.files, plain)
        self.problem = None
        self.compressed_count += 1
        log.info(
            "segment %s was compressed from %d to %d bytes",
            plain.path, piece.segment.end - piece.segment.start, made.stored_bytes,
        )  # fmt: skip

    def stop(self) -> None:
        """The store is about to be closed: nothing half done stays."""
        work, self._work = self._work, None
        if isinstance(work, _Compression):
            work.abandon()
        elif isinstance(work, _Removal):
            work.run()

    def _tell(self, what: str, error: OSError | StoreError) -> None:
        self.problem = f"{what}: {error}; it is tried again"


# -- thawing --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ThawReport:
    """``segments``: paths that are plain again; ``bytes``: their sizes together."""

    segments: list[str] = field(default_factory=list)
    bytes: int = 0


def thaw(
    files: Files, root: str, log_directory: str | None = None, progress: Callable[[int, int], None] | None = None
) -> ThawReport:
    """Makes every compressed segment of a stopped broker's directory plain again, the newest first.

    ``progress(segments done, segments in all)``. What is done stays done when it fails half way, and another call goes
    on. Raises StoreError when a broker uses the directory or a compressed segment is damaged, OSError for a full disk.
    """
    cold = ColdFiles(files, f"{root}/{COLD_DIRECTORY}")
    directory = log_directory or f"{root}/commitlog"
    report = ThawReport()
    if not cold.starts():
        return report
    lock = files.lock(f"{root}/lock")
    try:
        cold.remove_leftovers(directory)
        starts = cold.starts()
        # The newest first, so that the plain segments are one log without a hole at any time.
        for done, start in enumerate(reversed(starts)):
            report.bytes += _thaw_one(cold, start, directory)
            report.segments.append(f"{directory}/{start:020d}")
            if progress is not None:
                progress(done + 1, len(starts))
    finally:
        lock.release()
    return report


def _thaw_one(cold: ColdFiles, start: int, directory: str) -> int:
    files, path = cold.files, f"{directory}/{start:020d}"
    frozen = cold.open(start)
    try:
        if not files.exists(path):
            _write_plain(files, frozen, path)
    finally:
        frozen.close()
    cold.remove(start)
    return frozen.size()


def _write_plain(files: Files, frozen: ColdFile, path: str) -> None:
    temporary = path + TEMPORARY_SUFFIX
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.truncate(frozen.size())
        for at in range(0, frozen.size(), FRAME_BYTES):
            data = frozen.pread(at, FRAME_BYTES)
            if data != _ZEROS[: len(data)]:  # holes stay holes
                file.pwrite(at, data)
        file.sync()
    finally:
        file.close()
    files.set_modified_ms(temporary, files.modified_ms(frozen.path))
    files.replace(temporary, path)
    files.sync_dir(path.rpartition("/")[0])
