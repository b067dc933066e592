"""``pymq config``: the servers it asks, what it shows, changes, takes back and refuses; files that it checks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.metadata.table_saver import TableSaver
from pymq.cli.common.servers import make_namesrv
from pymq.client.admin import Admin
from pymq.client.admin.brokers import BrokerAdmin
from pymq.clock import ManualClock
from pymq.config import NamesrvConfig
from pymq.errors import (
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    NotFoundError,
    PartialError,
    RefusedError,
    UnreachableError,
    UnsafeError,
)
from pymq.namesrv.server import NameServer
from pymq.operations.settings.changes import Wanted, change, diff, preview, show, what_goes
from pymq.operations.settings.servers import Found, Targets
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.bodies_admin import DeletionPlan
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.world import World
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented
from tests.cli.worlds import CLUSTER, WorldAdmin

GROUP = "broker-a"
SEGMENT_BYTES = 65_536


def group(*ids: int) -> tuple[WorldAdmin, list[World], list[str]]:
    """Return an admin client for a group of brokers with these ids, their worlds and their addresses."""
    admin = WorldAdmin()
    worlds = [World(brokerName=GROUP) for _ in ids]
    addresses = [admin.add(GROUP, broker_id, world) for broker_id, world in zip(ids, worlds, strict=True)]
    return admin, worlds, addresses


def run(admin: WorldAdmin, work: Any, targets: Targets, *arguments: Any, **options: Any) -> Any:
    return asyncio.run(work(admin, targets, *arguments, **options))


def named(*names: str, slaves: bool = False) -> Targets:
    return Targets(names, slaves=slaves)


def set_at(admin: WorldAdmin, target: Targets, **values: str) -> Found:
    found = run(admin, change, target, Wanted(values))
    assert isinstance(found, Found)
    return found


def test_every_broker_of_a_name_is_shown_with_origins() -> None:
    admin, worlds, addresses = group(0, 1)
    worlds[1].config.change_at_runtime({"inSyncReplicas": "5"})
    found = run(admin, show, named(GROUP, slaves=True), "insyncREPLICAS", changed=False).records
    assert {record["key"] for record in found} == {"enableAutoInSyncReplicas", "inSyncReplicas", "minInSyncReplicas"}
    rows = [record for record in found if record["key"] == "inSyncReplicas"]
    assert [(row["server"], row["address"], row["value"], row["origin"], row["changeable"]) for row in rows] == [
        ("broker-a:0", addresses[0], "2", "default", True),
        ("broker-a:1", addresses[1], "5", "runtime", True),
    ]
    (changed,) = run(admin, show, named(addresses[1]), "replicas", changed=True).records
    assert changed["key"] == "inSyncReplicas"


def test_a_broker_that_does_not_answer_makes_the_result_partial() -> None:
    admin, _, _ = group(0)
    admin.add("broker-b", 0, None)
    found = run(admin, show, Targets(), "maxTopics", changed=False)
    assert [record["server"] for record in found.records] == ["broker-a:0"]
    with pytest.raises(PartialError, match="broker-b:0"):
        found.raise_if_some_failed()


def test_a_name_and_a_cluster_change_masters_and_an_address_that_broker() -> None:
    admin, worlds, addresses = group(0, 1)
    (shown,) = set_at(admin, named(GROUP), inSyncReplicas="3").records
    assert (shown["address"], shown["key"], shown["before"], shown["value"], shown["is_kept"]) == (
        addresses[0], "inSyncReplicas", "2", "3", False,
    )  # fmt: skip
    assert [world.config.in_sync_replicas for world in worlds] == [3, 2]
    set_at(admin, named(addresses[1]), inSyncReplicas="4")
    assert [world.config.in_sync_replicas for world in worlds] == [3, 4]
    set_at(admin, named("broker-a:1"), inSyncReplicas="7")  # as the tables show it
    assert [world.config.in_sync_replicas for world in worlds] == [3, 7]
    set_at(admin, named(addresses[1]), inSyncReplicas="4")
    set_at(admin, Targets(clusters=(CLUSTER,)), inSyncReplicas="5")
    assert [world.config.in_sync_replicas for world in worlds] == [5, 4]
    set_at(admin, Targets(clusters=(CLUSTER,), slaves=True), inSyncReplicas="6")
    assert [world.config.in_sync_replicas for world in worlds] == [6, 6]


def test_an_ambiguous_or_unknown_name_changes_nothing() -> None:
    admin, worlds, _ = group(1, 2)
    for target, text in (
        (named(GROUP), "no master of broker-a is registered"),
        (named("broker-x"), "no broker 'broker-x'"),
        (Targets(clusters=("west",)), "no cluster 'west'"),
    ):
        with pytest.raises(NotFoundError, match=text):
            set_at(admin, target, inSyncReplicas="3")
    assert [world.config.in_sync_replicas for world in worlds] == [2, 2]


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        ("listenPort", UnsafeError, "broker-a:0: listenPort can't be changed at run time, because"),
        ("maxMesageSize", NotFoundError, "did you mean maxMessageSize"),
    ],
)
def test_all_servers_are_asked_before_one_is_changed(key: str, kind: type[Exception], text: str) -> None:
    admin, (world,), _ = group(0)
    with pytest.raises(kind, match=text):
        set_at(admin, named(GROUP), inSyncReplicas="3", **{key: "1"})
    assert world.config.in_sync_replicas == 2
    admin.add("broker-b", 0, None)
    with pytest.raises(UnreachableError):
        set_at(admin, named(GROUP, "broker-b"), inSyncReplicas="3")
    assert world.config.in_sync_replicas == 2


def test_a_server_that_refuses_after_another_changed_makes_the_result_partial() -> None:
    admin, (world,), _ = group(0)
    world.config.change_at_runtime({"inSyncReplicas": "4", "minInSyncReplicas": "4"})
    other = World(brokerName="broker-b")
    admin.add("broker-b", 0, other)
    found = set_at(admin, named("broker-b", GROUP), inSyncReplicas="3")
    assert other.config.in_sync_replicas == 3 and world.config.in_sync_replicas == 4
    with pytest.raises(PartialError, match=r"done at broker-b:0, but not at broker-a:0: .*minInSyncReplicas=4"):
        found.raise_if_some_failed()


def test_an_expected_value_is_compared_as_a_value() -> None:
    admin, (world,), _ = group(0)
    with pytest.raises(UnsafeError, match="maxMessageSize is '4194304', not '5MB': nothing is changed"):
        run(admin, change, named(GROUP), Wanted({"maxMessageSize": "1MB"}, only_if="5MB"))
    run(admin, change, named(GROUP), Wanted({"maxMessageSize": "1MB"}, only_if="4MB"))
    assert world.config.max_message_size_bytes == 1024 * 1024


def test_a_change_between_reading_and_writing_is_not_overwritten() -> None:
    admin, (world,), (address,) = group(0)
    read = admin.settings.read

    async def read_then_change(*arguments: Any, **options: Any) -> Any:
        found = await read(*arguments, **options)
        await admin.brokers.update_config(address, {"inSyncReplicas": "9"})
        return found

    admin.settings.read = read_then_change  # type: ignore[method-assign]
    found = set_at(admin, named(GROUP), inSyncReplicas="3")
    with pytest.raises(RefusedError, match="changed by another request since they were read"):
        found.raise_if_some_failed()
    assert world.config.in_sync_replicas == 9


def test_a_preview_changes_nothing() -> None:
    admin, (world,), _ = group(0)
    (record,) = run(admin, preview, named(GROUP), Wanted({"inSyncReplicas": "3"}))
    assert (record["before"], record["value"]) == ("2", "3") and world.config.in_sync_replicas == 2


def test_a_change_is_taken_back() -> None:
    admin, (world,), _ = group(0)
    set_at(admin, named(GROUP), inSyncReplicas="3")
    (record,) = run(admin, change, named(GROUP), Wanted({}, forget=("inSyncReplicas",))).records
    assert (record["before"], record["value"]) == ("3", "2")
    assert world.config.origin("inSyncReplicas") == "default"


def test_a_kept_change_is_saved_before_it_takes_effect() -> None:
    admin, (world,), _ = group(0)
    world.files.makedirs("/data/config")
    table = JsonTable(world.files, "/data/config/runtimeSettings.json")
    world.parts.runtime_settings._keeper = TableSaver(table)
    (record,) = run(admin, change, named(GROUP), Wanted({"maxTopics": "50"}, is_kept=True)).records
    assert record["is_kept"] and world.config.origin("maxTopics") == "kept"
    assert table.load() == {"settings": {"maxTopics": "50"}}


def test_what_differs() -> None:
    admin, worlds, addresses = group(0, 1)
    worlds[0].config.change_at_runtime({"maxTopics": "50"})
    found = run(admin, diff, named(GROUP, slaves=True), "").records
    assert [(row["key"], row["server"], row["origin"], row["value"]) for row in found] == [
        ("maxTopics", "broker-a:0", "runtime", "50"),
        ("maxTopics", "broker-a:1", "default", "10000"),
    ]
    worlds[1].config.broker_ip2 = "192.0.2.1"
    assert {row["key"] for row in run(admin, diff, named(GROUP, slaves=True), "").records} == {"maxTopics"}
    every = run(admin, diff, named(GROUP, slaves=True), "", everything=True).records
    assert {row["key"] for row in every} == {"maxTopics", "brokerIP2"}
    alone = {row["key"]: row for row in run(admin, diff, named(addresses[0]), "").records}
    assert (alone["maxTopics"]["value"], alone["maxTopics"]["other"]) == ("50", "10000")
    assert "storePathRootDir" in alone and "brokerIP1" not in alone


def test_a_server_is_compared_with_a_file(tmp_path: Path) -> None:
    admin, (world,), _ = group(0)
    world.config.change_at_runtime({"maxTopics": "50"})
    path = tmp_path / "broker.conf"
    path.write_text("maxTopics=50\nmaxGroups=60\n")
    found = {row["key"]: row for row in run(admin, diff, named(GROUP), str(path)).records}
    assert (found["maxGroups"]["value"], found["maxGroups"]["other"]) == ("10000", "60")
    assert "maxTopics" not in found and "mappedFileSizeCommitLog" in found


class TestApache:
    """A server that answers settings alone, and takes any key."""

    def setup_method(self) -> None:
        self.admin, _, (self.address,) = group(0)
        self.values = {"listenPort": "10911", "maxMessageSize": "4194304", "aclEnable": "false"}
        self.answer(RequestCode.GET_BROKER_CONFIG, self.read)
        self.answer(RequestCode.UPDATE_BROKER_CONFIG, self.update)
        self.takes = True

    def answer(self, code: int, work: Any) -> None:
        self.admin.connection.answers[(self.address, code)] = work

    def read(self, request: Command) -> Command:
        version = '{"counter":1,"stateVersion":0,"timestamp":1}'
        return Command(0, ext={"version": version}, body="".join(f"{k}={v}\n" for k, v in self.values.items()).encode())

    def update(self, request: Command) -> Command:
        if self.takes:
            self.values |= dict(line.split("=") for line in request.body.decode().splitlines())
        return Command(0)

    def test_it_has_no_origins_and_keeps_every_change(self) -> None:
        found = run(self.admin, show, named(GROUP), "", changed=True).records
        assert [(row["key"], row["origin"], row["changeable"]) for row in found] == []
        found = set_at(self.admin, named(GROUP), aclEnable="true")
        assert found.records[0]["is_kept"] and "writes each change into its file" in found.notes[0]
        assert self.values["aclEnable"] == "true"

    def test_what_it_silently_ignores_is_an_error(self) -> None:
        with pytest.raises(NotFoundError, match="did you mean maxMessageSize"):
            set_at(self.admin, named(GROUP), maxMesageSize="1")
        self.takes = False
        with pytest.raises(UnsafeError, match="answered with success, but aclEnable is 'false' and not 'true'"):
            set_at(self.admin, named(GROUP), aclEnable="true").raise_if_some_failed()

    def test_it_can_take_nothing_back(self) -> None:
        with pytest.raises(UnsafeError, match="knows no value before a change"):
            run(self.admin, change, named(GROUP), Wanted({}, forget=("aclEnable",)))

    def test_only_what_a_file_says_is_compared(self, tmp_path: Path) -> None:
        path = tmp_path / "broker.conf"
        path.write_text("maxMessageSize=1MB\n")
        (row,) = run(self.admin, diff, named(GROUP), str(path)).records
        assert (row["key"], row["value"], row["other"]) == ("maxMessageSize", "4194304", "1048576")


def test_against_a_server(pymq: Pymq) -> None:
    (broker,) = pymq("cluster", "list", "--json").json()
    name = broker["broker"]
    done = pymq("config", "set", "slaveTimeout=3001", "-b", name, "--json")
    assert done.code == EXIT_OK and [(record["before"], record["value"]) for record in done.json()] == [
        ("3000", "3001")
    ]
    shown = pymq("config", "show", "slaveTimeout", "--origin", "-b", broker["address"])
    assert shown.out.splitlines()[1].split() == ["slaveTimeout", "run", "time", "yes", "3001"]
    assert "command line" in pymq("config", "show", "storePathRootDir", "--origin").out
    assert pymq("config", "unset", "slaveTimeout", "-b", name).out.split()[-2:] == ["3001", "3000"]
    refused = pymq("config", "set", "nonsense=1", "-b", name)
    assert refused.code == 3 and "nonsense" in refused.err
    refused = pymq("config", "set", "listenPort=1", "-b", name)
    assert refused.code == EXIT_REFUSED and "only the start" not in refused.err
    assert pymq("config", "set", "slaveTimeout", "-b", name).code == EXIT_USAGE
    unnamed = pymq("config", "set", "slaveTimeout=1")
    assert unnamed.code == EXIT_USAGE and "no server is named" in unnamed.err
    nothing = pymq("config", "show", "zzz")
    assert nothing.code == EXIT_OK and "no key contains 'zzz'" in nothing.err
    away = pymq("config", "show", "-b", "127.0.0.1:1")
    assert away.code == EXIT_UNREACHABLE and away.err.count("\n") == 1 and not away.out
    both = pymq("config", "show", "--namesrv-server", "-b", name)
    assert both.code == EXIT_USAGE and "exclude each other" in both.err
    two = pymq("config", "set", "a=1", "b=2", "--if", "1", "-b", name)
    assert two.code == EXIT_USAGE and "--if is about one setting" in two.err
    dry = pymq("config", "set", "slaveTimeout=5", "-b", name, "--dry-run")
    assert dry.code == EXIT_OK and "nothing is changed" in dry.err


def test_of_several_administrators_at_once_one_changes_the_setting(server: StandaloneProcess) -> None:
    async def scenario() -> list[Any]:
        async with Admin(server.namesrv) as admin:
            seen = await admin.settings.read(server.broker)
            tries = [admin.settings.change(server.broker, {"maxTopics": str(5000 + n)}, seen=seen) for n in range(5)]
            done = await asyncio.gather(*tries, return_exceptions=True)
            await admin.settings.change(server.broker, {}, forget=["maxTopics"])
            return done

    done = asyncio.run(scenario())
    assert done.count(None) == 1 and sum(isinstance(each, RefusedError) for each in done) == 4


def test_a_name_servers_settings(pymq: Pymq) -> None:
    done = pymq("config", "set", "maxKvEntries=9", "--namesrv-server", "--json").json()
    assert [(record["key"], record["before"], record["value"]) for record in done] == [("maxKvEntries", "10000", "9")]
    refused = pymq("config", "set", "maxKvEntries=8", "--namesrv-server", "--persist")
    assert refused.code == EXIT_REFUSED and "runtimeSettingsPath=FILE" in refused.err
    assert "run time" in pymq("config", "show", "maxKv", "--origin", "--namesrv-server").out
    assert pymq("config", "unset", "maxKvEntries", "--namesrv-server").code == EXIT_OK
    assert not [
        row for row in pymq("config", "diff", "--namesrv-server", "--json").json() if row["key"] == "maxKvEntries"
    ]


def test_a_name_server_keeps_settings_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "made" / "settings.json"

    def start(work: Any) -> None:
        async def scenario() -> None:
            server = make_namesrv(NamesrvConfig(listen_port=0, runtime_settings_path=str(path)))
            await server.start()
            try:
                async with Admin(server.address) as admin:
                    await work(server, admin)
            finally:
                await server.stop()

        asyncio.run(scenario())

    async def keep(server: NameServer, admin: Admin) -> None:
        await admin.settings.change(server.address, {"maxKvEntries": "9"}, is_kept=True, is_namesrv=True)
        path.parent.joinpath("settings.json.tmp").mkdir()  # from now on no file can be written
        with pytest.raises(RefusedError, match="can't be saved"):
            await admin.settings.change(server.address, {"maxKvEntries": "8"}, is_kept=True, is_namesrv=True)
        assert server.config.kv_count_max == 9

    async def look(server: NameServer, admin: Admin) -> None:
        read = await admin.settings.read(server.address, is_namesrv=True)
        assert (read.values["maxKvEntries"], read.origin("maxKvEntries")) == ("9", "kept")

    start(keep)
    start(look)


def test_a_change_that_deletes_segments_says_which() -> None:
    admin = WorldAdmin()
    clock = ManualClock()
    world = World(MemoryFiles(now_ms=clock.now_ms), clock, brokerName=GROUP, mappedFileSizeCommitLog=SEGMENT_BYTES)
    address = admin.add(GROUP, 0, world)
    while len(world.parts.store._log.segments) < 7:
        world.put("T", bytes(6000))
    world.parts.store._housekeeping.write()

    def asked(**changes: str) -> str:
        return str(run(admin, what_goes, named(GROUP), Wanted(changes)))

    assert asked(commitLogBytesMax=str(3 * SEGMENT_BYTES)) == (
        f"{address} would delete 4 of 7 segments (256.0 KB, commitLogBytesMax) from the next minute on; "
        "without the change 0"
    )
    assert asked(commitLogBytesMax=str(7 * SEGMENT_BYTES)) == "" and asked(fileReservedTime="71") == ""
    with pytest.raises(RefusedError, match="the least is"):
        asked(commitLogBytesMax="1")
    world.config._started["commitLogBytesMax"] = 3 * SEGMENT_BYTES, "file"  # what a change at run time has raised
    back = str(run(admin, what_goes, named(GROUP), Wanted({}, forget=("commitLogBytesMax",))))
    assert "would delete 4 of 7 segments" in back


def test_a_change_that_deletes_segments_needs_a_yes(pymq: Pymq, monkeypatch: pytest.MonkeyPatch) -> None:
    (broker,) = pymq("cluster", "list", "--json").json()
    name = broker["broker"]
    assert pymq("config", "set", "fileReservedTime=71", "-b", name).code == EXIT_OK  # it deletes nothing

    async def four(*_: object) -> DeletionPlan:
        return DeletionPlan(segments=7, doomed_now=0, doomed_then=4, doomed_bytes=1024, reasons=["fileReservedTime"])

    async def unknown(*_: object) -> None:
        return None

    for plan, text in ((four, "would delete 4 of 7 segments"), (unknown, "can't say what it would delete")):
        monkeypatch.setattr(BrokerAdmin, "plan_config", plan)
        refused = pymq("config", "set", "fileReservedTime=70", "-b", name)
        assert refused.code == EXIT_USAGE and text in refused.err and "give --yes" in refused.err
        shown = pymq("config", "show", "fileReservedTime", "-b", name).out.split()
        assert shown[-1] == "71"
    assert pymq("config", "set", "fileReservedTime=72", "--yes", "-b", name).code == EXIT_OK


class TestCheck:
    def test_mistakes_are_listed_with_their_lines(self, pymq: Pymq, tmp_path: Path) -> None:
        path = tmp_path / "broker.conf"
        path.write_text(
            "# a comment\nbrokerName=a\nmaxMesageSize=1\n\nsendMessageThreadPoolNums=16\nlistenPort=x\nbrokerName=b\n"
        )
        done = pymq("config", "check", str(path), "--json")
        assert done.code == EXIT_USAGE
        assert_documented("config check", done.json())
        assert [(row["line"], row["level"], row["key"]) for row in done.json()] == [
            (3, "error", "maxMesageSize"),
            (5, "note", "sendMessageThreadPoolNums"),
            (6, "error", "listenPort"),
            (7, "note", "brokerName"),
        ]
        assert "did you mean maxMessageSize?" in pymq("config", "check", str(path)).out

    def test_values_that_conflict_are_an_error(self, pymq: Pymq, tmp_path: Path) -> None:
        path = tmp_path / "broker.conf"
        path.write_text("minInSyncReplicas=3\n")
        done = pymq("config", "check", str(path))
        assert done.code == EXIT_USAGE and "minInSyncReplicas=3 is more than inSyncReplicas=2" in done.out

    def test_the_keys_say_whose_file_it_is(self, pymq: Pymq, tmp_path: Path) -> None:
        path = tmp_path / "x.conf"
        path.write_text("scanNotActiveBrokerInterval=2000\nlistenPort=9876\n")
        done = pymq("config", "check", str(path))
        assert done.code == EXIT_OK and done.err == "1 file without a mistake\n"
        assert pymq("config", "check", str(path), "--role", "broker").code == EXIT_USAGE
        assert pymq("config", "check", str(path), "--role", "x").code == EXIT_USAGE
        missing = pymq("config", "check", str(tmp_path / "none"))
        assert missing.code == EXIT_USAGE and "none" in missing.err
