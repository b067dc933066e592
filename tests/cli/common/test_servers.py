"""The server commands as processes: ready lines, flags, signals, and data that survives a stop."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.client import Credentials
from pymq.client.admin import Admin
from pymq.errors import EXIT_OK, EXIT_USAGE, RefusedError
from pymq.testing.standalone import StandaloneProcess
from tests.machine import NOWHERE
from tests.ports import free_port_block

ROOT = Path(__file__).parents[3]
STOP_TIMEOUT_S = 60.0
START_TIMEOUT_S = 90.0


@contextmanager
def process(*arguments: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run ``pymq ARGUMENTS`` with its own home directory and no name server; kill it at the end if it still runs."""
    with tempfile.NamedTemporaryFile(dir=home, prefix=f"{arguments[0]}-", suffix=".log", delete=False) as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "pymq", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "NAMESRV_ADDR": NOWHERE, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.wait()
        assert running.stdout is not None
        running.stdout.close()


def first_line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    readable, _, _ = select.select([running.stdout], [], [], START_TIMEOUT_S)
    assert readable, f"neither ready nor ended after {START_TIMEOUT_S} s: {running.args!r}"
    return running.stdout.readline()


def accept_until(server: socket.socket, expected: bytes) -> socket.socket:
    """Return the first connection that sends ``expected``. Others send something else and their peer closes them."""
    while True:
        connection, _ = server.accept()
        connection.settimeout(STOP_TIMEOUT_S)
        received = b""
        while data := connection.recv(1 << 16):
            received += data
            if expected in received:
                return connection
        connection.close()


def read_until(connection: socket.socket, expected: bytes) -> None:
    received = b""
    while expected not in received:
        data = connection.recv(1 << 16)
        assert data, f"closed before {expected!r} came"
        received += data


def accepts(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_standalone_prints_a_ready_line_and_stops_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    data = tmp_path / "data"
    with process(
        "standalone", "--dir", str(data), "--namesrv-port", "0", "--port", "0", "--json", home=tmp_path
    ) as running:
        ready = json.loads(first_line(running))
        assert ready["pid"] == running.pid
        assert ready["store"] == str(data)
        assert accepts(ready["namesrv"])
        assert accepts(ready["broker"])
        running.send_signal(how)
        assert running.wait(STOP_TIMEOUT_S) == EXIT_OK
    assert (data / "commitlog").is_dir()
    assert not (data / "abort").exists(), "a clean stop leaves no abort file"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_during_the_start_is_a_clean_stop_too(tmp_path: Path, how: signal.Signals) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(STOP_TIMEOUT_S)
        namesrv = f"127.0.0.1:{silent.getsockname()[1]}"
        with process("broker", "--port", "0", "--namesrv", namesrv, "--store", str(data), home=tmp_path) as running:
            # It has recovered, does not know yet of a second master, and waits for the answer to its registration.
            with accept_until(silent, b"TBW102") as connection:
                assert (data / "abort").exists()
                running.send_signal(how)
                read_until(connection, b'"code":104')  # and unregisters
            assert running.wait(STOP_TIMEOUT_S) == EXIT_OK
            assert first_line(running) == "", "it was never ready"
    assert not (data / "abort").exists(), "a clean stop leaves no abort file"


def test_standalone_output_for_people(tmp_path: Path) -> None:
    with process("standalone", "--namesrv-port", "0", "--port", "0", home=tmp_path) as running:
        line = first_line(running)
        assert line.startswith("ready: name server 127.0.0.1:")
        assert str(tmp_path / ".pymq" / "standalone") in line


def test_an_ephemeral_standalone_leaves_nothing(tmp_path: Path) -> None:
    with process("standalone", "--ephemeral", "--namesrv-port", "0", "--port", "0", "--json", home=tmp_path) as running:
        store = Path(json.loads(first_line(running))["store"])
        assert store.is_dir()
        running.send_signal(signal.SIGTERM)
        assert running.wait(STOP_TIMEOUT_S) == EXIT_OK
    assert not store.exists()


@pytest.mark.slow
def test_data_survives_a_stop_and_a_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    server = StandaloneProcess(data).start()
    assert cli.run(["send", "kept", "first", "--namesrv", server.namesrv]) == EXIT_OK
    assert server.stop() == EXIT_OK
    server = StandaloneProcess(data).start()
    assert cli.run(["send", "kept", "second", "--namesrv", server.namesrv]) == EXIT_OK
    assert server.kill() == -signal.SIGKILL
    with StandaloneProcess(data) as again:
        capsys.readouterr()
        assert cli.run(["tail", "kept", "-F", "-o", "raw", "--namesrv", again.namesrv]) == EXIT_OK
    assert capsys.readouterr().out == "first\nsecond\n"


def test_settings_reach_the_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with StandaloneProcess(settings={"autoCreateTopicEnable": "false"}) as server:
        assert cli.run(["send", "unmade", "x", "--namesrv", server.namesrv]) != EXIT_OK
    assert "unmade" in capsys.readouterr().err


def test_a_standalone_limits_disk_use_by_free_bytes_by_default() -> None:
    async def retention(server: StandaloneProcess) -> list[str]:
        async with Admin(namesrv=server.namesrv) as admin:
            config = await admin.brokers.config(server.broker)
        return [config["diskSpaceWarningLevelRatio"], config["diskFreeBytesMin"]]

    with StandaloneProcess() as server:
        assert asyncio.run(retention(server)) == ["0", "268435456"]
    with StandaloneProcess(settings={"diskSpaceWarningLevelRatio": "95"}) as server:
        assert asyncio.run(retention(server)) == ["95", "268435456"]


def test_namesrv_and_broker_as_two_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with process("namesrv", "--port", "0", "--json", home=tmp_path) as namesrv:
        address = json.loads(first_line(namesrv))["namesrv"]
        flags = ["--id", "0", "--name", "broker-x", "--cluster", "East", "--namesrv", address, "--port", "0"]
        with process("broker", *flags, "--json", home=tmp_path) as broker:
            ready = json.loads(first_line(broker))
            assert ready["namesrv"] == address
            assert ready["store"] == str(tmp_path / ".pymq" / "broker-x-0")
            assert cli.run(["topic", "create", "t", "-c", "East", "-o", "json", "--namesrv", address]) == EXIT_OK
            assert json.loads(capsys.readouterr().out)[0]["broker"] == "broker-x"
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(STOP_TIMEOUT_S) == EXIT_OK
        namesrv.send_signal(signal.SIGTERM)
        assert namesrv.wait(STOP_TIMEOUT_S) == EXIT_OK


def test_the_ready_line_of_a_broker_names_its_data_directory(tmp_path: Path) -> None:
    # Port and NAMESRV_ADDR differ from the plain command: servers of the machine may use the default ports.
    port = free_port_block()
    with process("broker", "--id", "0", "--port", f"{port}", home=tmp_path) as running:
        line = first_line(running)
    place = f"127.0.0.1:{port} and port {port - 2};"
    assert line.startswith(f"broker broker-a (id 0, cluster DefaultCluster) ready on {place}")
    assert f"name server {NOWHERE}" in line
    assert str(tmp_path / ".pymq" / "broker-a-0") in line


def test_flags_win_over_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"brokerName = from-file\nlistenPort=0\nstorePathRootDir={tmp_path / 'from-file'}\nnamesrvAddr=\n")
    with process(
        "broker", "-c", str(file), "--set", "brokerClusterName=FromSet", "--id", "0", home=tmp_path
    ) as running:
        line = first_line(running)
    assert line.startswith("broker from-file (id 0, cluster FromSet) ready on ")
    assert str(tmp_path / "from-file") in line


