"""Code 202 with ``pymqAll``: ends of all topics, or of those that the body names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.broker.report import queue_ends, row_pages
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import TopicStats, decode_admin_body
from pymq.wire.bodies_rows import EVERY_ROW, NAMED_MAX, EndsPage, TopicEnds
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.report.rows import CLUSTER, as_user, ends, world_of
from tests.broker.world import Caller
from tests.security.test_policies import custom, deny, entry


def test_a_row_has_the_sums_of_the_single_request() -> None:
    world = world_of()
    world.parts.metadata.topics.put([TopicConfig(topic_name="empty", read_queue_nums=3)])
    caller = Caller(world)
    found = ends(caller).pymq_ends
    assert found is not None and set(found) == set(world.parts.metadata.topics.all())
    assert found["empty"] == TopicEnds(queues=16, end=0, stored=0, last_ms=None)
    for name in ("t0", "t3"):
        queues = decode_admin_body(TopicStats, caller.ok(Code.GET_TOPIC_STATS_INFO, topic=name).body).offset_table
        assert found[name] == TopicEnds(
            queues=len(queues),
            end=sum(at.max_offset for at in queues.values()),
            stored=sum(at.max_offset - at.min_offset for at in queues.values()),
            last_ms=max(at.last_update_timestamp for at in queues.values()),
        )
        assert found[name].last_ms == world.clock.now_ms() - 1000


def test_a_topic_of_many_queues_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(queues=5)
    whole = ends(Caller(world)).pymq_ends
    monkeypatch.setattr(queue_ends, "QUEUES_AT_ONCE", 2)
    assert ends(Caller(world)).pymq_ends == whole


def test_a_damaged_newest_record_leaves_the_time_of_the_next_queue() -> None:
    world = world_of(topics=1)
    places = sorted(view.last_physical_offset for view in world.parts.store.queue_views())
    [name] = world.files.listdir("/data/commitlog")
    world.files.open(f"/data/commitlog/{name}").pwrite(places[-1] + 4, b"\0" * 8)
    found = ends(Caller(world)).pymq_ends
    assert found is not None and found["t0"].last_ms == world.clock.now_ms() - 1000


def test_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of()
    caller = Caller(world)
    whole = ends(caller)
    assert whole.pymq_next is None and whole.pymq_ends is not None
    monkeypatch.setattr(row_pages.page_of, "__defaults__", (3,))
    found: dict[str, TopicEnds] = {}
    fields: dict[str, Any] = {}
    while True:
        page = ends(caller, **fields)
        assert page.pymq_ends is not None and len(page.pymq_ends) <= 3
        found |= page.pymq_ends
        if page.pymq_next is None:
            break
        fields = {"pymqAfter": page.pymq_next}
    assert found == whole.pymq_ends


@pytest.mark.parametrize(
    ("rules", "seen"),
    [
        ([entry("Topic:t1", "Get")], {"t1"}),
        ([entry("Topic:t*", "Get"), deny("Topic:t2")], {"t0", "t1", "t3"}),
        ([entry("Topic:t1", "Pub Sub")], None),
        ([entry(f"Cluster:{CLUSTER}", "Get")], None),
        ([], None),
    ],
)
def test_a_user_gets_the_topics_that_the_single_request_gives(rules: list[Any], seen: set[str] | None) -> None:
    world = world_of()
    caller = as_user(world, custom(*rules))
    if seen is None:
        code, remark = caller.refused(Code.GET_TOPIC_STATS_INFO, topic=EVERY_ROW, pymqAll="true")
        assert code == ResponseCode.NO_PERMISSION and "it needs Get on one" in remark
    else:
        page = ends(caller)
        assert (set(page.pymq_ends or ()), page.pymq_withheld) == (seen, True)
    for name in world.parts.metadata.topics.all():
        reply = caller.ask(Code.GET_TOPIC_STATS_INFO, topic=name)
        assert reply is not None and (reply.code == 0) == (name in (seen or ()))


def test_who_may_see_all_is_told_so() -> None:
    world = world_of()
    page = ends(as_user(world, custom(entry("*"))))
    assert page.pymq_withheld is False and set(page.pymq_ends or ()) == set(world.parts.metadata.topics.all())


def test_a_stranger_gets_nothing() -> None:
    code, remark = as_user(world_of(), None).refused(Code.GET_TOPIC_STATS_INFO, topic=EVERY_ROW, pymqAll="true")
    assert (code, remark) == (ResponseCode.NO_PERMISSION, "User:ada is not found.")


def test_a_slave_answers_too() -> None:
    world = world_of()
    expected = ends(Caller(world)).pymq_ends
    assert expected is not None and expected["t0"].end == 10
    assert ends(Caller(world.reopened(brokerId=1))).pymq_ends == expected


def test_the_single_request_still_needs_its_topic() -> None:
    caller = as_user(world_of(), custom(entry("Topic:t1", "Get")))
    narrower: list[dict[str, Any]] = [{}, {"pymqAll": "false"}, {"pymqAfter": "t0"}]
    for fields in narrower:
        assert caller.refused(Code.GET_TOPIC_STATS_INFO, topic="t2", **fields)[0] == ResponseCode.NO_PERMISSION


ALL: dict[str, Any] = {"topic": EVERY_ROW, "pymqAll": "true"}


def named(caller: Caller, names: Any, **fields: Any) -> EndsPage:
    body = json.dumps({"names": names}).encode()
    reply = caller.ok(Code.GET_TOPIC_STATS_INFO, body, **ALL, pymqNamed="true", **fields)
    return decode_admin_body(EndsPage, reply.body)


def test_named_topics_have_the_rows_of_all() -> None:
    world = world_of()
    caller = Caller(world)
    whole = ends(caller).pymq_ends or {}
    page = named(caller, ["t3", "gone", "t0", "t3", "", "x" * 100_000])
    assert page.pymq_ends == {name: whole[name] for name in ("t0", "t3")}
    assert page.pymq_next is None and page.pymq_withheld is False
    assert named(caller, []).pymq_ends == {}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"names":5}', b'{"names":[5,[]]}', b'{"names":null}', b"{" * 100_000, b"\xff"]
)
def test_a_body_without_names_is_refused(body: bytes) -> None:
    code, remark = Caller(world_of()).refused(Code.GET_TOPIC_STATS_INFO, body, **ALL, pymqNamed="true")
    assert code == ResponseCode.SYSTEM_ERROR and "the body is not usable" in remark


def test_one_request_names_few_topics() -> None:
    caller = Caller(world_of())
    assert set(named(caller, ["t0"] * NAMED_MAX).pymq_ends or ()) == {"t0"}
    body = json.dumps({"names": ["t0"] * (NAMED_MAX + 1)}).encode()
    code, remark = caller.refused(Code.GET_TOPIC_STATS_INFO, body, **ALL, pymqNamed="true")
    assert code == ResponseCode.SYSTEM_ERROR and "1001 topics: at most 1000" in remark


def test_a_user_gets_the_named_topics_that_the_single_request_gives() -> None:
    world = world_of()
    caller = as_user(world, custom(entry("Topic:t*", "Get"), deny("Topic:t2")))
    page = named(caller, ["t1", "t2"])
    assert (set(page.pymq_ends or ()), page.pymq_withheld) == ({"t1"}, True)
    page = named(caller, ["t2"])
    assert (page.pymq_ends, page.pymq_withheld) == ({}, True), "others may be seen: this is no refusal"


def test_a_stranger_gets_no_named_topic() -> None:
    body = b'{"names":["t0"]}'
    stranger = as_user(world_of(), None)
    code, _ = stranger.refused(Code.GET_TOPIC_STATS_INFO, body, **ALL, pymqNamed="true")
    assert code == ResponseCode.NO_PERMISSION
    only = as_user(world_of(), custom(entry("Topic:t1", "Get")))
    assert only.refused(Code.GET_TOPIC_STATS_INFO, body, topic="t0", pymqNamed="true")[0] == ResponseCode.NO_PERMISSION
