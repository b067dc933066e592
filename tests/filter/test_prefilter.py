"""A prefilter keeps every record that matches and drops most of the others."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pymq.filter import nodes
from pymq.filter.bulk_properties import PROPERTIES_BYTES_MAX
from pymq.filter.compiler import compile_condition
from pymq.filter.parser import parse
from pymq.filter.prefilter import (
    FEW_SHARE,
    LEAF_COUNT_MAX,
    RECORD_COUNT_MAX,
    RECORD_COUNT_MIN,
    REST_COUNT,
    make_prefilter,
)
from pymq.filter.raw_properties import source_of
from tests.filter.records import record
from tests.filter.test_oracle import CONDITIONS
from tests.golden.sql92.corpus import REFUSED, load_corpus

PIECES = st.sampled_from(
    ["a", "b", "c", "ab", "_a", "5", "xy", "\x01", "\x02", "\x01", "\x02", "a\x015\x02", "b\x01true\x02", "a\x01xy"]
)
RAW = st.lists(PIECES, max_size=12).map("".join)


def edges_of(records: list[bytes]) -> NDArray[np.int64]:
    return np.array([0, *accumulate(map(len, records))])


def kept(tree: nodes.Node, records: list[bytes]) -> set[int] | None:
    """Return the numbers of the records that a prefilter keeps; None without a prefilter."""
    prefilter = make_prefilter(tree)
    if prefilter is None:
        return None
    numbers = prefilter(b"".join(records), edges_of(records))
    assert numbers == sorted(set(numbers))
    return set(numbers)


def matches(tree: nodes.Node, stored: bytes) -> bool:
    try:
        return compile_condition(tree)(source_of(memoryview(stored))) is True
    except ValueError:
        return False


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(CONDITIONS, st.lists(st.tuples(RAW, st.booleans()), min_size=1, max_size=12))
def test_every_match_is_kept(tree: nodes.Node, raws: list[tuple[str, bool]]) -> None:
    records = [record(raw.encode(), body=raw.encode() if in_body else b"x") for raw, in_body in raws]
    found = kept(tree, records)
    if found is not None:
        assert found >= {number for number, stored in enumerate(records) if matches(tree, stored)}


@pytest.mark.parametrize(
    ("sql", "numbers"),
    [
        ("size > 7", {8, 9}),
        ("size > 7 AND color = 'red'", {8}),
        ("color = 'red' AND missing = 5", set()),
        ("color = 'red' AND a = b", {0, 2, 4, 6, 8}),
        ("size BETWEEN 2 AND 4 AND (color = 'red' OR color = 'blue')", {2, 3, 4}),
        ("(size = 1 OR size = 3) AND color IS NOT NULL", {1, 3}),
        ("size IN ('5') AND color = size", {5}),
    ],
)
def test_non_matching_records_are_dropped(sql: str, numbers: set[int]) -> None:
    raws = [f"size\x01{number}\x02color\x01{('red', 'blue')[number % 2]}\x02" for number in range(10)]
    assert kept(parse(sql).tree, [record(raw.encode()) for raw in raws]) == numbers


@pytest.mark.parametrize(
    ("sql", "numbers"),
    [
        ("NOT (size < 8)", {8, 9}),
        ("size < 1 OR size = 9 OR color IS NULL", {0, 9}),
        ("size <> 5 AND NOT (size BETWEEN 2 AND 8)", {0, 1, 9}),
        ("missing <> 5", set()),
        ("missing IS NULL AND size NOT IN ('0', '1', '2', '3', '4', '5', '6', '7')", {8, 9}),
        ("color CONTAINS 'lu' AND color STARTSWITH 'b' AND color ENDSWITH 'e' AND size > 7.5", {9}),
        ("color NOT CONTAINS 'lu' AND size > 6", {8}),
        ("on = TRUE", {3}),
        ("on = FALSE", {4}),
        ("'red' = color AND 3 > size", {0, 2}),
    ],
)
def test_each_condition_keeps_the_right_records(sql: str, numbers: set[int]) -> None:
    """The records are few, so that the prefilter evaluates every condition."""
    raws = [f"size\x01{number}\x02color\x01{('red', 'blue')[number % 2]}\x02" for number in range(10)]
    raws[3] += "on\x01TRUE"
    raws[4] += "on\x01no\x02"
    assert kept(parse(sql).tree, [record(raw.encode()) for raw in raws]) == numbers


def test_conditions_are_tried_until_few_records_are_left() -> None:
    raws = [f"size\x01{number}\x02color\x01red\x02".encode() for number in range(200)]
    records = list(map(record, raws))
    few = int(len(records) * FEW_SHARE)
    assert kept(parse(f"size < {few} AND color = 'blue'").tree, records) == set(range(few))
    assert kept(parse(f"size < {few + 1} AND color = 'blue'").tree, records) == set()


@pytest.mark.parametrize("sql", ["a = b", "a = b AND a < b", "b = a OR NOT (a < b)", "(a = b) = TRUE"])
def test_conditions_without_a_prefilter(sql: str) -> None:
    assert make_prefilter(parse(sql).tree) is None


@pytest.mark.parametrize("value", ["+5", "05", "-1", "5000000000", "five", "", "5.0", "x" * 40])
def test_unreadable_values_are_kept_unless_plainly_different(value: str) -> None:
    tree = parse("size = 5").tree
    plain = {"+5": True, "05": True, "-1": False}
    found = kept(tree, [record(f"size\x01{value}\x02".encode()), record(b"size\x016\x02")])
    assert found == ({0} if plain.get(value, True) else set())


def test_the_last_of_several_values_counts() -> None:
    raws = [b"size\x015\x02size\x016\x02", b"size\x016\x02size\x015", b"size\x016\x02size\x01\x02"]
    assert kept(parse("size = 5").tree, list(map(record, raws))) == {1, 2}


def test_a_text_with_a_separator_matches_no_value() -> None:
    tree = nodes.Not(nodes.Equal(nodes.Property("a"), nodes.Constant("5\x02b", nodes.Kind.TEXT)))
    assert matches(tree, record(b"a\x015\x02b\x02"))
    assert kept(tree, [record(b"a\x015\x02b\x02")]) in (None, {0})


@pytest.mark.parametrize("extra", [0, 1])
def test_records_with_many_properties_are_kept(extra: int) -> None:
    raw = b"size\x016\x02b\x01"
    large = record(raw + b"x" * (PROPERTIES_BYTES_MAX - len(raw) + extra))
    assert kept(parse("size = 5").tree, [record(b"size\x016\x02"), large]) == ({1} if extra else set())


def test_the_batch_grows_with_the_share_of_records_dropped() -> None:
    prefilter = make_prefilter(parse("size = 0").tree)
    assert prefilter is not None and prefilter.count(32) == RECORD_COUNT_MIN
    records = [record(f"size\x01{number % 10}\x02".encode()) for number in range(RECORD_COUNT_MIN * 10)]
    for _ in range(50):
        assert len(prefilter(b"".join(records), edges_of(records))) == RECORD_COUNT_MIN
    assert prefilter.count(32) == 320
    assert prefilter.count(1) == RECORD_COUNT_MIN
    assert prefilter.count(1000) == RECORD_COUNT_MAX


def test_the_prefilter_rests_when_it_drops_too_few() -> None:
    prefilter = make_prefilter(parse("size > 0").tree)
    assert prefilter is not None
    records = [record(f"size\x01{number % 2}\x02".encode()) for number in range(RECORD_COUNT_MIN)]
    prefilter(b"".join(records), edges_of(records))
    assert prefilter.count(32) == RECORD_COUNT_MIN  # half of them
    records[0] = record(b"size\x011\x02")
    prefilter(b"".join(records), edges_of(records))
    assert [prefilter.count(32) for _ in range(REST_COUNT + 1)] == [0] * (REST_COUNT + 1)
    assert prefilter.count(32) == RECORD_COUNT_MIN


@pytest.mark.slow
def test_every_match_of_apache_is_kept() -> None:
    corpus = load_corpus()
    records = [record(message.encode()) for message in corpus.messages]
    prefiltered_count = 0
    for text, answers in corpus.answers.items():
        found = None if answers == REFUSED else kept(parse(text).tree, records)
        if found is not None:
            prefiltered_count += 1
            assert found >= {number for number, letter in enumerate(answers) if letter == "T"}, text
    assert prefiltered_count > len(corpus.answers) / 4


def test_an_expression_that_would_take_long_has_no_prefilter() -> None:
    terms = [f"a = '{number}'" for number in range(LEAF_COUNT_MAX // 2)]
    assert make_prefilter(parse(" OR ".join(terms)).tree) is not None
    assert make_prefilter(parse(" OR ".join([*terms, "b IS NULL"])).tree) is None
