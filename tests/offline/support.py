"""Directories for tests: golden ones of a real RocketMQ broker, small ones of PyMQ, and ways to damage them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymq.clock import ManualClock
from pymq.offline.directory import Directory, open_directory
from pymq.offline.files import ReadOnlyFiles
from pymq.offline.findings import Finding, Report
from pymq.offline.log_walk import Block, walk
from pymq.offline.verify import verify
from pymq.store.disk.fs import RealFiles
from pymq.store.log.log_record import Scanned
from pymq.store.store import MessageStore
from tests.store.support import die, make_store, put

GOLDEN_NAMES = ("store-clean", "store-killed", "store-torn")
TOPICS_TABLE = '{"topicConfigTable":{"orders":{},"payments":{}},"dataVersion":{}}'


def small_store(root: Path, count: int = 100, *, clean: bool = True, **settings: Any) -> Path:
    """Make a directory of PyMQ with ``count`` messages in four queues of two topics, in several files of each kind.

    It has no digests, as if written by RocketMQ, unless ``settings`` enable them.
    """
    # Four entries a slot, as in RocketMQ: the size of an index file then determines its geometry.
    settings = {"index_slot_count": 5, "digests_enabled": False, **settings}
    store = make_store(RealFiles(), ManualClock(), str(root), **settings)
    store.open()
    fill(store, count // 2)
    store.tick()
    fill(store, count - count // 2, count // 2)
    store.close() if clean else die(store)
    (root / "config" / "topics.json").write_text(TOPICS_TABLE)
    return root


def fill(store: MessageStore, count: int, start: int = 0) -> None:
    """Store the messages ``start`` to ``start + count`` of :func:`small_store`."""
    for number in range(start, start + count):
        topic = "orders" if number % 3 else "payments"
        put(store, topic, number % 2, b"body-%d " % number * 8, f"T{number % 5}", f"key-{number}")


@contextmanager
def opened(root: Path, options: dict[str, str] | None = None) -> Iterator[Directory]:
    """Open the directory as the tools do; ``options``: keys of its broker.conf."""
    directory = open_directory(ReadOnlyFiles(), str(root), options=options)
    try:
        yield directory
    finally:
        directory.close()


def check(root: Path) -> Report:
    """Return the report of a verification."""
    with opened(root) as directory:
        return verify(directory)


def only_finding(root: Path) -> Finding:
    """Return the only damage that a verification finds."""
    report = check(root)
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


def records(root: Path) -> list[Scanned]:
    """Return every good record of the log."""
    with opened(root) as directory:
        return [record for step in walk(directory.log) if isinstance(step, Block) for record in step.records]


def log_place(root: Path, offset: int) -> tuple[Path, int]:
    """Return the segment file and position of a physical offset."""
    with opened(root) as directory:
        path, position = directory.log.place(offset)
    assert position is not None
    return Path(path), position


def flip(path: Path, position: int, mask: int = 0x10) -> None:
    """Flip bits of one byte."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))


def write_at(path: Path, position: int, raw: bytes) -> None:
    """Overwrite bytes in place."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(raw)


def snapshot(root: Path) -> dict[str, tuple[int, int, str]]:
    """Return every path below a directory with its mtime, mode and content; equal when no file was touched."""
    result = {}
    for path in sorted(root.rglob("*")):
        stat = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        result[str(path.relative_to(root))] = (stat.st_mtime_ns, stat.st_mode, content)
    return result


def compress_all(root: Path) -> int:
    """Compress all segments of a :func:`small_store` but the newest; return their number."""
    store = make_store(RealFiles(), ManualClock(), str(root), index_slot_count=5, digests_enabled=False)
    store.open()
    while (piece := store._cold_compressor.next_piece(1 << 60)) is not None:
        piece.run()
        store._cold_compressor.finish(piece)
    count = store._cold_compressor.compressed_count
    store.close()
    return count
