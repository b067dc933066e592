"""The fields of docs/cli-output.md, and a check that what a command printed has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cli-output.md").read_text()

# Objects whose names are data: topics, properties, keys.
OPEN = {"attributes", "origins", "properties", "tables", "values", "retry_policy", "damage", "damage_left", "looked_at"}
ABSENT = "absent"


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of every field: ``a.b``, ``list[]``, ``list[].name``."""
    if isinstance(value, dict) and path.rpartition(".")[2].removesuffix("[]") not in OPEN:
        if path:
            yield path, "object"
        for name, one in value.items():
            yield from fields(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield path, "list"
        for one in value:
            yield from fields(one, f"{path}[]")
    else:
        yield path, kind(value)


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "object"
    return "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def printed(value: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for record in value if isinstance(value, list) else [value]:
        for path, name in fields(record):
            found.setdefault(path, set()).add(name)
    return found


def documented() -> dict[str, dict[str, set[str]]]:
    """Return command -> field -> types, as the page has them; ABSENT is among the types of one not always printed."""
    sections = re.split(r"^### (`pymq .+`)\n", TEXT, flags=re.MULTILINE)[1:]
    found = {}
    for heading, section in zip(sections[::2], sections[1::2], strict=True):
        fields = {
            field: set(types.partition(",")[0].split(" or ")) | ({ABSENT} if "," in types else set())
            for field, types in re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|", section, re.MULTILINE)
        }
        found.update(dict.fromkeys(re.findall(r"`pymq ([^`]+)`", heading), fields))
    return found


def assert_documented(command: str, value: Any, *, is_whole: bool = True) -> None:
    """Fail unless the page has the fields of a record, or of a list of them, with their types.

    ``is_whole``: also unless the record has all the fields that the page has outside of its lists and objects.
    """
    found, known = printed(value), documented()[command]
    assert found, "nothing was printed"
    assert found.keys() - known.keys() == set(), "not on the page"
    outer = {path for path, types in known.items() if not re.search(r"[.\[]", path) and ABSENT not in types}
    assert not is_whole or outer - found.keys() == set(), "on the page, not printed"
    assert {path: found[path] - known[path] for path in found if found[path] - known[path]} == {}, "other types"
