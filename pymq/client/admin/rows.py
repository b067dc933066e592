"""Rows of all topics or groups of one PyMQ broker, a page in each answer.

docs/compatibility.md describes the requests. Brokers that do not know them answer as if there were no such topic or
group: then the calls here return None. The calls of :mod:`pymq.client.admin.topics` and
:mod:`pymq.client.admin.groups` go on with requests for single ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from pymq.client.admin.connection import AdminConnection, parsed_size_bytes, too_large
from pymq.errors import RefusedError
from pymq.wire.bodies_admin import decode_admin_body, encode_admin_body
from pymq.wire.bodies_rows import (
    EVERY_ROW,
    GROUPS,
    GROUPS_SEPARATOR,
    LAGS,
    NAMED_MAX,
    PLACES,
    TOPICS,
    EndsPage,
    GroupLag,
    GroupMembers,
    GroupPlaces,
    LagsPage,
    MembersPage,
    NamedTopics,
    PairsPage,
    PlacesPage,
    ReadersPage,
    TopicEnds,
    TopicPairs,
    TopicReaders,
)
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.header import Header
from pymq.wire.headers.admin import ConsumerConnectionsHeader, ConsumeStatsHeader, TopicStatsHeader

PAGES_MAX = 1000  # of one question: ten million rows, or twenty million places
# What brokers that do not know these requests answer for the topic or group EVERY_ROW.
_NOT_KNOWN = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.CONSUMER_NOT_ONLINE,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)

RowT = TypeVar("RowT")


class Rows(dict[str, RowT], Generic[RowT]):
    """Rows by the name of the topic or group. ``withheld``: there are more, which the sender may not see."""

    withheld = False


class _Sum(Protocol):
    """A row of one broker that can be added to another one's."""

    def plus(self, other: Self, /) -> Self: ...


SumT = TypeVar("SumT", bound=_Sum)


