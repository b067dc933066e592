"""Brokers that change their role while they run: real sockets, real directories, one event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.replication.roles.role_file import RoleFile, RoleRecord
from pymq.client import Admin, Message, Producer
from pymq.client.admin.promotion import Promotion
from pymq.clock import SystemClock
from pymq.errors import RefusedError, StoreError, UsageError
from pymq.model.record import decode_records
from pymq.namesrv.server import NameServer
from pymq.operations.broker.promotion import make_plan
from pymq.store.disk.fs import File, RealFiles
from tests.broker.assembly.test_broker import make_broker, name_server, until
from tests.broker.world import slave_side


@asynccontextmanager
async def running(*brokers: Broker) -> AsyncIterator[None]:
    """Start the brokers in order, and stop those that still run at the end."""
    async with AsyncExitStack() as stack:
        for broker in brokers:
            stack.push_async_callback(broker.stop)
            await broker.start()
        yield


def change(broker: Broker, role: Role, why: str = "a test asked for it") -> None:
    assert broker.switch is not None
    broker.switch.ask(RoleChange(role, why))


def is_following(broker: Broker) -> bool:
    return broker.parts is not None and broker.parts.side.is_following


async def changed(broker: Broker, broker_id: int) -> None:
    await until(lambda: broker.switch is not None and not broker.switch.is_changing)
    assert broker.parts is not None and broker.parts.role.broker_id == broker.config.broker_id == broker_id


def registered(namesrv: NameServer) -> dict[int, str]:
    data = namesrv.table.brokers.get("broker-a")
    return dict(data.broker_addrs) if data is not None else {}


def test_a_slave_that_is_started_first_waits_for_its_master(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            slave = make_broker(tmp_path / "b", namesrv.address, brokerId="1")
            async with running(slave):
                assert slave.parts is not None
                await until(lambda: slave.parts and slave_side(slave.parts).ha_client.state().problem)
                assert "no master" in slave_side(slave.parts).ha_client.state().problem
                async with running(make_broker(tmp_path / "a", namesrv.address)):
                    await until(lambda: is_following(slave))

    asyncio.run(scenario())


def test_roles_change_both_ways_and_clients_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            a = make_broker(tmp_path / "a", namesrv.address, brokerRole="SYNC_MASTER")
            b = make_broker(tmp_path / "b", namesrv.address, brokerId="1")
            async with running(a, b), Producer("P", namesrv=namesrv.address) as producer:
                await until(lambda: is_following(b) and b.parts and b.parts.replication.master_role.name)
                assert (await producer.send(Message("T", b"1"))).status.value == "SEND_OK"
                ha_port = a.config.ha_listen_port
                change(a, Role(1, master_address=b.address))
                await changed(a, 1)
                assert a.config.broker_role == "SLAVE"
                with pytest.raises(OSError, match=r"[Cc]onnect"):
                    await asyncio.open_connection("127.0.0.1", ha_port)
                change(b, Role(0, begins_epoch=True))
                await changed(b, 0)
                await until(lambda: is_following(a))
                assert b.config.broker_role == "SYNC_MASTER", "the new master promises what the old one did"
                await until(lambda: registered(namesrv) == {0: b.address, 1: a.address})
                await until(lambda: b.parts and b.parts.replication.sync_mode.slaves.in_sync_count == 1)
                async with Producer("Q", namesrv=namesrv.address) as other:
                    assert (await other.send(Message("T", b"2"))).status.value == "SEND_OK"
                assert a.parts is not None and b.parts is not None
                assert a.parts.store.physical_max_offset == b.parts.store.physical_max_offset
                assert [entry.epoch for entry in a.parts.replication.epoch_file.history.entries] == [1, 2]

    asyncio.run(scenario())


def test_requests_during_a_role_change_are_refused_as_retryable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "a", namesrv.address)
            async with running(broker), Admin(namesrv.address) as admin:
                await admin.brokers.runtime_info(broker.address)
                broker.refuse("the broker is becoming slave 1")
                with pytest.raises(RefusedError, match="becoming slave 1") as refused:
                    await admin.brokers.runtime_info(broker.address)
                assert refused.value.code == 14

    asyncio.run(scenario())


def test_a_running_master_makes_room_for_a_newer_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            a = make_broker(tmp_path / "a", namesrv.address)
            b = make_broker(tmp_path / "b", namesrv.address, brokerId="1")
            async with running(a, b):
                await until(lambda: is_following(b))
                change(b, Role(0, begins_epoch=True), "promoted by force while the master could not be reached")
                await changed(b, 0)
                assert a.parts is not None
                a.parts.master_monitor.note_refused("a name server has another one")
                await until(lambda: is_following(a))
                await changed(a, 1)
                await until(lambda: registered(namesrv) == {0: b.address, 1: a.address})

    asyncio.run(scenario())


def test_a_second_master_is_refused_with_both_addresses(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            a = make_broker(tmp_path / "a", namesrv.address)
            async with running(a):
                b = make_broker(tmp_path / "b", namesrv.address)
                with pytest.raises(UsageError, match="broker-a") as refused:
                    await b.start()
                assert a.address in str(refused.value) and "--id 1" in str(refused.value)
                await b.stop()
                assert not (tmp_path / "b").exists() and registered(namesrv) == {0: a.address}

    asyncio.run(scenario())


def test_two_masters_that_could_not_see_each_other_report_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as one, name_server() as other:
            a = make_broker(tmp_path / "a", one.address)
            b = make_broker(tmp_path / "b", other.address)
            async with running(a, b):
                a.config.namesrv_addr = b.config.namesrv_addr = f"{one.address};{other.address}"
                for broker, second_master in ((a, b), (b, a)):
                    assert broker.parts is not None
                    broker.parts.master_monitor.note_refused("look")
                    master_monitor = broker.parts.master_monitor
                    await until(lambda master_monitor=master_monitor: master_monitor.second_master)
                    assert second_master.address in master_monitor.second_master

    asyncio.run(scenario())


def bodies(broker: Broker) -> set[bytes]:
    assert broker.parts is not None
    found = [broker.parts.store.get("T", queue_id, 0, 32, 1 << 20) for queue_id in range(4)]
    return {message.body for queue in found for message in decode_records(b"".join(queue.chunks))}


async def two_masters_of_one_epoch(
    path: Path, stack: AsyncExitStack, one: NameServer, other: NameServer
) -> tuple[Broker, Broker]:
    """Return two slaves of one master that were promoted by force, neither of which knows of the other."""
    async with AsyncExitStack() as first:
        brokers = [make_broker(path / name, one.address, brokerId=str(at)) for at, name in enumerate("abc")]
        await first.enter_async_context(running(*brokers))
        async with Producer("P", namesrv=one.address) as producer:
            await producer.send(Message("T", b"all have this"))
        _, b, c = brokers
        await until(lambda: all(is_following(slave) and slave.parts.metadata.topics.get("T") for slave in (b, c)))
        end = brokers[0].parts.store.physical_max_offset
        await until(lambda: all(slave.parts.store.physical_max_offset == end for slave in (b, c)))
    found = []
    for name, server, broker_id in (("b", one, "1"), ("c", other, "2")):
        broker = make_broker(path / name, server.address, brokerId=broker_id)
        await stack.enter_async_context(running(broker))
        change(broker, Role(0, begins_epoch=True), "promoted by force")
        await changed(broker, 0)
        async with Producer("P", namesrv=server.address) as producer:
            await producer.send(Message("T", b"of " + name.encode()))
        found.append(broker)
    return found[0], found[1]


def test_offsets_committed_during_a_hand_over_reach_the_new_master(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            master = make_broker(tmp_path / "a", namesrv.address)
            slave = make_broker(tmp_path / "b", namesrv.address, brokerId="1")
            async with running(master, slave), Admin(namesrv.address) as admin:
                async with Producer("P", namesrv=namesrv.address) as producer:
                    await producer.send(Message("T", b"1"))
                queue_id = next(q for q in range(8) if master.parts.store.max_offset("T", q))
                await until(lambda: is_following(slave) and slave.parts.store.max_offset("T", queue_id))

                def commit_late(step: str) -> None:
                    if "steps down" in step:  # the slave has copied the offsets
                        master.parts.metadata.cursors.commit("g", "T", queue_id, 1)

                plan = await make_plan(admin, slave.address)
                await Promotion(admin.replication, SystemClock(), asyncio.sleep, tell=commit_late).run(plan)
                await changed(slave, 0)
                await until(lambda: slave.parts.metadata.cursors.query("g", "T", queue_id) != -1)
                await until(lambda: not len(master.parts.metadata.pending_offsets))
                assert slave.parts.metadata.cursors.query("g", "T", queue_id) == 1

    asyncio.run(scenario())


def test_of_two_masters_of_one_epoch_the_chosen_one_stays_master(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as one, name_server() as other, AsyncExitStack() as stack:
            b, c = await two_masters_of_one_epoch(tmp_path, stack, one, other)
            b.config.namesrv_addr = c.config.namesrv_addr = one.address
            b.config.ha_slave_hosts = "127.0.0.1"  # the operator names it: no name server lists the other one
            c.parts.master_monitor.note_refused("look")
            for broker, second_master in ((c, b), (b, c)):
                await until(lambda broker=broker: broker.parts.master_monitor.second_master_address)
                assert broker.parts.master_monitor.second_master_address == second_master.address, (
                    "also of the one that is not registered"
                )
            async with Admin(one.address) as admin:
                plan = await make_plan(admin, b.address)
                assert [second_master.address for second_master in plan.second_masters] == [c.address]
                result = await Promotion(admin.replication, SystemClock(), asyncio.sleep).run(plan, force=True)
            assert result.notes == () and result.master.epoch_history[-1].epoch == 3
            await changed(c, 1)
            await until(lambda: is_following(c) and c.parts.store.physical_max_offset == result.master.log_end)
            assert bodies(b) == bodies(c) == {b"all have this", b"of b"}
            assert (tmp_path / "c/divergent").is_dir(), "what only the other had is kept"

    asyncio.run(scenario())


def test_of_two_masters_of_one_epoch_a_start_with_an_id_makes_a_slave(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as one, name_server() as other, AsyncExitStack() as stack:
            b, c = await two_masters_of_one_epoch(tmp_path, stack, one, other)
            await b.stop()
            for flags_id in ("1", "0"):
                again = make_broker(tmp_path / "b", other.address, brokerId=flags_id)
                with pytest.raises(UsageError, match="--id") as refused:
                    await again.start()
                await again.stop()
                free = "2" if flags_id == "1" else "1"
                assert c.address in str(refused.value) and f"--id {free}" in str(refused.value)
            slave = make_broker(tmp_path / "b", other.address, brokerId="2")
            await stack.enter_async_context(running(slave))
            await until(lambda: is_following(slave))
            await until(lambda: slave.parts.store.physical_max_offset == c.parts.store.physical_max_offset)
            assert bodies(slave) == {b"all have this", b"of c"}

    asyncio.run(scenario())


class FailingFiles(RealFiles):
    """``failing``: part of a path that can't be opened."""

    failing = ""

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        if self.failing and self.failing in path:
            raise OSError(5, "Input/output error", path)
        return super().open(path, create=create, size=size)


