"""Raft groups as shards of a cluster, and plans that spread their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.errors import NotFoundError
from pymq.model.hosts import host_of
from pymq.operations.raft import changes as raft_work
from pymq.operations.raft.groups import GroupView, group_record, raft_groups
from pymq.operations.replica_view import BrokerView, ask, brokers, lag_of, master_of, problems_of
from pymq.wire.bodies_raft import OUT_OF_DATE_BYTES, VOTER

RAFT, MASTER_SLAVE = "raft", "master/slave"


async def list_shards(admin: Admin, cluster: str | None) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a record for each group; and for brokers that don't answer ``name:id`` and the reason.

    Raises NotFoundError for a cluster without brokers.
    """
    views = await ask(admin, await _brokers(admin, cluster))
    silent = {f"{view.name}:{view.broker_id}": view.error for view in views if view.status is None}
    records = []
    for key in sorted({(view.cluster, view.name) for view in views}):
        members = [view for view in views if (view.cluster, view.name) == key]
        if any(view.status is not None and view.status.raft for view in members):
            records.append(_raft_shard((await raft_groups(admin, key[1]))[0]))
        else:
            records.append(_plain_shard(members))
    return records, silent


async def _brokers(admin: Admin, cluster: str | None) -> list[BrokerView]:
    registered = await brokers(admin)
    chosen = [view for view in registered if cluster in (None, view.cluster)]
    if cluster is not None and not chosen:
        names = ", ".join(sorted({view.cluster for view in registered})) or "none"
        raise NotFoundError(f"no cluster {cluster!r}: there are {names}")
    return chosen


def _raft_shard(group: GroupView) -> dict[str, Any]:
    record = group_record(group)
    followers = [
        {
            "node": member["node"],
            "broker_id": member["broker_id"],
            "address": member["address"],
            "kind": member["kind"],
            "epoch": member["term"],
            "lag_bytes": member["lag_bytes"],
            "in_sync": not member["problem"] if record["leader"] else None,
        }
        for member in record["members"]
        if member["node"] != record["leader"]
    ]
    return {
        "cluster": group.cluster,
        "broker": group.name,
        "kind": RAFT,
        "leader": record["leader"],
        "address": record["leader_address"],
        "epoch": record["term"],
        "log_end": record["log_end"],
        "confirm_offset": record["confirm_offset"],
        "followers": followers,
        "lag_bytes": _greatest(follower["lag_bytes"] for follower in followers),
        "problems": record["problems"],
    }


def _plain_shard(views: Sequence[BrokerView]) -> dict[str, Any]:
    master = next((view for view in views if view.is_master and view.status is not None), None)
    status = master.status if master is not None else None
    followers: list[dict[str, Any]] = []
    for view in views:
        if view.is_master:
            continue
        lag = lag_of(view, master_of(view, views))
        followers.append(
            {
                "node": None,
                "broker_id": view.broker_id,
                "address": view.address,
                "kind": "slave",
                "epoch": _epoch_of(view),
                "lag_bytes": lag.lag_bytes,
                "in_sync": lag.in_sync,
            }
        )
    problems = [f"{view.address}: {text}" for view in views if view.status is not None for text in problems_of(view)]
    return {
        "cluster": views[0].cluster,
        "broker": views[0].name,
        "kind": MASTER_SLAVE,
        "leader": "id 0" if master is not None else None,
        "address": master.address if master is not None else None,
        "epoch": _epoch_of(master) if master is not None else None,
        "log_end": status.log_end if status is not None else None,
        "confirm_offset": status.confirm_offset if status is not None else None,
        "followers": followers,
        "lag_bytes": _greatest(follower["lag_bytes"] for follower in followers),
        "problems": problems if master is not None else ["no master answers", *problems],
    }


def _epoch_of(view: BrokerView) -> int | None:
    status = view.status
    return status.epoch_history[-1].epoch if status is not None and status.epoch_history else None


def _greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None and value >= 0), default=None)


# -- rebalance ---------------------------------------------------------------------------------------------------------


class Seat(NamedTuple):
    """Where a leader may be: ``node`` of a group, at ``place``."""

    node: str
    place: str


class Move(NamedTuple):
    """Leadership of ``group`` goes from one seat to another."""

    group: str
    old: Seat
    new: Seat


