"""SoundFiles: verify and repair name what is odd in a real directory, wait for nothing, and go on with the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pymq.clock import SystemClock
from pymq.errors import NotFoundError, StoreError
from pymq.offline.log_files import SEGMENT_SIZE_BYTES_MAX
from pymq.offline.repair import repair
from pymq.offline.sound_files import ODD_PATHS_MAX, SoundFiles
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.regular_files import WHOLE_FILE_BYTES_MAX, FileKind, OddFileError
from tests.offline.support import check, opened, small_store
from tests.store.disk.test_regular_files import MAKERS
from tests.store.support import make_store

COUNT = 100
pytestmark = pytest.mark.timeout(60)


def first_of(root: Path, part: str) -> Path:
    """Return the part's oldest file, or the part when it is one."""
    return min((path for path in (root / part).rglob("*") if path.is_file()), default=root / part)


def repaired(root: Path) -> int:
    """Return how many messages a repair keeps."""
    with opened(root) as directory:
        return repair(directory, RealFiles(), f"{root}-copy", SystemClock()).message_count


def odd(root: Path) -> dict[str, str]:
    return {one.path: one.text for one in check(root).findings if one.kind == "file"}


@pytest.mark.parametrize("kind", [FileKind.FIFO, FileKind.SOCKET, FileKind.LINK])
@pytest.mark.parametrize("part", ["consumequeue", "index", "digests", "checkpoint", "config/topics.json"])
def test_what_can_be_made_again_is_named_and_nothing_is_lost(tmp_path: Path, part: str, kind: FileKind) -> None:
    root = small_store(tmp_path / "s", COUNT)
    path = first_of(root, part)
    path.unlink(missing_ok=True)
    MAKERS[kind](path)
    text = odd(root)[str(path)]
    assert kind.value in text and "move it away" in text and "it counts as missing" in text
    assert repaired(root) == COUNT


def test_a_segment_that_is_none_loses_its_own_messages_only(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", COUNT)
    segment = sorted((root / "commitlog").iterdir())[1]
    segment.unlink()
    os.mkfifo(segment)
    report = check(root)
    assert str(segment) in {one.path for one in report.findings if one.kind == "file"}
    assert 0 < report.lost_count < COUNT
    assert repaired(root) == COUNT - report.lost_count
    store = make_store(RealFiles(), root=str(root))
    with pytest.raises(OddFileError, match="is a FIFO"):
        store.open()


def test_a_log_without_any_segment_is_said_to_be_one(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", COUNT)
    for segment in (root / "commitlog").iterdir():
        segment.unlink()
        os.mkfifo(segment)
    assert check(root).counts["file"] == len(list((root / "commitlog").iterdir()))
    with pytest.raises(NotFoundError, match="holds no segment that can be read"):
        repaired(root)


def test_a_segment_of_1_tib_is_named_and_its_begin_is_read(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", COUNT)
    segments = sorted((root / "commitlog").iterdir())
    os.truncate(segments[-1], 1 << 40)
    (finding,) = check(root).findings
    assert finding.path == str(segments[-1])
    assert f"has {1 << 40} bytes, the limit is {SEGMENT_SIZE_BYTES_MAX}" in finding.text
    assert repaired(root) == COUNT
    store = make_store(RealFiles(), root=str(root))
    with pytest.raises(StoreError, match=f"has {1 << 40} bytes, mappedFileSizeCommitLog is"):
        store.open()


@pytest.mark.parametrize("size", [SEGMENT_SIZE_BYTES_MAX, SEGMENT_SIZE_BYTES_MAX + 1])
def test_the_largest_possible_segment(tmp_path: Path, size: int) -> None:
    root = small_store(tmp_path / "s", 1)
    os.truncate(root / "commitlog" / f"{0:020d}", size)
    with opened(root) as directory:
        assert [path for path, _ in directory.log.odd] == ([] if size <= SEGMENT_SIZE_BYTES_MAX else [
            str(root / "commitlog" / f"{0:020d}")
        ])  # fmt: skip


@pytest.mark.parametrize("name", ["config/topics.json", "digests/queues", "checkpoint"])
def test_a_table_of_16_gib_is_named_and_not_read(tmp_path: Path, name: str) -> None:
    root = small_store(tmp_path / "s", COUNT)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).touch()
    os.truncate(root / name, 16 << 30)
    assert f"has {16 << 30} bytes, the limit is {WHOLE_FILE_BYTES_MAX}" in odd(root)[str(root / name)]
    assert repaired(root) == COUNT


@pytest.mark.parametrize("name", ["T\x1b[2J", "T\nERROR all is lost", "\udcff"])
@pytest.mark.parametrize("above", ["consumequeue", "config", "."])
def test_names_that_a_terminal_obeys_are_named_escaped(tmp_path: Path, above: str, name: str) -> None:
    root = small_store(tmp_path / "s", COUNT)
    (root / above).mkdir(exist_ok=True)
    (root / above / name).mkdir()
    ((path, text),) = odd(root).items()
    assert path.endswith(name)
    assert text.isprintable() and "rename it" in text
    assert repaired(root) == COUNT


def test_a_link_to_another_directory_is_followed_in_place_of_a_part_alone(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", COUNT)
    for number, path in enumerate((root / "commitlog", root / "consumequeue" / "orders")):
        path.rename(tmp_path / f"disk{number}")
        path.symlink_to(tmp_path / f"disk{number}")
    assert list(odd(root)) == [str(root / "consumequeue" / "orders")]
    store = make_store(RealFiles(), root=str(root))
    with pytest.raises(OddFileError, match="is a symbolic link, a directory belongs there") as caught:
        store.open()
    assert caught.value.filename == str(root / "consumequeue" / "orders")


def test_directories_with_other_names_are_a_note(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", COUNT)
    (root / "consumequeue" / "no.topic" / "0").mkdir(parents=True)
    report = check(root)
    assert report.sound
    assert f"{root}/consumequeue/no.topic is no legal topic name: left alone" in report.notes
    assert repaired(root) == COUNT


def test_the_number_of_kept_odd_paths_has_a_limit() -> None:
    files = SoundFiles(MemoryFiles(), "/d")
    for number in range(ODD_PATHS_MAX + 1):
        files.leave_out(f"/d/{number}", "is odd")
    assert len(files.odd) == ODD_PATHS_MAX
