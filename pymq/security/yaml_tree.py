"""YAML as a tree of texts with places, for files that people write: no tags, no aliases, no types.

PyYAML's parser yields events; nothing here constructs an object that the text names. A scalar is its text as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pymq.errors import UsageError

FILE_SIZE_MAX_BYTES: Final = 1024 * 1024
DEPTH_MAX: Final = 8  # an ACL file needs four levels
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


class Place(NamedTuple):
    """Where something stands in a file, both from 1."""

    line: int
    column: int


class YamlError(UsageError):
    """A file can't be used; the text begins with line and column."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(f"line {place.line}, column {place.column}: {why}")
        self.place = place
        self.why = why


@dataclass
class Scalar:
    """A text, or None for YAML's null."""

    place: Place
    text: str | None


@dataclass
class Listing:
    """A YAML sequence."""

    place: Place
    items: list[Node] = field(default_factory=list)


@dataclass
class Mapping:
    """A YAML mapping. The keys are texts, each once."""

    place: Place
    members: dict[str, Node] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)  # of the keys


Node = Scalar | Listing | Mapping


def parse_yaml(raw: bytes) -> Node:
    """Return the tree of a document; a mapping without members for an empty file. Raises YamlError."""
    if len(raw) > FILE_SIZE_MAX_BYTES:
        raise YamlError(Place(1, 1), f"the file has {len(raw)} bytes, the limit is {FILE_SIZE_MAX_BYTES}: split it")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise YamlError(Place(line, column), "the text is not UTF-8: save it as UTF-8") from error
    return _Builder().build(_events(text))


def _events(text: str) -> Iterator[Any]:
    """Yield PyYAML's events. Raises YamlError."""
    import yaml  # noqa: PLC0415 - only a server with a 4.x ACL file needs it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark is not None else Place(1, 1)
        raise YamlError(place, f"{error.problem or error.context}: correct the YAML there") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(Place(1, 1), f"the file is no YAML: {error}") from error


class _Builder:
    """Makes the tree from events, with a stack of its own."""

    def __init__(self) -> None:
        self._root: Node | None = None
        self._open: list[Listing | Mapping] = []
        self._keys: list[Scalar | None] = []  # for each open node the key that waits for its value

    def build(self, events: Iterator[Any]) -> Node:
        for event in events:
            kind = type(event).__name__
            place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
            if kind == "AliasEvent" or getattr(event, "anchor", None):
                raise YamlError(place, "anchors and aliases are not allowed: write the value out")
            if getattr(event, "tag", None):
                raise YamlError(place, f"the tag {event.tag[:40]} is not allowed: leave it out")
            if kind == "DocumentStartEvent" and self._root is not None:
                raise YamlError(place, "a second document begins: keep one")
            if kind == "ScalarEvent":
                is_null = event.implicit[0] and event.value in _NULLS
                self._add(Scalar(place, None if is_null else event.value))
            elif kind in ("SequenceStartEvent", "MappingStartEvent"):
                self._begin(Listing(place) if kind == "SequenceStartEvent" else Mapping(place))
            elif kind in ("SequenceEndEvent", "MappingEndEvent"):
                self._open.pop()
                self._keys.pop()
        return self._root if self._root is not None else Mapping(Place(1, 1))

    def _begin(self, node: Listing | Mapping) -> None:
        if len(self._open) >= DEPTH_MAX:
            raise YamlError(node.place, f"more than {DEPTH_MAX} levels are nested: flatten the file")
        self._add(node)
        self._open.append(node)
        self._keys.append(None)

    def _add(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Listing):
            parent.items.append(node)
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = self._checked_key(parent, node)
            return
        assert key.text is not None
        parent.members[key.text] = node
        self._keys[-1] = None

    @staticmethod
    def _checked_key(parent: Mapping, node: Node) -> Scalar:
        if not isinstance(node, Scalar) or node.text is None:
            raise YamlError(node.place, "a key must be a text: write name: value")
        if node.text in parent.places:
            first = parent.places[node.text].line
            raise YamlError(node.place, f"the key {node.text[:40]!r} stands here and in line {first}: keep one")
        parent.places[node.text] = node.place
        return node
