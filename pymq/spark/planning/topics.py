"""Which topics and queues a read takes: names, globs, a regular expression, or chosen queues."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from pymq.errors import NotFoundError, UsageError
from pymq.spark.planning.cluster import ClusterView, Queue

_GLOB = frozenset("*?[")
_NOT = "!"

Assigned = Mapping[str, Mapping[str, frozenset[int]] | frozenset[int]]
"""Queue ids by topic, or by topic and broker name."""


@dataclass(slots=True, frozen=True)
class TopicChoice:
    """The topics of a read; at most one field is set, and none means all user topics.

    ``names``: names and globs; behind a ``!`` they are left out. ``pattern``: a regular expression for the whole name.
    ``assigned``: queues.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Assigned | None = None

    def topics(self, view: ClusterView, *, needs_match: bool = True) -> list[str]:
        """Return the topics' names, sorted.

        Raises NotFoundError for a glob or an expression without a match, unless ``needs_match`` is false.
        """
        if self.assigned is not None:
            return sorted(self.assigned)
        if self.pattern is not None:
            return _matching_pattern(view, self.pattern, needs_match=needs_match)
        return choose_topics(view, self.names, needs_match=needs_match)

    def all_queues(self, view: ClusterView) -> list[Queue]:
        """Return the chosen queues of all topics. Raises NotFoundError for an unknown topic or queue."""
        topics = self.topics(view)
        found = view.queues_of(topics)
        for topic in topics:
            if topic not in found:
                raise unknown_topic(topic)
        return [queue for topic in topics for queue in self._queues_in(topic, found[topic])]

    def _queues_in(self, topic: str, queues: Sequence[Queue]) -> list[Queue]:
        chosen = self.chosen(queues)
        missing = self._ids(topic) - {queue.queue_id for queue in chosen}
        if missing:
            raise NotFoundError(
                f"topic {topic} has no queue {min(missing)}: it has "
                f"{', '.join(f'{queue.broker_name}/{queue.queue_id}' for queue in queues[:20])}"
            )
        return chosen

    def chosen(self, queues: Sequence[Queue]) -> list[Queue]:
        """Return those queues of the topics that are read."""
        return list(queues) if self.assigned is None else [queue for queue in queues if self._is_assigned(queue)]

    def _is_assigned(self, queue: Queue) -> bool:
        assert self.assigned is not None
        ids = self.assigned[queue.topic]
        return queue.queue_id in (ids if isinstance(ids, frozenset) else ids.get(queue.broker_name, ()))

    def _ids(self, topic: str) -> frozenset[int]:
        if self.assigned is None:
            return frozenset()
        ids = self.assigned[topic]
        return ids if isinstance(ids, frozenset) else frozenset[int]().union(*ids.values())


def parse_assigned(text: str) -> Assigned:
    """Parse JSON of queue ids, ``{"topic": [0, 1]}`` or ``{"topic": {"broker": [0, 1]}}``. Raises UsageError."""
    try:
        found = msgspec.json.decode(text.encode(), type=dict[str, list[int] | dict[str, list[int]]])
    except msgspec.MsgspecError as error:
        form = '{"topic": [0, 1]} or {"topic": {"broker": [0, 1]}}'
        raise UsageError(f"assign {text[:80]!r} is not of the form {form}: {error}") from error
    return {
        topic: frozenset(ids)
        if isinstance(ids, list)
        else {broker: frozenset(numbers) for broker, numbers in ids.items()}
        for topic, ids in found.items()
    }


def parse_pattern(text: str) -> str:
    """Return a regular expression as it is. Raises UsageError with the place of a mistake."""
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"subscribePattern {text!r} is no regular expression: {error}") from error
    return text


def choose_topics(view: ClusterView, patterns: Sequence[str], *, needs_match: bool = True) -> list[str]:
    """Return the given names and the topics that globs match, sorted; all user topics without such patterns.

    Names and globs behind a ``!`` are left out. A glob matches only user topics, unless it begins with ``%`` (retry and
    dead-letter topics). Raises NotFoundError for a glob without a match, unless ``needs_match`` is false.
    """
    left_out = [pattern[1:] for pattern in patterns if pattern.startswith(_NOT)]
    taken = [pattern for pattern in patterns if not pattern.startswith(_NOT)]
    chosen: set[str] = set() if taken else set(view.user_topics())
    for pattern in taken:
        if not _GLOB & set(pattern):
            chosen.add(pattern)
            continue
        known = view.all_topics() if pattern.startswith("%") else view.user_topics()
        matched = [topic for topic in known if fnmatchcase(topic, pattern)]
        if needs_match and not matched:
            raise _no_match(pattern, known)
        chosen.update(matched)
    return sorted(topic for topic in chosen if not any(fnmatchcase(topic, pattern) for pattern in left_out))


def _matching_pattern(view: ClusterView, pattern: str, *, needs_match: bool) -> list[str]:
    known = view.user_topics()
    matched = [topic for topic in known if re.fullmatch(pattern, topic)]
    if needs_match and not matched:
        raise _no_match(pattern, known)
    return matched


def unknown_topic(topic: str) -> NotFoundError:
    """Return the error for a topic without a route."""
    return NotFoundError(f"topic {topic!r} does not exist: list the topics to see their names")


def _no_match(pattern: str, known: Sequence[str]) -> NotFoundError:
    return NotFoundError(f"no topic matches {pattern!r}: there are {', '.join(known[:20]) or 'none'}")
