"""Columns of JSON bodies from a text as in Spark's SQL: ``id bigint, lines array<struct<what: string, n: int>>``."""

from __future__ import annotations

import re

from pymq.errors import UsageError
from pymq.spark.bodies.body_format import FieldBudget
from pymq.spark.bodies.json_columns import (
    DECIMAL_DIGITS_MAX,
    SCALARS,
    Column,
    decimal_column,
    list_column,
    map_column,
    struct_column,
)

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|([^\s<>(),:`']+)|([<>(),:]))")
_SYNONYMS = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
    "varchar": "string",
    "char": "string",
}
_KNOWN = (*SCALARS, "decimal(p,s)", "array<…>", "map<string,…>", "struct<…>")
_SHOWN_LENGTH = 60


def ddl_column(text: str, name: str) -> Column:
    """Return the column of an object with the fields of ``text``. Raises UsageError for a text of another form."""
    return _Parser(text, name).whole()


class _Parser:
    """One text, read once from left to right."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._budget = FieldBudget(name)
        self._tokens = self._split(text)
        self._at = 0

    def whole(self) -> Column:
        """Return the column of the whole text."""
        fields = self._fields(0, end="")
        if self._at < len(self._tokens):
            raise self._wrong("the end")
        return fields

    def _split(self, text: str) -> list[tuple[str, bool]]:
        """Return the words and signs, each with whether it stood in quotes."""
        found: list[tuple[str, bool]] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise UsageError(f"the body's schema can't be read from {text[at : at + _SHOWN_LENGTH]!r} on")
            quoted, comment, word, sign = match.groups()
            if quoted is not None:
                found.append((quoted.replace("``", "`"), True))
            else:
                found.append((comment or word or sign, bool(comment)))
            at = match.end()
        return found

    def _fields(self, depth: int, end: str) -> Column:
        fields: list[tuple[str, Column]] = []
        while not self._is(end):
            if fields:
                self._take(",")
            name = self._name()
            if any(name == known for known, _ in fields):
                raise UsageError(f"the body's schema names {name!r} twice: name each field once")
            self._budget.take(1, depth)
            if self._is(":"):
                self._at += 1
            fields.append((name, self._type(depth + 1)))
            self._skip_constraints()
        if not fields:
            raise self._wrong("a field: a name and a type")
        return struct_column(fields)

    def _type(self, depth: int) -> Column:
        self._budget.take(0, depth)
        word = self._word().lower()
        kind = _SYNONYMS.get(word, word)
        if kind in SCALARS:
            if self._is("("):  # varchar(20)
                self._numbers()
            return SCALARS[kind]
        if kind == "decimal":
            numbers = self._numbers() if self._is("(") else [10, 0]
            digits, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
            if not 1 <= digits <= DECIMAL_DIGITS_MAX or scale > digits:
                raise UsageError(f"decimal({digits},{scale}) of the body's schema has other than 1 to 38 digits")
            return decimal_column(digits, scale)
        if kind not in ("array", "map", "struct"):
            self._at -= 1
            raise self._wrong(f"one of {', '.join(_KNOWN)}")
        self._take("<")
        if kind == "struct":
            column = self._fields(depth, end=">")
        elif kind == "array":
            column = list_column(self._type(depth + 1))
        else:
            if self._word().lower() != "string":
                self._at -= 1
                raise self._wrong("string, the type of names in JSON")
            self._take(",")
            column = map_column(self._type(depth + 1))
        self._take(">")
        return column

    def _numbers(self) -> list[int]:
        self._take("(")
        found: list[int] = []
        while True:
            word = self._word()
            if not re.fullmatch("[0-9]{1,4}", word):
                self._at -= 1
                raise self._wrong("a number")
            found.append(int(word))
            if self._is(")"):
                self._at += 1
                return found
            self._take(",")

    def _skip_constraints(self) -> None:
        """Pass NOT NULL, which Spark ignores for sources too, and COMMENT 'text'."""
        for first, second in (("not", "null"), ("comment", "")):
            if self._at + 1 < len(self._tokens) and self._is(first):
                following = self._tokens[self._at + 1]
                if second in ("", following[0].lower()):
                    self._at += 2

    def _is(self, word: str) -> bool:
        if self._at >= len(self._tokens):
            return not word
        text, is_quoted = self._tokens[self._at]
        return not is_quoted and text.lower() == word

    def _take(self, sign: str) -> None:
        if not self._is(sign):
            raise self._wrong(repr(sign))
        self._at += 1

    def _name(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][1]:
            self._at += 1
            return self._tokens[self._at - 1][0]
        return self._word()

    def _word(self) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] in "<>(),:":
            raise self._wrong("a word")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _wrong(self, expected: str) -> UsageError:
        found = repr(self._tokens[self._at][0][:_SHOWN_LENGTH]) if self._at < len(self._tokens) else "its end"
        return UsageError(f"the body's schema has {found} in place of {expected}: write id bigint, lines array<string>")
