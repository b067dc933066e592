"""Reads many values as numbers at once. Covers the plain spellings, with :mod:`pymq.filter.java_numbers`' results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.filter.bulk_properties import Bools, Int64s, PropertyTable
from pymq.filter.raw_properties import SEPARATOR

INTEGER_DIGITS_MAX = 9  # a number with so many digits always fits Java's Integer
LONG_DIGITS_MAX = 15
# Below 2**53. A double holds the digits without their point, and the power of ten, exactly. So their quotient is the
# double nearest to the text, which is what Java reads.
DECIMAL_DIGITS_MAX = 15
_PLUS, _MINUS, _POINT, _ZERO, _SEPARATOR = *b"+-.0", SEPARATOR[0]
_POWERS = 10 ** np.arange(DECIMAL_DIGITS_MAX + 2, dtype=np.int64)


class Numbers(NamedTuple):
    """The numbers. ``is_sure`` is False for a value with another spelling, or that is not a number."""

    values: NDArray[np.int64] | NDArray[np.float64]
    is_sure: Bools


def read_integers(table: PropertyTable, starts: Int64s, digits_max: int = INTEGER_DIGITS_MAX) -> Numbers:
    """Read the values that begin at ``starts`` as Integer.valueOf does, or as Long.valueOf for ``LONG_DIGITS_MAX``."""
    starts, is_negative = _without_sign(table, starts)
    numbers, counts = _digits(table, starts)
    is_sure = (counts > 0) & (counts <= digits_max) & (table.bytes_at(starts + counts) == _SEPARATOR)
    return Numbers(np.where(is_negative, -numbers, numbers), is_sure)


def read_decimals(table: PropertyTable, starts: Int64s) -> Numbers:
    """Read the values that begin at ``starts`` as Double.valueOf does."""
    starts, is_negative = _without_sign(table, starts)
    numbers, counts = _digits(table, starts)
    ends = starts + counts
    is_sure = (counts > 0) & (counts <= DECIMAL_DIGITS_MAX)
    values = numbers.astype(np.float64)
    has_point = table.bytes_at(ends) == _POINT
    if has_point.any():
        fractions, places = _digits(table, ends + 1)
        places = np.where(has_point, places, 0)
        is_sure &= counts + places <= DECIMAL_DIGITS_MAX
        powers = _POWERS[places]
        joined = np.where(is_sure, numbers, 0) * powers + fractions
        values = np.where(has_point, joined / powers, values)
        ends = np.where(has_point, ends + 1 + places, ends)
    is_sure &= table.bytes_at(ends) == _SEPARATOR
    return Numbers(np.where(is_negative, -values, values), is_sure)


def _without_sign(table: PropertyTable, starts: Int64s) -> tuple[Int64s, Bools]:
    first = table.bytes_at(starts)
    is_negative = first == _MINUS
    return starts + (is_negative | (first == _PLUS)), is_negative


def _digits(table: PropertyTable, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Return the number that the digits at each place form, and its digit count, up to one more than the maximum."""
    numbers, counts = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
    goes_on = np.ones(len(starts), np.bool_)
    for place in range(DECIMAL_DIGITS_MAX + 1):
        digits = table.bytes_at(starts + place) - np.uint8(_ZERO)
        goes_on = goes_on & (digits < 10)
        if not goes_on.any():
            break
        numbers = np.where(goes_on, numbers * 10 + digits, numbers)
        counts = counts + goes_on
    return numbers, counts
