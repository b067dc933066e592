"""Texts of records for programs: JSON, one JSON object a line, TSV and YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pymq.printable import printable_json

T = TypeVar("T")


class OutputFormat(StrEnum):
    """The values of ``-o``."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    tsv = "tsv"
    yaml = "yaml"


class MessageOutput(StrEnum):
    """The values of ``-o`` where messages are shown: ``text`` (or ``table``) is a line each, ``raw`` their bodies."""

    text = "text"
    table = "table"
    json = "json"
    jsonl = "jsonl"
    tsv = "tsv"
    yaml = "yaml"
    raw = "raw"


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return JSON without escapes for printable non-ASCII text; ``indent`` None puts it on one line."""
    return printable_json(json.dumps(value, indent=indent, ensure_ascii=False))


def formatted(value: Any, output: OutputFormat) -> str:
    """Return a record or a list of records in a format for programs, with a line end; ``output`` is not ``table``.

    JSON and YAML are one document. JSONL and TSV are one line a record.
    """
    if output is OutputFormat.json:
        return json_text(value) + "\n"
    if output is OutputFormat.yaml:
        return "".join(f"{line}\n" for line in _yaml_lines(value))
    records = value if isinstance(value, (list, tuple)) else [value]
    if output is OutputFormat.jsonl:
        return "".join(f"{json_text(record, indent=None)}\n" for record in records)
    return "".join(f"{line}\n" for line in _tsv_lines(records))


class RecordStream(Generic[T]):
    """Formats records one after the other, so that their texts together are one document: a list, or lines.

    Each text ends with a line end and can be shown at once. ``line`` returns a record as one line, as for people or as
    a JSON object. ``fields`` returns its fields for TSV and YAML; TSV has the columns ``names``.
    """

    def __init__(
        self,
        output: OutputFormat | None,
        line: Callable[[T], bytes],
        fields: Callable[[T], Mapping[str, Any]],
        names: Sequence[str],
    ) -> None:
        """``output`` None or ``table``: lines alone, of any kind."""
        self._output = output
        self._line = line
        self._fields = fields
        self._names = names
        self._is_empty = True

    def __call__(self, record: T) -> bytes:
        """Return the text of the next record."""
        is_first, self._is_empty = self._is_empty, False
        if self._output is OutputFormat.json:
            return (b"[" if is_first else b",") + self._line(record)
        if self._output is OutputFormat.yaml:
            return "".join(f"{line}\n" for line in _yaml_lines([self._fields(record)])).encode()
        if self._output is OutputFormat.tsv:
            fields = self._fields(record)
            lines = [self._names] if is_first else []
            lines.append([_tsv_cell(fields.get(name)) for name in self._names])
            return "".join("\t".join(line) + "\n" for line in lines).encode()
        return self._line(record)

    def end(self) -> bytes:
        """Return what completes the document."""
        if self._output is OutputFormat.json:
            return b"[]\n" if self._is_empty else b"]\n"
        return b"[]\n" if self._output is OutputFormat.yaml and self._is_empty else b""


def _tsv_lines(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line of field names and a line for each record; none without records."""
    names = list(dict.fromkeys(name for record in records for name in record))
    if names:
        yield "\t".join(map(_tsv_cell, names))
    for record in records:
        yield "\t".join(_tsv_cell(record.get(name)) for name in names)


def _tsv_cell(value: Any) -> str:
    """Return a text with ``\\t``, ``\\n``, ``\\r`` and ``\\\\`` escaped, a list or object as JSON, null as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return json_text(value, indent=None)
    if not isinstance(value, str):
        return str(value)
    if value.isprintable() and "\\" not in value:
        return value
    escaped = json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"')
    return printable_json(escaped)


_PLAIN = re.compile(r"[A-Za-z_/%][A-Za-z0-9_/%.+-]*")
_NOT_TEXTS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}  # of YAML 1.1 and 1.2, in any case


def _yaml_lines(value: Any) -> Iterator[str]:
    """Yield the lines of a block; texts that YAML could read as something else are in double quotes, as in JSON."""
    if isinstance(value, Mapping) and value:
        for name, one in value.items():
            yield from _yaml_member(f"{_yaml_scalar(str(name))}:", one)
    elif isinstance(value, (list, tuple)) and value:
        for one in value:
            lines = _yaml_lines(one)
            yield f"- {next(lines)}"
            for line in lines:
                yield f"  {line}"
    else:
        yield _yaml_scalar(value)


def _yaml_member(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, (Mapping, list, tuple)) and value:
        yield head
        for line in _yaml_lines(value):
            yield f"  {line}"
    else:
        yield f"{head} {_yaml_scalar(value)}"


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXTS:
        return value
    return json_text(value, indent=None)