class RowAdmin:
    """Calls to the PyMQ broker at an address "host:port". They return None for a broker that is not PyMQ's.

    Each raises RefusedError with NO_PERMISSION for a sender who may see no row.
    """

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    async def ends(self, address: str) -> Rows[TopicEnds] | None:
        """Return the ends of all topics: sums over queues, and the time of the newest message."""

        def header(after: str | None) -> Header:
            return TopicStatsHeader(topic=EVERY_ROW, pymq_all=True, pymq_after=after)

        return await self._pages(address, RequestCode.GET_TOPIC_STATS_INFO, header, EndsPage, "pymq_ends")

    async def ends_of(self, address: str, names: Sequence[str]) -> Rows[TopicEnds] | None:
        """Return the ends of the named topics that are there and that the sender may see."""
        found: Rows[TopicEnds] = Rows()
        code = RequestCode.GET_TOPIC_STATS_INFO
        header = TopicStatsHeader(topic=EVERY_ROW, pymq_all=True, pymq_named=True)
        wanted = [name for name in names if _is_utf8(name)]
        for begin in range(0, len(wanted), NAMED_MAX):
            named = wanted[begin : begin + NAMED_MAX]
            body = encode_admin_body(NamedTopics(names=named))
            answer = await self._connection.ask_or_none(address, code, header, _NOT_KNOWN, body)
            page = EndsPage() if answer is None else decode_admin_body(EndsPage, answer.body)
            if page.pymq_ends is None:
                return None
            found.update({name: page.pymq_ends[name] for name in named if name in page.pymq_ends})
            found.withheld = found.withheld or page.pymq_withheld
        return found

    async def lags(
        self, address: str, *, with_names: bool = False, with_times: bool = False, by_topic: Sequence[str] = ()
    ) -> Rows[GroupLag] | None:
        """Return how far each group is behind, summed over all topics.

        ``with_names``: also which topics a group reads. ``with_times``: also since when messages wait, where that is
        cheap to find. ``by_topic``: also each topic's lag, of these groups; not more than BY_TOPIC_GROUPS_MAX.
        """

        def header(after: str | None) -> Header:
            return ConsumeStatsHeader(
                consumer_group=EVERY_ROW,
                pymq_all=GROUPS,
                pymq_after=after,
                pymq_names=with_names or None,
                pymq_times=with_times or None,
                pymq_by_topic=GROUPS_SEPARATOR.join(by_topic) or None,
            )

        return await self._pages(address, RequestCode.GET_CONSUME_STATS, header, LagsPage, "pymq_groups")

    async def readers(self, address: str, *, with_names: bool = False) -> Rows[TopicReaders] | None:
        """Return how far the groups of each topic are behind there, summed over groups.

        ``with_names``: also which groups read a topic.
        """

        def header(after: str | None) -> Header:
            names = with_names or None
            return ConsumeStatsHeader(consumer_group=EVERY_ROW, pymq_all=TOPICS, pymq_after=after, pymq_names=names)

        return await self._pages(address, RequestCode.GET_CONSUME_STATS, header, ReadersPage, "pymq_readers")

    async def lags_and_readers(
        self, address: str, *, with_names: bool = False, with_times: bool = False, by_topic: Sequence[str] = ()
    ) -> tuple[Rows[GroupLag], Rows[TopicReaders]] | None:
        """Return :meth:`lags` and :meth:`readers`, from one request where each of them fits one page.

        What does not fit is asked for by itself.
        """
        header = ConsumeStatsHeader(
            consumer_group=EVERY_ROW,
            pymq_all=GROUPS,
            pymq_names=with_names or None,
            pymq_times=with_times or None,
            pymq_readers=True,
            pymq_by_topic=GROUPS_SEPARATOR.join(by_topic) or None,
        )
        answer = await self._connection.ask_or_none(address, RequestCode.GET_CONSUME_STATS, header, _NOT_KNOWN)
        page = LagsPage() if answer is None else decode_admin_body(LagsPage, answer.body)
        if page.pymq_groups is None:
            return None
        lags: Rows[GroupLag] | None = Rows(page.pymq_groups)
        readers: Rows[TopicReaders] | None = Rows(page.pymq_readers or {})
        if page.pymq_next is not None:
            lags = await self.lags(address, with_names=with_names, with_times=with_times, by_topic=by_topic)
        if page.pymq_readers is None:
            readers = await self.readers(address, with_names=with_names)
        if lags is None or readers is None:
            return None
        for rows in (lags, readers):
            rows.withheld = rows.withheld or page.pymq_withheld
        return lags, readers

    async def topic_lags(self, address: str, *, with_times: bool = False) -> Rows[TopicPairs] | None:
        """Return how far each group of each topic is behind there, summed over queues.

        ``with_times``: also since when messages wait, where that is cheap to find.
        """

        def header(after: str | None) -> Header:
            times = with_times or None
            return ConsumeStatsHeader(consumer_group=EVERY_ROW, pymq_all=LAGS, pymq_after=after, pymq_times=times)

        return await self._pages(address, RequestCode.GET_CONSUME_STATS, header, PairsPage, "pymq_lags")

    async def places(self, address: str) -> Rows[dict[str, GroupPlaces]] | None:
        """Return the places of each group in all queues of each topic that it reads."""

        def header(after: str | None) -> Header:
            return ConsumeStatsHeader(consumer_group=EVERY_ROW, pymq_all=PLACES, pymq_after=after)

        return await self._pages(address, RequestCode.GET_CONSUME_STATS, header, PlacesPage, "pymq_places")

    async def members(self, address: str, *, with_names: bool = False) -> Rows[GroupMembers] | None:
        """Return the number of connected members of each group that has any.

        ``with_names``: also their client ids.
        """

        def header(after: str | None) -> Header:
            names = with_names or None
            return ConsumerConnectionsHeader(
                consumer_group=EVERY_ROW, pymq_all=True, pymq_after=after, pymq_names=names
            )

        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        return await self._pages(address, code, header, MembersPage, "pymq_members")

    async def _pages(
        self, address: str, code: int, header: Callable[[str | None], Header], kind: type[Any], rows_name: str
    ) -> Rows[Any] | None:
        """Return the rows of all pages. Raises RefusedError for pages that never end, UnreachableError for too many."""
        found: Rows[Any] = Rows()
        limit_bytes, size_bytes = self._connection.limits.parsed_bytes_max, 0
        after: str | None = None
        for _ in range(PAGES_MAX):
            answer = await self._connection.ask_or_none(address, code, header(after), _NOT_KNOWN)
            if answer is not None and limit_bytes is not None:
                size_bytes += parsed_size_bytes(answer.body)
                if size_bytes > limit_bytes:
                    raise too_large(address, code, size_bytes, limit_bytes)
            page = None if answer is None else decode_admin_body(kind, answer.body)
            rows = None if page is None else getattr(page, rows_name)
            if page is None or rows is None:
                return None
            for name, row in rows.items():
                known = found.get(name)
                # Places of one group may come in several pages.
                found[name] = {**known, **row} if isinstance(known, dict) else row
            found.withheld = found.withheld or page.pymq_withheld
            if page.pymq_next is None:
                return found
            if after is not None and _place(page.pymq_next) <= _place(after):
                break
            after = page.pymq_next
        raise RefusedError(
            ResponseCode.SYSTEM_ERROR, f"its pages do not end: after {len(found)} rows there are still more", address
        )


def _is_utf8(name: str) -> bool:
    """Return whether a name can be sent. Other brokers than PyMQ's may have topics with lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(text: str) -> tuple[str, str]:
    """Return the group and topic where a page ends, or the one name: pages come in the order of these."""
    name, _, topic = text.partition("@")
    return name, topic


def added_up(tables: Iterable[Rows[SumT]]) -> Rows[SumT]:
    """Return the sums of several brokers' rows by name, sorted."""
    found: dict[str, SumT] = {}
    withheld = False
    for rows in tables:
        withheld = withheld or rows.withheld
        for name, row in rows.items():
            known = found.get(name)
            found[name] = row if known is None else known.plus(row)
    added = Rows(sorted(found.items()))
    added.withheld = withheld
    return added
