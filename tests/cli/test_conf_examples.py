"""The examples in ``conf/``: every key is known, layouts fit together, units and containers run real commands."""

from __future__ import annotations

import asyncio
import configparser
import random
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pymq.broker.assembly.broker import Broker
from pymq.broker.raft.members import read_group
from pymq.cli.main import app
from pymq.client import Admin, Message, Producer
from pymq.clock import SystemClock
from pymq.config import BrokerConfig, NamesrvConfig, load_broker_config, load_namesrv_config
from pymq.config.environment import PREFIX, settings_in
from pymq.namesrv.server import NameServer
from pymq.operations.settings.file import check
from pymq.store.disk.fs import RealFiles

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
LAYOUTS = ["2m-noslave", "2m-2s-async", "2m-2s-sync"]
SETTINGS_FILES = sorted([*CONF.glob("*.conf"), *CONF.glob("*/*.properties")])
UNITS = sorted(CONF.glob("systemd/*.service"))
DEADLINE_S = 30


def name_of(path: Path) -> str:
    return path.relative_to(CONF).as_posix()


def parsed(command: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of ``pymq COMMAND`` as the command line parses them; it is not run."""
    words = shlex.split(command)
    root: Any = get_command(app)
    context = root.make_context("pymq", list(words), resilient_parsing=False)
    name, below, rest = root.resolve_command(context, words)
    return name, below.make_context(name, rest, parent=context).params


def load(name: str, parameters: Mapping[str, Any], env: Mapping[str, str]) -> BrokerConfig | NamesrvConfig:
    """Return the configuration that a server starts with: its ``--set`` pairs and its environment are known keys."""
    pairs = dict(pair.split("=", 1) for pair in parameters.get("settings") or ())
    if name == "namesrv":
        return load_namesrv_config(None, pairs, env=env)
    return load_broker_config(None, {**pairs, "brokerId": str(parameters["broker_id"] or 0)}, env=env)


@pytest.mark.parametrize("path", SETTINGS_FILES, ids=name_of)
def test_a_settings_file_has_no_mistake(path: Path) -> None:
    assert check(str(path)) == []


@pytest.mark.parametrize("path", SETTINGS_FILES, ids=name_of)
def test_the_lines_that_are_commented_out_have_no_mistake_either(path: Path, tmp_path: Path) -> None:
    text = re.sub(r"^#(?=\w+=.)", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (tmp_path / path.name).write_text(text)
    found = check(str(tmp_path / path.name))
    # Twice: a line for production beside the one for a try. The other note is about open addresses.
    assert not [row for row in found if row["level"] == "error"], found
    assert "conf/" + name_of(path) in text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_runs_on_one_machine_as_it_stands(layout: str) -> None:
    ports, groups, directories = [], defaultdict(list), set()
    for path in sorted((CONF / layout).iterdir(), key=lambda path: path.stem):
        config = load_broker_config(str(path))
        ports += [config.listen_port, config.listen_port + 1, config.listen_port - 2]  # and the HA and the fast port
        groups[config.broker_name].append((config.broker_id, config.broker_role))
        directories.add(config.store_path_root_dir)
    master = "SYNC_MASTER" if layout == "2m-2s-sync" else "ASYNC_MASTER"
    group = [(0, master)] if layout == "2m-noslave" else [(0, master), (1, "SLAVE")]
    assert groups == {"broker-a": group, "broker-b": group}
    assert len(set(ports)) == len(ports) and len(directories) == len(group) * 2


@pytest.mark.parametrize("is_for_machines", [False, True])
def test_the_shards_are_groups_of_three_that_know_each_other(is_for_machines: bool, tmp_path: Path) -> None:
    groups, places, directories = defaultdict(list), set(), set()
    for path in sorted((CONF / "2-shards-raft").iterdir()):
        text = path.read_text(encoding="utf-8")
        if is_for_machines:
            text = re.sub(r"^#(?=(dLegerPeers|brokerIP1|listenPort|storePathRootDir)=)", "", text, flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
        config = load_broker_config(str(tmp_path / path.name))
        group = read_group(config)
        assert group.own.address == f"{config.broker_ip1}:{config.listen_port}"
        assert path.stem == f"{config.broker_name}-{group.self_id}"
        groups[config.broker_name].append((group.self_id, group.peers_text))
        places |= {(config.broker_ip1, config.listen_port + more) for more in (-2, 0, 1)}
        directories.add((config.broker_ip1, config.store_path_root_dir))
    assert sorted(groups) == ["shard-a", "shard-b"] and len(places) == 18 and len(directories) == 6
    for members in groups.values():
        assert [node for node, _ in members] == ["n0", "n1", "n2"] and len({peers for _, peers in members}) == 1


@pytest.mark.parametrize("path", UNITS, ids=name_of)
def test_a_unit_runs_a_command_that_exists(path: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path)
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    program, _, command = service["ExecStart"].partition(" ")
    assert program == "/opt/pymq/bin/pymq"
    name, parameters = parsed(command)
    assert service["ProtectSystem"] == "strict"
    if name == "console":  # it has no file, and writes none
        return
    load(name, parameters, {})
    # What may be written is the state directory; the first comment installs the file that the command reads.
    assert f"/var/lib/{service['StateDirectory']}/" in command
    assert parameters["config_file"].replace("%i", "broker-a") in path.read_text(encoding="utf-8")
    assert name in path.name


def test_the_containers_run_commands_that_exist_with_variables_of_keys() -> None:
    yaml: Any = pytest.importorskip("yaml")
    compose = yaml.safe_load((CONF / "compose.yaml").read_text(encoding="utf-8"))
    configs = {}
    for service, about in compose["services"].items():
        name, parameters = parsed(about["command"])
        if name == "console":  # it keeps nothing
            continue
        env = about.get("environment", {})
        kind = NamesrvConfig if name == "namesrv" else BrokerConfig
        own = {variable for variable in env if variable.startswith(PREFIX)}
        assert len(settings_in(env, kind.settings())) == len(own)
        # The names of the other containers exist in their network alone.
        configs[service] = load(name, parameters, {**env, "PYMQ_BROKER_IP1": "192.0.2.1"} if own else env)
        if "healthcheck" in about:
            test = about["healthcheck"]["test"]
            assert test[:2] == ["CMD", "pymq"]
            parsed(shlex.join(test[2:]))
        (volume,) = about["volumes"]
        assert volume == f"{service}:/data" and service in compose["volumes"]
    assert [type(config) for config in configs.values()] == [NamesrvConfig, BrokerConfig, BrokerConfig]
    for line in re.findall(r"exec \S+ pymq (.*)", (CONF / "compose.yaml").read_text(encoding="utf-8")):
        parsed(line)


def test_a_group_of_the_synchronous_layout_confirms_a_message(tmp_path: Path) -> None:
    small = {"mappedFileSizeCommitLog": "1MB", "maxHashSlotNum": "1000", "maxIndexNum": "4000", "listenPort": "0"}

    async def scenario() -> None:
        namesrv = NameServer(clock=SystemClock())
        await namesrv.start(port=0)
        brokers = []
        for name in ("broker-a", "broker-a-s"):
            keys = {**small, "storePathRootDir": str(tmp_path / name), "namesrvAddr": namesrv.address}
            config = load_broker_config(str(CONF / "2m-2s-sync" / f"{name}.properties"), keys)
            brokers.append(Broker(config, clock=SystemClock(), files=RealFiles(), rng=random.Random(name)))
        try:
            addresses = [await broker.start() for broker in brokers]
            async with Admin(namesrv.address) as admin, asyncio.timeout(DEADLINE_S):
                while (await admin.replication.status(addresses[0])).in_sync_slaves < 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            async with Producer("P", namesrv=namesrv.address) as producer:
                await producer.send(Message("T", b"x"))
            master, slave = (broker.parts.store.physical_max_offset for broker in brokers if broker.parts)
            assert slave == master > 0
        finally:
            for broker in reversed(brokers):
                await broker.stop()
            await namesrv.stop()

    asyncio.run(scenario())
