"""The truncated tail of a log is dumped like a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.errors import NotFoundError
from pymq.offline.dump import DumpedMessages, DumpSelection
from pymq.offline.files import ReadOnlyFiles
from pymq.offline.kept_log import open_kept_log
from pymq.store.disk.fs import RealFiles
from pymq.store.replica.divergent_tail import TruncatedTail, truncate_log
from pymq.store.settings import StoreSettings
from tests.store.support import SMALL, bodies, make_store, put

SETTINGS = StoreSettings(**SMALL)


def truncated_at(root: Path, number: int) -> TruncatedTail:
    """Make a store of 150 messages and truncate its log."""
    store = make_store(RealFiles(), root=str(root))
    store.open()
    places = [put(store, "T", 0, body, keys=f"k{n}") for n, body in enumerate(bodies(150))]
    store.close()
    return truncate_log(RealFiles(), str(root), SETTINGS, places[number].physical_offset, ManualClock())


@pytest.mark.parametrize("number", [0, 10, 60, 149])
def test_every_truncated_message_is_listed(number: int, tmp_path: Path) -> None:
    """The tail spans several segments with blank records between them."""
    state = truncated_at(tmp_path, number)
    log = open_kept_log(ReadOnlyFiles(), state.path, SETTINGS.segment_size_bytes)
    complaints: list[str] = []
    found = [
        (message.queue_offset, message.body) for message, _ in DumpedMessages(log, DumpSelection(), complaints.append)
    ]
    log.close()
    assert found == list(enumerate(bodies(150)))[number:]
    assert not complaints


def test_reading_into_memory_is_reading(tmp_path: Path) -> None:
    log = open_kept_log(ReadOnlyFiles(), truncated_at(tmp_path, 10).path, SETTINGS.segment_size_bytes)
    assert len(log.segments) > 1
    for segment in log.segments:
        for at, size in ((0, segment.size), (segment.size // 2, 100), (segment.size - 10, 10), (segment.size - 10, 99)):
            room = bytearray(b"?" * size)
            segment.will_read(at, size)
            segment.read_into(at, memoryview(room))
            assert room == segment.read(at, size).ljust(size, b"\0")
    log.close()


@pytest.mark.parametrize("name", ["00000000000000000000-1-2.json", "store.log", "1.log.tmp"])
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(NotFoundError, match="nor a truncated log tail"):
        open_kept_log(ReadOnlyFiles(), str(tmp_path / name), 4096)
