"""``pymq broker --workers`` with real processes: one command, several brokers, and what operators may not do."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.cli.broker import machine as machine_module
from pymq.client import Message, StoredMessage, TransactionState
from pymq.client.sync import Producer, PullConsumer, TransactionProducer
from pymq.config import load_broker_config
from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.workers_file import planned_layout, write_layout
from pymq.workers.restarts import ENDS_MAX
from tests.cli.broker.machines import TIMEOUT_S, Process, is_alive, machine_arguments, name_server, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with name_server() as address:
        yield address


class Committing:
    """A listener whose local transactions succeed."""

    def execute(self, message: Message, arg: Any) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come about"
        time.sleep(0.05)


def metrics_of(machine: Process) -> str:
    with urllib.request.urlopen(f"http://{machine.ready['metrics']}/metrics", timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())


def test_one_command_runs_several_brokers_that_start_again_and_end_with_it(namesrv: str, tmp_path: Path) -> None:
    name = ["--name", "one"]
    with running(*machine_arguments(tmp_path, namesrv, 2, *name, "--metrics-port", "0")) as machine:
        workers = machine.ready["workers"]
        assert [row["name"] for row in workers] == ["one-0", "one-1"] and machine.ready["machine"] == "one"
        assert {row["state"] for row in workers} == {"up"}
        text = metrics_of(machine)
        assert text.count("pymq_broker_serving{") == 2 and text.count("# TYPE pymq_broker_serving ") == 1
        with Producer("p", namesrv=namesrv) as producer:
            found = {producer.send(Message("spread", b"%d" % number)).queue.broker_name for number in range(32)}
            assert found == {"one-0", "one-1"}, "a topic lies on all workers"
            batch = [Message("batches", b"a"), Message("batches", b"b")]
            assert {producer.send_batch(batch).queue.broker_name for _ in range(8)} == found
            queued = [producer.enqueue(Message("queued", b"%d" % number)) for number in range(2000)]
            producer.flush()
            assert {one.result().queue.broker_name for one in queued} == found
        with TransactionProducer("tp", listener=Committing(), namesrv=namesrv) as producer:
            done = [producer.send_in_transaction(Message("transactions", b"t")) for _ in range(8)]
            assert {one.sent.queue.broker_name for one in done} == found
        os.kill(workers[0]["pid"], signal.SIGKILL)
        restarts = 'pymq_worker_restarts_total{cluster="DefaultCluster",node_type="machine",node_id="one-0"} 1'
        wait_until(lambda: restarts in metrics_of(machine))
        wait_until(lambda: metrics_of(machine).count("pymq_broker_serving{") == 2)
        host, _, port = workers[0]["broker"].rpartition(":")
        with socket.create_connection((host, int(port)), TIMEOUT_S):
            pass  # at the port that clients know, which was any free one
        assert is_alive(workers[1]["pid"]), "its neighbor goes on"
        machine.send(signal.SIGHUP)
        wait_until(lambda: "no worker was left down" in machine.log)
        assert machine.stop() == EXIT_OK
        assert not is_alive(workers[1]["pid"])
        assert "internal error" not in machine.log


def test_a_worker_that_ends_five_times_is_left_down_until_sighup(
    namesrv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", namesrv)

    def value(metric: str) -> str:
        found = [line for line in metrics_of(machine).splitlines() if line.startswith(metric) and "down-1" in line]
        return found[0].rpartition(" ")[2] if found else ""

    def pid() -> int:
        """Return the worker's process, by the name that it shows."""
        for path in Path("/proc").glob("[0-9]*/comm"):
            with suppress(OSError):
                if path.read_text() == "down-1\n":
                    return int(path.parent.name)
        return 0

    if not Path("/proc/self/comm").exists():
        pytest.skip("this system does not show the names of processes")
    with running(*machine_arguments(tmp_path, namesrv, 2, "--name", "down", "--metrics-port", "0")) as machine:
        for number in range(ENDS_MAX):
            wait_until(lambda: value("pymq_worker_up{") == "1")
            os.kill(pid(), signal.SIGKILL)
            wait_until(lambda n=number: value("pymq_worker_restarts_total{") == str(min(n + 1, ENDS_MAX - 1)))
        wait_until(lambda: value("pymq_worker_left_down{") == "1")
        assert value("pymq_worker_up{") == "0" and "is left down" in machine.log
        found = command(capsys, "doctor", "--check", "workers")["findings"]
        assert [one["text"] for one in found if one["subject"] == "down"] == [
            "worker 1 of 2 at 127.0.0.1 does not answer"
        ]
        machine.send(signal.SIGHUP)
        wait_until(lambda: value("pymq_worker_up{") == "1")
        assert "started again: down-1" in machine.log and value("pymq_worker_left_down{") == "0"
        assert machine.stop() == EXIT_OK


