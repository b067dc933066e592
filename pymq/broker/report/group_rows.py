"""GroupRows: how far all groups are behind, in one answer or in pages: sums by group, by topic, or all places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pymq.broker.report.by_topic import ByTopic, groups_by_topic
from pymq.broker.report.consumed import Consumed, Invisible, Oldest
from pymq.broker.report.queue_ends import Behind, QueueEnds, pieces
from pymq.broker.report.row_pages import ROWS_A_PAGE, Names, Page, Sight, after, page_of, seen
from pymq.errors import Refusal
from pymq.model.names import RETRY_PREFIX
from pymq.model.tables import TopicConfig
from pymq.wire.admin_text import encode_table_in_steps
from pymq.wire.bodies_rows import GROUPS, LAGS, PLACES, TOPICS, GroupLag, GroupPlaces, PairLag, TopicPairs, TopicReaders
from pymq.wire.codes import ResponseCode
from pymq.wire.headers.admin import ConsumeStatsHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.metadata import Metadata
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore

PAIRS_A_PAGE: Final = 20_000  # of a topic and a group; a page ends with the topic that brings it there
PLACES_A_PAGE: Final = 20_000  # queues of groups; a page ends with the topic that brings it there
TIMED_QUEUES_MAX: Final = 2048  # in which a page looks for the oldest messages: some 100 ms when their files are closed
GROUPS_AT_ONCE: Final = 256  # of a topic, that are summed before the next rest
INVISIBLE_AT_ONCE: Final = 500
_SEPARATOR = "@"  # between group and topic in the place of a page; no name has it
_ABOVE_TOPICS = "~"  # above every topic's name

Found = list[tuple[int, int, int, int]]  # the members of a Behind, of many groups
# Takes a topic, a piece of its queues, groups, and what each of them has left there. The first piece begins at queue 0.
Take = Callable[[TopicConfig, range, list[str], Found], None]


class _Connected(NamedTuple):
    """The connected groups, and those of them that subscribe to a topic, without groups of broadcasting members."""

    names: set[str]
    subscribers: dict[str, list[str]]


class _GroupSum:
    """The sums of one group, while topics are added."""

    __slots__ = ("behind", "behind_queues", "committed", "invisible", "lag", "names", "offsets", "unknown_queues")

    def __init__(self) -> None:
        self.lag = self.committed = self.offsets = self.unknown_queues = self.invisible = 0
        self.names: list[str] = []
        self.behind: dict[str, TopicConfig] = {}
        self.behind_queues = 0


class _TopicSum:
    """The sums of one topic, while groups are added."""

    __slots__ = ("behind", "names")

    def __init__(self) -> None:
        self.behind = Behind()
        self.names: list[str] = []

    def add(self, ids: range, groups: list[str], found: Found) -> None:
        """Add what groups have left in a piece of the topic's queues."""
        self.behind = self.behind.plus(Behind(*map(sum, zip(*found, strict=True))))
        if not ids.start:
            self.names += groups


