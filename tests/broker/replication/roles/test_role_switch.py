"""RoleSwitch: the order of the steps, and what is on the disk when one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.replication.roles.role_file import RoleRecord, role_at_start
from pymq.broker.replication.roles.role_switch import RoleSwitch
from pymq.clock import ManualClock
from pymq.errors import StoreError

PROMOTE = RoleChange(Role(0, begins_epoch=True), "promoted")
STEP_DOWN = RoleChange(Role(2, master_address="10.0.0.2:10911"), "a newer master", truncate_to=500)


class FakeSteps:
    """Writes down what is done; fails at ``fails_at``. ``saved`` is what the disk has."""

    def __init__(self, saved: RoleRecord, fails_at: str = "") -> None:
        self.done: list[str] = []
        self.saved = saved
        self.during: dict[str, Callable[[], None]] = {}
        self._fails_at = fails_at

    def _do(self, step: str, what: object = "") -> None:
        self.during.get(step, lambda: None)()
        if step == self._fails_at or f"{step} {what}" == self._fails_at:
            raise StoreError(f"{step} failed")
        self.done.append(f"{step} {what}".strip())

    def refuse(self, why: str) -> None:
        self._do("refuse")

    async def withdraw(self) -> None:
        self._do("withdraw")

    async def close(self) -> None:
        self._do("close")

    async def truncate(self, end: int, why: str) -> None:
        self._do("truncate", end)

    async def discard(self) -> None:
        self._do("discard")

    async def save(self, record: RoleRecord) -> None:
        self._do("save", f"{record.broker_id}{' begins' if record.begins_epoch else ''}")
        self.saved = record

    async def open(self, role: Role) -> None:
        self._do("open", f"{role.broker_id}{' begins' if role.begins_epoch else ''}")

    async def announce(self) -> None:
        self._do("announce")


def setup(broker_id: int, fails_at: str = "") -> tuple[RoleSwitch, FakeSteps, list[str]]:
    record = RoleRecord(broker_id=broker_id, configured_id=broker_id)
    steps, wakes = FakeSteps(record, fails_at), list[str]()
    return RoleSwitch(steps, ManualClock(), record, lambda: wakes.append("wake")), steps, wakes


def test_a_slave_becomes_master() -> None:
    switch, steps, wakes = setup(1)
    switch.ask(PROMOTE)
    assert wakes == ["wake"] and not steps.done and switch.is_changing
    asyncio.run(switch.run())
    assert steps.done == [
        "refuse",
        "withdraw",
        "close",
        "save 0 begins",
        "open 0 begins",
        "save 0",
        "announce",
    ]
    assert (steps.saved.former_id, steps.saved.why) == (1, "promoted")
    assert not switch.is_changing


def test_a_new_slave_truncates_its_log_once_its_role_is_saved() -> None:
    switch, steps, _ = setup(0)
    switch.ask(STEP_DOWN)
    asyncio.run(switch.run())
    assert steps.done == ["refuse", "withdraw", "close", "save 2", "truncate 500", "open 2", "announce"]


def test_one_change_at_a_time() -> None:
    switch, steps, wakes = setup(0)
    switch.ask(STEP_DOWN)
    switch.ask(PROMOTE)
    steps.during["close"] = lambda: switch.ask(PROMOTE)
    asyncio.run(switch.run())
    asyncio.run(switch.run())
    assert wakes == ["wake"] and steps.saved.broker_id == 2
    switch.ask(PROMOTE)
    asyncio.run(switch.run())
    assert (steps.saved.broker_id, steps.saved.former_id) == (0, 2)


@pytest.mark.parametrize(
    ("fails_at", "starts_as"),
    [
        ("withdraw", Role(1)),
        ("close", Role(1)),
        ("save 0 begins", Role(1)),
        ("open", Role(0, begins_epoch=True, former_id=1)),
        ("save 0", Role(0, begins_epoch=True, former_id=1)),
        ("announce", Role(0, former_id=1)),
    ],
)
def test_a_promotion_that_fails_leaves_the_old_role_or_the_new_one(fails_at: str, starts_as: Role) -> None:
    switch, steps, _ = setup(1, fails_at)
    switch.ask(PROMOTE)
    with pytest.raises(StoreError):
        asyncio.run(switch.run())
    assert role_at_start(steps.saved, 1).role == starts_as
    assert switch.is_changing, "nothing else is begun: the broker stops"


@pytest.mark.parametrize(
    ("fails_at", "starts_as", "is_truncated"),
    [("close", 0, False), ("save 2", 0, False), ("truncate", 2, False), ("open", 2, True)],
)
def test_a_log_is_never_truncated_while_the_disk_says_master(fails_at: str, starts_as: int, is_truncated: bool) -> None:
    switch, steps, _ = setup(0, fails_at)
    switch.ask(STEP_DOWN)
    with pytest.raises(StoreError):
        asyncio.run(switch.run())
    assert role_at_start(steps.saved, 0).role.broker_id == starts_as
    assert ("truncate 500" in steps.done) == is_truncated


def test_what_kind_of_master_a_group_has_is_noted_once_and_kept() -> None:
    switch, steps, _ = setup(1)
    assert switch.note_master_role("SYNC_MASTER")
    assert not switch.note_master_role("SYNC_MASTER")
    switch.ask(PROMOTE)
    asyncio.run(switch.run())
    assert steps.saved.master_role == "SYNC_MASTER"


@pytest.mark.parametrize(
    ("id_before", "change", "line"),
    [
        (1, PROMOTE, "id 1 became the master: promoted"),
        (0, STEP_DOWN, "id 0 became slave 2: a newer master"),
        (0, PROMOTE, "id 0 was opened again as the master, and begins an epoch: promoted"),
        (2, STEP_DOWN, "id 2 was opened again, with its log truncated at 500: a newer master"),
        (2, RoleChange(Role(2), "slaves answer"), "id 2 was opened again: slaves answer"),
    ],
)
def test_the_log_says_what_happened(
    id_before: int, change: RoleChange, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    switch, _, _ = setup(id_before)
    switch.ask(change)
    asyncio.run(switch.run())
    assert [record.message for record in caplog.records] == [line]


def test_a_change_that_failed_is_named(caplog: pytest.LogCaptureFixture) -> None:
    switch, _, _ = setup(1, "close")
    switch.ask(PROMOTE)
    with pytest.raises(StoreError):
        asyncio.run(switch.run())
    assert "id 1 could not be opened as the master (promoted): the broker stops" in caplog.text