def test_workers_end_with_a_killed_machine_and_the_next_one_waits_for_them(namesrv: str, tmp_path: Path) -> None:
    arguments = machine_arguments(tmp_path, namesrv, 2, "--name", "killed")
    with running(*arguments) as machine:
        with running(*arguments) as other:
            assert other.wait() == EXIT_USAGE and "is in use by another process that runs its workers" in other.log
        machine.kill()
        with running(*arguments) as again:
            assert [row["state"] for row in again.ready["workers"]] == ["up", "up"]
            machine.wait()  # all that writes to its log has ended
            assert again.stop() == EXIT_OK


def test_a_broker_alone_becomes_worker_0_and_cannot_go_back_by_mistake(namesrv: str, tmp_path: Path) -> None:
    alone = ["broker", "--name", "grown", "--store", str(tmp_path), "--namesrv", namesrv, "--port", "0"]
    with running(*alone) as broker:
        with Producer("p", namesrv=namesrv) as producer:
            producer.send(Message("before", b"1"))
        assert broker.stop() == EXIT_OK
    with running(*machine_arguments(tmp_path, namesrv, 3, "--name", "grown")) as machine:
        assert [(row["name"], row["store"]) for row in machine.ready["workers"]] == [
            ("grown", str(tmp_path)),
            ("grown-1", str(tmp_path / "worker-1")),
            ("grown-2", str(tmp_path / "worker-2")),
        ]
        assert "new workers, with the topics, groups and users of grown: grown-1, grown-2" in machine.log
        with Producer("p", namesrv=namesrv) as producer:
            found = {producer.send(Message("before", b"2")).queue.broker_name for _ in range(24)}
            assert found == {"grown", "grown-1", "grown-2"}
        assert machine.stop() == EXIT_OK
    topics = json.loads((tmp_path / "worker-2" / "config" / "topics.json").read_text())["topicConfigTable"]
    assert "before" in topics and "grown" not in topics
    with running(*alone) as broker:
        assert broker.wait() == EXIT_FAILED
        assert "this directory belongs to 3 workers of grown" in broker.log and "give --workers 3" in broker.log
    with running(*machine_arguments(tmp_path, namesrv, 3, "--name", "other")) as machine:
        assert (
            machine.wait() == EXIT_USAGE and "that of the machine grown, not of other: give --name grown" in machine.log
        )


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run a command and return what it prints as JSON."""
    capsys.readouterr()
    code = cli.run([*arguments, "-o", "json"])
    captured = capsys.readouterr()
    assert code in (EXIT_OK, EXIT_FAILED), captured.err
    return json.loads(captured.out)


def test_a_machine_shrinks_once_its_last_worker_is_read_and_grows_again(namesrv: str, tmp_path: Path) -> None:
    name = ["--name", "shrunk", "--cluster", "s", "--set", "messageDelayLevel=3s"]
    with running(*machine_arguments(tmp_path, namesrv, 2, *name)) as machine:
        with Producer("p", namesrv=namesrv) as producer:
            sent = {producer.send(Message("T", b"%d" % number)).queue.broker_name for number in range(16)}
            assert sent == {"shrunk-0", "shrunk-1"}
        with PullConsumer("readers", namesrv=namesrv) as consumer:
            queues = consumer.queues("T")
            for queue in queues:
                consumer.pull(queue, 0)
                consumer.commit(queue, 0)
        assert machine.stop() == EXIT_OK
    with running(*machine_arguments(tmp_path, namesrv, 1, *name)) as machine:
        assert [row["state"] for row in machine.ready["workers"]] == ["up", "retiring"]
        assert "shrunk-1 take no new messages, and end once all is read that they have" in machine.log
        with Producer("p", namesrv=namesrv) as producer:
            assert {producer.send(Message("T", b"new")).queue.broker_name for _ in range(16)} == {"shrunk-0"}
        with PullConsumer("readers", namesrv=namesrv) as consumer:
            bodies = []
            for queue in queues:
                found = consumer.pull(queue, 0).messages()
                bodies += [one.body for one in found if one.body != b"new"]
                consumer.commit(queue, len(found))
            assert sorted(bodies) == sorted(b"%d" % number for number in range(16)), "nothing is lost"
        wait_until(lambda: "worker shrunk-1 is retired" in machine.log)
        assert not is_alive(machine.ready["workers"][1]["pid"]) and (tmp_path / "worker-1").is_dir()
        assert machine.stop() == EXIT_OK
    with running(*machine_arguments(tmp_path, namesrv, 1, *name)) as machine:
        assert [row["name"] for row in machine.ready["workers"]] == ["shrunk-0"]
        assert machine.stop() == EXIT_OK
    with running(*machine_arguments(tmp_path, namesrv, 2, *name)) as machine:
        assert [row["state"] for row in machine.ready["workers"]] == ["up", "up"]
        assert machine.stop() == EXIT_OK


def test_commands_take_a_machine_as_one_and_each_worker_alone(
    namesrv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", namesrv)
    arguments = machine_arguments(tmp_path, namesrv, 2, "--name", "whole", "--cluster", "w")
    with (
        running(*arguments, "--set", "firstWorkerKeepsName=true") as machine,
        running("broker", "--name", "other", "--cluster", "w", "--port", "0", "--store", str(tmp_path / "other")),
    ):
        listed = command(capsys, "cluster", "list", "-c", "w")
        assert [(row["broker"], row["machine"], row["worker"]) for row in listed] == [
            ("other", None, None),
            ("whole", "whole", 0),
            ("whole-1", "whole", 1),
        ]
        for name, found in [("whole", ["whole", "whole-1"]), ("whole-0", ["whole"]), ("whole-1", ["whole-1"])]:
            rows = command(capsys, "broker", "status", name)
            assert [row["broker"] for row in rows] == found, name
            changed = command(capsys, "config", "set", "fileReservedTime=9", "--broker", name, "--dry-run")
            assert [row["server"] for row in changed] == [f"{one}:0" for one in found], changed
        assert cli.run(["topic", "create", "on-machine", "-b", "whole"]) == EXIT_OK
        assert cli.run(["topic", "create", "on-both", "-c", "w"]) == EXIT_OK
        plan = command(capsys, "broker", "drain", "whole")
        assert plan["only_here"] == ["on-machine"], "its workers alone have it"
        assert cli.run(["broker", "drain", "whole", "--yes", "--no-wait"]) == EXIT_REFUSED
        drained = command(capsys, "broker", "drain", "whole", "--yes", "--no-wait", "--force")
        assert drained["applied"] and drained["writable"] == 0
        back = command(capsys, "broker", "undrain", "whole", "--yes")
        assert back["applied"] and back["writable"] == 2
        assert not command(capsys, "doctor", "--check", "workers")["findings"]
        os.kill(machine.ready["workers"][1]["pid"], signal.SIGSTOP)
        try:
            findings = command(capsys, "doctor", "--check", "workers", "--timeout", "1")["findings"]
            assert [one["text"] for one in findings] == ["worker 1 of 2 at 127.0.0.1 does not answer"]
        finally:
            os.kill(machine.ready["workers"][1]["pid"], signal.SIGCONT)
        assert machine.stop() == EXIT_OK


@pytest.mark.parametrize("count", ["0", "-1", "10000", "many"])
def test_a_wrong_number_of_workers_is_refused(count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["broker", f"--workers={count}", "--store", str(tmp_path)]) == EXIT_USAGE
    assert "write a whole number from 1 to 64, or auto" in capsys.readouterr().err


def test_ports_in_use_are_named_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["broker", "--workers", "2", "--store", str(tmp_path), "--port", str(port - 10)]
        assert cli.run(arguments) == EXIT_USAGE
        assert f"listenPort {port} of worker 1 can't be used on 127.0.0.1: " in capsys.readouterr().err
        assert cli.run([*arguments[:-1], "0", "--grpc-port", str(port)]) == EXIT_USAGE
        assert f"--grpc-port {port} can't be used on 127.0.0.1: " in capsys.readouterr().err


def test_tools_for_directories_name_those_of_the_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_layout(RealFiles(), str(tmp_path), planned_layout(None, "m", 2))
    assert cli.run(["store", "verify", str(tmp_path)]) == EXIT_NOT_FOUND
    assert f"belongs to several workers: name one of its directories, for example {tmp_path}/worker-0" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(("cores", "count"), [(1, 4), (3, 4), (8, 7)])
def test_auto_gives_no_workers_up(cores: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "_cores", lambda: list(range(cores)))
    config = load_broker_config(None, {"workers": "auto"})
    assert machine_module._count(config, planned_layout(None, "m", 4)) == count
    assert machine_module._count(config, None) == max(cores - 1, 1)
    assert machine_module._count(load_broker_config(None, {"workers": "2"}), planned_layout(None, "m", 4)) == 2
