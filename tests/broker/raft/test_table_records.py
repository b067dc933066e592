"""Records of changed tables: their bytes, their limits, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.raft import table_records
from pymq.broker.raft.table_records import (
    BODY_BYTES_MAX,
    ENTRY_BYTES_MAX,
    PART_BYTES_MAX,
    PART_COUNT_MAX,
    TABLE_KINDS,
    VERSION,
    TableChange,
    TableRecordError,
    decode_part,
    encode_change,
)
from pymq.broker.raft.tables import Table

_TOPICS = "topics.json"
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_ENTRIES = st.dictionaries(st.text(min_size=1, max_size=6), _JSON, max_size=5)


def _body(**members: Any) -> bytes:
    whole = {"version": VERSION, "table": _TOPICS, "part": 0, "isLast": True} | members
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


def _object(name: str, entries: list[dict[str, Any]], values: list[Any]) -> dict[str, Any]:
    kind = TABLE_KINDS[name]
    return dict(zip(kind.entries, entries, strict=False)) | dict(zip(kind.values, values, strict=False))


def test_a_record_is_the_documented_json() -> None:
    change = TableChange(
        _TOPICS,
        {"topicConfigTable": {"A": b'{"perm":6}'}},
        {"topicConfigTable": ["B"]},
        {"dataVersion": b'{"counter":2}'},
    )
    (body,) = encode_change(change)
    assert json.loads(body) == {
        "version": 1,
        "table": "topics.json",
        "part": 0,
        "isLast": True,
        "entries": {"topicConfigTable": {"A": {"perm": 6}}},
        "removed": {"topicConfigTable": ["B"]},
        "values": {"dataVersion": {"counter": 2}},
    }
    assert decode_part(body) == (0, True, change)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not a _Body"),
        (b"\xff", "not a _Body"),
        (b"[]", "not a _Body"),
        (b"[" * 10_000, "not a _Body"),
        (_body(version=2), "version 2, this broker reads 1"),
        (_body(version=None), "version"),
        (_body(more=1), "more"),
        (_body(table="role.json"), "'role.json' is no table"),
        (_body(table=""), "table"),
        (_body(part=-1), "part"),
        (_body(part=PART_COUNT_MAX), "part"),
        (_body(part=0.5), "part"),
        (_body(isLast="yes"), "isLast"),
        (_body(entries={"offsetTable": {"A": 1}}), "no entries 'offsetTable'"),
        (_body(entries={"topicConfigTable": {"": 1}}), "entries"),
        (_body(entries={"topicConfigTable": []}), "entries"),
        (_body(removed={"dataVersion": ["A"]}), "no entries 'dataVersion'"),
        (_body(removed={"topicConfigTable": [""]}), "removed"),
        (_body(removed={"topicConfigTable": ["A", "A"]}), "named twice"),
        (_body(removed={"topicConfigTable": ["A"]}, entries={"topicConfigTable": {"A": 1}}), "named twice"),
        (_body(values={"topicConfigTable": {}}), "no value 'topicConfigTable'"),
        (b" " * (BODY_BYTES_MAX + 1), f"the limit is {BODY_BYTES_MAX}"),
    ],
)
def test_what_is_no_change_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(TableRecordError, match=why):
        decode_part(body)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_change_or_are_refused(body: bytes) -> None:
    try:
        decode_part(body)
    except TableRecordError:
        return


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(sorted(TABLE_KINDS)), st.data())
def test_a_change_leads_from_any_table_to_any_other(name: str, data: st.DataObject) -> None:
    draw = data.draw
    pair = [
        _object(name, draw(st.lists(_ENTRIES, min_size=2, max_size=2)), draw(st.lists(_JSON, min_size=3, max_size=3)))
        for _ in range(2)
    ]
    table = Table(name)
    for wanted in pair:
        for body in encode_change(table.change_to(wanted)):
            table.make(decode_part(body).change)
        derived = table.kind.derived(wanted) if table.entries else {}
        assert json.loads(json.dumps(table.as_object())) == json.loads(json.dumps(wanted | derived))
        assert table.change_to(wanted).is_empty


def test_a_long_change_goes_in_parts_of_whole_entries() -> None:
    entry = json.dumps("x" * 300_000).encode()
    change = TableChange(_TOPICS, {"topicConfigTable": {str(n): entry for n in range(7)}}, {"topicConfigTable": ["y"]})
    parts = [decode_part(body) for body in encode_change(change)]
    assert [(part.number, part.is_last) for part in parts] == [(0, False), (1, False), (2, True)]
    assert max(len(body) for body in encode_change(change)) <= PART_BYTES_MAX
    assert [list(part.change.entries["topicConfigTable"]) for part in parts] == [
        ["0", "1", "2"],
        ["3", "4", "5"],
        ["6"],
    ]


def test_an_entry_at_the_limit_goes_alone_and_one_above_is_refused() -> None:
    room = ENTRY_BYTES_MAX - table_records._ENTRY_FRAME_BYTES - len("topicConfigTable") - len("A")
    at_limit = TableChange(_TOPICS, {"topicConfigTable": {"A": b"1" * room}})
    (body,) = encode_change(at_limit)
    assert decode_part(body).change == at_limit
    with pytest.raises(TableRecordError, match=f"the limit is {ENTRY_BYTES_MAX}"):
        encode_change(TableChange(_TOPICS, {"topicConfigTable": {"A": b"1" * (room + 1)}}))


def test_a_change_of_too_many_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_records, "PART_BYTES_MAX", 1)
    keys = [str(number) for number in range(PART_COUNT_MAX)]
    assert len(encode_change(TableChange(_TOPICS, removed={"topicConfigTable": keys}))) == PART_COUNT_MAX
    with pytest.raises(TableRecordError, match=f"the limit is {PART_COUNT_MAX}"):
        encode_change(TableChange(_TOPICS, removed={"topicConfigTable": [*keys, "one more"]}))