def test_a_port_in_use_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        assert cli.run(["namesrv", "--port", port]) == EXIT_USAGE
        assert cli.run(["broker", "--port", port, "--store", str(tmp_path / "s"), "--namesrv", ""]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count(f"127.0.0.1:{port} is in use") == 2


def test_a_failed_start_of_standalone_names_the_reason(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="whole number"):
        StandaloneProcess(settings={"maxBatchNums": "many"}).start()


def test_a_name_server_with_rocketmqs_keys_alone_keeps_users_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "root.yml"
    root.write_text("accessKey: root\nsecretKey: root-secret\n")
    root.chmod(0o600)
    keys = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": f"file:{root}"}
    arguments = ["namesrv", "--port", "0", "--json"]
    for key, value in keys.items():
        arguments += ["--set", f"{key}={value}"]
    users = tmp_path / ".pymq" / "namesrv-0" / "auth.json"

    async def names(address: str, secret: str) -> list[str]:
        async with Admin(address, credentials=Credentials("root", secret)) as admin:
            return await admin.topics.names()

    for _ in range(2):
        with process(*arguments, home=tmp_path) as server:
            address = json.loads(first_line(server))["namesrv"]
            assert asyncio.run(names(address, "root-secret")) == []
            with pytest.raises(RefusedError, match="check signature failed"):
                asyncio.run(names(address, "another-secret"))
        assert users.stat().st_mode & 0o777 == 0o600 and users.parent.stat().st_mode & 0o777 == 0o700
        root.write_text("accessKey: root\nsecretKey: another-secret\n")  # the user is there, and stays as it is


def test_a_name_server_that_checks_requests_and_has_no_user_says_how_to_make_one(tmp_path: Path) -> None:
    with process("namesrv", "--port", "0", "--set", "authenticationEnabled=true", home=tmp_path) as server:
        assert server.wait(STOP_TIMEOUT_S) == EXIT_USAGE
    said = "".join(path.read_text() for path in tmp_path.glob("namesrv-*.log"))
    assert "set initAuthenticationUser, which makes the" in said


def test_a_standalone_broker_and_its_name_server_take_accounts_of_an_acl_file(
    tmp_path: Path,
) -> None:
    acl = tmp_path / "plain_acl.yml"
    acl.write_text("accounts:\n- {accessKey: oldroot, secretKey: oldroot-secret, admin: true}\n")
    acl.chmod(0o600)
    keys = ("authenticationEnabled=true", "authorizationEnabled=true", "migrateAuthFromV1Enabled=true")
    arguments = ["standalone", "--dir", str(tmp_path / "data"), "--namesrv-port", "0", "--port", "0", "--json"]
    for pair in (*keys, f"plainAclFile={acl}"):
        arguments += ["--set", pair]

    async def names(address: str) -> list[str]:
        async with Admin(address, credentials=Credentials("oldroot", "oldroot-secret")) as admin:
            return await admin.topics.names()

    with process(*arguments, home=tmp_path) as server:
        assert "TBW102" in asyncio.run(names(json.loads(first_line(server))["namesrv"]))
