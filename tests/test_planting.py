"""A seeded bug is in the product while its block runs, everywhere the function was imported, and gone afterwards."""

from __future__ import annotations

import pytest

from pymq.store.disk.abort_file import AbortFile
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.dispatch import quick_dispatcher
from pymq.store.log import log_record
from pymq.store.log.log_record import has_index_entries
from tests.planting import Bug, Seam, SeedMismatchError, Text, arguments_of, gives


def test_a_function_is_swapped_wherever_it_was_imported() -> None:
    importer = vars(quick_dispatcher)
    with Bug("no keys", Seam(log_record.has_index_entries, gives(False)), ()).planted():
        assert not log_record.has_index_entries(0) and not importer["has_index_entries"](0)
    assert log_record.has_index_entries is importer["has_index_entries"] is has_index_entries


def test_a_method_and_a_property_are_swapped_in_their_class() -> None:
    files = MemoryFiles()
    files.makedirs("/s")
    abort = AbortFile(files, "/s", "1")
    twice = Seam(AbortFile.write, lambda real, self: [real(self), real(self)])
    with Bug("twice", twice, ()).planted():
        assert abort.write() == [None, None]
    assert abort.exists
    with Bug("never there", Seam(AbortFile.exists, gives(False)), ()).planted():
        assert not abort.exists
    assert abort.exists


def test_a_text_is_replaced_in_its_function_alone() -> None:
    bug = Bug("a magic number too many", Text(log_record.magic_positions, "return", "return [7] or"), ())
    with bug.planted():
        assert log_record.magic_positions(b"") == [7]
    assert log_record.magic_positions(b"") == []
    assert str(bug) == "a magic number too many (magic_positions: 'return' -> 'return [7] or')"


def test_an_outdated_text_is_named_with_the_next_step() -> None:
    bug = Bug("stale", Text(AbortFile.remove, "self._files.unlink(", "("), ())
    with pytest.raises(
        SeedMismatchError, match=r"(?s)'stale'.*AbortFile\.remove \(.*abort_file\.py:\d+\).*0 times"
    ) as told:
        bug.planted().__enter__()
    assert "self._files.unlink(" in str(told.value) and "Seam" in str(told.value)


@pytest.mark.parametrize(
    ("marks", "sets"),
    [
        ([], [{}]),
        ([("a", [1, (2, 3)])], [{"a": 1}, {"a": (2, 3)}]),
        ([(("a",), [(1,), (2,)])], [{"a": 1}, {"a": 2}]),
        ([("a, b", [(1, 2)]), ("c", [3, pytest.param(4, id="four")])], [{"a": 1, "b": 2, "c": n} for n in (3, 4)]),
        ([(["a", "b"], [pytest.param(1, 2, id="both")])], [{"a": 1, "b": 2}]),
    ],
)
def test_the_sets_of_a_test_s_parameters_are_those_that_pytest_takes(
    marks: list[tuple[str, list[object]]], sets: list[dict[str, object]]
) -> None:
    def test() -> None:
        """Stand for a test."""

    for names, values in marks:
        test = pytest.mark.parametrize(names, values)(test)
    assert sorted(arguments_of(test), key=str) == sorted(sets, key=str)
