"""``pymq standalone --shards``: files and ports of the brokers, and real processes that fail over and end together."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from pymq.broker.raft.members import read_group
from pymq.cli import main as cli
from pymq.cli.standalone.command import REPLICAS_MAX, REPLICAS_MIN, SHARDS_MAX
from pymq.cli.standalone.shard_files import PORTS_APART, ShardBroker, config_text, known_ports, plan_brokers
from pymq.client import Admin
from pymq.config import load_broker_config
from pymq.errors import EXIT_USAGE, PymqError, UsageError
from pymq.operations.raft.groups import raft_group

DEADLINE_S = 60


def plan(directory: Path, shards: int = 2, replicas: int = 3, port: int = 10911, *taken: int) -> list[ShardBroker]:
    return plan_brokers(directory, shards, replicas, port, lambda one: one not in taken, random.Random(5))


def write(brokers: list[ShardBroker], **more: str) -> None:
    for broker in brokers:
        broker.config_path.write_text(config_text(broker, brokers, "127.0.0.1:9876", more))


def test_each_broker_has_a_file_that_a_broker_starts_with(tmp_path: Path) -> None:
    brokers = plan(tmp_path)
    write(brokers, fileReservedTime="12")
    assert [broker.name for broker in brokers][:4] == ["shard-a-n0", "shard-a-n1", "shard-a-n2", "shard-b-n0"]
    configs = [load_broker_config(str(broker.config_path)) for broker in brokers]
    assert len({config.store_path_root_dir for config in configs}) == 6
    groups = [read_group(config) for config in configs]
    assert {(group.name, group.peers_text) for group in groups} == {(g.name, g.peers_text) for g in groups[::3]}
    for broker, config, group in zip(brokers, configs, groups, strict=True):
        assert (group.own.address, config.listen_port) == (broker.address, broker.port)
        assert config.get("fileReservedTime") == 12


def test_ports_are_free_apart_and_stay(tmp_path: Path) -> None:
    brokers = plan(tmp_path, 2, 3, 10911, 10911, 10922)
    assert [broker.port for broker in brokers] == [10931, 10941, 10951, 10961, 10971, 10981]
    write(brokers)
    assert known_ports(tmp_path) == {broker.name: broker.port for broker in brokers}
    assert plan(tmp_path, 2, 3, 20000, 10931) == brokers, "taken ones are those of a broker that runs still"
    anywhere = sorted(broker.port for broker in plan(tmp_path / "other", 8, 9, 0))
    assert all(after - before >= PORTS_APART for before, after in pairwise(anywhere))


def test_a_directory_of_another_size_is_refused(tmp_path: Path) -> None:
    write(plan(tmp_path, 1, 3))
    with pytest.raises(UsageError, match="has shard-a-n0, shard-a-n1, shard-a-n2: give the numbers"):
        plan(tmp_path, 1, 2)
    with pytest.raises(UsageError, match="no free ports from 65530 on"):
        plan(tmp_path / "other", 1, 2, 65530)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--shards", 0), ("--shards", SHARDS_MAX + 1), ("--replicas", REPLICAS_MIN - 1), ("--replicas", REPLICAS_MAX + 1)],
)
def test_numbers_out_of_range_are_refused(option: str, value: int) -> None:
    assert cli.run(["standalone", option, str(value)]) == EXIT_USAGE


@pytest.mark.parametrize("arguments", [["--host", "0.0.0.0"], ["-c", "broker.conf"], ["--metrics-port", "5557"]])
def test_options_of_a_single_broker_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["standalone", "--shards", "1", *arguments]) == EXIT_USAGE
    assert "is for a single broker: with --shards, use --set KEY=VALUE" in capsys.readouterr().err


async def until_led(namesrv: str, besides: str) -> str:
    async with asyncio.timeout(DEADLINE_S), Admin(namesrv) as admin:
        while True:
            try:
                leading = (await raft_group(admin, "shard-a")).leading
            except PymqError:
                leading = None
            if leading is not None and leading.node != besides:
                return leading.node
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_a_leader_is_killed_and_all_ends_together(tmp_path: Path) -> None:
    words = ["standalone", "--shards", "1", "--dir", str(tmp_path), "--namesrv-port", "0", "--port", "0", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "pymq", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            ready = json.loads(process.stdout.readline())
            leader = next(broker for broker in ready["brokers"] if broker["role"] == "leader")
            assert len(ready["brokers"]) == 3
            os.kill(leader["pid"], signal.SIGKILL)
            assert asyncio.run(until_led(ready["namesrv"], leader["node"])) != leader["node"]
        finally:
            process.send_signal(signal.SIGTERM)
            text = process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 0
    again = f"shard-a-{leader['node']} ended with signal 9; start it again with: pymq broker -c {leader['config']}"
    assert again in text.splitlines()
    for broker in ready["brokers"]:
        with pytest.raises(ProcessLookupError):
            os.kill(broker["pid"], 0)


@pytest.mark.slow
def test_brokers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    words = ["standalone", "--shards", "1", "--dir", str(tmp_path), "--namesrv-port", "0", "--port", "0", "--json"]
    with subprocess.Popen([sys.executable, "-m", "pymq", *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        process.kill()
    pids = {broker["pid"] for broker in ready["brokers"]}
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        while pids := {pid for pid in pids if is_running(pid)}:
            assert time.monotonic() < deadline_s, f"still there: {pids}"
            time.sleep(0.05)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """True for a process that has not ended; one that has is left to whoever inherits it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
