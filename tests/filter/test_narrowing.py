"""Narrowing never leaves out a record that matches, and leaves out most of the others."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.filter import nodes
from pymq.filter.compiler import compile_condition
from pymq.filter.narrowing import JUDGED_COUNT_MAX, REST_CALL_COUNT, TRIAL_COUNT, narrowing
from pymq.filter.parser import parse
from pymq.filter.raw_properties import source_of
from tests.filter.records import record
from tests.filter.test_oracle import CONDITIONS
from tests.golden.sql92.corpus import REFUSED, load_corpus

PIECES = st.sampled_from(
    ["a", "b", "c", "ab", "_a", "5", "xy", "\x01", "\x02", "\x01", "\x02", "a\x015\x02", "b\x01true\x02", "a\x01xy"]
)
RAW = st.lists(PIECES, max_size=12).map("".join)


def kept(tree: nodes.Node, records: list[bytes]) -> set[int] | None:
    """The numbers of the records that a narrowing keeps; None when it says nothing."""
    narrow = narrowing(tree)
    positions = narrow(b"".join(records)) if narrow is not None else None
    if positions is None:
        return None
    assert positions == sorted(positions)
    bounds = list(pairwise([0, *accumulate(map(len, records))]))
    return {number for number, (low, high) in enumerate(bounds) if any(low <= at < high for at in positions)}


def matches(tree: nodes.Node, stored: bytes) -> bool:
    try:
        return compile_condition(tree)(source_of(memoryview(stored))) is True
    except ValueError:
        return False


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
        ("size > 7 AND color = 'red'", {8, 9}),
        ("color = 'red' AND missing = 5", {0, 2, 4, 6, 8}),
        ("size BETWEEN 2 AND 4 AND (color = 'red' OR color = 'blue')", {2, 3, 4}),
        ("(size = 1 OR size = 3) AND color IS NOT NULL", {1, 3}),
        ("size IN ('5') AND color = size", {5}),
    ],
)
def test_the_others_are_left_out(sql: str, numbers: set[int]) -> None:
    raws = [f"size\x01{number}\x02color\x01{('red', 'blue')[number % 2]}\x02" for number in range(10)]
    assert kept(parse(sql).tree, [record(raw.encode()) for raw in raws]) == numbers


@pytest.mark.parametrize(
    "sql", ["a = b", "a IS NULL", "a = 5 OR b = 6", "NOT (a IS NOT NULL)", "TRUE", "a = b AND TRUE"]
)
def test_what_says_nothing_of_one_property_is_not_narrowed(sql: str) -> None:
    assert narrowing(parse(sql).tree) is None


def test_a_value_at_a_record_s_end_is_looked_at() -> None:
    tree = parse("size = 5").tree
    assert kept(tree, [record(b"size\x015"), record(b"size\x016"), record(b"size\x015")]) == {0, 1, 2}


def test_more_values_than_are_kept() -> None:
    narrow = narrowing(parse("size = 5").tree)
    assert narrow is not None
    for number in range(0, 2 * JUDGED_COUNT_MAX, 8):
        raws = [f"size\x01{number + step}\x02".encode() for step in range(8)]
        positions = narrow(b"".join(map(record, raws)))
        assert positions is not None and len(positions) == (1 if number == 0 else 0)
        if number >= TRIAL_COUNT - 16:
            break


@pytest.mark.parametrize("value", ["1", "{number}"])
def test_it_rests_where_nothing_is_won(value: str) -> None:
    """All values pass, or all are new."""
    narrow = narrowing(parse("size > 0").tree)
    assert narrow is not None
    begun = 0
    for number in range(TRIAL_COUNT):
        if narrow(record(f"size\x01{value.format(number=number)}\x02".encode())) is not None:
            begun += 1
    assert begun == TRIAL_COUNT
    resting = [narrow(record(b"size\x011\x02")) for _ in range(REST_CALL_COUNT + 1)]
    assert set(map(type, resting)) == {type(None)}
    assert narrow(record(b"size\x011\x02")) is not None


def test_the_property_that_says_most_is_asked() -> None:
    narrow = narrowing(parse("color = 'red' AND size = 5").tree)
    assert narrow is not None
    records = b"".join(record(f"color\x01red\x02size\x01{number}\x02".encode()) for number in range(8))
    assert len(narrow(records) or ()) == 8
    for _ in range(2 * TRIAL_COUNT // 8 + 1):  # each is tried
        found = narrow(records)
    assert found is not None and len(found) == 1


def test_nothing_that_apache_takes_is_left_out() -> None:
    corpus = load_corpus()
    records = [record(message.encode()) for message in corpus.messages]
    narrowed_count = 0
    for text, answers in corpus.answers.items():
        found = None if answers == REFUSED else kept(parse(text).tree, records)
        if found is not None:
            narrowed_count += 1
            assert found >= {number for number, letter in enumerate(answers) if letter == "T"}, text
    assert narrowed_count > len(corpus.answers) / 4
