"""When a node's log may lack what it has acknowledged: after a power loss without SYNC_FLUSH."""

from __future__ import annotations

import pytest

from pymq.broker.raft.run_record import BOOT_ID_PATH, RunRecord
from pymq.store.disk.fs import make_directory
from pymq.store.disk.memory_fs import MemoryFiles

ROOT = "/store"


def boot(files: MemoryFiles, boot_id: str) -> None:
    make_directory(files, BOOT_ID_PATH.rpartition("/")[0])
    file = files.open(BOOT_ID_PATH, create=True)
    file.truncate(0)
    file.pwrite(0, f"{boot_id}\n".encode())
    file.close()


@pytest.mark.parametrize(
    ("was_clean", "was_synced", "is_same_boot", "is_lost"),
    [
        (False, False, False, True),
        (True, False, False, False),
        (False, True, False, False),
        (False, False, True, False),
    ],
)
def test_only_a_power_loss_without_syncs_loses_what_was_acknowledged(
    was_clean: bool, was_synced: bool, is_same_boot: bool, is_lost: bool
) -> None:
    files = MemoryFiles()
    boot(files, "first")
    record = RunRecord(files, ROOT)
    assert record.why_lost(was_clean=False) == "", "no run before"
    record.begin(is_synced=was_synced)
    boot(files, "first" if is_same_boot else "second")
    for _ in range(2):
        assert bool(record.why_lost(was_clean=was_clean)) is is_lost, "the same until a run begins"
    record.begin(is_synced=not was_synced)
    assert record.why_lost(was_clean=True) == ""


def test_a_boot_is_the_same_until_the_machine_starts_again() -> None:
    files = MemoryFiles()
    boot(files, "first")
    record = RunRecord(files, ROOT)
    assert not record.is_same_boot, "no run before"
    record.begin(is_synced=True)
    assert record.is_same_boot
    boot(files, "second")
    assert not record.is_same_boot


def test_what_the_disk_lost_is_known_until_a_run_begins() -> None:
    files = MemoryFiles()
    boot(files, "first")
    record = RunRecord(files, ROOT)
    record.note_lost("nothing was acknowledged before the first run")
    assert record.why_lost(was_clean=True) == ""
    record.begin(is_synced=True)
    for _ in range(2):
        record.note_lost("the record at 7 is damaged")
        assert "its disk has lost" in record.why_lost(was_clean=True)
    record.begin(is_synced=True)
    assert record.why_lost(was_clean=True) == ""


def test_a_machine_that_does_not_tell_its_boots_counts_as_one_that_was_off() -> None:
    files = MemoryFiles()
    RunRecord(files, ROOT).begin(is_synced=False)
    assert RunRecord(files, ROOT).why_lost(was_clean=False)
