"""The property string: a round trip, and the look-up of one property equals the full parser."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pymq.model import properties
from pymq.model.javahash import string_hash
from pymq.model.properties import (
    append_properties,
    decode_properties,
    encode_properties,
    find_property,
    tags_code_of,
)

plain_text = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=6)
NAMES = ("TAGS", "KEYS", "A", "AA", "é", "")
# Pieces that join to duplicates, empty names and values, values with a separator, and truncated ends.
pieces = st.sampled_from([b"TAGS", b"KEYS", b"A", b"AA", "é".encode(), b"\x01", b"\x02", b"v", b"\xff", b"\xc3"])
pairs = st.tuples(st.sampled_from([b"TAGS", b"A", b"AA", b""]), st.sampled_from([b"", b"v", b"w", b"v\x01"]))
raw_properties = (
    st.lists(pairs.map(lambda pair: b"%s\x01%s\x02" % pair), max_size=6).map(b"".join)
    | st.lists(pieces, max_size=12).map(b"".join)
    | st.binary(max_size=12)
)


@given(st.dictionaries(plain_text, plain_text, max_size=6))
def test_round_trip(pairs: dict[str, str]) -> None:
    raw = encode_properties(pairs)
    kept = {name: value for name, value in pairs.items() if name and value}
    assert decode_properties(raw) == decode_properties(memoryview(raw)) == kept
    assert raw.count(b"\x02") == len(kept)
    assert not raw or decode_properties(raw[:-1]) == kept  # without the last separator


def test_as_java_writes_them() -> None:
    assert encode_properties({"TAGS": "A", "KEYS": "k1 k2"}) == b"TAGS\x01A\x02KEYS\x01k1 k2\x02"
    assert encode_properties({}) == encode_properties({"": "v", "n": ""}) == b""


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", {}),
        (b"\x01\x02", {}),
        (b"\x02\x02a\x01b\x02\x02", {"a": "b"}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02a\x01c\x02", {"a": "c"}),
        (b"a\x01b\x02a\x01\x02", {"a": "b"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x02b\x01c\x02", {"b": "c"}),
        (b"\x01v\x02", {}),
        (b"a\x01\xff\x02", {"a": "\ufffd"}),
        (b"a\x01\xc3\x02b\x01c", {"a": "\ufffd", "b": "c"}),
    ],
)
def test_unusual_property_strings(raw: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(raw) == expected


@given(raw_properties, st.sampled_from([name for name in NAMES if name]))
@example(b"A\x01v\x02A\x01\x02", "A")
@example(b"A\x01\x02A\x01v", "A")
@example(b"x\x01y\x02A\x01v\x02A\x01w\x02", "A")
@example(b"AA\x01v\x02", "A")
@example(b"v\x01A\x01v\x02", "A")
@example(b"\x02A\x01v", "A")
def test_one_property_is_found_as_the_decoder_finds_it(raw: bytes, name: str) -> None:
    found = find_property(raw, name.encode())
    assert (None if found is None else found.decode("utf-8", "replace")) == decode_properties(raw).get(name)


@given(raw_properties, st.dictionaries(st.sampled_from(["X", "TAGS"]), st.just("new"), max_size=2))
def test_appended_properties_win_and_the_others_stay(raw: bytes, extra: dict[str, str]) -> None:
    joined = append_properties(raw, encode_properties(extra))
    assert decode_properties(joined) == decode_properties(raw) | extra


def test_appending_adds_a_separator_only_where_one_is_missing() -> None:
    assert append_properties(b"a\x01b", b"c\x01d\x02") == b"a\x01b\x02c\x01d\x02"
    assert append_properties(b"a\x01b\x02", b"c\x01d\x02") == b"a\x01b\x02c\x01d\x02"
    assert append_properties(b"a\x01b", b"") == b"a\x01b"
    assert append_properties(b"", b"c\x01d\x02") == b"c\x01d\x02"


@pytest.mark.parametrize(
    ("raw", "tags"),
    [
        (b"", ""),
        (b"TAGS\x01TagA\x02", "TagA"),
        (b"a\x01b\x02TAGS\x01TagA", "TagA"),
        ("TAGS\x01é😀\x02".encode(), "é😀"),
        (b"TAGS\x01\x02", ""),
        (b"XTAGS\x01TagA\x02", ""),
        (b"TAGS\x01old\x02TAGS\x01new\x02", "new"),
        (b"TAGS\x01\xff\x02", "\ufffd"),
    ],
)
def test_the_tags_code_of_raw_properties(raw: bytes, tags: str) -> None:
    assert tags_code_of(raw) == (string_hash(tags) if tags else 0)


def test_the_properties_a_message_sets_itself_are_reserved() -> None:
    own = {properties.KEYS, properties.TAGS, properties.UNIQ_KEY, properties.WAIT, properties.DELAY}
    assert own <= properties.RESERVED
    assert properties.SHARDING_KEY not in properties.RESERVED
