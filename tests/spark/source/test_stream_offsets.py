"""Offsets of a stream: JSON, batches with a limit, and queues that come, go and are made again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.spark.source.stream_offsets import Checkpoint, Offsets, from_json, limited, row_count, spans, to_json

KEYS = st.tuples(st.sampled_from(["t", "u"]), st.sampled_from(["a", "b"]), st.integers(0, 3))
OFFSETS = st.dictionaries(KEYS, st.integers(0, 50), max_size=8)


@given(
    OFFSETS,
    st.dictionaries(KEYS, st.text("0123456789abcdef", min_size=1), max_size=3),
    st.dictionaries(KEYS, st.integers(0)),
)
def test_json_and_back(offsets: Offsets, digests: dict, deleted_below: dict) -> None:
    for point in (Checkpoint(offsets, digests, deleted_below), Checkpoint(offsets)):
        assert from_json(to_json(point)) == point


@pytest.mark.parametrize("levels", [{"a": 1}, {"t": {"b": 5}}, {"t": {"b": {"x": 1}}}, {"t": {"b": {"0": None}}}])
def test_offsets_of_other_sources_are_refused(levels: dict) -> None:
    with pytest.raises(UsageError, match="another query's"):
        from_json(levels)


@settings(deadline=None)
@given(OFFSETS, OFFSETS, st.integers(1, 30))
def test_limited_batches_reach_the_end_and_take_each_row_once(start: Offsets, latest: Offsets, rows_max: int) -> None:
    """A model: the rows of each queue, read batch by batch, are those between start and latest, in order."""
    latest = {**{key: offset for key, offset in start.items() if key not in latest}, **latest}
    expected = {key: list(range(low, high)) for key, low, high in spans(start, latest)}
    taken: dict = {}
    at = dict(start)
    for _ in range(500):
        end = limited(at, latest, rows_max)
        batch = list(spans(at, end))
        assert row_count(at, end) <= rows_max
        assert list(spans(at, end)) == batch
        for key, low, high in batch:
            taken.setdefault(key, []).extend(range(low, high))
        at = end
        if not batch:
            break
    assert {key: at[key] for key in latest} == latest
    assert taken == expected


def test_each_queue_has_its_share() -> None:
    start = {("t", "a", n): 0 for n in range(3)}
    latest = {("t", "a", 0): 100, ("t", "a", 1): 50, ("t", "a", 2): 1}
    assert list(limited(start, latest, 15).values()) == [10, 5, 0]
    assert list(limited(start, latest, 16).values()) == [11, 5, 0]
    assert limited(start, latest, 151) == latest
