"""The file of a mirror's progress: whole after every save, for one mirror and one pair of clusters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pymq.cli.mirror.progress import FileProgress
from pymq.client import MessageQueue
from pymq.errors import UsageError

FIRST, SECOND = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 3)


def test_offsets_stay_and_a_save_changes_only_its_queues(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    progress = FileProgress(path, "A", "B")
    assert asyncio.run(progress.offset(FIRST)) is None
    asyncio.run(progress.save({FIRST: 7, SECOND: 9}))
    asyncio.run(progress.save({FIRST: 8}))
    progress.close()
    again = FileProgress(path, "A", "B")
    assert [asyncio.run(again.offset(queue)) for queue in (FIRST, SECOND)] == [8, 9]
    again.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["progress.json", "progress.json.lock"]


def test_a_save_that_a_crash_cut_short_leaves_the_former_one(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    progress = FileProgress(path, "A", "B")
    asyncio.run(progress.save({FIRST: 7}))
    progress.close()
    (tmp_path / "progress.json.new").write_text('{"version": 1, "sour')
    again = FileProgress(path, "A", "B")
    assert asyncio.run(again.offset(FIRST)) == 7
    again.close()


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"version": 1}', '{"version": 1, "source": "A", "target": "B", "offsets": {"t": {"b": {"x": 1}}}}'],
)
def test_a_file_that_is_no_progress_is_refused_and_unlocked(tmp_path: Path, text: str) -> None:
    path = tmp_path / "progress.json"
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(UsageError, match="no progress of a mirror"):
            FileProgress(path, "A", "B")
    assert path.read_text() == text


def test_a_file_of_other_clusters_or_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    progress = FileProgress(path, "A", "B")
    asyncio.run(progress.save({FIRST: 1}))
    with pytest.raises(UsageError, match="another mirror uses"):
        FileProgress(path, "A", "B")
    progress.close()
    with pytest.raises(UsageError, match="from A to B, not from B to A"):
        FileProgress(path, "B", "A")
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(UsageError, match="has version 2"):
        FileProgress(path, "A", "B")
