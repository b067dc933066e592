"""A directory that is being rebuilt from another broker can't be opened until it is complete."""

from __future__ import annotations

import pytest

from pymq.errors import StoreError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.rebuild_mark import mark_finished, mark_unfinished, unfinished_path
from tests.store.support import make_store

ROOT = "/store"


def test_a_marked_directory_cannot_be_opened_until_it_is_complete() -> None:
    files = MemoryFiles()
    files.makedirs(ROOT)
    mark_unfinished(files, ROOT, b"{}")
    store = make_store(files, root=ROOT)
    with pytest.raises(StoreError, match="store recover"):
        store.open()
    mark_finished(files, ROOT)
    store.open()
    store.close()


def test_the_mark_and_its_removal_are_synced_at_once() -> None:
    files = MemoryFiles()
    files.makedirs(ROOT)
    files.sync_dir("/")
    mark_unfinished(files, ROOT, b"a")
    mark_unfinished(files, ROOT, b"bc")

    def lost(_: str, __: int = 0) -> bool:
        return False

    after = files.after_power_loss(lost, lost)
    assert after.read_bytes(unfinished_path(ROOT)) == b"bc"
    mark_finished(files, ROOT)
    mark_finished(files, ROOT)
    assert not files.after_power_loss(lost, lost).exists(unfinished_path(ROOT))
