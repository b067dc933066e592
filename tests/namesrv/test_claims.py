"""Which reports may change the registration of a living broker: address, cluster, epoch and id."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.model.epochs import EPOCH_JUMP_MAX
from pymq.model.tables import DataVersion
from pymq.namesrv.brokers import HEARTBEAT_TIMEOUT_MS, HOLDER_SILENCE_MAX_MS
from pymq.namesrv.group_memory import ID_KEPT_MS
from pymq.namesrv.registration import BrokerIdentity, Registration
from pymq.namesrv.table import RouteTable
from tests.namesrv.support import identity, report

MASTER, SLAVE, STRANGER = identity(port=1), identity(broker_id=1, port=2), identity(port=66)
BECOMES_MASTER = identity(port=2)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> RouteTable:
    """A master of epoch 4 that names its slave, and that slave; each has its own host."""
    table = RouteTable(clock)
    table.register(says(MASTER, epoch=4, slaves=[SLAVE.address], data_version=state(5)))
    table.register(says(SLAVE, epoch=4))
    return table


def state(number: int) -> DataVersion:
    return DataVersion(state_version=number)


def says(who: BrokerIdentity, **fields: Any) -> Registration:
    """A report over the broker's own connection, unless ``fields`` name another one."""
    own = {1: "10.0.0.1", 2: "10.0.0.2", 66: "10.0.0.66"}[int(who.address.rpartition(":")[2])]
    return report(who, "T", **{"connection": own, "host": own, **fields})


def master_address(table: RouteTable) -> str | None:
    data = table.brokers.get("broker-a")
    assert data is not None
    return data.master_address


@pytest.mark.parametrize("epoch", [0, 4, 5, 4 + EPOCH_JUMP_MAX, 4 + EPOCH_JUMP_MAX + 1, 2**61])
def test_no_epoch_gives_a_stranger_the_id_of_a_living_master(table: RouteTable, epoch: int) -> None:
    problem = table.problem(says(STRANGER, epoch=epoch))
    assert ("epoch" in problem and MASTER.address in problem) or str(EPOCH_JUMP_MAX) in problem


@pytest.mark.parametrize("version", [5, 6, 5 + EPOCH_JUMP_MAX + 1, 2**61])
def test_no_state_version_gives_a_stranger_the_id_of_a_living_master(table: RouteTable, version: int) -> None:
    assert MASTER.address in table.problem(says(STRANGER, epoch=4, data_version=state(version)))


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({}, True),
        ({"epoch": 4}, True),
        ({"epoch": 5}, False),
        ({"epoch": 4 + EPOCH_JUMP_MAX}, False),
        ({"epoch": 4 + EPOCH_JUMP_MAX + 1}, True),
        ({"data_version": state(5)}, True),
        ({"data_version": state(6)}, False),
        ({"data_version": state(5 + EPOCH_JUMP_MAX + 1)}, True),
    ],
    ids=["nothing", "same", "next", "last plausible", "too far", "same state", "next state", "state too far"],
)
def test_a_named_slave_takes_over_with_a_plausible_epoch(
    table: RouteTable, fields: dict[str, Any], is_taken: bool
) -> None:
    table.unregister(SLAVE, "10.0.0.2")  # as a broker does that changes its role
    claim = says(BECOMES_MASTER, **fields)
    assert bool(table.problem(claim)) == is_taken
    if not is_taken:
        table.register(claim)
        assert master_address(table) == SLAVE.address
        assert "epoch" not in fields or table.problem(says(MASTER, epoch=4)), (
            "an overruled master can't return with its old epoch"
        )


def test_a_broker_that_registers_as_a_slave_is_no_successor_for_that(table: RouteTable) -> None:
    patient = identity(broker_id=7, port=66)
    assert table.problem(says(patient, epoch=4)) == ""
    table.register(says(patient, epoch=4))
    assert "no known slave" in table.problem(says(STRANGER, epoch=5))


