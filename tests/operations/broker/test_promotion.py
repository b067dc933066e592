"""The plan of ``pymq broker promote`` without a master: slaves whose bytes differ from the others'."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from pymq.broker.replication.roles.role import Role
from pymq.operations.broker.promotion import COMPARED_BYTES_MAX, make_plan, plan_record
from tests.broker.world import World
from tests.cli.worlds import CLUSTER, WorldAdmin, master

NAMES: dict[str, Any] = {"brokerName": "broker-a", "brokerClusterName": CLUSTER}


def closed(message_count: int, body: bytes = b"x") -> World:
    world = World(**NAMES)
    for _ in range(message_count):
        world.put("orders", body * 1000)
    world.parts.close()
    return world


def slave(of: World, broker_id: int) -> World:
    return World(copy.deepcopy(of.files), of.clock, role=Role(broker_id), **NAMES)


def planned(*slaves: World | None, target: str = "") -> tuple[list[str], dict[str, Any]]:
    """Return the slaves' addresses and the plan's record, for a group without a master."""
    admin: Any = WorldAdmin()
    addresses = [admin.add("broker-a", number, world) for number, world in enumerate(slaves, start=1)]
    return addresses, plan_record(asyncio.run(make_plan(admin, target or "broker-a")))


def test_a_slave_whose_bytes_differ_from_most_others_is_not_chosen() -> None:
    log = closed(100)
    assert COMPARED_BYTES_MAX < 100 * 1000
    addresses, found = planned(slave(closed(120, b"y"), 1), slave(log, 2), slave(log, 3))
    assert found["target"] == addresses[1] and not found["obstacles"]
    problems = [member["problem"] for member in found["members"]]
    assert "differ from those of the other slaves" in problems[0] and problems[1:] == ["", ""]
    assert [member["lag_messages"] for member in found["members"]] == [100, 0, 0]


def test_of_two_slaves_that_differ_none_is_chosen() -> None:
    addresses, found = planned(slave(closed(20, b"y"), 1), slave(closed(20), 2))
    (obstacle,) = found["obstacles"]
    assert addresses[0] in obstacle and all(member["problem"] for member in found["members"])


def test_slaves_with_one_log_of_different_lengths_are_equal() -> None:
    log = closed(20)
    longer = slave(log, 2)
    longer.put("orders", b"more")
    addresses, found = planned(slave(log, 1), longer, None)
    assert found["target"] == addresses[1] and not any(member["problem"] for member in found["members"][:2])


def test_beside_a_master_no_log_is_compared() -> None:
    admin: Any = WorldAdmin()
    admin.add("broker-a", 0, master())
    address = admin.add("broker-a", 1, slave(closed(20, b"y"), 1))
    plan = asyncio.run(make_plan(admin, "broker-a"))
    assert plan.target.address == address and not plan.target.differs
