"""``pymq broker config``: the broker it asks, the changes it makes and refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.cli.broker_config_work import apply, what_goes
from pymq.client.admin.brokers import BrokerAdmin
from pymq.clock import ManualClock
from pymq.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE, NotFoundError, RefusedError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.bodies_admin import DeletionPlan
from tests.broker.world import World

from .conftest import Pymq
from .worlds import WorldAdmin

GROUP = "broker-a"
SEGMENT_BYTES = 65_536


def group(*ids: int) -> tuple[WorldAdmin, list[World], list[str]]:
    """Return an admin client for a group of brokers with these ids, their worlds and their addresses."""
    admin = WorldAdmin()
    worlds = [World(brokerName=GROUP) for _ in ids]
    addresses = [admin.add(GROUP, broker_id, world) for broker_id, world in zip(ids, worlds, strict=True)]
    return admin, worlds, addresses


def run(admin: WorldAdmin, name: str, changes: dict[str, str] | None = None, key: str = "") -> list[dict[str, Any]]:
    return asyncio.run(apply(admin, name, changes or {}, key))  # type: ignore[arg-type]


def test_every_broker_of_a_name_is_listed() -> None:
    admin, _, addresses = group(0, 1)
    found = run(admin, GROUP, key="insyncREPLICAS")
    assert {record["key"] for record in found} == {"enableAutoInSyncReplicas", "inSyncReplicas", "minInSyncReplicas"}
    assert [record["address"] for record in found if record["key"] == "inSyncReplicas"] == addresses
    assert len(run(admin, addresses[1])) * 2 == len(run(admin, GROUP))


def test_a_name_changes_its_master_and_an_address_that_broker() -> None:
    admin, worlds, addresses = group(0, 1)
    (shown,) = run(admin, GROUP, {"inSyncReplicas": "3"})
    assert (shown["address"], shown["key"], shown["value"]) == (addresses[0], "inSyncReplicas", "3")
    assert [world.config.in_sync_replicas for world in worlds] == [3, 2]
    run(admin, addresses[1], {"inSyncReplicas": "4"})
    assert [world.config.in_sync_replicas for world in worlds] == [3, 4]


def test_an_ambiguous_broker_name_changes_nothing() -> None:
    admin, worlds, _ = group(1, 2)
    with pytest.raises(NotFoundError, match="no master of broker-a is registered"):
        run(admin, GROUP, {"inSyncReplicas": "3"})
    with pytest.raises(NotFoundError, match="no broker 'broker-x'"):
        run(admin, "broker-x")
    assert [world.config.in_sync_replicas for world in worlds] == [2, 2]


def test_changes_apply_all_or_none() -> None:
    admin, (world,), _ = group(0)
    with pytest.raises(RefusedError, match="listenPort"):
        run(admin, GROUP, {"inSyncReplicas": "3", "listenPort": "1"})
    assert world.config.in_sync_replicas == 2


def test_against_a_server(pymq: Pymq) -> None:
    (broker,) = pymq("cluster", "list", "--json").json()
    done = pymq("broker", "config", broker["broker"], "slaveTimeout=3001", "--json")
    assert done.code == EXIT_OK and [record["value"] for record in done.json()] == ["3001"]
    shown = pymq("broker", "config", broker["address"], "--key", "slaveTimeout").out.split()
    assert shown[-2:] == ["slaveTimeout", "3001"]
    assert pymq("broker", "config", broker["broker"], "slaveTimeout=3000").code == EXIT_OK
    refused = pymq("broker", "config", broker["broker"], "nonsense=1")
    assert refused.code == EXIT_REFUSED and "nonsense" in refused.err
    assert pymq("broker", "config", broker["broker"], "slaveTimeout").code == EXIT_USAGE
    nothing = pymq("broker", "config", broker["broker"], "--key", "zzz")
    assert nothing.code == EXIT_OK and "no key contains 'zzz'" in nothing.err


def test_a_change_that_deletes_segments_says_which() -> None:
    admin = WorldAdmin()
    clock = ManualClock()
    world = World(MemoryFiles(now_ms=clock.now_ms), clock, brokerName=GROUP, mappedFileSizeCommitLog=SEGMENT_BYTES)
    address = admin.add(GROUP, 0, world)
    while len(world.parts.store._log.segments) < 7:
        world.put("T", bytes(6000))
    world.parts.store._housekeeping.write()

    def asked(**changes: str) -> str:
        return asyncio.run(what_goes(admin, GROUP, changes))  # type: ignore[arg-type]

    assert asked(commitLogBytesMax=str(3 * SEGMENT_BYTES)) == (
        f"{address} would delete 4 of 7 segments (256.0 KB, commitLogBytesMax) from the next minute on; "
        "without the change 0"
    )
    assert asked(commitLogBytesMax=str(7 * SEGMENT_BYTES)) == "" and asked(fileReservedTime="71") == ""
    with pytest.raises(RefusedError, match="the least is"):
        asked(commitLogBytesMax="1")


def test_a_change_that_deletes_segments_needs_a_yes(pymq: Pymq, monkeypatch: pytest.MonkeyPatch) -> None:
    (broker,) = pymq("cluster", "list", "--json").json()
    name = broker["broker"]
    assert pymq("broker", "config", name, "fileReservedTime=71").code == EXIT_OK  # it deletes nothing

    async def four(*_: object) -> DeletionPlan:
        return DeletionPlan(segments=7, doomed_now=0, doomed_then=4, doomed_bytes=1024, reasons=["fileReservedTime"])

    async def unknown(*_: object) -> None:
        return None

    for plan, text in ((four, "would delete 4 of 7 segments"), (unknown, "can't say what it would delete")):
        monkeypatch.setattr(BrokerAdmin, "plan_config", plan)
        refused = pymq("broker", "config", name, "fileReservedTime=70")
        assert refused.code == EXIT_USAGE and text in refused.err and "give --yes" in refused.err
        shown = pymq("broker", "config", name, "--key", "fileReservedTime").out.split()
        assert shown[-1] == "71"
    assert pymq("broker", "config", name, "fileReservedTime=72", "--yes").code == EXIT_OK
