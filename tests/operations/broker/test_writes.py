"""A master that takes no messages: ``check broker`` and the doctor name each cause with the next step.

``check disk`` names those of the disk.
"""

from __future__ import annotations

import asyncio
import errno
import re
from pathlib import Path

import pytest

import pymq
from pymq.broker.messages import waiting_answers
from pymq.broker.replication import sync_mode
from pymq.broker.replication.roles import write_fence
from pymq.broker.replication.tail_recovery import recovery_fence, tail_recovery
from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError
from pymq.model.tables import PERM_READ
from pymq.operations.broker import writes
from pymq.operations.check.figures import check_brokers, check_disks
from pymq.operations.check.line import Level, Limits
from pymq.operations.doctor import permissions, replication, stores
from pymq.operations.doctor.finding import Severity
from pymq.operations.doctor.state import Broker, ClusterState
from pymq.operations.replica_view import BrokerView, ask, registered
from pymq.store.disk.memory_fs import MemoryFile
from pymq.store.write.refusal import DISK
from tests.broker.world import World
from tests.cli.worlds import WorldAdmin, master

STOP = "stop"
REFUSERS = {
    DISK: True,
    tail_recovery._EPOCH: True,
    sync_mode._REFUSER: False,
    waiting_answers._REFUSER: False,
    recovery_fence._REFUSER: False,
    write_fence._REFUSER: False,
    STOP: False,
}


class Watched:
    """A cluster of one master, and what each tool says of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.admin = WorldAdmin()
        self.admin.add("broker-a", 0, world)

    def checked(self, check: str) -> list[tuple[Level, str]]:
        clock = ManualClock()
        result = asyncio.run(
            check_brokers(self.admin, None, limits_ms=Limits(), count_min=0, clock=clock)  # type: ignore[arg-type]
            if check == "broker"
            else check_disks(self.admin, None, limits_percent=Limits(), clock=clock)  # type: ignore[arg-type]
        )
        return [(part.level, part.text) for part in result.parts if part.level]

    def found(self) -> dict[str, list[tuple[Severity, str]]]:
        views = asyncio.run(self._views())
        state = ClusterState(0, brokers=[Broker(view, config=dict(self._config())) for view in views])
        checks = {
            "writes": stores.check_writes,
            "store": stores.check_stores,
            "replication": replication.check_replication,
            "permission": permissions.check_permissions,
        }
        return {name: [(one.severity, one.text) for one in run(state)] for name, run in checks.items()}

    async def _views(self) -> list[BrokerView]:
        return await ask(self.admin, await registered(self.admin, None))  # type: ignore[arg-type]

    def _config(self) -> dict[str, str]:
        return {"brokerPermission": str(self.world.config.broker_permission)}


def assert_named(watched: Watched, why: str, *, of_the_disk: bool) -> None:
    said = (Level.CRITICAL, f"takes no messages: {why}")
    assert said in watched.checked("broker")
    assert watched.checked("disk") == ([said] if of_the_disk else [])
    found = watched.found()
    assert found["writes"] == [(Severity.PROBLEM, f"takes no messages: {why}")]
    assert found["store"] == [], "the same is not said twice"
    assert not any(why in text for _, text in found["replication"])


def test_a_master_that_takes_messages_is_fine() -> None:
    watched = Watched(master())
    assert watched.checked("broker") == watched.checked("disk") == []
    found = watched.found()
    assert found["writes"] == found["store"] == found["permission"] == []


@pytest.mark.parametrize("refuser", REFUSERS)
def test_whoever_refuses_is_named(refuser: str) -> None:
    watched = Watched(master())
    why = f"the part {refuser} takes no writes; do this next"
    watched.world.parts.store.refuse_writes(why, by=refuser)
    assert_named(watched, why, of_the_disk=REFUSERS[refuser])
    watched.world.parts.store.refuse_writes(None, by=refuser)
    assert watched.checked("broker") == []


def test_every_refuser_of_the_source_is_among_them() -> None:
    named = re.compile(r"refuse_writes\((?:.|\n)*?by=(\S+?)[,)\n]")
    texts = [path.read_text() for path in Path(pymq.__file__).parent.rglob("*.py")]
    assert {name for text in texts for name in named.findall(text)} == {"_REFUSER", "_EPOCH", '"stop"'}
    assert sum(text.count("\n_REFUSER = ") for text in texts) == 4
    assert set(writes._OF_THE_DISK) == {name for name, of_the_disk in REFUSERS.items() if of_the_disk}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_to_sync_is_named(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(_: MemoryFile) -> None:
        raise OSError(number, "it fails")

    watched = Watched(master())
    store = watched.world.parts.store
    with monkeypatch.context() as patched:
        patched.setattr(MemoryFile, "sync", fail)
        with pytest.raises(StoreUnavailableError):
            store.sync()
    assert store.refusal is not None
    assert "restart the broker" in store.refusal.why
    assert_named(watched, store.refusal.why, of_the_disk=True)


def test_too_few_slaves_are_named() -> None:
    watched = Watched(master(0, brokerRole="SYNC_MASTER", inSyncReplicas="2"))
    watched.world.parts.replication.sync_mode.check()
    why = watched.world.parts.store.refusal
    assert why is not None and "Start slaves" in why.why
    assert_named(watched, why.why, of_the_disk=False)


def test_a_broker_that_may_not_be_written_is_a_warning_for_both() -> None:
    watched = Watched(master(brokerPermission=str(PERM_READ)))
    text = "clients may not write (brokerPermission=4)"
    step = "if that is not wanted: pymq config set brokerPermission=6 --broker broker-a"
    assert watched.checked("broker") == [(Level.WARNING, f"{text}: {step}")]
    assert watched.found()["permission"] == [(Severity.WARNING, text)]


@pytest.mark.parametrize(
    ("problems", "why", "rest"),
    [
        ("", "", ""),
        ("a; b", "", "a; b"),
        ("full; make room", "full; make room", ""),
        ("a; full; make room; b", "full; make room", "a; b"),
        ("full; make room; b", "full; make room", "b"),
    ],
)
def test_what_else_a_store_reports_is_left(problems: str, why: str, rest: str) -> None:
    assert writes.other_store_problems({"storeProblems": problems, "storeRefusal": why}) == rest
