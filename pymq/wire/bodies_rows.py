"""JSON bodies with rows of all topics or groups, which PyMQ's brokers add to three requests of RocketMQ.

docs/compatibility.md describes the fields. A figure is None where it is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from pymq.model.message import MessageQueue
from pymq.model.names import RETRY_PREFIX
from pymq.wire.bodies_admin import ConsumeOffset, ConsumerConnections, TopicLag, TopicOffset, earlier, sum_of_known

# The topic or group of a request for rows of all. RocketMQ's brokers find nothing of that name.
EVERY_ROW: Final = "-"

# Topics of one request for the rows of named ones.
NAMED_MAX: Final = 1_000

# ConsumeStatsHeader.pymq_by_topic: groups of one request, and the topics with most that a row then has.
GROUPS_SEPARATOR: Final = ";"
BY_TOPIC_GROUPS_MAX: Final = 32
BY_TOPIC_MAX: Final = 1_000

# ConsumeStatsHeader.pymq_all
GROUPS, TOPICS, LAGS, PLACES = "groups", "topics", "lags", "places"


class TopicEnds(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """One topic on one broker, or on several.

    ``end`` is the sum of its queues' next offsets, ``stored`` the number of messages that they hold, ``last_ms`` the
    store time (Unix ms) of the newest one; None without a message.
    """

    queues: int = 0
    end: int = 0
    stored: int = 0
    last_ms: int | None = None

    def plus(self, other: TopicEnds) -> TopicEnds:
        """Return the sum with the topic's figures on another broker."""
        times = [one.last_ms for one in (self, other) if one.last_ms is not None]
        return TopicEnds(
            queues=self.queues + other.queues,
            end=self.end + other.end,
            stored=self.stored + other.stored,
            last_ms=max(times, default=None),
        )


class NamedTopics(msgspec.Struct, kw_only=True, frozen=True):
    """The topics that a request is for: the body of GET_TOPIC_STATS_INFO with ``pymq_named``."""

    names: list[str]


