"""The tree of an SQL92 expression: small values without behavior."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar


class Kind(Enum):
    """The type of a node's value when it is not null. Java: String, Integer, Long, Double, Boolean."""

    TEXT = "text"
    INTEGER = "integer"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    NULL = "null"  # the value is always null


NUMBERS = frozenset((Kind.INTEGER, Kind.LONG, Kind.DOUBLE))


@dataclass(frozen=True)
class Node:
    """A node of the tree. ``depth`` counts its levels, so that no tree gets too deep to evaluate.

    ``leaf_count`` counts its literals and properties: what evaluating it costs.
    """

    is_condition: ClassVar[bool] = False  # may stand where a condition is needed (Java: BooleanExpression)
    depth: int = field(init=False, repr=False, compare=False, default=0)
    leaf_count: int = field(init=False, repr=False, compare=False, default=1)

    def __post_init__(self) -> None:
        children = self.children()
        if children:
            object.__setattr__(self, "leaf_count", sum([child.leaf_count for child in children]))
        object.__setattr__(self, "depth", 1 + max([child.depth for child in children], default=0))

    def children(self) -> tuple[Node, ...]:
        """The direct child nodes."""
        return ()


@dataclass(frozen=True)
class Constant(Node):
    """A literal."""

    value: str | int | float | bool | None
    kind: Kind

    @property
    def is_condition(self) -> bool:  # type: ignore[override]
        return self.kind in (Kind.BOOLEAN, Kind.NULL)


@dataclass(frozen=True)
class Property(Node):
    """A message property's text; null when the message has no such property."""

    name: str


@dataclass(frozen=True)
class Negate(Node):
    """Minus a number; null for every other operand, even for a property that looks like a number."""

    operand: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Condition(Node):
    """A node that is true, false or null."""

    is_condition = True


@dataclass(frozen=True)
class IsTrue(Condition):
    """A property in place of a condition: null when missing, else false, because its value is a text."""

    operand: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Not(Condition):
    operand: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class And(Condition):
    """False at the first false term; null when none is false and one is null."""

    terms: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.terms


@dataclass(frozen=True)
class Or(Condition):
    """True at the first true term; null when none is true and one is null."""

    terms: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.terms


class Relation(Enum):
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


@dataclass(frozen=True)
class Order(Condition):
    """``left < right`` and the like. Compares numbers; texts are read as numbers."""

    relation: Relation
    left: Node
    right: Node

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Equal(Condition):
    """Null when only the left is null, false when only the right is, true when both are null."""

    left: Node
    right: Node

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class IsNull(Condition):
    operand: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class In(Condition):
    """``property [NOT] IN ('a', 'b')``; null without the property."""

    operand: Property
    texts: frozenset[str]
    negated: bool

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Search(Enum):
    CONTAINS = "CONTAINS"
    STARTS_WITH = "STARTSWITH"
    ENDS_WITH = "ENDSWITH"


@dataclass(frozen=True)
class Find(Condition):
    """A text search.

    Never null: false, also when negated, for null, for a value that is not a text, for an empty text.
    """

    search: Search
    operand: Node
    text: str
    negated: bool

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)
