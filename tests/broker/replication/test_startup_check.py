"""The checks of a broker before it serves: its role by the group, and the search for its tail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.broker.replication.roles.unclear_members import UNCLEAR_MS_MAX
from pymq.broker.replication.startup_check import StartupCheck
from pymq.errors import UsageError
from pymq.wire.bodies_replication import EpochEntryBody
from pymq.wire.codes import ResponseCode
from tests.broker.replication.asking import NAMESRV, THEIRS, Asking, status
from tests.broker.replication.tail_recovery.machines import FIRST, Machines
from tests.broker.world import World, runtime_of

T = TypeVar("T")
MASTER = RoleRecord(broker_id=0, configured_id=0)


def at_start(
    world: World,
    network: Asking,
    *confirmed: str,
    on_pause: Callable[[], None] = lambda: None,
) -> StartupCheck:
    async def awaited(begin: Callable[[Callable[[T], None]], None]) -> T:
        answers: list[T] = []
        begin(answers.append)
        network.answer_all()
        return answers[0]

    async def pause(duration_ms: int) -> None:
        world.clock.advance(duration_ms)
        on_pause()

    known_peers = KnownPeers(world.config, world.clock)
    for address in confirmed:
        known_peers.confirm(address)
    return StartupCheck(
        runtime_of(world.config, world.clock, world.files, network=network),
        awaited=awaited,
        pause=pause,
        known_peers=known_peers,
    )


def role_of(record: RoleRecord, network: Asking, **settings: str) -> tuple[RoleRecord, int]:
    options: dict[str, Any] = {"namesrvAddr": NAMESRV, **settings}
    world = World(**options)
    found, role = asyncio.run(at_start(world, network).role(record))
    return found, role.broker_id


def test_without_other_members_the_record_decides() -> None:
    assert role_of(MASTER, Asking()) == (MASTER, 0)
    slave = RoleRecord(broker_id=2, configured_id=2)
    network = Asking()
    assert role_of(slave, network) == (slave, 2)
    assert role_of(MASTER, network, namesrvAddr="") == (MASTER, 0)
    assert network.answer_all() == []


def test_a_newer_master_makes_it_a_slave() -> None:
    world = World(namesrvAddr=NAMESRV)
    ours = world.parts.replication.epoch_file.history.entries[0]
    network = Asking()
    network.registered[NAMESRV] = {THEIRS: 0}
    newer = [EpochEntryBody(ours.epoch, ours.start, ours.epoch_id), EpochEntryBody(ours.epoch + 1, 10, "b" * 16)]
    network.brokers = {THEIRS: status(THEIRS, 0, epoch_history=newer)}
    record, role = asyncio.run(at_start(world, network).role(MASTER))
    assert (record.broker_id, record.former_id, role.broker_id, role.master_address) == (1, 0, 1, THEIRS)


def test_a_master_that_can_t_be_overruled_ends_the_start() -> None:
    network = Asking()
    network.registered[NAMESRV] = {THEIRS: 0}
    network.brokers = {THEIRS: status(THEIRS, 0, epoch=1)}
    with pytest.raises(UsageError, match=THEIRS):
        role_of(MASTER, network)


def test_a_member_without_an_answer_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    network = Asking()
    network.registered[NAMESRV] = {THEIRS: 0}
    assert role_of(MASTER, network) == (MASTER, 0)
    assert THEIRS in caplog.text


def unclear() -> tuple[World, Asking]:
    """Return a master, and a network where THEIRS is listed as the master and does not say what it is."""
    network = Asking()
    network.registered[NAMESRV] = {THEIRS: 0}
    network.codes = {THEIRS: ResponseCode.SYSTEM_BUSY}
    return World(namesrvAddr=NAMESRV), network


def test_a_program_that_never_says_what_it_is_delays_a_start_by_a_bounded_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, network = unclear()
    began_ms = world.clock.monotonic_ms()
    assert asyncio.run(at_start(world, network).role(MASTER)) == (MASTER, MASTER.role)
    assert world.clock.monotonic_ms() - began_ms == UNCLEAR_MS_MAX
    assert THEIRS in caplog.text and "had no place" in caplog.text


def test_beside_a_member_that_never_says_what_it_is_no_master_starts() -> None:
    world, network = unclear()
    with pytest.raises(UsageError, match=f"{THEIRS} is a member"):
        asyncio.run(at_start(world, network, THEIRS).role(MASTER))
    network.codes = {}
    network.registered[NAMESRV] = {THEIRS: 0}
    assert asyncio.run(at_start(world, network, THEIRS).role(MASTER))[1].is_master, "the operator has stopped it"


@pytest.mark.parametrize("is_newer", [False, True])
def test_a_member_that_says_late_what_it_is_decides(is_newer: bool) -> None:
    world, network = unclear()
    first = world.parts.replication.epoch_file.history.entries[0]
    history = [EpochEntryBody(first.epoch, first.start, first.epoch_id)]
    if is_newer:
        history.append(EpochEntryBody(first.epoch + 1, 10, "b" * 16))
    network.brokers = {THEIRS: status(THEIRS, 0, epoch_history=history)}
    started = at_start(world, network, on_pause=network.codes.clear).role(MASTER)
    if is_newer:
        assert asyncio.run(started)[1].broker_id == 1
    else:
        with pytest.raises(UsageError, match="both masters"):
            asyncio.run(started)


def test_a_member_with_a_newer_epoch_that_gives_no_proof_yet_is_asked_again() -> None:
    """It answers with its status, and is too busy for the request for a proof."""
    world, network = unclear()
    world.put("T", b"a message of our log")
    entries = world.parts.replication.epoch_file.history.entries
    history = [EpochEntryBody(entry.epoch, entry.start, entry.epoch_id) for entry in entries]
    end = world.parts.store.physical_max_offset
    newer = [*history, EpochEntryBody(entries[-1].epoch + 1, end, "b" * 16)]
    network.brokers = {THEIRS: status(THEIRS, 0, epoch_history=newer, log_end=end)}
    network.codes, network.busy_logs = {}, {THEIRS}
    with pytest.raises(UsageError, match="gives no proof"):
        asyncio.run(at_start(world, network, THEIRS).role(MASTER))
    network.logs[THEIRS] = world.parts.store
    started = at_start(world, network, THEIRS, on_pause=network.busy_logs.clear).role(MASTER)
    assert asyncio.run(started)[1].broker_id == 1


def test_unsynced_replicas_are_asked_even_if_no_name_server_has_them() -> None:
    group = Machines(1)
    group.put(b"1", b"2")
    group.copy(FIRST)
    group.lose_power()
    network = Asking()
    network.brokers = {FIRST: status(FIRST, 1, epoch=1)}
    recovered_tail = asyncio.run(
        at_start(group.master, network).recover_tail(group.master.parts.replication.tail_recovery)
    )
    assert (recovered_tail.missing, recovered_tail.sources) == ({}, ())
