"""Code 203 with ``pymqAll``: members of all groups."""

from __future__ import annotations

import pytest

from pymq.broker.report import row_pages
from pymq.wire.bodies_rows import EVERY_ROW, GroupMembers
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.report.rows import as_user, join, members, world_of
from tests.broker.world import Caller, World
from tests.security.test_policies import custom, entry


def connected_world() -> World:
    """Return a broker with two members of g1 that subscribe differently, and one of g2; g0 is off-line."""
    world = world_of()
    join(world, "one", "g1", "t0")
    join(world, "second", "g1", "t1")
    join(world, "another", "g2", "t0")
    return world


@pytest.fixture
def world() -> World:
    return connected_world()


def test_connected_groups_have_a_row(world: World) -> None:
    page = members(Caller(world))
    assert page.pymq_members == {
        "g1": GroupMembers(members=2, model="CLUSTERING", differ=True),
        "g2": GroupMembers(members=1, model="CLUSTERING", differ=False),
    }
    assert (page.pymq_next, page.pymq_withheld) == (None, False)


def test_a_client_of_two_connections_counts_once(world: World) -> None:
    join(world, "one", "g2", "t0")
    again = Caller(world, address="127.0.0.1:7000")
    again.ok(Code.HEART_BEAT, beat("one", "g2", "t0"))
    found = members(Caller(world), pymqNames="true").pymq_members
    assert found is not None and (found["g2"].members, found["g2"].names) == (2, ["another", "one"])


def test_ids_are_left_out_where_there_is_no_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_pages, "NAMES_BYTES_MAX", len("one" + "second") + 2 * 3)
    found = members(Caller(world), pymqNames="true").pymq_members
    assert found is not None and found["g1"].names == ["one", "second"]
    assert (found["g2"].members, found["g2"].names) == (1, None)


def test_a_user_gets_the_groups_that_the_single_request_gives() -> None:
    world = connected_world()
    page = members(as_user(world, custom(entry("Group:g2", "Get"))))
    assert (list(page.pymq_members or ()), page.pymq_withheld) == (["g2"], True)
    for policy in (custom(), custom(entry("Topic:*")), custom(entry("Group:g0", "Get")), None):
        code, _ = as_user(world, policy).refused(
            Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup=EVERY_ROW, pymqAll="true"
        )
        assert code == ResponseCode.NO_PERMISSION


def test_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_pages.page_of, "__defaults__", (1,))
    first = members(Caller(world))
    second = members(Caller(world), pymqAfter=first.pymq_next)
    assert [list(page.pymq_members or ()) for page in (first, second)] == [["g1"], ["g2"]]
    assert (first.pymq_next, second.pymq_next) == ("g1", None)
