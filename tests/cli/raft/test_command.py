"""``pymq raft``, ``pymq check raft``, ``pymq cluster shards|rebalance`` on groups of real cores."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.cli import output
from pymq.cli.common.session import Session
from pymq.clock import SystemClock
from pymq.errors import (
    EXIT_NOT_FOUND,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_USAGE,
    NotFoundError,
    RaftRefusedError,
    RefusedError,
    UnreachableError,
)
from pymq.operations.check.line import Level, Limits
from pymq.operations.check.raft import check_raft
from pymq.operations.doctor.finding import Severity
from pymq.operations.doctor.replication import check_raft as doctor_check
from pymq.operations.doctor.state import Broker, ClusterState
from pymq.operations.raft import changes as work
from pymq.operations.raft.groups import FLAPPING_TERMS_MIN, raft_group
from pymq.operations.raft.shards import Move, Seat, list_shards, move_leaders, plan_moves, plan_rebalance
from pymq.operations.replica_view import ask, registered
from pymq.raft.core import ELECTION_TICKS
from tests.cli.raft_groups import Group
from tests.cli.schemas import assert_documented
from tests.cli.worlds import WorldAdmin, master

NO_LIMITS = Limits()


def run(awaited: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await awaited

    return asyncio.run(main())


@pytest.fixture
def admin() -> Any:
    return WorldAdmin()


@pytest.fixture
def pymq(admin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run ``pymq raft …`` on the brokers of ``admin``: exit code, stdout, stderr."""
    monkeypatch.setattr(Session, "ask", lambda session, make: run(make(admin)))
    monkeypatch.setattr(output, "line_width_max", lambda: 80)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["raft", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def roles(record: dict[str, Any]) -> dict[str, str]:
    return {member["node"]: member["role"] for member in record["members"]}


# -- status ------------------------------------------------------------------------------------------------------------


def test_a_group_shows_its_leader_and_how_far_all_are(admin: Any) -> None:
    Group(admin, "shard-a")
    [record] = run(work.status(admin, None))
    assert_documented("raft status", record)
    assert (record["leader"], record["leader_address"], record["term"]) == ("n0", "10.0.0.1:10911", 2)
    assert (record["voters"], record["heard_voters"], record["majority"], record["problems"]) == (3, 3, 2, [])
    assert roles(record) == {"n0": "leader", "n1": "follower", "n2": "follower"}
    assert {member["lag_bytes"] for member in record["members"]} == {0}
    assert run(work.status(admin, "10.0.0.1:10921"))[0]["leader"] == "n0", "one broker is enough to ask"


def test_a_member_that_is_gone_is_still_in_the_picture(admin: Any) -> None:
    group = Group(admin, "shard-a")
    group.stop(2)
    group.nodes[0].append()
    group.tick(ELECTION_TICKS + 1)
    [record] = run(work.status(admin, "shard-a"))
    member = record["members"][2]
    assert (member["lag_bytes"], member["role"], member["problem"]) == (100, None, "10.0.0.1:10931 can't be reached")
    assert member["silent_ms"] >= 500
    assert record["problems"] == ["2 of 3 voters answer: one failure more stops all writes"]


def test_without_a_majority_there_is_no_leader(admin: Any) -> None:
    group = Group(admin, "shard-a")
    group.stop(1)
    group.stop(2)
    group.tick(ELECTION_TICKS + 1)
    [record] = run(work.status(admin, None))
    assert (record["leader"], record["heard_voters"]) == (None, 1)
    assert record["problems"] == ["no leader: 1 of 3 voters answer, 2 are a majority"]
    with pytest.raises(UnreachableError, match="shard-a has no leader now: 1 of 3 voters answer, 2 are a majority"):
        run(work.plan_transfer(admin, "shard-a", "n1"))


def test_a_plain_broker_is_in_no_group(admin: Any) -> None:
    admin.add("broker-a", 0, master())
    assert run(work.status(admin, None)) == []
    with pytest.raises(NotFoundError, match="broker-a is in no Raft group"):
        run(work.status(admin, "broker-a"))
    admin.add("broker-b", 0, None)
    with pytest.raises(UnreachableError):
        run(work.status(admin, "broker-b"))


def test_the_table_fits_80_columns(admin: Any, pymq: Callable[..., Any]) -> None:
    group = Group(admin, "shard-a", ("192.168.100.101", "192.168.100.102", "192.168.100.103"))
    group.nodes[1].trouble = "the node is held until its disk takes this: no space left on device"
    group.nodes[0].node.transfer("n2")
    code, out, _ = pymq("status")
    assert code == EXIT_OK and max(map(len, out.splitlines())) <= 80
    assert "leader           n0 at 192.168.100.101:10911, term 2" in out
    assert "  n1: the node is held until its disk takes this" in out
    assert pymq("status", "elsewhere")[0] == EXIT_NOT_FOUND


# -- transfer, add, remove ---------------------------------------------------------------------------------------------


def test_leadership_is_handed_over(admin: Any, pymq: Callable[..., Any]) -> None:
    group = Group(admin, "shard-a")
    code, out, err = pymq("transfer", "shard-a", "n2", "--dry-run")
    assert (code, out) == (EXIT_OK, "shard-a, term 2: n0 leads -> n2 leads\n") and "nothing was changed" in err
    assert group.nodes[0].node.leadership is not None
    plan = run(work.plan_transfer(admin, "shard-a", "n2"))
    assert_documented("raft transfer", plan.record(), is_whole=False)
    done = run(work.transfer(admin, plan, SystemClock()))
    assert_documented("raft transfer", done)
    assert done["term"] == 3 and group.nodes[2].node.leadership is not None
    code, _, err = pymq("transfer", "shard-a", "n2")
    assert code == EXIT_REFUSED and "n2 leads shard-a already" in err
    assert pymq("transfer", "shard-a", "n9")[0] == EXIT_NOT_FOUND


def test_without_a_node_the_most_up_to_date_voter_leads(admin: Any) -> None:
    group = Group(admin, "shard-a")
    group.nodes[1].is_up = False
    group.nodes[0].append()
    assert run(work.plan_transfer(admin, "shard-a", None)).request.node == "n2"
    group.tick(ELECTION_TICKS + 1)
    with pytest.raises(RaftRefusedError, match="the leader n0 does not hear n1: start it first"):
        run(work.plan_transfer(admin, "shard-a", "n1"))
    preferred = run(raft_group(admin, "shard-a")).leading
    assert preferred is not None
    preferred.preferred = ["n5", "n2"]
    assert work.best_successor(preferred) == "n2"


def test_a_transfer_that_does_not_come_about_is_said(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(admin, "shard-a")
    plan = run(work.plan_transfer(admin, "shard-a", "n2"))
    group.nodes[2].is_up = False
    monkeypatch.setattr(work, "TRANSFER_TIMEOUT_MS", 0)
    with pytest.raises(UnreachableError, match="n2 does not lead shard-a after 0 s: see pymq raft status shard-a"):
        run(work.transfer(admin, plan, SystemClock()))


def test_a_stale_plan_changes_nothing(admin: Any) -> None:
    group = Group(admin, "shard-a")
    plan = run(work.plan_remove(admin, "shard-a", "n2"))
    run(work.transfer(admin, run(work.plan_transfer(admin, "shard-a", "n1")), SystemClock()))
    with pytest.raises(RefusedError, match="n0 does not lead shard-a; n1 at"):
        run(work.change(admin, plan))
    assert len(group.nodes[0].node.membership.voters) == 3


def test_a_node_joins_as_a_learner_and_leaves_again(admin: Any, pymq: Callable[..., Any]) -> None:
    group = Group(admin, "shard-a", ("10.0.0.1",) * 4, voters=3)
    code, _, err = pymq("add", "shard-a", "n3")
    assert code == EXIT_REFUSED and "n3 has not introduced itself to the leader" in err
    group.tick(3)
    [record] = run(work.status(admin, None))
    if "n3" not in record["candidates"]:
        group.nodes[0].node.step(introduction(group))
    [record] = run(work.status(admin, None))
    assert record["candidates"] == ["n3"] and record["members"][3]["problem"].endswith("pymq raft add adds it")
    code, out, err = pymq("add", "shard-a", "n3", "--dry-run")
    assert code == EXIT_OK and out.endswith("-> n0 voter, n1 voter, n2 voter, n3 learner\n")
    assert "with 4 voters the group stands 1 failures, as many as with 3" in err
    added = run(work.change(admin, run(work.plan_add(admin, "shard-a", "n3", as_observer=False))))
    assert_documented("raft add", added)
    code, out, _ = pymq("remove", "shard-a", "n3")
    assert code == EXIT_USAGE, "there is no terminal to ask at"
    code, out, _ = pymq("remove", "shard-a", "n3", "--yes", "-o", "json")
    assert code == EXIT_OK and '"action": "remove"' in out
    assert_documented("raft remove", run(work.plan_remove(admin, "shard-a", "n1")).record())
    assert pymq("remove", "shard-a", "n3", "--yes")[0] == EXIT_NOT_FOUND


def introduction(group: Group) -> Any:
    from pymq.raft.messages import Introduction

    return Introduction(group.nodes[3].node.replica, group.nodes[0].node.replica, 0, group.nodes[3].node.log.last)


def test_what_a_removal_costs_is_said(admin: Any) -> None:
    Group(admin, "shard-a")
    plan = run(work.plan_remove(admin, "shard-a", "n0"))
    assert plan.warnings[0] == "with 2 voters the group stands 0 failures, as many as with 1"
    assert plan.warnings[1].startswith("n0 leads: the others elect a leader")


# -- check -------------------------------------------------------------------------------------------------------------


def test_the_check_says_how_bad_it_is(admin: Any) -> None:
    group = Group(admin, "shard-a")
    fine = run(check_raft(admin, None, limits=NO_LIMITS))
    assert fine.level is Level.OK and fine.lines()[0].startswith("RAFT OK - 1 group with a leader and all members |")
    group.nodes[1].trouble = "the node is held until its disk takes this: no space"
    assert run(check_raft(admin, None, limits=NO_LIMITS)).level is Level.CRITICAL
    group.nodes[1].trouble = ""
    group.stop(2)
    group.nodes[0].append()
    group.tick(ELECTION_TICKS + 1)
    assert run(check_raft(admin, "shard-a", limits=NO_LIMITS)).level is Level.WARNING
    assert run(check_raft(admin, None, limits=Limits(None, 99))).level is Level.CRITICAL
    assert run(check_raft(admin, None, limits=Limits(None, 100))).level is Level.WARNING
    group.stop(1)
    group.tick(ELECTION_TICKS + 1)
    lost = run(check_raft(admin, None, limits=NO_LIMITS))
    assert lost.level is Level.CRITICAL and "no leader: 1 of 3 voters answer" in lost.lines()[0]
    assert_documented("check raft", lost.as_record())
    with pytest.raises(NotFoundError, match="no broker is in a Raft group"):
        run(check_raft(WorldAdmin(), None, limits=NO_LIMITS))  # type: ignore[arg-type]


def both(admin: Any) -> tuple[list[tuple[Level, str]], list[tuple[Severity, str]]]:
    """What monitoring and the doctor say of the same groups."""
    checked = run(check_raft(admin, None, limits=NO_LIMITS))
    views = run(ask(admin, run(registered(admin, None))))
    found = doctor_check(ClusterState(0, brokers=[Broker(view) for view in views]))
    return [(part.level, part.text) for part in checked.parts if part.level], [
        (one.severity, one.text) for one in found
    ]


def test_monitoring_and_the_doctor_agree_on_how_bad_it_is(admin: Any) -> None:
    group = Group(admin, "shard-a")
    assert both(admin) == ([], [])
    group.nodes[2].is_up = False
    group.tick(ELECTION_TICKS)
    checked, found = both(admin)
    assert (Level.WARNING, "the leader does not hear it") in checked
    assert (Severity.WARNING, "the leader does not hear it") in found
    group.nodes[1].trouble = "the disk refuses"
    checked, found = both(admin)
    assert (Level.CRITICAL, "the disk refuses") in checked and (Severity.PROBLEM, "the disk refuses") in found
    assert len(checked) == len(found)


@pytest.mark.parametrize(("terms", "flaps"), [(FLAPPING_TERMS_MIN - 1, False), (FLAPPING_TERMS_MIN, True)])
def test_a_leader_that_flaps_is_named_with_the_setting(
    admin: Any, pymq: Callable[..., Any], terms: int, flaps: bool
) -> None:
    group = Group(admin, "shard-a")
    group.nodes[1].watch._began_ms = deque([0] * terms)
    code, shown, _ = pymq("status")
    assert code == EXIT_OK and ("the leader flaps" in shown) is flaps
    assert ("raftElectionTimeout (500 ms), make it longer" in " ".join(shown.split())) is flaps
    checked, found = both(admin)
    assert [level for level, text in checked if "flaps" in text] == [Level.WARNING] * flaps
    assert [severity for severity, text in found if "flaps" in text] == [Severity.WARNING] * flaps


def test_members_with_different_election_timeouts_are_named(admin: Any) -> None:
    group = Group(admin, "shard-a")
    group.nodes[1].settings = replace(group.nodes[1].settings, election_timeout_ms=5000)
    [record] = run(work.status(admin, None))
    [problem] = record["problems"]
    assert "n0 500 ms, n1 5000 ms, n2 500 ms" in problem


# -- shards ------------------------------------------------------------------------------------------------------------


def test_shards_are_raft_groups_and_masters_with_slaves(admin: Any) -> None:
    Group(admin, "shard-a")
    admin.add("broker-a", 0, master())
    admin.add("broker-a", 1, None)
    records, silent = run(list_shards(admin, None))
    for record in records:
        assert_documented("cluster shards", record)
    assert [(one["broker"], one["kind"], one["leader"], len(one["followers"])) for one in records] == [
        ("broker-a", "master/slave", "id 0", 1),
        ("shard-a", "raft", "n0", 2),
    ]
    assert [follower["in_sync"] for follower in records[1]["followers"]] == [True, True]
    assert list(silent) == ["broker-a:1"]
    with pytest.raises(NotFoundError, match="no cluster 'west'"):
        run(list_shards(admin, "west"))


HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def test_leaders_move_to_the_hosts_that_have_none(admin: Any) -> None:
    groups = [Group(admin, name, HOSTS) for name in ("shard-a", "shard-b", "shard-c")]
    plan = run(plan_rebalance(admin, None))
    assert [(one["place"], one["leaders_before"], one["leaders_after"]) for one in plan["places"]] == [
        ("10.0.0.1", 3, 1),
        ("10.0.0.2", 0, 1),
        ("10.0.0.3", 0, 1),
    ]
    assert len(plan["moves"]) == 2
    done = run(move_leaders(admin, plan, SystemClock()))
    assert_documented("cluster rebalance", done)
    leaders = [node.settings.own.host for group in groups for node in group.nodes if node.node.leadership is not None]
    assert sorted(leaders) == list(HOSTS)
    assert run(plan_rebalance(admin, None))["moves"] == []


def test_on_one_host_the_node_numbers_stand_for_machines(admin: Any) -> None:
    Group(admin, "shard-a")
    Group(admin, "shard-b", HOSTS[:1] * 3)
    plan = run(plan_rebalance(admin, None))
    assert [(move["from_node"], move["to_node"]) for move in plan["moves"]] == [("n0", "n1")]


def test_a_group_without_a_leader_stays_out_of_it(admin: Any) -> None:
    Group(admin, "shard-a")
    broken = Group(admin, "shard-b")
    broken.stop(1)
    broken.stop(2)
    broken.tick(ELECTION_TICKS + 1)
    plan = run(plan_rebalance(admin, None))
    assert plan["moves"] == [] and plan["notes"] == ["shard-b has no leader: it stays out of this"]


def test_a_chain_of_moves_reaches_a_place_that_no_single_move_does() -> None:
    a, b, c = (Seat("n0", place) for place in "abc")
    leaders = {"g1": a, "g2": a, "g3": b}
    choices = {"g1": [b], "g2": [b], "g3": [c]}
    moves = plan_moves(leaders, choices)
    assert moves == [Move("g1", a, b), Move("g3", b, c)]


def test_plans_are_as_even_as_any_assignment() -> None:
    rng = random.Random(17)
    for _ in range(150):
        seats = [Seat(f"n{number}", f"host{number}") for number in range(rng.randint(2, 4))]
        choices = {f"g{n}": rng.sample(seats, rng.randint(1, len(seats))) for n in range(rng.randint(1, 5))}
        leaders = {group: rng.choice(some) for group, some in choices.items()}
        after = leaders | {move.group: move.new for move in plan_moves(leaders, choices)}
        assert all(after[group] in choices[group] for group in choices)
        best = min(squares(each) for each in itertools.product(*choices.values()))
        assert squares(tuple(after.values())) == best


def squares(seats: tuple[Seat, ...]) -> int:
    """Return the sum of the squares of the leaders at each place: the least one is the most even."""
    return sum(sum(seat.place == place for seat in seats) ** 2 for place in {seat.place for seat in seats})
