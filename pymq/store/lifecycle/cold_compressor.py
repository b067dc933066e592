"""The cold-segment compressor: moves old segments into compressed files in a directory of their own.

The order is safe at any crash point. A segment is compressed into a temporary file, synced, read back and compared
byte by byte, and renamed, and the directory is synced; only then is the plain file removed. While both forms are there,
the plain one counts. :mod:`pymq.store.lifecycle.thaw` is the way back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
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

PIECE_BYTES = 1 << 20  # compressed, or compared, in one piece
COLD_DIRECTORY = "coldlog"


class _Compression:
    """The compression of one segment, piece by piece. Any thread may call :meth:`run`, which does one piece."""

    def __init__(self, cold: ColdFiles, segment: Segment) -> None:
        self.segment = segment
        self.size = PIECE_BYTES
        self.is_done = False
        self.error: OSError | StoreError | None = None
        self.made: ColdFile | None = None
        self._cold = cold
        self._files = cold.files
        self._steps = self._compress()
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
        """Remove what was made so far, unless the disk fails. Waits for a piece that runs."""
        with self._lock:
            self._steps.close()
        if self.made is not None:
            self.made.close()
        for path in (self._temporary, self._cold.path(self.segment.start)):
            try:
                if self._files.exists(path):
                    self._files.remove(path)
            except OSError:
                pass  # the next start removes it, because the plain one counts

    @property
    def _temporary(self) -> str:
        return self._cold.path(self.segment.start) + TEMPORARY_SUFFIX

    def _compress(self) -> Generator[None, None, None]:
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
    """The removal of the plain file, now that readers use the compressed one."""

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
            pass  # retention has removed it
        except OSError as error:
            self.error = error


ColdPiece = _Compression | _Removal


class ColdCompressor:
    """Compresses sealed segments that are old enough, one at a time, piece by piece.

    One thread calls everything but ``run`` of the pieces. It finishes each piece before it asks for the next one.
    """

    def __init__(self, log: CommitLog, cold: ColdFiles, durable: Callable[[], Durable | None]) -> None:
        self._log = log
        self._cold = cold
        self._durable = durable
        self._work: ColdPiece | None = None
        self.problem: str | None = None
        self.compressed_count = 0

    def next_piece(self, older_than_ms: int) -> ColdPiece | None:
        """The next piece of work; None when no segment was last changed before ``older_than_ms`` (wall clock)."""
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
            # The oldest come first: those that follow are younger still.
            return segment if is_old and segment.end <= vouched else None
        return None

    def finish(self, piece: ColdPiece) -> None:
        """Take over what a piece did."""
        if isinstance(piece, _Removal):
            self._work = None
            if piece.error is not None:
                self._note_problem("a plain segment can't be removed", piece.error)
        elif piece.error is not None:
            self._work = None
            piece.abandon()
            self._note_problem(f"{piece.segment.file.path} can't be compressed", piece.error)
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
        """Finish or undo the work at hand: the store is about to be closed."""
        work, self._work = self._work, None
        if isinstance(work, _Compression):
            work.abandon()
        elif isinstance(work, _Removal):
            work.run()

    def _note_problem(self, what: str, error: OSError | StoreError) -> None:
        self.problem = f"{what}: {error}; it is tried again"
