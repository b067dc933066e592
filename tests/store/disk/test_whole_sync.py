"""Many files are synced with their whole file system, where the system reports errors of that."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pymq.store.disk import fs, whole_sync
from pymq.store.disk.fs import WHOLE_SYNC_MIN, RealFiles
from pymq.store.disk.whole_sync import sync_file_systems


def test_each_file_system_is_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    synced: list[str] = []
    monkeypatch.setattr(whole_sync, "_sync_file_system", synced.append)
    monkeypatch.setattr(whole_sync, "_reports_errors", lambda system, release: True)
    assert sync_file_systems([str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/gone"])
    assert synced == [str(tmp_path)]


@pytest.mark.parametrize(
    ("system", "release", "reports"),
    [
        ("Linux", "5.7.19", False),
        ("Linux", "5.8.0-rc1", True),
        ("Linux", "6.18.44-fc", True),
        ("Linux", "odd", False),
        ("Darwin", "23.1.0", False),
    ],
)
def test_old_systems_that_hide_errors_are_not_used(system: str, release: str, reports: bool) -> None:
    assert whole_sync._reports_errors(system, release) is reports


@pytest.mark.skipif(not whole_sync._reports_errors(os.uname().sysname, os.uname().release), reason="needs Linux 5.8")
def test_a_real_file_system_is_synced(tmp_path: Path) -> None:
    whole_sync._sync_file_system(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        whole_sync._sync_file_system(f"{tmp_path}/gone")


@pytest.mark.parametrize("works", [True, False])
def test_each_file_is_synced_when_that_fails(works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(directory: str) -> None:
        if not works:
            raise OSError(errno.EIO, "broken", directory)

    synced: list[str] = []
    monkeypatch.setattr(whole_sync, "_reports_errors", lambda system, release: True)
    monkeypatch.setattr(whole_sync, "_sync_file_system", sync)
    monkeypatch.setattr(fs.RealFile, "sync", lambda file: synced.append(file.path))
    path = tmp_path / "file"
    path.touch()
    RealFiles().sync_together([str(path)] * WHOLE_SYNC_MIN, [])
    assert len(synced) == (0 if works else WHOLE_SYNC_MIN)