class GroupLag(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """How far one group is behind on one broker, or on several, in all topics that it reads.

    ``lag``, ``committed``, ``invisible`` and ``unknown_queues`` are sums as in :class:`TopicLag`, retry topics among
    them, but for the unknown queues of those. ``offsets`` is the number of committed offsets, None from other brokers
    than PyMQ's. ``topics`` is the number of topics without retry topics, ``names`` are these, when asked for.
    ``waiting_since_ms`` and ``consumed_ms`` are 0 when there is no such message. ``by_topic``, when asked for, has the
    known lags on one broker, without pop retry topics: of :data:`BY_TOPIC_MAX` topics with most.
    """

    topics: int | None = 0
    lag: int = 0
    committed: int = 0
    offsets: int | None = 0
    unknown_queues: int = 0
    invisible: int | None = 0
    waiting_since_ms: int | None = None
    consumed_ms: int | None = None
    names: list[str] | None = None
    by_topic: dict[str, int] | None = None

    @property
    def known_lag(self) -> int | None:
        """The lag; None for a group without topics, or without offsets in queues with messages and a lag in others."""
        return None if (self.unknown_queues or self.topics == 0) and not self.lag else self.lag

    def plus(self, other: GroupLag) -> GroupLag:
        """Return the sum with the group's figures on another broker; ``topics`` is known when both have names."""
        names = _union((self.topics, self.names), (other.topics, other.names))
        return GroupLag(
            topics=None if names is None else len(names),
            lag=self.lag + other.lag,
            committed=self.committed + other.committed,
            offsets=sum_of_known((self.offsets, other.offsets)),
            unknown_queues=self.unknown_queues + other.unknown_queues,
            invisible=sum_of_known((self.invisible, other.invisible)),
            waiting_since_ms=_earlier_known(self.waiting_since_ms, other.waiting_since_ms),
            consumed_ms=_earlier_known(self.consumed_ms, other.consumed_ms),
            names=names,
        )


class TopicReaders(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """How far the groups that read one topic are behind there, together, on one broker or on several.

    ``groups`` is their number, ``names`` are the groups, when asked for; the sums are those of :class:`GroupLag`.
    """

    groups: int | None = 0
    lag: int = 0
    committed: int = 0
    offsets: int | None = 0
    unknown_queues: int = 0
    names: list[str] | None = None

    @property
    def known_lag(self) -> int | None:
        """The lag; None when no group has an offset in queues with messages, and none has a lag in others."""
        return None if self.unknown_queues and not self.lag else self.lag

    def plus(self, other: TopicReaders) -> TopicReaders:
        """Return the sum with the topic's figures on another broker; ``groups`` is known when both have names."""
        names = _union((self.groups, self.names), (other.groups, other.names))
        return TopicReaders(
            groups=None if names is None else len(names),
            lag=self.lag + other.lag,
            committed=self.committed + other.committed,
            offsets=sum_of_known((self.offsets, other.offsets)),
            unknown_queues=self.unknown_queues + other.unknown_queues,
            names=names,
        )


class PairLag(msgspec.Struct, array_like=True, frozen=True):
    """How far one group is behind in one topic, as a list: there are many of them."""

    lag: int
    committed: int
    unknown_queues: int = 0
    invisible: int = 0


class TopicPairs(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """How far each group that reads one topic is behind there.

    ``times``: by group ``waiting_since_ms`` and ``consumed_ms`` as in :class:`TopicLag`, when asked for. Only groups
    that are behind have them, and not in too many queues.
    """

    queues: int
    groups: dict[str, PairLag]
    times: dict[str, tuple[int, int]] = {}


class GroupMembers(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """The connected members of one group; ``names`` are their client ids, when asked for.

    ``differ`` is True when they subscribe differently, None where the broker does not say.
    """

    members: int | None = 0
    model: str | None = None
    differ: bool | None = None
    names: list[str] | None = None

    def plus(self, other: GroupMembers) -> GroupMembers:
        """Return the members on two brokers, each client once; their number is known when both have names."""
        names = _union((self.members, self.names), (other.members, other.names))
        return GroupMembers(
            members=None if names is None else len(names),
            model=self.model or other.model,
            differ=None if self.differ is None and other.differ is None else bool(self.differ or other.differ),
            names=names,
        )


class GroupPlaces(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """A group's places in the queues of one topic, by queue id; None where it has no committed offset.

    ``invisible``: queue id -> number of messages that pops got and have not acknowledged, where there are any; None
    where the broker does not count them.
    """

    ends: list[int]
    committed: list[int | None]
    pulled: list[int | None]
    invisible: dict[int, int] | None = {}


class _Page(msgspec.Struct, rename="camel", kw_only=True):
    """``pymq_next``: where the next page begins, None on the last one. ``pymq_withheld``: rows were left out, which the
    sender may not see."""

    pymq_next: str | None = None
    pymq_withheld: bool = False


class EndsPage(_Page, rename="camel", kw_only=True):
    """GET_TOPIC_STATS_INFO (202). A broker that does not know requests for all rows answers without the table."""

    pymq_ends: dict[str, TopicEnds] | None = None


class LagsPage(_Page, rename="camel", kw_only=True):
    """GET_CONSUME_STATS (208), GROUPS. ``pymq_readers`` is there when asked for, and one page has all of both."""

    pymq_groups: dict[str, GroupLag] | None = None
    pymq_readers: dict[str, TopicReaders] | None = None


class ReadersPage(_Page, rename="camel", kw_only=True):
    """GET_CONSUME_STATS (208), TOPICS."""

    pymq_readers: dict[str, TopicReaders] | None = None


class PairsPage(_Page, rename="camel", kw_only=True):
    """GET_CONSUME_STATS (208), LAGS: by topic."""

    pymq_lags: dict[str, TopicPairs] | None = None


class PlacesPage(_Page, rename="camel", kw_only=True):
    """GET_CONSUME_STATS (208), PLACES: by group and topic."""

    pymq_places: dict[str, dict[str, GroupPlaces]] | None = None


class MembersPage(_Page, rename="camel", kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST (203)."""

    pymq_members: dict[str, GroupMembers] | None = None


def topic_ends(queues: Collection[TopicOffset]) -> TopicEnds:
    """Return the sum of one topic's queues on one broker."""
    return TopicEnds(
        queues=len(queues),
        end=sum(at.max_offset for at in queues),
        stored=sum(at.max_offset - at.min_offset for at in queues),
        last_ms=max((at.last_update_timestamp for at in queues if at.last_update_timestamp > 0), default=None),
    )


def lags_by_group(topics: Mapping[str, TopicPairs]) -> dict[str, dict[str, TopicLag]]:
    """Return the lags by group and topic, without pulled offsets, and without times that the rows lack."""
    found: dict[str, dict[str, TopicLag]] = {}
    for topic, pairs in topics.items():
        for group, one in pairs.groups.items():
            waiting_since_ms, consumed_ms = pairs.times.get(group, (0, 0))
            found.setdefault(group, {})[topic] = TopicLag(
                queues=pairs.queues,
                lag=one.lag,
                committed=one.committed,
                invisible=one.invisible,
                unknown_queues=one.unknown_queues,
                waiting_since_ms=waiting_since_ms,
                consumed_ms=consumed_ms,
            )
    return found


def topic_readers(lags: Mapping[str, Mapping[str, TopicLag]]) -> dict[str, TopicReaders]:
    """Return the sums by topic of the lags of groups, by group and topic, on one broker. ``offsets`` is unknown."""
    found: dict[str, dict[str, TopicLag]] = {}
    for group, topics in lags.items():
        for topic, lag in topics.items():
            found.setdefault(topic, {})[group] = lag
    return {
        topic: TopicReaders(
            groups=len(groups),
            lag=sum(lag.lag for lag in groups.values()),
            committed=sum(lag.committed or 0 for lag in groups.values()),
            offsets=None,
            unknown_queues=sum(lag.unknown_queues for lag in groups.values()),
            names=sorted(groups),
        )
        for topic, groups in found.items()
    }


def group_lag(lags: Mapping[str, TopicLag], *, offsets: int | None = None, with_times: bool = False) -> GroupLag:
    """Return the sum of a group's topics on one broker; ``with_times``: they have times."""
    names = sorted(topic for topic in lags if not topic.startswith(RETRY_PREFIX))
    behind = [lag for lag in lags.values() if lag.lag > 0]
    waiting = [lag.waiting_since_ms for lag in behind] if with_times else [0] * len(behind)
    consumed = [lag.consumed_ms for lag in behind if lag.consumed_ms]
    return GroupLag(
        topics=len(names),
        lag=sum(lag.lag for lag in lags.values()),
        committed=sum(lag.committed or 0 for lag in lags.values()),
        offsets=offsets,
        unknown_queues=sum(lags[name].unknown_queues for name in names),
        invisible=sum_of_known(lag.invisible for lag in lags.values()),
        waiting_since_ms=min(waiting, default=0) if all(waiting) else None,
        consumed_ms=min(consumed, default=0) if with_times or not behind else None,
        names=names,
    )


def group_members(online: ConsumerConnections) -> GroupMembers:
    """Return the number of members that a broker lists, each client once."""
    client_ids = sorted({member.client_id for member in online.connection_set})
    differences = online.pymq_differences
    return GroupMembers(
        members=len(client_ids),
        model=online.message_model,
        differ=None if differences is None else bool(differences),
        names=client_ids,
    )


def group_places(table: Mapping[MessageQueue, ConsumeOffset], *, counts_invisible: bool) -> dict[str, GroupPlaces]:
    """Return a group's places by topic, of a table of one broker's queues; ``counts_invisible``: the broker does."""
    found: dict[str, GroupPlaces] = {}
    for queue, at in sorted(table.items()):
        places = found.get(queue.topic)
        if places is None:
            places = found[queue.topic] = GroupPlaces(
                ends=[], committed=[], pulled=[], invisible={} if counts_invisible else None
            )
        is_committed = not at.pymq_uncommitted
        places.ends.append(at.broker_offset)
        places.committed.append(at.consumer_offset if is_committed else None)
        places.pulled.append(max(at.pull_offset, at.consumer_offset) if is_committed else None)
        if at.pymq_invisible and places.invisible is not None:
            places.invisible[queue.queue_id] = at.pymq_invisible
    return found


def _union(*known: tuple[int | None, list[str] | None]) -> list[str] | None:
    """Return the names of both, each once, sorted; None when a number above 0 has no names."""
    found: set[str] = set()
    for count, names in known:
        if names is None and count != 0:
            return None
        found.update(names or ())
    return sorted(found)


def _earlier_known(one_ms: int | None, other_ms: int | None) -> int | None:
    return None if one_ms is None or other_ms is None else earlier(one_ms, other_ms)
