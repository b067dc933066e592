"""Finding the few of many records that an expression may hold for, without taking each apart.

An expression that is true needs each condition that it joins by AND to be true. Conditions that look at one property
are judged by its values alone, which are cut out of many records' bytes in one go; the judgements are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from pymq.filter.compiler import Test, compile_condition
from pymq.filter.nodes import And, Node, Property
from pymq.filter.raw_properties import NAME_END, SEPARATOR

JUDGED_COUNT_MAX = 1024  # values of a property whose judgement is kept
JUDGED_SIZE_MAX_BYTES = 64
TRIAL_COUNT = 2000  # values looked at before a property is given up
# Share of values that pass, and are looked at once more, or are new, and have to be judged: above it nothing is won.
BURDEN_MAX = 0.5
REST_CALL_COUNT = 500
_BLANK = 0x20

# From records back to back to positions in them, rising: a record with none of them in it does not match.
# None: not worth the effort just now.
Narrow = Callable[[bytes], list[int] | None]


def narrowing(tree: Node) -> Narrow | None:
    """A narrowing for an expression; None when it joins no condition that says something of one property alone."""
    nodes_by_name: dict[str, list[Node]] = {}
    for node in _joined(tree):
        names = set(_names(node))
        if len(names) == 1 and not _holds_without(node):
            nodes_by_name.setdefault(names.pop(), []).append(node)
    if not nodes_by_name:
        return None
    return _Best([_Values(name, [compile_condition(node) for node in nodes]) for name, nodes in nodes_by_name.items()])


def _joined(node: Node) -> Iterator[Node]:
    """The conditions that must all be true."""
    if isinstance(node, And):
        for term in node.terms:
            yield from _joined(term)
    else:
        yield node


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, Property):
        yield node.name
    for child in node.children():
        yield from _names(child)


def _holds_without(node: Node) -> bool:
    """True when a condition holds for a message without properties: then finding none says nothing."""
    return _may_hold([compile_condition(node)], SEPARATOR)


def _may_hold(tests: list[Test], source: bytes) -> bool:
    """False when not all hold. What can't be evaluated is left to the look at the record, which tells and counts it."""
    try:
        return all(test(source) is True for test in tests)
    except ValueError:
        return True


class _Values:
    """One property's values, judged by the conditions that look at it alone."""

    def __init__(self, name: str, tests: list[Test]) -> None:
        self._needle = name.encode() + NAME_END
        self._tests = tests
        self._judged: dict[bytes, bool] = {}
        self.forget()

    def forget(self) -> None:
        """Begins to count anew."""
        self.looked_count = self._hit_count = self._new_count = 0

    @property
    def burden(self) -> float:
        """The share of values that passed or had to be judged; 0 before the first."""
        return (self._hit_count + self._new_count) / self.looked_count if self.looked_count else 0.0

    def positions(self, records: bytes) -> list[int]:
        """Where the values begin that pass, and those that can't be judged."""
        pieces = records.split(self._needle)
        # The key of a value has its separator behind it, and is empty without one: no such key is ever judged.
        judged = self._judged.get
        hits = [number for number, piece in enumerate(pieces) if judged(piece[: piece.find(SEPARATOR) + 1], True)]
        if hits and hits[0] == 0:  # what stands before the first name is no value
            del hits[0]
        hits = [number for number in hits if self._passes(pieces[number])]
        self.looked_count += len(pieces) - 1
        self._hit_count += len(hits)
        if not hits:
            return hits
        begins, width = list(accumulate(map(len, pieces))), len(self._needle)
        return [begins[number - 1] + number * width for number in hits]

    def _passes(self, piece: bytes) -> bool:
        value = piece[: piece.find(SEPARATOR) + 1]
        return self._judged.get(value, False) or self._judge(value)

    def _judge(self, value: bytes) -> bool:
        """True for what passes, and for what is no whole value.

        A name inside a value cuts it in two and leaves no separator; a value that ends its record without a separator
        runs into the next record, whose size begins with a byte below a blank.
        """
        if not value or len(value) > JUDGED_SIZE_MAX_BYTES or min(value[:-1], default=_BLANK) < _BLANK:
            return True
        self._new_count += 1
        if len(self._judged) >= JUDGED_COUNT_MAX:
            self._judged.clear()
        passes = self._judged[value] = _may_hold(self._tests, SEPARATOR + self._needle + value)
        return passes


class _Best:
    """Asks the property that says most for least, by what was seen of each; rests while none is worth it."""

    def __init__(self, properties: list[_Values]) -> None:
        self._properties = properties
        self._rest_count = 0

    def __call__(self, records: bytes) -> list[int] | None:
        if self._rest_count:
            self._rest_count -= 1
            return None
        best = min(self._properties, key=_rank)
        if best.looked_count >= TRIAL_COUNT and best.burden > BURDEN_MAX:
            self._rest_count = REST_CALL_COUNT
            for values in self._properties:
                values.forget()
            return None
        return best.positions(records)


def _rank(values: _Values) -> tuple[bool, float]:
    """Those that were not tried enough come first: at the beginning every value is new."""
    return values.looked_count >= TRIAL_COUNT, values.burden
