"""The part of a query's WHERE that is pushed to brokers never drops a row that Spark would keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.filter.raw_properties import SEPARATOR
from pymq.filter.sql92 import compile_sql
from pymq.filter.tree import IN_COUNT_MAX
from pymq.spark.records.decode import Decoder
from pymq.spark.source.property_terms import joined_terms, sql_term
from tests.spark.record_bytes import record

# The code recognizes Spark's classes by name; these have the same fields.


@dataclass(frozen=True)
class EqualTo:
    attribute: tuple[str, ...]
    value: Any


class EqualNullSafe(EqualTo):
    pass


class In(EqualTo):
    pass


class GreaterThan(EqualTo):
    pass


class StringStartsWith(EqualTo):
    pass


class StringEndsWith(EqualTo):
    pass


class StringContains(EqualTo):
    pass


@dataclass(frozen=True)
class IsNull:
    attribute: tuple[str, ...]


class IsNotNull(IsNull):
    pass


@dataclass(frozen=True)
class Not:
    child: Any


def spark_says(condition: Any, row: dict[str, Any]) -> bool | None:
    """Return Spark's three-valued answer for texts, compared by their characters."""
    if isinstance(condition, Not):
        inner = spark_says(condition.child, row)
        return None if inner is None else not inner
    value = row[condition.attribute[0]]
    if isinstance(condition, IsNotNull):
        return value is not None
    if isinstance(condition, IsNull):
        return value is None
    operand = condition.value
    if isinstance(condition, EqualNullSafe):
        return value == operand
    if value is None or operand is None:
        return None
    if isinstance(condition, In):
        return True if value in operand else (None if None in operand else False)
    if isinstance(condition, StringStartsWith):
        return value.startswith(operand)
    if isinstance(condition, StringEndsWith):
        return value.endswith(operand)
    if isinstance(condition, StringContains):
        return operand in value
    return value > operand if isinstance(condition, GreaterThan) else value == operand


# Numbers in several spellings, quotes, blanks, invalid UTF-8, and its decoded form.
TEXTS = (
    "5",
    "5.0",
    "05",
    " 5",
    "true",
    "TRUE",
    "null",
    "it's",
    "''",
    "a'b''",
    "é",
    "日本",
    "a\nb",
    "\ufffd",
    "x\ufffd",
)
RAW = [text.encode() for text in TEXTS] + [b"", b"\xff", b"x\xff", b"\xe9", b"\xc3\xa9\xc3", b"\xe2\xc3\xa9", b"k0"]
COLUMNS = ("tags", "keys", "msgId", "property_a", "property_in", "property_x-y")
NAMES = {"tags": b"TAGS", "keys": b"KEYS", "msgId": b"UNIQ_KEY"}

texts = st.sampled_from(TEXTS) | st.text(max_size=4) | st.sampled_from(["", "A", "k0", "\ud800"])
column = st.sampled_from(COLUMNS).map(lambda name: (name,))
values = st.one_of(st.none(), texts, st.integers(-9, 9))
plain = st.one_of(
    st.builds(EqualTo, column, values),
    st.builds(EqualNullSafe, column, values),
    st.builds(In, column, st.lists(st.none() | texts, max_size=4).map(tuple)),
    st.builds(GreaterThan, column, texts),
    st.builds(IsNull, column),
    st.builds(IsNotNull, column),
    *(st.builds(kind, column, texts) for kind in (StringStartsWith, StringEndsWith, StringContains)),
)
conditions = st.lists(
    st.one_of(plain, st.builds(Not, plain), st.builds(Not, st.builds(Not, plain))), min_size=1, max_size=3
)
pairs = st.tuples(
    st.sampled_from([NAMES.get(name, name.removeprefix("property_").encode()) for name in COLUMNS]),
    st.sampled_from(RAW),
)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(conditions, max_size=4), st.lists(st.lists(pairs, max_size=5), min_size=1, max_size=6))
def test_no_matching_row_is_left_out(wheres: list[list[Any]], messages: list[list[tuple[bytes, bytes]]]) -> None:
    raw = [b"".join(name + b"\x01" + value + b"\x02" for name, value in one) for one in messages]
    chunk = b"".join(record(n, properties=properties) for n, properties in enumerate(raw))
    [batch] = Decoder("b", COLUMNS).decode(chunk)
    for where in wheres:
        terms = [term for condition in where if (term := sql_term(condition)) is not None]
        text = joined_terms(terms)
        for row, properties in zip(batch.to_pylist(), raw, strict=True):
            if text is not None and all(spark_says(condition, row) for condition in where):
                assert compile_sql(text).test(SEPARATOR + properties) is True, (where, properties)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (EqualTo(("keys",), "it's"), "KEYS = 'it''s'"),
        (In(("property_country",), ("DE", None, "FR")), "country IN ('DE', 'FR')"),
        (Not(In(("tags",), ("A",))), "TAGS NOT IN ('A')"),
        (Not(EqualTo(("tags",), "A")), "TAGS <> 'A'"),
        (IsNotNull(("property_a",)), "a IS NOT NULL"),
        (EqualNullSafe(("keys",), None), "KEYS IS NULL"),
        (StringContains(("keys",), "x"), "KEYS CONTAINS 'x'"),
        (EqualTo(("msgId",), "X"), "(UNIQ_KEY = 'X' OR UNIQ_KEY IS NULL)"),
    ],
)
def test_conditions_that_are_pushed_down(condition: Any, text: str) -> None:
    assert sql_term(condition) == text and joined_terms([text, text]) == f"{text} AND {text}"


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("property_a",), 5),
        EqualTo(("property_a",), ""),
        EqualTo(("property_a",), "\ufffd"),
        EqualTo(("property_a",), "\ud800"),
        EqualTo(("property_x-y",), "1"),
        EqualTo(("property_Between",), "1"),
        EqualTo(("properties", "a"), "1"),
        EqualTo(("queueId",), 1),
        GreaterThan(("property_a",), "5"),
        Not(EqualNullSafe(("property_a",), "5")),
        Not(StringContains(("property_a",), "5")),
        In(("property_a",), (None,)),
        IsNull(("msgId",)),
    ],
)
def test_conditions_that_are_not_pushed_down(condition: Any) -> None:
    assert sql_term(condition) is None


def test_conditions_that_brokers_refuse_are_not_pushed_down() -> None:
    assert joined_terms([]) is None
    long = sql_term(In(("keys",), tuple(f"k{n}" for n in range(IN_COUNT_MAX + 1))))
    assert long is not None and joined_terms([long]) is None


def test_the_column_of_lite_topics_is_their_property() -> None:
    assert sql_term(EqualTo(("liteTopic",), "a$1")) == "__LITE_TOPIC = 'a$1'"
    assert joined_terms(["__LITE_TOPIC = 'a$1'"]) is not None
