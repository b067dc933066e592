"""Every tool reads compressed segments like plain ones; a damaged frame costs only its own messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.clock import ManualClock
from pymq.offline.overview import overview
from pymq.offline.repair import repair
from pymq.store.disk.fs import RealFiles
from tests.offline.support import check, compress_all, opened, records, small_store, snapshot, write_at


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_store(tmp_path / "s")


def plain(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}


def test_a_directory_with_compressed_segments_is_sound(root: Path) -> None:
    whole = records(root)
    assert compress_all(root) > 2
    before = snapshot(root)
    report = check(root)
    assert report.findings == []
    assert report.looked_at["records"] == 100
    assert records(root) == whole
    with opened(root) as directory:
        states = [row["state"] for row in overview(directory)["segments"]]
    assert states == ["compressed"] * (len(states) - 1) + ["open"]
    assert snapshot(root) == before


def test_a_damaged_frame_costs_its_segments_messages(root: Path, tmp_path: Path) -> None:
    gone = [record for record in records(root) if record.offset < 4096]
    compress_all(root)
    write_at(root / "coldlog" / f"{0:020d}.zst", 100, b"damage")
    report = check(root)
    assert report.lost_count == len(gone)
    with opened(root) as directory:
        mended = repair(directory, RealFiles(), str(tmp_path / "new"), ManualClock())
    assert mended.lost_count == len(gone)
    assert not (tmp_path / "new" / "coldlog").exists()
    assert check(tmp_path / "new").sound


def test_an_invalid_compressed_segment_is_named(root: Path) -> None:
    compress_all(root)
    path = root / "coldlog" / f"{4096:020d}.zst"
    path.write_bytes(b"nothing of the kind")
    assert any(finding.path == str(path) for finding in check(root).findings)


def test_decompressing_restores_the_plain_segment(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = plain(root)
    count = compress_all(root)
    assert cli.run(["store", "thaw", str(root), "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["segments"]) == count
    assert plain(root) == whole
    assert cli.run(["store", "thaw", str(root)]) == 0
    assert capsys.readouterr().err == "no segment is compressed\n"
