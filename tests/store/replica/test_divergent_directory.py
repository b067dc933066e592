"""The directory of divergent tails: opening the store takes over one with an earlier version's name."""

from __future__ import annotations

from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.divergent_directory import adopt_former_directory
from pymq.store.replica.divergent_tail import list_truncations
from tests.store.disk.crash_points import crash_points
from tests.store.replica.test_divergent_tail import filled, opened, truncate
from tests.store.support import ROOT

FORMER, DIRECTORY = f"{ROOT}/diverged", f"{ROOT}/divergent"


def with_former_directory() -> tuple[MemoryFiles, dict[str, bytes]]:
    """Return a stopped store with two kept tails under the former name, and the files by name."""
    files = MemoryFiles()
    places, _ = filled(files)
    truncate(files, places[60].physical_offset)
    truncate(files, places[40].physical_offset)
    kept = contents(files, DIRECTORY)
    assert len(kept) == 4
    files.makedirs(FORMER)
    for name in kept:
        files.replace(f"{DIRECTORY}/{name}", f"{FORMER}/{name}")
    files.remove_tree(DIRECTORY)
    for path in (FORMER, ROOT):
        files.sync_dir(path)
    return files, kept


def contents(files: MemoryFiles, directory: str) -> dict[str, bytes]:
    return {name: files.read_bytes(f"{directory}/{name}") for name in files.listdir(directory)}


def test_opening_renames_the_former_directory() -> None:
    files, kept = with_former_directory()
    store = opened(files)
    assert contents(files, DIRECTORY) == kept and not files.is_dir(FORMER)
    first, second = list_truncations(files, ROOT)
    assert first.path.startswith(f"{DIRECTORY}/") and files.exists(first.path) and files.exists(second.path)
    store.close()


def test_files_of_both_directories_are_merged() -> None:
    files, kept = with_former_directory()
    files.makedirs(DIRECTORY)
    files.open(f"{DIRECTORY}/5.log", create=True).pwrite(0, b"x")
    adopt_former_directory(files, ROOT)
    assert contents(files, DIRECTORY) == {**kept, "5.log": b"x"}


def test_a_crash_between_any_two_calls_leaves_each_file_in_one_of_them_and_the_next_start_moves_the_rest() -> None:
    files, kept = with_former_directory()
    points = 0
    for _ in crash_points(lambda: adopt_former_directory(files, ROOT), files):
        points += 1
        found = {**contents(files, FORMER), **contents(files, DIRECTORY)}
        assert found == kept
        adopt_former_directory(files, ROOT)
        assert contents(files, DIRECTORY) == kept and not files.is_dir(FORMER)
    assert points >= 8