def test_another_host_may_not_speak_for_a_slave_that_just_left(table: RouteTable) -> None:
    table.unregister(SLAVE, "10.0.0.2")
    assert "kept for" in table.problem(says(BECOMES_MASTER, epoch=5, connection="evil", host="10.0.0.66"))
    assert table.problem(says(BECOMES_MASTER, epoch=5)) == ""


def test_a_master_without_epochs_is_succeeded_by_a_member(clock: ManualClock) -> None:
    table = RouteTable(clock)
    table.register(says(MASTER))  # RocketMQ's
    assert "no known slave" in table.problem(says(BECOMES_MASTER, epoch=1))
    table.register(says(SLAVE))
    assert "no known slave" in table.problem(says(BECOMES_MASTER, epoch=1, host="10.0.0.66", connection="evil")) or (
        "10.0.0.66" in table.problem(says(BECOMES_MASTER, epoch=1, host="10.0.0.66", connection="evil"))
    )
    assert table.problem(says(BECOMES_MASTER, epoch=1)) == ""


@pytest.mark.parametrize(
    "other",
    [
        identity(port=1),
        identity(broker_id=3, port=1),
        identity("other", port=1),
        identity(cluster="Other", port=1),
    ],
    ids=["the same", "another id", "another name", "another cluster"],
)
def test_a_living_brokers_address_is_its_own(table: RouteTable, other: BrokerIdentity) -> None:
    assert "10.0.0.66" in table.problem(says(other, connection="evil", host="10.0.0.66", epoch=4))
    # A restarted broker comes from its host, and is what it was.
    assert (table.problem(says(other, connection="again", epoch=4)) == "") == (other == MASTER)
    assert table.problem(says(other, epoch=4)) == "" or other.cluster == "Other", "its own connection may change it"


def test_an_address_is_free_once_its_broker_is_silent(table: RouteTable, clock: ManualClock) -> None:
    newcomer = says(identity("other", port=1), connection="new", host="10.0.0.9")
    clock.advance(HOLDER_SILENCE_MAX_MS)
    assert table.problem(newcomer)
    clock.advance(1)
    assert table.problem(newcomer) == ""


def test_an_overruled_masters_address_may_become_a_slaves(table: RouteTable) -> None:
    table.unregister(SLAVE, "10.0.0.2")
    table.register(says(BECOMES_MASTER, epoch=5))
    assert table.problem(says(identity(broker_id=1, port=1), connection="after a reboot")) == ""


def keep_slave_alive(table: RouteTable, clock: ManualClock, duration_ms: int) -> None:
    for _ in range(0, duration_ms, HOLDER_SILENCE_MAX_MS):
        clock.advance(HOLDER_SILENCE_MAX_MS)
        assert table.heartbeat(SLAVE.address, "10.0.0.2")
        table.expire()


def give_the_id_to_a_stranger(table: RouteTable, clock: ManualClock) -> None:
    keep_slave_alive(table, clock, HEARTBEAT_TIMEOUT_MS + ID_KEPT_MS + HOLDER_SILENCE_MAX_MS)
    assert table.problem(says(STRANGER, epoch=4 + EPOCH_JUMP_MAX)) == ""
    table.register(says(STRANGER, epoch=4 + EPOCH_JUMP_MAX, slaves=[STRANGER.address]))
    assert master_address(table) == STRANGER.address


def test_an_id_is_free_some_time_after_its_broker_is_gone(table: RouteTable, clock: ManualClock) -> None:
    table.connection_closed("10.0.0.1")
    assert "kept for" in table.problem(says(STRANGER, epoch=4)), "a restart of the master, or a fail-over, comes first"
    clock.advance(ID_KEPT_MS + 1)
    assert table.problem(says(STRANGER, epoch=4)) == ""


def test_a_silent_brokers_id_is_free(table: RouteTable, clock: ManualClock) -> None:
    clock.advance(HOLDER_SILENCE_MAX_MS)
    assert table.problem(says(STRANGER, epoch=4))
    clock.advance(1)
    assert table.problem(says(STRANGER, epoch=4)) == ""
    table.heartbeat(MASTER.address, "10.0.0.1")
    assert table.problem(says(STRANGER, epoch=4))


