"""The texts that Java accepts as numbers, and its order of doubles."""

import math

import pytest

from pymq.filter.java_numbers import order_of, to_double, to_double_below_nan, to_integer, to_long


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("0005", 5),
        ("-0", 0),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("0" * 30000 + "7", 7),
        ("٣", 3),
        ("-１２", -12),
    ],
)
def test_integers(text: str, number: int) -> None:
    assert to_integer(text.encode()) == to_long(text.encode()) == number


@pytest.mark.parametrize(
    "text", ["", "+", "-", "5.0", "1_0", " 5", "5 ", "0x5", "5L", "1e3", "²", "𝟓", "--5", "9" * 30000, "x"]
)
def test_texts_that_are_not_integers(text: str) -> None:
    for read in (to_integer, to_long):
        with pytest.raises(ValueError, match="number"):
            read(text.encode())


def test_ranges() -> None:
    for text in (b"2147483648", b"-2147483649"):
        assert to_long(text) == int(text)
        with pytest.raises(ValueError, match="range"):
            to_integer(text)
    assert to_long(b"-9223372036854775808") == -(2**63)
    with pytest.raises(ValueError, match="range"):
        to_long(b"9223372036854775808")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1E-3f", -0.001),
        ("5D", 5.0),
        (" \t5\n\x00", 5.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e400", math.inf),
        ("1e-400", 0.0),
        ("0x1p3", 8.0),
        ("0X.8P1d", 1.0),
        ("-0x1p99999", -math.inf),
        ("0x1p-99999", 0.0),
    ],
)
def test_doubles(text: str, number: float) -> None:
    assert to_double(text.encode()) == number


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "1e", "inf", "nan", "infinity", "1_0", "0x1", "0x.p1", "5ff", "5L", "٣", "5\u00a0", "NaNf"]
)
def test_texts_that_are_not_doubles(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        to_double(text.encode())


def test_nan() -> None:
    assert math.isnan(to_double(b"NaN")) and to_double_below_nan(b"-NaN") == math.inf


def test_doubles_sort_as_java_compares_them() -> None:
    rising = [-math.inf, -2.0, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 2.0, math.inf, math.nan]
    assert [order_of(number) for number in rising] == sorted({order_of(number) for number in rising})
    assert order_of(-math.nan) == order_of(math.nan)