def test_a_change_that_fails_ends_the_broker_which_starts_in_its_old_role(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFiles()
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "b", namesrv.address, files=files, brokerId="1")
            await broker.start()
            files.failing = "role.json"
            change(broker, Role(0, begins_epoch=True))
            with pytest.raises(StoreError, match=r"role\.json"):
                await broker.wait_failed()
            await broker.stop()
            assert registered(namesrv) == {}
            files.failing = ""
            again = make_broker(tmp_path / "b", namesrv.address, brokerId="1")
            async with running(again):
                assert again.config.broker_id == 1

    asyncio.run(scenario())


@contextmanager
def taken_port() -> Iterator[int]:
    """Yield a port with a listener; the port before it is free."""
    while True:
        with socket.socket() as taken, socket.socket() as before:
            taken.bind(("127.0.0.1", 0))
            port: int = taken.getsockname()[1]
            try:
                before.bind(("127.0.0.1", port - 1))
            except OSError:
                continue
            before.close()
            taken.listen()
            yield port
            return


def test_a_port_for_slaves_that_is_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        with taken_port() as port:
            set_port = make_broker(tmp_path / "a", haListenPort=str(port))
            with pytest.raises(UsageError, match=f"haListenPort {port}"):
                await set_port.start()
            await set_port.stop()
            beside = make_broker(tmp_path / "a", listenPort=str(port - 1))
            async with running(beside):
                assert beside.config.ha_listen_port not in (0, port)

    asyncio.run(scenario())


