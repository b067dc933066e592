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
    assert RunRecord(files, ROOT).begin(was_clean=False, is_synced=was_synced) == "", "no run before"
    boot(files, "first" if is_same_boot else "second")
    lost = RunRecord(files, ROOT).begin(was_clean=was_clean, is_synced=not was_synced)
    assert bool(lost) is is_lost


def test_a_machine_that_does_not_tell_its_boots_counts_as_one_that_was_off() -> None:
    files = MemoryFiles()
    RunRecord(files, ROOT).begin(was_clean=True, is_synced=False)
    assert RunRecord(files, ROOT).begin(was_clean=False, is_synced=False)
