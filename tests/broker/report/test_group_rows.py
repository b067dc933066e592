"""Code 208 with ``pymqAll``: how far all groups are behind, by group, by topic, or in every queue."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from pymq.broker.report import by_topic, group_rows, queue_ends, row_pages
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.operations.group.lag import topic_records
from pymq.wire.bodies_admin import ConsumeStats, TopicLag, decode_admin_body
from pymq.wire.bodies_rows import (
    BY_TOPIC_GROUPS_MAX,
    EVERY_ROW,
    GroupLag,
    GroupPlaces,
    TopicPairs,
    TopicReaders,
    group_lag,
    lags_by_group,
)
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.handlers.test_pop import Popping
from tests.broker.report.rows import CLUSTER, as_user, join, lags, pairs, places, readers, world_of
from tests.broker.world import Caller, World
from tests.security.test_policies import custom, deny, entry


def sums(caller: Caller, group: str, **fields: Any) -> dict[str, TopicLag]:
    """Return the sums by topic of the single request."""
    reply = caller.ok(Code.GET_CONSUME_STATS, consumerGroup=group, pymqSummary="true", **fields)
    return decode_admin_body(ConsumeStats, reply.body).pymq_topics or {}


def mixed_world(seed: int) -> World:
    """Return a broker whose groups have read much, little or nothing of topics of several sizes."""
    rng = random.Random(seed)
    world = world_of(groups=0, topics=0)
    names = [f"t{number}" for number in range(6)] + ["%RETRY%g1", "%RETRY%g2+t1"]
    for name in names:
        count = rng.choice([1, 2, 5])
        world.parts.metadata.topics.put(
            [TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=rng.choice([1, count]))]
        )
        for queue_id in range(count):
            for _ in range(rng.randrange(4)):
                world.put(name, queue_id=queue_id)
                world.clock.advance(rng.randrange(1000))
    cursors = world.parts.metadata.cursors
    for group in ("g1", "g2", "g3"):
        for name in names:
            for queue_id in range(rng.randrange(7)):
                if rng.random() < 0.7:
                    end = world.parts.store.max_offset(name, queue_id)
                    cursors.commit(group, name, queue_id, rng.randint(0, end))
                    if rng.random() < 0.2:
                        cursors.reset(group, name, queue_id, 0)
    join(world, "member", "g3", "t1")
    join(world, "newcomer", "g4", "t2")
    return world


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("at_once", [1024, 2])
def test_a_row_is_the_sum_of_the_single_requests(seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_ends, "QUEUES_AT_ONCE", at_once)
    world = mixed_world(seed)
    caller = Caller(world)
    found = lags(caller, pymqNames="true", pymqTimes="true").pymq_groups
    assert found is not None and {"g1", "g2", "g3", "g4"} <= set(found)
    by_topic: dict[str, list[tuple[str, TopicLag]]] = {}
    for group, row in found.items():
        topics = sums(caller, group, pymqTimes="true")
        assert row == group_lag(topics, offsets=row.offsets, with_times=True), group
        assert row.offsets == sum(not one.pymq_uncommitted for one in _queues(caller, group).values()), (
            "the number of committed offsets"
        )
        for name, lag in topics.items():
            by_topic.setdefault(name, []).append((group, lag))
    assert readers(caller, pymqNames="true").pymq_readers == {
        name: TopicReaders(
            groups=len(parts),
            lag=sum(lag.lag for _, lag in parts),
            committed=sum(lag.committed or 0 for _, lag in parts),
            offsets=sum(
                not one.pymq_uncommitted
                for group, _ in parts
                for queue, one in _queues(caller, group).items()
                if queue.topic == name
            ),
            unknown_queues=sum(lag.unknown_queues for _, lag in parts),
            names=sorted(group for group, _ in parts),
        )
        for name, parts in by_topic.items()
    }
    by_group = {group: sums(caller, group) for group in found}
    assert lags_by_group(pairs(caller).pymq_lags or {}) == {group: lags for group, lags in by_group.items() if lags}
    table = places(caller).pymq_places
    assert table is not None
    for group in found:
        queues = _queues(caller, group)
        assert {
            MessageQueue(name, "broker-a", queue_id): (end, committed, pulled)
            for name, at in table.get(group, {}).items()
            for queue_id, (end, committed, pulled) in enumerate(zip(at.ends, at.committed, at.pulled, strict=True))
        } == {
            queue: (
                one.broker_offset,
                None if one.pymq_uncommitted else one.consumer_offset,
                None if one.pymq_uncommitted else one.pull_offset,
            )
            for queue, one in queues.items()
        }


def _queues(caller: Caller, group: str) -> dict[MessageQueue, Any]:
    reply = caller.ok(Code.GET_CONSUME_STATS, consumerGroup=group)
    return decode_admin_body(ConsumeStats, reply.body).offset_table


def test_rows_of_a_small_broker() -> None:
    world = world_of(groups=3, topics=4, queues=2, messages=5)
    caller = Caller(world)
    page = lags(caller, pymqTimes="true")
    now_ms = world.clock.now_ms()
    assert page.pymq_groups is not None and (page.pymq_next, page.pymq_withheld) == (None, False)
    assert page.pymq_groups["g1"] == GroupLag(
        topics=4, lag=32, committed=8, offsets=8, waiting_since_ms=now_ms - 4000, consumed_ms=now_ms - 5000
    )
    assert page.pymq_groups["g0"].consumed_ms == 0, "it has consumed nothing"
    assert lags(caller).pymq_groups == {
        name: GroupLag(
            **{one: getattr(row, one) for one in ("topics", "lag", "committed", "offsets")},
            waiting_since_ms=None if row.lag else 0,
            consumed_ms=None if row.lag else 0,
        )
        for name, row in page.pymq_groups.items()
    }
    assert (readers(caller).pymq_readers or {})["t2"] == TopicReaders(groups=3, lag=24, committed=6, offsets=6)


def test_one_page_has_rows_of_topics_beside_those_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(mixed_world(3))
    both = lags(caller, pymqReaders="true", pymqNames="true", pymqTimes="true")
    assert both.pymq_groups == lags(caller, pymqNames="true", pymqTimes="true").pymq_groups
    assert both.pymq_readers == readers(caller, pymqNames="true").pymq_readers
    assert lags(caller).pymq_readers is None, "not asked for"
    assert lags(caller, pymqReaders="true", pymqAfter="g1").pymq_readers is None, "not all groups"
    monkeypatch.setattr(group_rows, "ROWS_A_PAGE", len(both.pymq_readers or ()) - 1)
    assert lags(caller, pymqReaders="true").pymq_readers is None, "too many topics"
    monkeypatch.setattr(row_pages.page_of, "__defaults__", (1,))
    assert lags(caller, pymqReaders="true").pymq_readers is None, "not all groups"


def test_a_group_that_has_committed_nothing_has_an_unknown_lag() -> None:
    world = world_of(groups=0, topics=1)
    join(world, "new", "fresh", "t0")
    caller = Caller(world)
    rows = lags(caller).pymq_groups
    assert rows is not None and rows["fresh"].known_lag is None
    assert (rows["fresh"].topics, rows["fresh"].unknown_queues) == (1, 2)
    assert (readers(caller).pymq_readers or {})["t0"].known_lag is None
    [row] = (places(caller).pymq_places or {})["fresh"].values()
    assert row == GroupPlaces(ends=[5, 5], committed=[None, None], pulled=[None, None])


def test_a_broadcasting_group_has_no_lag() -> None:
    world = world_of(groups=0, topics=1)
    Caller(world).ok(Code.HEART_BEAT, beat(group="wide", topic="t0").replace(b"CLUSTERING", b"BROADCASTING"))
    row = (lags(Caller(world)).pymq_groups or {})["wide"]
    assert (row.topics, row.known_lag) == (0, None)
    assert readers(Caller(world)).pymq_readers == {}


def test_what_pops_got_is_counted() -> None:
    p = Popping()
    for _ in range(5):
        p.world.put("T")
    found = p.pop(count=3, invisible_ms=60_000)
    assert p.ack(found.receipt(0)) == p.change(found.receipt(1), 0)[0] == 0
    p.wait(1)
    row = (lags(p.caller).pymq_groups or {})["g"]
    assert (row.lag, row.invisible, row.topics) == (3, 1, 1), "one of them in the retry topic"
    assert (places(p.caller).pymq_places or {})["g"]["T"].invisible == {0: 1}
    found_pairs = pairs(p.caller).pymq_lags or {}
    assert [found_pairs[name].groups["g"].invisible for name in ("T", "%RETRY%g+T")] == [1, 0]


def test_times_of_groups_that_are_behind_in_few_queues_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(groups=2, topics=4, queues=2)
    world.parts.metadata.cursors.commit("near", "t0", 0, 4)
    for limit, known in ((10, ["g0", "near"]), (9, ["near"]), (2, ["near"]), (1, [])):
        monkeypatch.setattr(group_rows, "TIMED_QUEUES_MAX", limit)
        found = lags(Caller(world), pymqTimes="true").pymq_groups or {}
        behind = {name: row for name, row in found.items() if row.lag}
        assert sorted(behind) == ["g0", "g1", "near"]
        assert sorted(name for name, row in behind.items() if row.waiting_since_ms is not None) == known


def test_lags_have_times_of_groups_that_are_behind_in_few_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(groups=2, topics=4, queues=2)
    world.parts.metadata.cursors.commit("near", "t0", 0, 4)
    caller = Caller(world)
    assert not any(row.times for row in (pairs(caller).pymq_lags or {}).values())
    for limit, known in ((18, {"g0", "g1", "near"}), (17, {"g0", "near"}), (9, {"near"}), (1, set())):
        monkeypatch.setattr(group_rows, "TIMED_QUEUES_MAX", limit)
        rows = pairs(caller, pymqTimes="true").pymq_lags or {}
        assert {group for row in rows.values() for group in row.times} == known
    monkeypatch.undo()
    timed = lags_by_group(pairs(caller, pymqTimes="true").pymq_lags or {})
    for group in ("g0", "g1", "near"):
        single = sums(caller, group, pymqTimes="true")
        assert timed[group] == {name: replace(lag, pulled=None) for name, lag in single.items()}


def test_pages_of_groups_and_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(world_of(groups=5, topics=5))
    whole, all_readers = lags(caller).pymq_groups, readers(caller).pymq_readers
    monkeypatch.setattr(row_pages.page_of, "__defaults__", (2,))
    assert _all_pages(lambda **fields: lags(caller, **fields), "pymq_groups") == whole
    assert _all_pages(lambda **fields: readers(caller, **fields), "pymq_readers") == all_readers


def _all_pages(ask: Any, name: str, count_max: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    while True:
        page = ask(**fields)
        rows = getattr(page, name)
        assert len(rows) <= count_max and not found.keys() & rows.keys()
        found |= rows
        if page.pymq_next is None:
            return found
        assert page.pymq_next > fields.get("pymqAfter", "")
        fields = {"pymqAfter": page.pymq_next}


@pytest.mark.parametrize(("limit", "pages"), [(1, 12), (2, 12), (3, 6), (5, 4), (24, 1), (23, 1), (22, 2)])
def test_pages_of_places_end_with_the_topic_that_reaches_the_limit(
    limit: int, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller(world_of(groups=3, topics=4, queues=2))
    whole = places(caller).pymq_places
    monkeypatch.setattr(group_rows, "PLACES_A_PAGE", limit)
    found: dict[str, dict[str, GroupPlaces]] = {}
    fields: dict[str, Any] = {}
    count = 0
    while True:
        page = places(caller, **fields)
        count += 1
        for group, topics in (page.pymq_places or {}).items():
            assert not found.get(group, {}).keys() & topics.keys()
            found.setdefault(group, {}).update(topics)
        if page.pymq_next is None:
            break
        fields = {"pymqAfter": page.pymq_next}
    assert (found, count) == (whole, pages)


@pytest.mark.parametrize(("limit", "page_count"), [(1, 4), (3, 4), (4, 2), (11, 1), (12, 1), (9, 2)])
def test_pages_of_lags_end_with_the_topic_that_reaches_the_limit(
    limit: int, page_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller(world_of(groups=3, topics=4))
    whole = pairs(caller).pymq_lags
    monkeypatch.setattr(group_rows, "PAIRS_A_PAGE", limit)
    found: dict[str, TopicPairs] = {}
    after, count = "", 0
    while True:
        page = pairs(caller, pymqAfter=after)
        count += 1
        found |= page.pymq_lags or {}
        if page.pymq_next is None:
            break
        after = page.pymq_next
    assert (found, count) == (whole, page_count)


def test_pages_of_places_pass_groups_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(groups=2, topics=1)
    for number in range(5):
        world.parts.metadata.groups.ensure(f"a{number}")
    caller = Caller(world)
    monkeypatch.setattr(row_pages.page_of, "__defaults__", (2,))
    found: set[str] = set()
    fields: dict[str, Any] = {}
    for _ in range(20):
        page = places(caller, **fields)
        found |= set(page.pymq_places or ())
        if page.pymq_next is None:
            break
        fields = {"pymqAfter": page.pymq_next}
    assert found == {"g0", "g1"}


@pytest.mark.parametrize("place", ["zzzz", "@", "@@@", "g1@", "g1", "\U0010ffff", "g1@~", "x" * 65_536, "g0@t0@t1"])
def test_made_up_places_give_rows_behind_them_and_no_others(place: str) -> None:
    caller = Caller(world_of())
    whole = places(caller).pymq_places or {}
    found = places(caller, pymqAfter=place).pymq_places or {}
    assert all(whole[group][topic] == at for group, topics in found.items() for topic, at in topics.items())
    assert set(lags(caller, pymqAfter=place).pymq_groups or ()) <= set(lags(caller).pymq_groups or ())
    assert set(readers(caller, pymqAfter=place).pymq_readers or ()) <= set(readers(caller).pymq_readers or ())
    assert set(pairs(caller, pymqAfter=place).pymq_lags or ()) <= set(pairs(caller).pymq_lags or ())


def test_an_unknown_kind_is_refused_by_name() -> None:
    caller = Caller(world_of())
    for kind in ("true", "queues", "x" * 100_000):
        code, remark = caller.refused(Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll=kind)
        assert code == ResponseCode.INVALID_PARAMETER and len(remark) < 200
        assert "ask for groups, topics, lags, places" in remark


@pytest.mark.parametrize(
    ("rules", "seen"),
    [
        ([entry("Group:g1", "Get")], {"g1"}),
        ([entry("Group:g*", "Get"), deny("Group:g1")], {"g0", "g2"}),
        ([entry("Group:g*", "Get")], {"g0", "g1", "g2"}),
        ([entry(f"Cluster:{CLUSTER}", "Get")], {"g0", "g1", "g2"}),
        ([entry("Topic:*", "Get"), entry("Group:g1", "Sub")], None),
        ([entry("Cluster:Another", "Get")], None),
        ([], None),
    ],
)
def test_a_user_gets_the_groups_that_the_single_requests_give(rules: list[Any], seen: set[str] | None) -> None:
    world = world_of()
    caller = as_user(world, custom(*rules))
    if seen is None:
        for kind in ("groups", "topics", "lags", "places"):
            code, remark = caller.refused(Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll=kind)
            assert code == ResponseCode.NO_PERMISSION and "it needs Get on one" in remark
        return
    page = lags(caller)
    whole = lags(Caller(world)).pymq_groups or {}
    assert page.pymq_groups == {name: whole[name] for name in seen}
    assert page.pymq_withheld == (seen != set(whole))
    found = readers(caller, pymqNames="true").pymq_readers or {}
    assert {group for row in found.values() for group in row.names or ()} == seen
    assert set(places(caller).pymq_places or ()) == seen
    assert {group for row in (pairs(caller).pymq_lags or {}).values() for group in row.groups} == seen


def test_the_place_of_a_page_names_nothing_that_the_sender_may_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(groups=6)
    world.parts.metadata.topics.put([TopicConfig(topic_name="secret")])
    world.parts.metadata.cursors.commit("g0", "secret", 0, 0)
    caller = as_user(world, custom(entry("Group:g3", "Get"), entry("Group:g5", "Get")))
    monkeypatch.setattr(row_pages.page_of, "__defaults__", (1,))
    monkeypatch.setattr(group_rows, "PLACES_A_PAGE", 1)
    monkeypatch.setattr(group_rows, "PAIRS_A_PAGE", 1)
    kinds = ((lags, "pymq_groups"), (readers, "pymq_readers"), (pairs, "pymq_lags"), (places, "pymq_places"))
    for ask, rows in kinds:
        fields: dict[str, Any] = {}
        names: set[str] = set()
        while True:
            page: Any = ask(caller, **fields)
            names |= set(getattr(page, rows))
            if page.pymq_next is None:
                break
            names |= set(page.pymq_next.split("@"))
            fields = {"pymqAfter": page.pymq_next}
        assert names <= {"g3", "g5", "t0", "t1", "t2", "t3", "~"}, ask


def test_a_stranger_gets_nothing() -> None:
    caller = as_user(world_of(), None)
    for kind in ("groups", "topics", "lags", "places", "nonsense"):
        code, remark = caller.refused(Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll=kind)
        assert (code, remark) == (ResponseCode.NO_PERMISSION, "User:ada is not found.")


def test_the_single_request_still_needs_its_group() -> None:
    caller = as_user(world_of(), custom(entry("Group:g1", "Get")))
    narrower: list[dict[str, Any]] = [{}, {"pymqAll": ""}, {"pymqAfter": "g0"}, {"pymqNames": "true"}]
    for fields in narrower:
        assert caller.refused(Code.GET_CONSUME_STATS, consumerGroup="g2", **fields)[0] == ResponseCode.NO_PERMISSION


def test_rows_of_many_groups_rest_on_the_way() -> None:
    world = world_of(groups=20, topics=20)
    rests: list[None] = []
    world.parts.runtime.sliced_work.answer = lambda request, peer, steps: rests.extend(steps)  # type: ignore[method-assign]
    for kind in ("groups", "topics", "lags", "places"):
        rests.clear()
        Caller(world).ask(Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll=kind)
        assert len(rests) >= 40, kind


def test_a_slave_answers_too() -> None:
    world = world_of()
    expected = lags(Caller(world)).pymq_groups
    assert expected is not None and expected["g1"].lag == 32
    assert lags(Caller(world.reopened(brokerId=1))).pymq_groups == expected


@pytest.mark.parametrize("kind", ["groups", "topics", "lags", "places"])
def test_topics_and_groups_that_go_and_come_again_meanwhile_break_no_answer(kind: str) -> None:
    """At each rest of an answer a topic and a group are deleted, and the topic is made again with more queues."""
    rest = answers = 0
    while rest == answers:  # the steps ended before the rest: all rests were tried
        world = world_of()
        caller = Caller(world)

        def answer(request: Any, peer: Any, steps: Any, world: World = world, stop: int = rest) -> Any:
            nonlocal answers
            for _ in range(stop + 1):
                try:
                    next(steps)
                except StopIteration as ended:
                    return ended.value
            answers = stop + 1
            metadata = world.parts.metadata
            Caller(world).ok(Code.DELETE_TOPIC_IN_BROKER, topic="t1")
            Caller(world).ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName="g1", cleanOffset="true")
            metadata.topics.put([TopicConfig(topic_name="t1", read_queue_nums=5, write_queue_nums=5)])
            while True:
                try:
                    next(steps)
                except StopIteration as ended:
                    return ended.value

        world.parts.runtime.sliced_work.answer = answer  # type: ignore[method-assign]
        asked = {"consumerGroup": EVERY_ROW, "pymqAll": kind, "pymqTimes": "true", "pymqByTopic": "g0;g1"}
        reply = caller.ok(Code.GET_CONSUME_STATS, b"", **asked)
        assert b'"t0"' in reply.body or b'"g0"' in reply.body
        rest += 1
    assert rest > 5


# -- lags by topic, beside the sums -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("at_once", [1024, 2])
def test_lags_by_topic_are_those_of_the_single_requests(
    seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_ends, "QUEUES_AT_ONCE", at_once)
    caller = Caller(mixed_world(seed))
    found = lags(caller, pymqByTopic="g1;g2;;unknown;g4").pymq_groups
    assert found is not None
    for group in ("g1", "g2", "g4"):
        single = sums(caller, group)
        records = [one for one in topic_records(group, single, 0) if one["topic"] in single]
        assert found[group].by_topic == {one["topic"]: one["lag"] for one in records if one["lag"] is not None}, group
    assert found["g3"].by_topic is None and "unknown" not in found


def test_of_many_topics_those_with_most_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_topic, "BY_TOPIC_MAX", 3)
    world = world_of(groups=0, topics=20, queues=1, messages=20)
    for number in range(20):
        world.parts.metadata.cursors.commit("g", f"t{number}", 0, number)
    found = lags(Caller(world), pymqByTopic="g").pymq_groups
    assert found is not None and found["g"].by_topic == {"t0": 20, "t1": 19, "t2": 18}


def test_a_request_names_so_many_groups_at_most() -> None:
    caller = Caller(world_of(groups=1))
    names = [f"g{number}" for number in range(BY_TOPIC_GROUPS_MAX)]
    found = lags(caller, pymqByTopic=";".join(names)).pymq_groups
    assert found is not None and found["g0"].by_topic == {f"t{number}": 10 for number in range(4)}
    text = ";".join([*names, "more"])
    code, remark = caller.refused(Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll="groups", pymqByTopic=text)
    assert code == ResponseCode.INVALID_PARAMETER and "more than 32 groups" in remark


def test_lags_by_topic_of_a_group_that_the_sender_may_not_see_are_not_given() -> None:
    world = world_of()
    found = lags(as_user(world, custom(entry("Group:g1", "Get"))), pymqByTopic="g0;g1").pymq_groups
    assert found is not None and list(found) == ["g1"] and found["g1"].by_topic is not None


def test_a_header_full_of_separators_or_of_one_name_is_answered_as_if_it_were_short() -> None:
    caller = Caller(world_of(groups=1))
    for text in ("g0" + ";" * 60_000, "g0;" + "x" * 60_000):
        found = lags(caller, pymqByTopic=text).pymq_groups
        assert found is not None and list(found) == ["g0"] and found["g0"].by_topic is not None


def test_a_stranger_gets_no_lags_by_topic() -> None:
    stranger = as_user(world_of(), None)
    asked = {"pymqAll": "groups", "pymqByTopic": "g0;g1"}
    code, remark = stranger.refused(Code.GET_CONSUME_STATS, b"", consumerGroup=EVERY_ROW, **asked)
    assert code == ResponseCode.NO_PERMISSION and "g0" not in remark
