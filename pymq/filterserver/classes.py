"""Filter classes: the filter that a group uses for a topic, and the table of them.

A class name selects a filter. Its last dotted part is the filter's name (``pymq.filters.jsonpath``, ``jsonpath``). The
part before may be the error policy (``pymq.filters.stop.jsonpath``). The expression is the class's source text, or
follows a colon in the name (``jsonpath:$.amount > 3``). Nothing is run as code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.filter.running import EXPRESSION_LENGTH_MAX, OnError
from pymq.filterserver.workers import Filter
from pymq.wire.codes import ResponseCode

CLASS_COUNT_MAX = 1024
CLASS_IDLE_MS = 300_000  # a class without a pull for so long may be replaced
BAD_MESSAGE_COUNT_MAX = 1000
SUSPECT_COUNT_MAX = 1000
NAME_LENGTH_MAX = 100
UPLOADED = -1
CARRIED = -2


@dataclass(frozen=True, slots=True)
class FilterText:
    """A parsed class name and its source. ``on_error`` is None when they leave it to the server."""

    name: str
    expression: str
    on_error: OnError | None = None


def parse_class(class_name: str, source: str | None) -> FilterText:
    """Parse a class. ``source`` is None when the consumer's client does not send one. Raises Refusal."""
    path, colon, expression = class_name.partition(":")
    *before, name = path.strip().lower().split(".")
    if not name or len(name) > NAME_LENGTH_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the class name {class_name[:NAME_LENGTH_MAX]!r} names no filter: its last part must, for example "
            "pymq.filters.jsonpath",
        )
    if not colon:
        if source is None:
            raise Refusal(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"no expression for filter {name}: Java clients from 5.0 on send no source; write it into the class "
                f'name: "{path}:EXPRESSION"',
            )
        expression = source.strip()
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the expression has {len(expression)} characters, the limit is {EXPRESSION_LENGTH_MAX}: shorten it",
        )
    policy = OnError(before[-1]) if before and before[-1] in set(OnError) else None
    return FilterText(name.replace("_", "-"), expression, policy)


@dataclass(slots=True)
class ClassStats:
    """Messages by outcome, batches, and the filter's time."""

    matched: int = 0
    skipped: int = 0
    errors: int = 0
    batches: int = 0
    time_us: int = 0


@dataclass(slots=True)
class FilterClass:
    """A filter of a group for a topic.

    ``version`` is the version of its subscription. It is UPLOADED for a class that a consumer uploaded, and CARRIED for
    one that pulls carry; a group may have several of the latter for a topic.
    """

    group: str
    topic: str
    text: FilterText
    filter: Filter
    version: int
    used_ms: int  # monotonic
    stats: ClassStats = field(default_factory=ClassStats)
    # (queue id, first offset) -> end of a range in which a worker failed at one message; see filtering. Readers of
    # other parts of the queue have their own entries.
    suspects: dict[tuple[int, int], int] = field(default_factory=dict)
    bad_messages: dict[tuple[int, int], str] = field(default_factory=dict)
    is_error_logged: bool = False

    def note_suspects(self, queue_id: int, first: int, end: int) -> None:
        """Remember that a worker died or hung at messages of [first, end)."""
        if len(self.suspects) >= SUSPECT_COUNT_MAX:
            del self.suspects[next(iter(self.suspects))]
        self.suspects[queue_id, first] = end

    def note_bad(self, queue_id: int, offset: int, why: str) -> None:
        """Remember a message that killed a worker, so that it kills only one."""
        if len(self.bad_messages) >= BAD_MESSAGE_COUNT_MAX:
            del self.bad_messages[next(iter(self.bad_messages))]
        self.bad_messages[queue_id, offset] = why


Key = tuple[str, str, FilterText | None]


class ClassTable:
    """All classes by group and topic, and by their text where pulls carry it; at most ``CLASS_COUNT_MAX``.

    ``on_removed`` is called for each filter that is no longer needed.
    """

    def __init__(self, clock: Clock, on_removed: Callable[[Filter], None]) -> None:
        self._clock = clock
        self._on_removed = on_removed
        self._classes: dict[Key, FilterClass] = {}

    def all(self) -> list[FilterClass]:
        """Return all classes, sorted by group and topic."""
        return sorted(self._classes.values(), key=lambda known: (known.group, known.topic, known.filter.filter_id))

    def find(self, group: str, topic: str, carried: FilterText | None = None) -> FilterClass | None:
        """Return the class for a pull and mark it as used: the one the pull carries, or else the group's own."""
        found = self._classes.get((group, topic, carried))
        if found is not None:
            found.used_ms = self._clock.monotonic_ms()
        return found

    def check_room(self, group: str, topic: str, carried: FilterText | None = None) -> None:
        """Raise Refusal when there is no room for another class."""
        if (group, topic, carried) in self._classes or len(self._classes) < CLASS_COUNT_MAX:
            return
        oldest = min(self._classes.values(), key=lambda known: known.used_ms)
        if self._clock.monotonic_ms() - oldest.used_ms < CLASS_IDLE_MS:
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._classes)} filter classes are in use, the limit is {CLASS_COUNT_MAX}: start another filter "
                "server",
            )
        self._remove(oldest)

    def put(self, group: str, topic: str, text: FilterText, compiled: Filter, version: int) -> FilterClass:
        """Add a class in place of the previous one. Raises Refusal.

        One with the same text continues its figures: a consumer may upload a class that was learned from its heartbeat.
        """
        key = _key(group, topic, text, version)
        self.check_room(*key)
        known = self._classes.get(key)
        if known is not None:
            self._remove(known)
        new = FilterClass(group, topic, text, compiled, version, self._clock.monotonic_ms())
        if known is not None and known.text == text:
            new.stats = known.stats
        self._classes[key] = new
        return new

    def _remove(self, known: FilterClass) -> None:
        del self._classes[_key(known.group, known.topic, known.text, known.version)]
        self._on_removed(known.filter)


def _key(group: str, topic: str, text: FilterText, version: int) -> Key:
    return group, topic, text if version == CARRIED else None
