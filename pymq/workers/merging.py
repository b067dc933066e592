"""The metrics of all workers as one text of Prometheus' format, in which the lines of a metric stand together."""

from __future__ import annotations

from collections.abc import Iterable

_HELP = "# HELP "
_TYPE = "# TYPE "


def merged(texts: Iterable[str]) -> str:
    """Return the lines of all texts, metric by metric. Each text has the labels that tell it from the others."""
    heads: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    for text in texts:
        for part in f"\n{text}".split(f"\n{_HELP}")[1:]:
            name = part.split(" ", 1)[0]
            meaning, _, rest = part.partition("\n")
            kind, _, readings = rest.partition("\n")
            if not kind.startswith(_TYPE):
                readings, kind = rest, f"{_TYPE}{name} untyped"
            heads.setdefault(name, f"{_HELP}{meaning}\n{kind}\n")
            if readings.rstrip("\n"):
                lines.setdefault(name, []).append(readings.rstrip("\n") + "\n")
    return "".join([head + "".join(lines.get(name, ())) for name, head in heads.items()])
