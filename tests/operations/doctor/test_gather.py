"""What the doctor asks about groups: a few requests for all of them, and what is not known stays so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pymq.client.admin.rows import Rows
from pymq.clock import ManualClock
from pymq.errors import RefusedError, UnreachableError
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.doctor.gather import SINGLE_GROUPS_MAX, Gatherer, SocketProbe
from pymq.operations.doctor.state import Group
from pymq.wire.bodies_admin import TopicLag
from pymq.wire.bodies_rows import GroupLag, GroupMembers

MASTERS = ("h:1", "h:2")


class Groups:
    """The calls about groups of an Admin. ``errors``: by (call, address)."""

    def __init__(self) -> None:
        self.members: dict[str, Rows[GroupMembers]] = {address: Rows() for address in MASTERS}
        self.errors: dict[tuple[str, str], Exception] = {}
        self.compared: list[str] = []
        self.rows: dict[str, Rows[GroupLag]] = {
            address: Rows(billing=GroupLag(topics=1, lag=5), audit=GroupLag(topics=1)) for address in MASTERS
        }
        self.gives_rows = True
        self.asked: list[str] = []
        self.compare_error: Exception | None = None

    def _fail(self, call: str, address: str) -> None:
        if (call, address) in self.errors:
            raise self.errors[call, address]

    async def configs(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        return {name: SubscriptionGroupConfig(group_name=name) for name in ("audit", "billing", "TOOLS_CONSUMER")}

    async def lags(self, address: str) -> Rows[GroupLag] | None:
        self._fail("lags", address)
        return self.rows[address] if self.gives_rows else None

    async def topic_lags_at(self, address: str, group: str) -> dict[str, TopicLag]:
        self.asked.append(group)
        return {"orders": TopicLag(queues=4, lag=5, committed=10)}

    async def all_topic_lags_at(self, address: str) -> dict[str, dict[str, TopicLag]]:
        self.asked.append("all")
        return {"billing": {"orders": TopicLag(queues=4, lag=5, committed=10)}}

    async def member_counts_at(self, address: str, *, with_names: bool) -> Rows[GroupMembers]:
        self._fail("members", address)
        assert with_names
        return self.members[address]

    async def differing_subscriptions(self, group: str) -> dict[str, dict[str, int]]:
        self.compared.append(group)
        if self.compare_error is not None:
            raise self.compare_error
        return {"orders": {"*": 1, "paid": 1}}


def gathered(calls: Groups) -> tuple[dict[str, Group], dict[str, str]]:
    """Return the groups by name, and why places are not known."""
    gatherer = Gatherer(["n:1"], None, clock=ManualClock(), probe=SocketProbe())  # type: ignore[arg-type]
    admin: Any = SimpleNamespace(groups=calls, rows=calls)
    groups, failed = asyncio.run(gatherer._groups(admin, MASTERS))
    return {group.name: group for group in groups}, failed


def online(*names: str, differ: bool | None = None) -> GroupMembers:
    return GroupMembers(members=len(names), differ=differ, names=list(names))


def test_lags_and_members_of_all_masters_are_added() -> None:
    calls = Groups()
    calls.members = {
        "h:1": Rows(billing=online("a", "b", differ=False)),
        "h:2": Rows(billing=online("b", "c", differ=False)),
    }
    groups, failed = gathered(calls)
    assert list(groups) == ["audit", "billing"] and not failed
    assert (groups["billing"].members, groups["billing"].lag, groups["billing"].differing) == (3, 10, {})
    assert (groups["audit"].members, groups["audit"].lag, groups["audit"].differing) == (0, 0, {})
    assert not calls.compared


def test_topics_are_asked_of_groups_that_are_behind() -> None:
    calls = Groups()
    gathered(calls)
    assert calls.asked == ["billing", "billing"], "on each master"
    calls = Groups()
    many = Rows((f"g{number}", GroupLag(topics=1, lag=1)) for number in range(SINGLE_GROUPS_MAX + 1))
    calls.rows = dict.fromkeys(MASTERS, many)
    gathered(calls)
    assert calls.asked == ["all", "all"]
    calls = Groups()
    calls.gives_rows = False
    groups, _ = gathered(calls)
    assert calls.asked == ["all", "all"] and groups["billing"].lag == 10


def test_only_groups_that_may_differ_are_compared() -> None:
    calls = Groups()
    calls.members["h:1"] = Rows(billing=online("a", "b"), audit=online("a"))
    groups, _ = gathered(calls)
    assert calls.compared == ["billing"]
    assert groups["billing"].differing == {"orders": {"*": 1, "paid": 1}}
    assert groups["audit"].differing == {}


def test_a_comparison_that_fails_is_not_known() -> None:
    calls = Groups()
    calls.members["h:1"] = Rows(billing=online("a", "b", differ=True))
    calls.compare_error = UnreachableError("no answer")
    groups, _ = gathered(calls)
    assert groups["billing"].differing is None and groups["billing"].error == "no answer"
    assert groups["billing"].members == 2


def test_members_that_may_not_be_seen_are_not_known() -> None:
    calls = Groups()
    calls.members["h:1"] = Rows(billing=GroupMembers(members=70_000))
    calls.members["h:2"] = Rows(billing=GroupMembers(members=70_000))
    calls.members["h:2"].withheld = True
    groups, _ = gathered(calls)
    for name in ("audit", "billing"):
        assert groups[name].members is None and "may not be seen" in groups[name].error


def test_masters_that_fail_are_named_and_the_rest_counts() -> None:
    calls = Groups()
    calls.errors["lags", "h:1"] = UnreachableError("h:1 is away")
    calls.errors["members", "h:2"] = RefusedError(16, "no permission", "h:2")
    groups, failed = gathered(calls)
    assert failed == {"h:1": "h:1 is away"} and groups["billing"].lag == 5
    assert groups["billing"].members is None and "no permission" in groups["billing"].error
