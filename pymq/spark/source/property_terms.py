"""Translates Spark's conditions on columns that are message properties to SQL92 for brokers.

Spark checks every row again, so a term may match more rows than its condition but never fewer. Both sides must compare
texts byte by byte, so no term makes a broker read a property as a number. A column's text has U+FFFD for bytes that
are not UTF-8, but the broker has the bytes, so values with U+FFFD are not sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pymq.errors import ExpressionError
from pymq.filter.sql92 import compile_sql
from pymq.model.properties import KEYS, LITE_TOPIC, TAGS, UNIQ_KEY
from pymq.spark.records.schema import property_of

_PROPERTY_OF = {"tags": TAGS, "keys": KEYS, "liteTopic": LITE_TOPIC}
_MESSAGE_ID = "msgId"
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_KEY_WORDS = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "IN", "IS", "TRUE", "FALSE", "NULL", "CONTAINS", "STARTSWITH", "ENDSWITH"]
)
_REPLACED = "\ufffd"
_FINDS = {"StringStartsWith": "STARTSWITH", "StringEndsWith": "ENDSWITH", "StringContains": "CONTAINS"}


def sql_term(condition: Any) -> str | None:
    """Return one of Spark's filters as SQL92; None for columns and kinds that can't be translated."""
    kind = type(condition).__name__
    if kind == "Not":
        return _negated(condition.child)
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return None
    column, value = attribute[0], getattr(condition, "value", None)
    if column == _MESSAGE_ID:
        # The column of a message without a unique key has the broker's id, which is not a property.
        term = _term(kind, UNIQ_KEY, value) if kind in ("EqualTo", "EqualNullSafe", "In") else None
        return None if term is None or value is None else f"({term} OR {UNIQ_KEY} IS NULL)"
    name = _sql_name(column)
    return None if name is None else _term(kind, name, value)


def joined_terms(terms: Sequence[str]) -> str | None:
    """Return all terms as one expression; None without terms, or if brokers would refuse it."""
    if not terms:
        return None
    text = " AND ".join(terms)
    try:
        compile_sql(text)
    except ExpressionError:
        return None
    return text


def _sql_name(column: str) -> str | None:
    """Return the property of a column; None for other columns, and for names that SQL92 can't express."""
    name = _PROPERTY_OF.get(column) or property_of(column)
    if name is None or not _NAME.fullmatch(name) or name.upper() in _KEY_WORDS:
        return None
    return name


def _term(kind: str, name: str, value: Any) -> str | None:
    if kind in ("IsNull", "EqualNullSafe") and value is None:
        return f"{name} IS NULL"
    if kind == "IsNotNull":
        return f"{name} IS NOT NULL"
    if kind in ("EqualTo", "EqualNullSafe"):
        return _of_text(value, lambda text: f"{name} = {text}")
    if kind == "In":
        return _of_texts(value, lambda texts: f"{name} IN ({texts})")
    if kind in _FINDS:
        return _of_text(value, lambda text: f"{name} {_FINDS[kind]} {text}")
    return None


def _negated(child: Any) -> str | None:
    """Translate a negated filter. For a null property both Spark and brokers return null, which is no match."""
    kind = type(child).__name__
    attribute: tuple[str, ...] = getattr(child, "attribute", ())
    name = _sql_name(attribute[0]) if len(attribute) == 1 else None
    if name is None:
        return None
    if kind == "IsNull":
        return f"{name} IS NOT NULL"
    if kind == "IsNotNull":
        return f"{name} IS NULL"
    if kind == "EqualTo":
        return _of_text(child.value, lambda text: f"{name} <> {text}")
    return _of_texts(child.value, lambda texts: f"{name} NOT IN ({texts})") if kind == "In" else None


def _of_text(value: Any, term: Callable[[str], str]) -> str | None:
    return term(_quoted(value)) if _can_be_written(value) else None


def _of_texts(values: Any, term: Callable[[str], str]) -> str | None:
    texts = [value for value in values or () if value is not None]
    if not texts or not all(_can_be_written(value) for value in texts):
        return None
    return term(", ".join(_quoted(text) for text in texts))


def _can_be_written(value: Any) -> bool:
    """Return True for a text that compares the same on both sides; a broker has no property with an empty value."""
    if not isinstance(value, str) or not value or _REPLACED in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
