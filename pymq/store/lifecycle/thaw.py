"""Thaw: makes the compressed segments of a stopped broker plain again.

The order is safe at any crash point. A segment is written to a temporary file, synced and renamed, and the directory is
synced; only then is the compressed form removed. While both forms are there, the plain one counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pymq.store.disk.fs import Files
from pymq.store.lifecycle.cold_compressor import COLD_DIRECTORY
from pymq.store.log.cold_file import FRAME_BYTES, TEMPORARY_SUFFIX, ColdFile, ColdFiles

_ZEROS = bytes(FRAME_BYTES)


@dataclass(slots=True)
class ThawReport:
    """``segments``: the paths that are plain again. ``bytes``: the sum of their sizes."""

    segments: list[str] = field(default_factory=list)
    bytes: int = 0


def thaw(
    files: Files, root: str, log_directory: str | None = None, progress: Callable[[int, int], None] | None = None
) -> ThawReport:
    """Make every compressed segment of a stopped broker's directory plain again, the newest first.

    Calls ``progress(segments done, segments in all)``. A call that fails keeps what it has done; another call goes on.
    Raises StoreError when a broker uses the directory or a compressed segment is damaged, OSError for a full disk.
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


def plan_thaw(files: Files, root: str, log_directory: str | None = None) -> ThawReport:
    """Return what :func:`thaw` would make plain, and change nothing."""
    cold = ColdFiles(files, f"{root}/{COLD_DIRECTORY}")
    report = ThawReport()
    for start in reversed(cold.starts()):
        compressed = cold.open(start)
        report.bytes += compressed.size()
        compressed.close()
        report.segments.append(f"{log_directory or f'{root}/commitlog'}/{start:020d}")
    return report


def _thaw_one(cold: ColdFiles, start: int, directory: str) -> int:
    files, path = cold.files, f"{directory}/{start:020d}"
    compressed = cold.open(start)
    try:
        if not files.exists(path):
            _write_plain(files, compressed, path)
    finally:
        compressed.close()
    cold.remove(start)
    return compressed.size()


def _write_plain(files: Files, compressed: ColdFile, path: str) -> None:
    temporary = path + TEMPORARY_SUFFIX
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.truncate(compressed.size())
        for at in range(0, compressed.size(), FRAME_BYTES):
            data = compressed.pread(at, FRAME_BYTES)
            if data != _ZEROS[: len(data)]:  # holes stay holes
                file.pwrite(at, data)
        file.sync()
    finally:
        file.close()
    files.set_modified_ms(temporary, files.modified_ms(compressed.path))
    files.replace(temporary, path)
    files.sync_dir(path.rpartition("/")[0])
