"""SizedCache: hits, and the limit of bytes."""

from __future__ import annotations

from pymq.model.sized_cache import ENTRY_BYTES, SizedCache


def test_a_value_is_made_once_and_then_kept() -> None:
    made: list[str] = []
    cache = SizedCache[str, int](lambda key: made.append(key) or len(made), lambda key, _: len(key), 10 * ENTRY_BYTES)
    assert [cache["a"], cache["b"], cache["a"]] == [1, 2, 1]
    assert made == ["a", "b"]
    assert cache.size_bytes == 2 * (ENTRY_BYTES + 1)


def test_the_first_entries_go_when_the_bytes_are_used_up() -> None:
    cache = SizedCache[str, str](str.upper, lambda key, value: len(key) + len(value), 3 * ENTRY_BYTES)
    for key in ("a" * 50, "b" * 50, "c" * 50):
        assert cache[key] == key.upper()
    assert list(cache) == ["b" * 50, "c" * 50]
    assert cache.size_bytes == 2 * (ENTRY_BYTES + 100)


def test_a_value_above_the_limit_is_not_kept() -> None:
    cache = SizedCache[str, str](str.upper, lambda key, _: len(key), ENTRY_BYTES + 5)
    assert cache["abcdef"] == "ABCDEF" and not cache and cache.size_bytes == 0
    assert cache["abcde"] == "ABCDE" and len(cache) == 1


def test_no_number_of_distinct_keys_takes_more_than_the_limit() -> None:
    cache = SizedCache[int, int](int, lambda _key, _value: 100, 1000)
    for number in range(10_000):
        assert cache[number] == number
    assert cache.size_bytes <= 1000 and len(cache) == 3