def test_a_stop_in_the_middle_of_a_change_waits_for_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "b", namesrv.address, brokerId="1")
            await broker.start()
            change(broker, Role(0, begins_epoch=True))
            assert broker.switch is not None
            while not broker.switch.is_running:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            await broker.stop()
            assert not (tmp_path / "b/abort").exists() and registered(namesrv) == {}
            again = make_broker(tmp_path / "b", namesrv.address, brokerId="1")
            async with running(again):
                assert again.config.broker_id == 0, "the promotion holds with the old flags"

    asyncio.run(scenario())


def test_a_stop_waits_for_the_record_that_is_being_saved(tmp_path: Path) -> None:
    """After the stop the directory belongs to the next broker that starts."""

    async def scenario() -> None:
        broker = make_broker(tmp_path / "a", "")
        await broker.start()
        may_save, save = threading.Event(), broker._role_file.save

        def slow_save(record: RoleRecord) -> None:
            assert may_save.wait(10)
            save(record)

        broker._role_file.save = slow_save  # type: ignore[method-assign]
        assert broker.parts is not None
        broker.parts.replication.master_role.note("SYNC_MASTER")
        stopping = asyncio.create_task(broker.stop())
        await until(lambda: broker._is_stopping)
        may_save.set()
        await stopping
        saved = RoleFile(RealFiles(), broker.config.store_path_root_dir).load()
        assert saved is not None and saved.master_role == "SYNC_MASTER"

    asyncio.run(scenario())
