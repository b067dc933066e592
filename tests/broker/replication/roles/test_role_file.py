"""The role in which a broker starts, given its last role and its flags, and the file that keeps it."""

from __future__ import annotations

import pytest

from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.role_file import (
    RoleFile,
    RoleRecord,
    demoted,
    remembering,
    role_at_start,
    role_name_after_change,
    role_name_at_start,
)
from pymq.errors import StoreError
from pymq.store.disk.memory_fs import MemoryFiles

PATH = "/data/config/role.json"


def record(broker_id: int, configured_id: int, **fields: object) -> RoleRecord:
    return RoleRecord(broker_id=broker_id, configured_id=configured_id, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("last", "configured_id", "expected"),
    [
        (None, 0, Role(0)),
        (None, 3, Role(3)),
        (record(0, 0), 0, Role(0)),
        (record(1, 0), 0, Role(1)),
        (record(0, 1), 1, Role(0)),
        (record(0, 1, begins_epoch=True, former_id=1), 1, Role(0, begins_epoch=True, former_id=1)),
        (record(1, 1), 0, Role(0, begins_epoch=True, former_id=1)),
        (record(1, 0), 2, Role(2, former_id=1)),
        (record(0, 0, begins_epoch=True), 1, Role(1, former_id=0)),
        (record(0, 1, begins_epoch=True), 0, Role(0, begins_epoch=True, former_id=0)),
        (record(0, 1), 0, Role(0, former_id=0)),
    ],
    ids=[
        "first start",
        "first start of a slave",
        "as it was",
        "the old flags don't undo a step down",
        "nor a promotion",
        "a promotion that a crash interrupted",
        "a slave that is started as master",
        "another id",
        "a master that is started as slave",
        "flags follow an interrupted promotion",
        "flags follow a promotion",
    ],
)
def test_the_role_to_start_in(last: RoleRecord | None, configured_id: int, expected: Role) -> None:
    found = role_at_start(last, configured_id)
    assert found.role == expected
    assert found.configured_id == configured_id


def test_the_record_survives_a_restart() -> None:
    files = MemoryFiles()
    assert RoleFile(files, "/data").load() is None
    files.makedirs("/data/config")
    kept = record(2, 0, former_id=0, begins_epoch=True, master_role="SYNC_MASTER", why="10.0.0.2 is it", since_ms=17)
    RoleFile(files, "/data").save(kept)
    assert RoleFile(files, "/data").load() == kept


def test_an_invalid_record_is_named() -> None:
    files = MemoryFiles()
    files.makedirs("/data/config")
    for path in (PATH, PATH + ".bak"):
        file = files.open(path, create=True)
        file.pwrite(0, b'{"brokerId": "one"}')
        file.close()
    with pytest.raises(StoreError, match=r"role\.json"):
        RoleFile(files, "/data").load()


@pytest.mark.parametrize(
    ("kept", "configured", "expected"),
    [
        (record(0, 0), "SYNC_MASTER", "SYNC_MASTER"),
        (record(0, 0, master_role="SYNC_MASTER"), "ASYNC_MASTER", "ASYNC_MASTER"),
        (record(0, 1, master_role="SYNC_MASTER"), "SLAVE", "SYNC_MASTER"),
        (record(0, 1), "SLAVE", "ASYNC_MASTER"),
        (record(1, 0), "SYNC_MASTER", "SLAVE"),
    ],
)
def test_broker_role_at_the_start(kept: RoleRecord, configured: str, expected: str) -> None:
    assert role_name_at_start(kept, configured) == expected


@pytest.mark.parametrize(
    ("kept", "before", "expected"),
    [
        (record(0, 1, master_role="SYNC_MASTER"), "SLAVE", "SYNC_MASTER"),
        (record(0, 1), "SLAVE", "ASYNC_MASTER"),
        (record(0, 0), "SYNC_MASTER", "SYNC_MASTER"),
        (record(1, 0, master_role="SYNC_MASTER"), "ASYNC_MASTER", "SLAVE"),
    ],
)
def test_broker_role_after_a_change(kept: RoleRecord, before: str, expected: str) -> None:
    assert role_name_after_change(kept, before) == expected


def test_a_master_that_starts_as_slave_keeps_its_master_role() -> None:
    kept = demoted(record(0, 0, begins_epoch=True), Role(4, master_address="10.0.0.2:1"), "newer", 99)
    assert kept == record(4, 0, former_id=0, why="newer", since_ms=99)


@pytest.mark.parametrize(
    ("known", "configured", "expected"),
    [
        ("", "SYNC_MASTER", "SYNC_MASTER"),
        ("", "SLAVE", ""),
        ("ASYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"),
    ],
)
def test_a_broker_that_has_seen_no_other_master_remembers_its_own_role(
    known: str, configured: str, expected: str
) -> None:
    assert remembering(record(2, 0, master_role=known), configured) == record(2, 0, master_role=expected)
