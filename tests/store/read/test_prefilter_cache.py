"""A cached step counts for the same units alone, and the steps used last are kept."""

from __future__ import annotations

import pytest

from pymq.model.layout import UNIT
from pymq.store.read import prefilter_cache
from pymq.store.read.prefilter_cache import KEPT_COUNT_MAX, PrefilterCache


def units(count: int, at: int = 1000, size: int = 100) -> bytes:
    return b"".join(UNIT.pack(at + number * size, size, 0) for number in range(count))


def test_found_wherever_the_units_lie_in_what_was_read() -> None:
    memory = PrefilterCache()
    memory.note("prefilter", units(10), [3, 7])
    found = memory.find("prefilter", units(5, at=0) + units(10) + units(2, at=9000), 5)
    assert found is not None and (found.looked_count, list(found.numbers)) == (10, [3, 7])


@pytest.mark.parametrize(
    ("prefilter", "packed", "begin"),
    [
        ("other", units(10), 0),
        ("prefilter", units(9), 0),  # the last unit is gone
        ("prefilter", units(10, at=2000), 0),
        ("prefilter", units(9) + UNIT.pack(1900, 101, 0), 0),
        ("prefilter", units(9) + UNIT.pack(1900, 100, 1), 0),
        ("prefilter", units(10), 1),
        ("prefilter", b"", 0),
    ],
)
def test_not_found_for_others(prefilter: str, packed: bytes, begin: int) -> None:
    memory = PrefilterCache()
    memory.note("prefilter", units(10), [3])
    assert memory.find(prefilter, packed, begin) is None


def test_changed_units_replace_the_cached_ones() -> None:
    memory = PrefilterCache()
    memory.note("prefilter", units(10), [3])
    memory.note("prefilter", units(12), [])
    assert memory.find("prefilter", units(10), 0) is None
    found = memory.find("prefilter", units(12), 0)
    assert found is not None and (found.looked_count, list(found.numbers), len(memory)) == (12, [], 1)


@pytest.mark.parametrize(("count", "is_kept"), [(KEPT_COUNT_MAX, True), (KEPT_COUNT_MAX + 1, False)])
def test_steps_that_keep_many_units_are_not_cached(count: int, is_kept: bool) -> None:
    memory = PrefilterCache()
    memory.note("prefilter", units(1000), range(count))
    assert (memory.find("prefilter", units(1000), 0) is not None) is is_kept


def test_the_steps_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter_cache, "PREFILTER_CACHE_COUNT_MAX", 3)
    memory = PrefilterCache()
    for number in range(3):
        memory.note("prefilter", units(2, at=number * 1000), [])
    assert memory.find("prefilter", units(2, at=0), 0) is not None
    memory.note("prefilter", units(2, at=3000), [])
    kept = [memory.find("prefilter", units(2, at=number * 1000), 0) is not None for number in range(4)]
    assert kept == [True, False, True, True] and len(memory) == 3
