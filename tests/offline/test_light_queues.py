"""Light queues through repair and recover: the next start makes them again from what the log has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.offline.repair import repair
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore
from tests.offline import recovering
from tests.offline.recovering import Source
from tests.offline.support import opened
from tests.store.light.lights import held_lights, put_lite
from tests.store.support import make_store


def fill(store: MessageStore) -> None:
    for number in range(40):
        put_lite(store, "Jobs", f"l{number % 7}", b"%d" % number)


@pytest.mark.parametrize("lost", ["", "lightqueue", "table"])
def test_a_repaired_directory_has_them(lost: str, tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "target"
    root.mkdir()
    store = make_store(RealFiles(), root=str(root))
    store.open()
    fill(store)
    before = held_lights(store)
    store.close()
    if lost == "lightqueue":
        shutil.rmtree(root / lost)
    elif lost:
        (root / "lightqueue" / lost).write_bytes(b"?")
    with opened(root, {"mappedFileSizeConsumeQueue": "200", "maxHashSlotNum": "7", "maxIndexNum": "20"}) as directory:
        repair(directory, RealFiles(), str(target), ManualClock(1_800_000_000_000))
    store = make_store(RealFiles(), root=str(target))
    store.open()
    assert held_lights(store) == before
    store.close()


def test_a_recovered_directory_has_those_of_its_source() -> None:
    source, files = recovering.pair(20)
    fill(source.store)
    store = recovering.opened(files)
    for number in range(5):  # where the source has other messages
        put_lite(store, "Jobs", f"own-{number}", b"x")
    store.close()
    recovering.recover(files, Source(source.store), force=True)
    store = recovering.opened(files)
    assert held_lights(store) == held_lights(source.store)
    store.close()