def test_a_master_that_was_away_for_long_gets_its_id_back_from_a_stranger(
    table: RouteTable, clock: ManualClock
) -> None:
    give_the_id_to_a_stranger(table, clock)
    assert table.problem(says(MASTER, epoch=4, connection="thief", host="10.0.0.66"))
    assert table.problem(says(MASTER, epoch=4)) == ""
    table.register(says(MASTER, epoch=4, slaves=[SLAVE.address]))
    assert master_address(table) == MASTER.address
    assert table.problem(says(STRANGER, epoch=5)), "it keeps it"


def test_a_master_gets_no_id_back_from_a_slave_that_it_named(table: RouteTable, clock: ManualClock) -> None:
    table.unregister(SLAVE, "10.0.0.2")
    table.register(says(BECOMES_MASTER, epoch=5))
    clock.advance(HOLDER_SILENCE_MAX_MS)
    assert table.problem(says(MASTER, epoch=4))


def test_a_slave_takes_the_id_of_a_master_that_just_left(table: RouteTable) -> None:
    table.connection_closed("10.0.0.1")
    assert table.problem(says(BECOMES_MASTER, epoch=5)) == ""
    assert table.problem(says(MASTER, epoch=4)) == ""


def test_an_address_is_kept_for_its_host_for_a_while(table: RouteTable, clock: ManualClock) -> None:
    table.connection_closed("10.0.0.1")
    for name in ("broker-a", "other"):
        thief = says(identity(name, port=1), connection="evil", host="10.0.0.66", epoch=4)
        assert "is kept for" in table.problem(thief)
    assert table.problem(says(MASTER, connection="after a restart", epoch=4)) == ""
    clock.advance(ID_KEPT_MS + 1)
    assert table.problem(says(identity("other", port=1), connection="new", host="10.0.0.66")) == ""


def test_a_slaves_id_stays_with_it(table: RouteTable) -> None:
    assert SLAVE.address in table.problem(says(identity(broker_id=1, port=66), epoch=9))
    assert table.problem(says(identity(broker_id=2, port=66))) == ""


def test_an_epoch_that_jumps_is_refused_without_a_master_too(table: RouteTable, clock: ManualClock) -> None:
    table.unregister(MASTER, "10.0.0.1")
    clock.advance(ID_KEPT_MS + 1)
    assert str(EPOCH_JUMP_MAX) in table.problem(says(STRANGER, epoch=4 + EPOCH_JUMP_MAX + 1))
    assert table.problem(says(STRANGER, epoch=4 + EPOCH_JUMP_MAX)) == ""


def test_a_group_stays_in_its_cluster(table: RouteTable, clock: ManualClock) -> None:
    mover = says(identity(broker_id=7, port=66, cluster="Other"))
    assert "cluster" in table.problem(mover)
    clock.advance(HOLDER_SILENCE_MAX_MS + 1)
    assert table.problem(mover) == ""


def test_a_stranger_that_got_a_free_id_names_no_slaves(table: RouteTable, clock: ManualClock) -> None:
    table.connection_closed("10.0.0.1")
    clock.advance(ID_KEPT_MS + 1)
    table.register(says(STRANGER, epoch=5, slaves=[STRANGER.address, "127.0.0.1:67"]))
    table.connection_closed("10.0.0.66")
    table.register(says(MASTER, epoch=4, slaves=[SLAVE.address]))
    assert "no known slave" in table.problem(says(STRANGER, epoch=6))


def test_the_host_that_an_address_names_outweighs_another_one(table: RouteTable) -> None:
    thief = report(identity("other", port=5000), "T", connection="evil", host="10.0.0.66")
    table.register(thief)
    owner = report(identity("mine", port=5000), "T", connection="own", host="127.0.0.1")
    assert table.problem(owner) == "", "127.0.0.1 is the host of its address"
    table.connection_closed("evil")
    assert table.problem(owner) == ""
    assert "is kept for" in table.problem(report(identity("x", port=5000), "T", connection="third", host="10.0.0.3"))