def plan_moves(leaders: Mapping[str, Seat], choices: Mapping[str, Sequence[Seat]]) -> list[Move]:
    """Return moves after which no place has two leaders more than another that could have one of them.

    ``leaders``: group -> where its leader is; ``choices``: group -> where else it may be. A chain of moves carries one
    leader from the fullest place to one with at least two fewer, over places between if no single move does.
    """
    now = dict(leaders)
    places = sorted({seat.place for seats in choices.values() for seat in seats} | {s.place for s in now.values()})
    while chain := _next_chain(now, choices, places):
        for group, seat in chain:
            now[group] = seat
    return [
        Move(group, leaders[group], now[group]) for group in sorted(now) if now[group].place != leaders[group].place
    ]


def _next_chain(
    now: Mapping[str, Seat], choices: Mapping[str, Sequence[Seat]], places: Sequence[str]
) -> list[tuple[str, Seat]]:
    """Return the shortest chain from a fullest place to one with at least two leaders fewer; empty without one."""
    counts = {place: sum(seat.place == place for seat in now.values()) for place in places}
    for start in sorted(places, key=lambda place: (-counts[place], place)):
        came: dict[str, tuple[str, str, Seat]] = {}  # place -> the place before, the group that moves, its new seat
        queue = [start]
        for place in queue:  # grows while it is walked: breadth first
            if counts[place] <= counts[start] - 2:
                return _walk_back(came, start, place)
            for group in sorted(group for group, seat in now.items() if seat.place == place):
                for seat in choices[group]:
                    if seat.place not in came and seat.place != start:
                        came[seat.place] = (place, group, seat)
                        queue.append(seat.place)
    return []


def _walk_back(came: Mapping[str, tuple[str, str, Seat]], start: str, end: str) -> list[tuple[str, Seat]]:
    chain = []
    while end != start:
        end, group, seat = came[end]
        chain.append((group, seat))
    return chain


async def plan_rebalance(admin: Admin, cluster: str | None) -> dict[str, Any]:
    """Return the plan as plain values: ``places`` with their numbers of leaders, ``moves``, ``notes``.

    Raises NotFoundError without a Raft group.
    """
    groups = [group for group in await raft_groups(admin, None) if cluster in (None, group.cluster)]
    if not groups:
        raise NotFoundError("no broker is in a Raft group: leaders of other groups move with pymq broker promote")
    return rebalance_plan(groups)


def rebalance_plan(groups: Sequence[GroupView]) -> dict[str, Any]:
    hosts = {host_of(group.address_of(member.node)) for group in groups for member in group.members}
    leaders: dict[str, Seat] = {}
    choices: dict[str, list[Seat]] = {}
    notes = []
    for group in groups:
        leading = group.leading
        if leading is None:
            notes.append(f"{group.name} has no leader: it stays out of this")
            continue
        leaders[group.name] = _seat(group, leading.node, hosts)
        choices[group.name] = [
            _seat(group, member.node, hosts)
            for member in leading.members
            if member.kind == VOTER and member.is_heard and member.lag_bytes <= OUT_OF_DATE_BYTES
        ]
    moves = plan_moves(leaders, choices)
    after = leaders | {move.group: move.new for move in moves}
    places = sorted({seat.place for seats in choices.values() for seat in seats} | {s.place for s in leaders.values()})
    return {
        "places": [
            {
                "place": place,
                "leaders_before": sum(seat.place == place for seat in leaders.values()),
                "leaders_after": sum(seat.place == place for seat in after.values()),
            }
            for place in places
        ],
        "moves": [
            {
                "broker": move.group,
                "from_node": move.old.node,
                "from_host": move.old.place,
                "to_node": move.new.node,
                "to_host": move.new.place,
            }
            for move in moves
        ],
        "notes": notes,
    }


def _seat(group: GroupView, node: str, hosts: set[str]) -> Seat:
    """On one host, as on a laptop, each number of a node stands for a machine of its own."""
    return Seat(node, node if len(hosts) == 1 else host_of(group.address_of(node)))


async def move_leaders(admin: Admin, plan: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Move one leader after the other; return the plan with ``term`` and ``took_ms`` of each move."""
    moves = []
    for move in plan["moves"]:
        step = await raft_work.plan_transfer(admin, move["broker"], move["to_node"])
        done = await raft_work.transfer(admin, step, clock)
        moves.append(move | {"term": done["term"], "took_ms": done["took_ms"]})
    return plan | {"moves": moves}
