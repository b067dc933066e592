"""mqadmin's view of a PyMQ master and its slaves, and PyMQ's replication commands on a RocketMQ cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.interop.support import probe
from tests.interop.support.mqadmin import MqAdmin
from tests.interop.support.replicas import (
    CLUSTER,
    REPOSITORY,
    ApacheMember,
    Member,
    NameServer,
    PymqMember,
    assert_same_log,
)
from tests.interop.support.second_runs import SecondRuns
from tests.interop.test_metadata_apache import table, wait_for
from tests.interop.test_replication_apache import TOPIC, send

REGISTERED_TIMEOUT_S = 120
COMMAND_TIMEOUT_S = 120
COPIED_TIMEOUT_S = 180  # once a minute


def start(
    kinds: list[type[Member]], tmp_path: Path, namesrv: NameServer, members: list[Member], message_count: int = 200
) -> list[Member]:
    """Start a master and slaves of these kinds, with the same log."""
    made = [kind(tmp_path / str(number), namesrv, number, None) for number, kind in enumerate(kinds)]
    members += reversed(made)
    made[0].start()
    probe.create_topic(namesrv.address, made[0].broker, TOPIC)
    for slave in made[1:]:
        slave.start()
    send(made[0], "message", message_count)
    for slave in made[1:]:
        assert_same_log(made[0], slave)
    return made


def pymq(namesrv: NameServer, *arguments: str) -> tuple[int, str]:
    """Run a command and return its exit code and stdout."""
    environment = {**os.environ, "NAMESRV_ADDR": namesrv.address, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "pymq", *arguments]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    return ended.returncode, ended.stdout or ended.stderr


def listed(namesrv: NameServer) -> list[dict[str, Any]]:
    code, out = pymq(namesrv, "cluster", "list", "-o", "json")
    assert code in (0, 6), out  # 6: one of them does not answer yet
    found: list[dict[str, Any]] = json.loads(out)
    return found


def is_slave(row: list[str]) -> bool:
    return bool(row) and row[0].startswith("127.0.0.1:")


def test_mqadmin_shows_a_pymq_master_and_its_slaves(
    tmp_path: Path, namesrv: NameServer, members: list[Member], second_runs: SecondRuns
) -> None:
    master, pymq_slave, apache_slave = start([PymqMember, PymqMember, ApacheMember], tmp_path, namesrv, members)
    (tmp_path / "mqadmin").mkdir()
    admin = MqAdmin(namesrv.address, tmp_path / "mqadmin", second_runs)
    try:
        admin.run("clusterList")
        end = str(master.log_end())

        def has_caught_up() -> bool:
            """Return True when the master knows both slaves' offsets, which they report a little later."""
            rows = [line.split() for line in admin.run("haStatus", "-b", master.broker).splitlines()]
            return [(row[1], row[2], row[4]) for row in rows if is_slave(row)] == [(end, "0", "OK")] * 2

        probe.wait_until("both slaves to catch up", has_caught_up)
        shown = admin.run("haStatus", "-b", master.broker)
        assert f"#MasterCommitLogMaxOffset\t{end}" in shown
        assert "#SlaveNum\t2" in shown and "#InSyncSlaveNum\t2" in shown
        for slave in (pymq_slave, apache_slave):
            shown = admin.run("haStatus", "-b", slave.broker)
            assert f"#MasterAddr\t127.0.0.1:{master.port + 1}" in shown
            assert f"#CommitLogMaxOffset\t{master.log_end()}" in shown
        assert "#SlaveNum\t2" in admin.run("haStatus", "-c", CLUSTER)
        ids = [line.split()[2] for line in admin.run("clusterList").splitlines() if line.startswith(CLUSTER)]
        assert sorted(ids) == ["0", "1", "2"]
    finally:
        admin.close()


def test_pymq_shows_a_rocketmq_master_and_its_slaves(
    tmp_path: Path, namesrv: NameServer, members: list[Member]
) -> None:
    master, pymq_slave, apache_slave = start([ApacheMember, PymqMember, ApacheMember], tmp_path, namesrv, members)
    end = master.log_end()

    def all_caught_up() -> bool:
        return [(one["role"], one["log_end"]) for one in listed(namesrv)] == [
            ("ASYNC_MASTER", end),
            ("SLAVE", end),
            ("SLAVE", end),
        ]

    probe.wait_until("three brokers with one log", all_caught_up, timeout_s=REGISTERED_TIMEOUT_S)
    first, second, third = listed(namesrv)
    assert (first["in_sync_slaves"], first["connected_slaves"]) == (2, 2) and first["address"] == master.broker
    assert (second["lag_bytes"], third["lag_bytes"]) == (0, 0)

    code, out = pymq(namesrv, "broker", "status", "broker-a", "-o", "json")
    assert code == 0, out
    by_id = {one["broker_id"]: one for one in json.loads(out)}
    assert len(by_id[0]["slaves"]) == 2 and all(one["in_sync"] for one in by_id[0]["slaves"])
    assert by_id[1]["ha_client"]["state"] == "following" and by_id[2]["ha_client"]["state"] == "connected"
    assert by_id[2]["ha_client"]["ha_address"].endswith(f":{master.port + 1}") and by_id[2]["message_count"] is None
    code, out = pymq(namesrv, "broker", "status", apache_slave.broker)
    assert code == 0 and "connected" in out, out

    # RocketMQ's slaves copy topics, then groups, once a minute.
    wait_for("the topic", apache_slave, lambda: TOPIC in table(apache_slave, "topics.json").get("topicConfigTable", {}))

    def is_checked() -> bool:
        code, out = pymq(namesrv, "check", "replica", "-o", "json")
        records = json.loads(out)
        return code == 0 and all("no digests" in record["notes"][0] for record in records)

    probe.wait_until("tables of the same versions", is_checked, timeout_s=COPIED_TIMEOUT_S)
    code, out = pymq(namesrv, "store", "recover", str(tmp_path / "new"), "--from", master.broker)
    assert code == 2 and "RocketMQ broker" in out

    # The PyMQ slave is the source for rebuilding a directory.
    pymq_slave_address = pymq_slave.broker
    code, out = pymq(namesrv, "store", "recover", str(tmp_path / "new"), "--from", pymq_slave_address)
    assert code == 0 and "sound" in out, out
    rebuilt = sorted((tmp_path / "new" / "commitlog").iterdir())
    assert {int(path.name): path.read_bytes() for path in rebuilt} == pymq_slave.segments()