class GroupRows:
    """Answers GET_CONSUME_STATS (208) for the rows of all groups, topics or places."""

    def __init__(self, consumed: Consumed, *, metadata: Metadata, store: MessageStore, invisible: Invisible) -> None:
        self._consumed = consumed
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._cursors = metadata.cursors
        self._clients = metadata.clients
        self._store = store
        self._invisible = invisible

    def rows(self, sight: Sight, header: ConsumeStatsHeader) -> Steps[Reply]:
        """Return a page of the rows that the header asks for and the sender may see.

        Raises Refusal: INVALID_PARAMETER for another kind, NO_PERMISSION for a sender who may see no row.
        """
        kinds = {GROUPS: self._lags, TOPICS: self._readers, LAGS: self._pairs, PLACES: self._places}
        kind = kinds.get(header.pymq_all or "")
        if kind is None:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"pymqAll={(header.pymq_all or '')[:40]!r} is not known: ask for {', '.join(kinds)}",
            )
        groups = yield from seen(self._all_groups(), sight.lag)
        sight.check(groups, "Group")
        table: dict[str, Any] = yield from kind(groups, header)
        return Reply(body=(yield from encode_table_in_steps({**table, "pymqWithheld": sight.withheld})))

    def _all_groups(self) -> frozenset[str]:
        """Return the groups that are configured, connected, or have offsets."""
        connected = (group.name for group in self._clients.consumer_groups())
        return self._cursors.known_groups().union(self._groups.all(), connected)

    # -- by group ------------------------------------------------------------------------------------------------

    def _lags(self, groups: Collection[str], header: ConsumeStatsHeader) -> Steps[dict[str, Any]]:
        page = yield from page_of(groups, after(header.pymq_after))
        sums = {group: _GroupSum() for group in page.names}
        with_times = bool(header.pymq_times)
        topic_sums: dict[str, _TopicSum] = {}
        named = groups_by_topic(header.pymq_by_topic)
        by_topic = ByTopic([group for group in named if group in sums])
        with_readers = bool(header.pymq_readers) and page.next is None and not header.pymq_after

        def take(topic: TopicConfig, ids: range, groups: list[str], found: Found) -> None:
            name = topic.topic_name
            if with_readers and len(topic_sums) <= ROWS_A_PAGE:  # else they do not fit, and are not given
                topic_sums.setdefault(name, _TopicSum()).add(ids, groups, found)
            if named:
                by_topic.add(name, groups, found)
            is_counted, is_first = not name.startswith(RETRY_PREFIX), not ids.start
            for group, (lag, committed, offsets, unknown) in zip(groups, found, strict=True):
                row = sums[group]
                row.lag += lag
                row.committed += committed
                row.offsets += offsets
                if is_counted:
                    row.unknown_queues += unknown
                    if is_first:
                        row.names.append(name)
                if with_times and lag > 0:
                    row.behind.setdefault(name, topic)
                    row.behind_queues += len(ids)

        yield from self._visit(self._topics.all(), sums, take, (yield from self._connected_groups()))
        for (_, group), count in (yield from self._invisible_by_pair(sums)).items():
            sums[group].invisible += count
        times = (yield from self._times(sums)) if with_times else {}
        names = Names(are_wanted=bool(header.pymq_names))
        rows: dict[str, GroupLag] = {}
        for group, row in sums.items():
            unknown: tuple[int | None, int | None] = (None, None) if row.lag else (0, 0)
            waiting_since_ms, consumed_ms = times.get(group, unknown)
            rows[group] = GroupLag(
                topics=len(row.names),
                lag=row.lag,
                committed=row.committed,
                offsets=row.offsets,
                unknown_queues=row.unknown_queues,
                invisible=row.invisible,
                waiting_since_ms=waiting_since_ms,
                consumed_ms=consumed_ms,
                names=names.fit(row.names),
                by_topic=by_topic.of(group),
            )
            yield
        table: dict[str, Any] = {"pymqGroups": rows, "pymqNext": page.next}
        if with_readers and len(topic_sums) <= ROWS_A_PAGE:
            table["pymqReaders"] = yield from self._reader_rows(topic_sums, names)
        return table

    def _times(self, sums: dict[str, _GroupSum]) -> Steps[dict[str, tuple[int | None, int | None]]]:
        """Return the store times of the oldest waiting and last consumed messages, of the groups that are behind in the
        fewest queues."""
        found: dict[str, tuple[int | None, int | None]] = {}
        for group in _to_time({group: row.behind_queues for group, row in sums.items()}):
            row, oldest = sums[group], Oldest()
            for topic in row.behind.values():
                oldest = oldest.older((yield from self._consumed.oldest(group, topic)))
                yield
            if row.behind:
                waiting_ms = self._consumed.store_ms(oldest.waiting)
                found[group] = waiting_ms or None, self._consumed.store_ms(oldest.consumed)
        return found

    # -- by topic ------------------------------------------------------------------------------------------------

    def _readers(self, groups: Collection[str], header: ConsumeStatsHeader) -> Steps[dict[str, Any]]:
        connected = yield from self._connected_groups()
        page = yield from self._page_of_topics(groups, connected, header.pymq_after)
        sums: dict[str, _TopicSum] = {}

        def take(topic: TopicConfig, ids: range, groups: list[str], found: Found) -> None:
            sums.setdefault(topic.topic_name, _TopicSum()).add(ids, groups, found)

        yield from self._visit(page.names, groups, take, connected)
        rows = yield from self._reader_rows(sums, Names(are_wanted=bool(header.pymq_names)))
        return {"pymqReaders": rows, "pymqNext": page.next}

    def _reader_rows(self, sums: dict[str, _TopicSum], names: Names) -> Steps[dict[str, TopicReaders]]:
        rows = {}
        for name, row in sums.items():
            rows[name] = TopicReaders(groups=len(row.names), names=names.fit(row.names), **row.behind._asdict())
            yield
        return rows

    def _page_of_topics(self, groups: Collection[str], connected: _Connected, after_name: str | None) -> Steps[Page]:
        """Return the next topics that one of the groups reads, or once read."""
        start = after(after_name)
        left = (name for name in self._topics.all() if name >= start)
        known = yield from seen(left, lambda name: self._is_read(name, groups, connected))
        return (yield from page_of(known, start))

    def _is_read(self, topic: str, groups: Collection[str], connected: _Connected) -> bool:
        return any(
            group in groups for group in (*self._cursors.groups_of(topic), *connected.subscribers.get(topic, ()))
        )

    # -- by topic and group --------------------------------------------------------------------------------------

    def _pairs(self, groups: Collection[str], header: ConsumeStatsHeader) -> Steps[dict[str, Any]]:
        connected = yield from self._connected_groups()
        page = yield from self._page_of_topics(groups, connected, header.pymq_after)
        invisible = yield from self._invisible_by_pair(groups)
        sums: dict[str, dict[str, tuple[int, int, int, int]]] = {}

        def take(topic: TopicConfig, ids: range, groups: list[str], found: Found) -> None:
            row = sums.setdefault(topic.topic_name, {})
            if not ids.start:
                row |= zip(groups, found, strict=True)
                return
            for group, behind in zip(groups, found, strict=True):
                row[group] = Behind(*row.get(group, Behind())).plus(Behind(*behind))

        rows: dict[str, TopicPairs] = {}
        pair_count, visited, last = 0, 0, ""
        for name in page.names:
            if pair_count >= PAIRS_A_PAGE:
                break
            yield from self._visit([name], groups, take, connected)
            topic, last, visited = self._topics.get(name), name, visited + 1
            if topic is not None and name in sums:
                pairs = {
                    group: PairLag(lag, committed, unknown, invisible.get((name, group), 0))
                    for group, (lag, committed, _, unknown) in sums.pop(name).items()
                }
                rows[name] = TopicPairs(queues=topic.queue_count, groups=pairs, times={})
                pair_count += len(pairs)
        if header.pymq_times:
            yield from self._add_times(rows)
        return {"pymqLags": rows, "pymqNext": last if visited < len(page.names) else page.next}

    def _add_times(self, rows: dict[str, TopicPairs]) -> Steps[None]:
        """Add the times of the groups that are behind in the fewest queues of the page."""
        behind: dict[str, list[str]] = {}
        queue_counts: dict[str, int] = {}
        for name, pairs in rows.items():
            for group, pair in pairs.groups.items():
                if pair.lag > 0:
                    behind.setdefault(group, []).append(name)
                    queue_counts[group] = queue_counts.get(group, 0) + pairs.queues
            yield
        for group in _to_time(queue_counts):
            for name in behind[group]:
                topic = self._topics.get(name)
                if topic is not None:
                    oldest = yield from self._consumed.oldest(group, topic)
                    rows[name].times[group] = (
                        self._consumed.store_ms(oldest.waiting),
                        self._consumed.store_ms(oldest.consumed),
                    )
                yield

    def _invisible_by_pair(self, groups: Collection[str]) -> Steps[dict[tuple[str, str], int]]:
        """Return the numbers of messages that pops got and have not acknowledged by topic and group."""
        found: dict[tuple[str, str], int] = {}
        for number, ((name, group, queue_id), count) in enumerate(list(self._invisible.items()), 1):
            topic = self._consumed.topic(group, name) if group in groups else None
            if topic is not None and queue_id < topic.queue_count:
                found[name, group] = found.get((name, group), 0) + count
            if number % INVISIBLE_AT_ONCE == 0:
                yield
        return found

    # -- places --------------------------------------------------------------------------------------------------

    def _places(self, groups: Collection[str], header: ConsumeStatsHeader) -> Steps[dict[str, Any]]:
        first_group, _, after_topic = (header.pymq_after or "").partition(_SEPARATOR)
        page = yield from page_of(groups, after(first_group) if after_topic == _ABOVE_TOPICS else first_group)
        rows: dict[str, dict[str, GroupPlaces]] = {}
        queue_count, last = 0, ""
        for group in page.names:
            for name in self._consumed.topics_of(group):
                topic = self._consumed.topic(group, name)
                if topic is None or (group == first_group and name <= after_topic):
                    continue
                if queue_count >= PLACES_A_PAGE:
                    return {"pymqPlaces": rows, "pymqNext": last}
                rows.setdefault(group, {})[name] = yield from self._places_in(group, topic)
                queue_count += topic.queue_count
                last = f"{group}{_SEPARATOR}{name}"
            yield
        more = None if page.next is None else f"{page.next}{_SEPARATOR}{_ABOVE_TOPICS}"
        return {"pymqPlaces": rows, "pymqNext": more}

    def _places_in(self, group: str, topic: TopicConfig) -> Steps[GroupPlaces]:
        name = topic.topic_name
        invisible: dict[int, int] = {}
        places = GroupPlaces(ends=[], committed=[], pulled=[], invisible=invisible)
        for ids in pieces(topic):
            committed = self._cursors.committed_in(group, name)
            _, pulled = self._cursors.places(group, name)
            places.ends.extend(QueueEnds(self._store, topic, ids).ends)
            found = [committed.get(queue_id) for queue_id in ids]
            places.committed.extend(found)
            places.pulled.extend(
                None if at is None else max(at, pulled.get(queue_id, at))
                for queue_id, at in zip(ids, found, strict=True)
            )
            if self._invisible:
                counts = ((queue_id, self._invisible.get((name, group, queue_id), 0)) for queue_id in ids)
                invisible.update((queue_id, count) for queue_id, count in counts if count)
            yield
        return places

    # -- within --------------------------------------------------------------------------------------------------

    def _connected_groups(self) -> Steps[_Connected]:
        found = _Connected(set(), {})
        for group in self._clients.consumer_groups():
            found.names.add(group.name)
            # Broadcasting consumers keep their own offsets, so their lag is unknown here.
            for topic in () if group.is_broadcasting else group.subscriptions:
                found.subscribers.setdefault(topic, []).append(group.name)
            yield
        return found

    def _visit(self, names: Iterable[str], groups: Collection[str], take: Take, connected: _Connected) -> Steps[None]:
        """Give ``take`` what each of the groups has left in each of the topics that it reads.

        All groups of a topic come together, because its ends have to be found once for them.
        """
        for name in names:
            topic = self._topics.get(name)
            readers = self._cursors.groups_of(name)
            new = set(connected.subscribers.get(name, ())).difference(readers)
            wanted = [
                group
                for group in (*readers, *new)
                if group in groups and (group not in connected.names or self._consumed.reads(group, name))
            ]
            if topic is not None and wanted:
                for ids in pieces(topic):
                    yield from self._sum_up(topic, ids, wanted, take)
            yield

    def _sum_up(self, topic: TopicConfig, ids: range, groups: list[str], take: Take) -> Steps[None]:
        name = topic.topic_name
        for start in range(0, len(groups), GROUPS_AT_ONCE):
            some = groups[start : start + GROUPS_AT_ONCE]
            queues = QueueEnds(self._store, topic, ids)
            take(topic, ids, some, queues.behind_each(self._cursors.committed_by(some, name)))
            yield


def _to_time(queue_counts: Mapping[str, int]) -> list[str]:
    """Return the groups that are behind in the fewest queues, as many as a page finds times for.

    ``queue_counts``: in how many queues each group is behind.
    """
    ordered = sorted(queue_counts, key=queue_counts.__getitem__)
    sums = accumulate(queue_counts[group] for group in ordered)
    return [group for group, looked_at in zip(ordered, sums, strict=True) if looked_at <= TIMED_QUEUES_MAX]
