"""The state of the queues in the commits of a table, compared with all commits applied one after the other."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pymq.spark.planning.identity import Mark
from pymq.spark.tables.table_state import FULL_EVERY, TableState, read_state

QUEUES = st.tuples(st.sampled_from(["a", "ü b", 'q"']), st.sampled_from(["b1", "b2"]), st.integers(0, 3))
COMMITS = st.lists(
    st.tuples(
        st.lists(st.tuples(QUEUES, st.integers(0, 1 << 62)), max_size=4),
        st.lists(st.tuples(QUEUES, st.integers(0, 1 << 62), st.integers(0, 9)), max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


def part(key: tuple[str, str, int], end: int) -> dict[str, Any]:
    return {"topic": key[0], "broker_name": key[1], "queue_id": key[2], "to_offset": end}


@given(COMMITS)
def test_the_newest_texts_down_to_a_full_one_give_the_state(commits: list[Any]) -> None:
    state = TableState()
    texts: list[str] = []
    positions: dict[Any, int] = {}
    marks: dict[Any, Mark] = {}
    for number, (ends, found, is_full) in enumerate(commits):
        before = state
        made = [Mark(key[0], key[1], key[2], offset, f"{offset:x}", below) for key, offset, below in found]
        state = state.after([part(key, end) for key, end in ends], made)
        texts.insert(0, state.text(None if is_full or not number else before))
        for key, end in ends:
            positions[key] = max(positions.get(key, 0), end)
        marks.update((mark.key, mark) for mark in made)
    read = read_state(texts)
    assert read is not None and read.number == len(commits)
    assert {key: end for key, end in read.positions.items() if key in positions} == positions
    assert all(not end for key, end in read.positions.items() if key not in positions)  # a queue with a mark alone
    assert read.marks == marks


def test_no_full_text_is_no_state() -> None:
    before = TableState().after([part(("a", "b", 0), 5)], [])
    text = before.after([part(("a", "b", 1), 7)], []).text(before)
    assert json.loads(text) == {"number": 2, "full": False, "queues": [["a", "b", 1, 7]]}
    assert read_state([text] * FULL_EVERY) is None
