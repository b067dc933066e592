"""Numbers read in bulk equal those read one by one, and every plain spelling is read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.filter.bulk_numbers import (
    DECIMAL_DIGITS_MAX,
    INTEGER_DIGITS_MAX,
    LONG_DIGITS_MAX,
    Numbers,
    read_decimals,
    read_integers,
)
from pymq.filter.bulk_properties import PropertyTable
from pymq.filter.java_numbers import to_double, to_integer, to_long
from tests.filter.records import record

TEXTS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
    st.floats().map(repr),
    st.text("0123456789+-.e \u0665x", min_size=1, max_size=20),
)


def table_of(texts: list[str]) -> PropertyTable:
    records = [record(f"other\x01{'y' * number}\x02n\x01{text}".encode()) for number, text in enumerate(texts)]
    return PropertyTable(b"".join(records), np.cumsum([0, *map(len, records)]))


def sure(numbers: Numbers) -> list[float | int | None]:
    pairs = zip(numbers.values.tolist(), numbers.is_sure.tolist(), strict=True)
    return [value if is_sure else None for value, is_sure in pairs]


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_equal_to_reading_one_by_one(texts: list[str]) -> None:
    table = table_of(texts)
    starts = table.column("n").starts
    for read, numbers in (
        (to_integer, read_integers(table, starts)),
        (to_long, read_integers(table, starts, LONG_DIGITS_MAX)),
        (to_double, read_decimals(table, starts)),
    ):
        for text, number in zip(texts, sure(numbers), strict=True):
            assert number is None or number == read(text.encode())  # raises where there is no number


@pytest.mark.parametrize("digits", [1, 5, INTEGER_DIGITS_MAX, INTEGER_DIGITS_MAX + 1, LONG_DIGITS_MAX])
def test_the_number_of_digits_read(digits: int) -> None:
    text = "9" * digits
    table = table_of([text, f"-{text}", f"+{text}", text + "x"])
    starts = table.column("n").starts
    expected = [int(text), -int(text), int(text), None]
    assert sure(read_integers(table, starts)) == (expected if digits <= INTEGER_DIGITS_MAX else [None] * 4)
    assert sure(read_integers(table, starts, LONG_DIGITS_MAX)) == expected
    assert sure(read_decimals(table, starts)) == expected


def test_decimals() -> None:
    most = "1." + "2" * (DECIMAL_DIGITS_MAX - 1)
    texts = ["98.6", "-0.1", "5.", "007.50", most, most + "2", ".5", "1e3", "5f", "1.2.3", "", "9" * 16]
    table = table_of(texts)
    column = table.column("n")
    assert sure(read_decimals(table, column.starts)) == [98.6, -0.1, 5.0, 7.5, float(most), *[None] * 7]
