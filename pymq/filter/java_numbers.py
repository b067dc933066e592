"""Reads texts as numbers as Java does: Integer.valueOf, Long.valueOf, Double.valueOf and Double.compareTo."""

from __future__ import annotations

import math
import re
import struct
import unicodedata

INTEGER_MIN, INTEGER_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

_SURE_DIGITS = 9  # a number with so many digits always fits an Integer
_DIGITS_MAX = 19  # of a Long, without leading zeros
_INTEGER = re.compile(rb"([+-]?)0*([0-9]*)")
_JAVA_BLANKS = bytes(range(0x21))  # the characters that String.trim removes
_DECIMAL = re.compile(rb"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL = re.compile(rb"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_WORD = re.compile(rb"([+-]?)(NaN|Infinity)")
_DOUBLE_BITS = struct.Struct(">d")
_LONG_BITS = struct.Struct(">q")


def to_integer(text: bytes) -> int:
    """Return Integer.valueOf of a UTF-8 text. Raises ValueError when it is not a whole number or out of range."""
    if len(text) <= _SURE_DIGITS and text.isdigit():
        return int(text)
    return _in_range(text, INTEGER_MIN, INTEGER_MAX)


def to_long(text: bytes) -> int:
    """Return Long.valueOf of a UTF-8 text. Raises ValueError when it is not a whole number or out of range."""
    if len(text) <= _SURE_DIGITS and text.isdigit():
        return int(text)
    return _in_range(text, LONG_MIN, LONG_MAX)


def to_double(text: bytes) -> float:
    """Return Double.valueOf of a UTF-8 text: with blanks around, a final ``f`` or ``d``, hexadecimal, NaN.

    Raises ValueError.
    """
    trimmed = text.strip(_JAVA_BLANKS)
    if match := _DECIMAL.fullmatch(trimmed):
        return float(match[1])
    if match := _WORD.fullmatch(trimmed):
        return float(match[1] + match[2])
    if match := _HEXADECIMAL.fullmatch(trimmed):
        try:
            return float.fromhex(match[1].decode())
        except OverflowError:
            return -math.inf if trimmed.startswith(b"-") else math.inf
    raise ValueError("not a number")


def to_double_below_nan(text: bytes) -> float:
    """As :func:`to_double`, but NaN becomes infinity: Java sorts NaN last, and finite numbers can't tell the two
    apart."""
    number = to_double(text)
    return math.inf if math.isnan(number) else number


def order_of(number: float) -> int:
    """Return an integer that sorts as Double.compareTo: -0.0 below 0.0, NaN above everything and equal to itself."""
    if math.isnan(number):
        number = math.nan  # one NaN for all
    bits: int = _LONG_BITS.unpack(_DOUBLE_BITS.pack(number))[0]
    return bits if bits >= 0 else LONG_MIN - bits - 1


def _in_range(text: bytes, low: int, high: int) -> int:
    match = _INTEGER.fullmatch(text if text.isascii() else _with_ascii_digits(text))
    if match is None or not text[len(match[1]) :] or len(match[2]) > _DIGITS_MAX:
        raise ValueError("not a whole number")
    number = int(match[2] or b"0")
    if match[1] == b"-":
        number = -number
    if not low <= number <= high:
        raise ValueError("out of range")
    return number


def _with_ascii_digits(text: bytes) -> bytes:
    """Replace decimal digits of any script's first plane by ASCII digits, because Character.digit accepts them."""
    found = []
    for character in text.decode("utf-8", "replace"):
        digit = unicodedata.decimal(character, -1) if "\x7f" < character <= "\uffff" else -1
        found.append(str(digit) if digit >= 0 else character)
    return "".join(found).encode()
