"""Rows of all topics and groups: from pages of PyMQ's brokers, and from single requests to others."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pymq.client import Admin, MessageQueue
from pymq.client.admin.connection import AnswerLimits
from pymq.client.admin.groups import GroupAdmin
from pymq.client.admin.instances import QueuePlace
from pymq.client.admin.rows import PAGES_MAX, RowAdmin, Rows, added_up
from pymq.errors import RefusedError
from pymq.model.tables import SubscriptionGroupConfig
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.bodies_rows import NAMED_MAX, GroupLag, TopicEnds, TopicReaders
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from tests.client.admin.test_admin import commit, put_topic, send


class Pages:
    """A connection to a server that answers from a list of bodies, or refuses with a code."""

    limits = AnswerLimits()

    def __init__(self, *answers: bytes | int) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.bodies: list[bytes] = []

    async def ask_or_none(
        self, address: str, code: int, header: Any, empty_codes: frozenset[int], body: bytes = b""
    ) -> Command | None:
        self.asked.append(header)
        self.bodies.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, bytes):
            return Command(0, body=answer)
        if answer in empty_codes:
            return None
        raise RefusedError(answer, "no", address)

    @property
    def rows(self) -> RowAdmin:
        return RowAdmin(cast(Any, self))


def ends_of(*answers: bytes | int) -> Rows[TopicEnds] | None:
    return asyncio.run(Pages(*answers).rows.ends("b"))


def test_pages_are_asked_until_the_last() -> None:
    first = b'{"pymqEnds":{"a":{"end":1},"b":{"end":2}},"pymqNext":"b","pymqWithheld":true}'
    pages = Pages(first, b'{"pymqEnds":{"c":{"end":3}},"pymqNext":null,"pymqWithheld":false}')
    found = asyncio.run(pages.rows.ends("b"))
    assert found == {"a": TopicEnds(end=1), "b": TopicEnds(end=2), "c": TopicEnds(end=3)}
    assert found.withheld
    assert [(one.topic, one.pymq_all, one.pymq_after) for one in pages.asked] == [("-", True, None), ("-", True, "b")]


def test_ends_of_named_topics_are_those_that_were_asked_for() -> None:
    pages = Pages(b'{"pymqEnds":{"a":{"end":1},"other":{"end":2}},"pymqWithheld":true}')
    found = asyncio.run(pages.rows.ends_of("b", ["a", "gone", "\ud800"]))
    assert found == {"a": TopicEnds(end=1)} and found.withheld
    assert pages.bodies == [b'{"names":["a","gone"]}']
    assert [(one.topic, one.pymq_all, one.pymq_named) for one in pages.asked] == [("-", True, True)]


def test_many_named_topics_take_several_requests() -> None:
    names = [f"t{number}" for number in range(NAMED_MAX + 1)]
    pages = Pages(b'{"pymqEnds":{"t0":{"end":1}}}', b'{"pymqEnds":{"t1000":{"end":2}}}')
    found = asyncio.run(pages.rows.ends_of("b", names))
    assert found == {"t0": TopicEnds(end=1), "t1000": TopicEnds(end=2)} and len(pages.asked) == 2
    assert asyncio.run(Pages(b"").rows.ends_of("b", [])) == {}


@pytest.mark.parametrize("answer", [17, 206, b"{}", b'{"offsetTable":{}}'])
def test_a_broker_that_gives_no_rows_gives_none_of_named_topics(answer: bytes | int) -> None:
    assert asyncio.run(Pages(answer).rows.ends_of("b", ["a"])) is None


def test_places_of_a_group_may_lie_in_two_pages() -> None:
    row = '{"ends":[1],"committed":[null],"pulled":[null]}'
    first = f'{{"pymqPlaces":{{"g":{{"a":{row}}}}},"pymqNext":"g@a"}}'.encode()
    second = f'{{"pymqPlaces":{{"g":{{"b":{row}}},"g1":{{"a":{row}}}}},"pymqNext":"g1@a"}}'.encode()
    last = f'{{"pymqPlaces":{{"g1":{{"b":{row}}}}},"pymqNext":null}}'.encode()
    found = asyncio.run(Pages(first, second, last).rows.places("b"))
    assert found is not None and sorted(found["g"]) == sorted(found["g1"]) == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.CONSUMER_NOT_ONLINE,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        b'{"consumeTps":0.0,"offsetTable":{}}',
    ],
)
def test_other_brokers_give_no_rows(answer: bytes | int) -> None:
    """They know no topic or group of that name, or give the table of a group without offsets."""
    assert ends_of(answer) is None
    pages = Pages(answer).rows
    asked = [pages.lags("b"), pages.readers("b"), pages.topic_lags("b"), pages.places("b"), pages.members("b")]

    async def all_of() -> list[Any]:
        return list(await asyncio.gather(*asked))

    assert asyncio.run(all_of()) == [None] * 5


def test_rows_of_groups_and_topics_come_together_where_they_fit() -> None:
    page = b'{"pymqGroups":{"g":{"lag":1}},"pymqReaders":{"t":{"lag":1}},"pymqNext":null,"pymqWithheld":true}'
    pages = Pages(page)
    found = asyncio.run(pages.rows.lags_and_readers("b"))
    assert found == ({"g": GroupLag(lag=1)}, {"t": TopicReaders(lag=1)}) and len(pages.asked) == 1
    assert [rows.withheld for rows in found] == [True, True]
    apart = Pages(
        b'{"pymqGroups":{"g":{"lag":1}},"pymqNext":"g"}',
        b'{"pymqGroups":{"g":{"lag":1},"h":{"lag":2}},"pymqNext":null}',
        b'{"pymqReaders":{"t":{"lag":3}},"pymqNext":null}',
    )
    expected = {"g": GroupLag(lag=1), "h": GroupLag(lag=2)}, {"t": TopicReaders(lag=3)}
    assert asyncio.run(apart.rows.lags_and_readers("b")) == expected
    topics = Pages(b'{"pymqGroups":{"g":{"lag":1}},"pymqNext":null}', b'{"pymqReaders":{"t":{}},"pymqWithheld":true}')
    found = asyncio.run(topics.rows.lags_and_readers("b"))
    assert found == ({"g": GroupLag(lag=1)}, {"t": TopicReaders()}) and len(topics.asked) == 2, "the groups did fit"
    assert found is not None and [rows.withheld for rows in found] == [False, True]
    for other in (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, b'{"offsetTable":{}}'):
        assert asyncio.run(Pages(other).rows.lags_and_readers("b")) is None


def test_lags_by_topic_are_asked_for_on_each_page() -> None:
    pages = Pages(
        b'{"pymqGroups":{"g":{"lag":1}},"pymqNext":"g"}',
        b'{"pymqGroups":{"g":{"lag":1,"byTopic":{"t":1}}},"pymqNext":"g"}',
        b'{"pymqGroups":{"h":{"lag":2,"byTopic":{"t":2}}},"pymqNext":null}',
        b'{"pymqReaders":{}}',
    )
    found = asyncio.run(pages.rows.lags_and_readers("b", by_topic=["g", "h"]))
    assert found is not None and {group: row.by_topic for group, row in found[0].items()} == {
        "g": {"t": 1},
        "h": {"t": 2},
    }
    assert [header.pymq_by_topic for header in pages.asked] == ["g;h", "g;h", "g;h", None]
    plain = Pages(b'{"pymqGroups":{"g":{"lag":1}},"pymqReaders":{}}')
    asyncio.run(plain.rows.lags_and_readers("b"))
    assert [header.pymq_by_topic for header in plain.asked] == [None]


def test_groups_without_times_in_their_row_are_asked_for() -> None:
    page = (
        b'{"pymqLags":{"t":{"queues":1,"groups":{"a":[1,0,0,0],"b":[1,0,0,0],"c":[0,1,0,0]},"times":{"a":[7,0]}}},'
        b'"pymqNext":null}'
    )
    pages = Pages(page, b'{"pymqTopics":{"t":{"queues":1,"lag":1,"waitingSinceMs":9}}}')
    groups = GroupAdmin(cast(Any, pages), cast(Any, None), pages.rows)
    found = asyncio.run(groups.all_topic_lags_at("b", with_times=True))
    assert {group: lags["t"].waiting_since_ms for group, lags in found.items()} == {"a": 7, "b": 9, "c": 0}
    assert [header.consumer_group for header in pages.asked] == ["-", "b"]


def test_a_refusal_is_an_error_and_not_an_empty_table() -> None:
    for code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR):
        with pytest.raises(RefusedError):
            ends_of(code)


def test_pages_that_never_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    again = b'{"pymqEnds":{"a":{}},"pymqNext":"a"}'
    with pytest.raises(RefusedError, match="its pages do not end: after 1 rows"):
        ends_of(again)
    pages = [b'{"pymqEnds":{"a":{}},"pymqNext":"%09d"}' % number for number in range(PAGES_MAX + 1)]
    with pytest.raises(RefusedError, match="do not end"):
        ends_of(*pages)
    assert ends_of(*pages[: PAGES_MAX - 1], b'{"pymqEnds":{}}') == {"a": TopicEnds()}


def test_rows_of_several_brokers_add_up() -> None:
    one, other = Rows({"b": TopicEnds(end=1), "a": TopicEnds(end=2)}), Rows({"b": TopicEnds(end=4)})
    other.withheld = True
    found = added_up([one, other])
    assert (list(found.items()), found.withheld) == ([("a", TopicEnds(end=2)), ("b", TopicEnds(end=5))], True)


def test_both_ways_give_the_same_rows(server: StandaloneProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_rows(admin: Admin) -> dict[str, Any]:
        lags = await admin.groups.all_lags()
        return {
            "ends": await admin.topics.all_ends(),
            "lags": {name: _without_counts(row) for name, row in lags.items() if row.topics},
            "times": (await admin.groups.lags_at(server.broker, with_times=True))["rows-one"].consumed_ms,
            "by topic": await admin.groups.all_topic_lags_at(server.broker),
            "since": (await admin.groups.all_topic_lags_at(server.broker, with_times=True))["rows-one"][
                "rows-topic"
            ].waiting_since_ms,
            "readers": {name: _without_counts(row) for name, row in (await admin.groups.all_readers()).items()},
            "members": await admin.groups.all_member_counts(),
            "positions": await admin.instances.positions(),
        }

    async def work() -> None:
        async with Admin(server.namesrv) as admin:
            await put_topic(admin, server, "rows-topic")
            await send(server, "rows-topic", 3)
            for group in ("rows-one", "rows-two"):
                await admin.groups.put(server.broker, SubscriptionGroupConfig(group_name=group))
                await commit(server, group, "rows-topic", 1)
            by_rows = await all_rows(admin)
            assert by_rows["ends"]["rows-topic"]["broker-a"].stored == 3
            assert by_rows["positions"]["rows-one"][MessageQueue("rows-topic", "broker-a", 0)] == QueuePlace(3, 1, 3, 0)
            assert (by_rows["lags"]["rows-one"]["lag"], by_rows["readers"]["rows-topic"]["groups"]) == (2, 2)
            for name in ("ends", "lags", "readers", "topic_lags", "places", "members"):
                monkeypatch.setattr(RowAdmin, name, _gives_none)
            assert await all_rows(admin) == by_rows

    asyncio.run(work())


async def _gives_none(*_: Any, **__: Any) -> None:
    return None


def _without_counts(row: Any) -> dict[str, Any]:
    """Return a row without what only PyMQ's brokers tell, or only with another request."""
    left_out = {"offsets", "names", "waiting_since_ms", "consumed_ms"}
    return {name: getattr(row, name) for name in row.__struct_fields__ if name not in left_out}
