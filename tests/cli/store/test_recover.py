"""``store recover`` rebuilds a master's directory from its slave after every kind of loss, with real processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.cli.store.broker_source import BrokerSource
from pymq.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from tests.cli.schemas import assert_documented
from tests.cli.test_slave_tables import Group, wait_for

pytestmark = pytest.mark.timeout(600)  # starts many processes, one after the other
MESSAGE_COUNT = 12_000
SEGMENT_BYTES = 1 << 20


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    with ExitStack() as stack:
        group = Group(tmp_path, stack)
        monkeypatch.setenv("NAMESRV_ADDR", group.namesrv)
        yield group


class Shell:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self._input = home / "stdin"

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Return the exit code and stdout, or stderr when the command failed."""
        self._capsys.readouterr()
        self._input.write_text(stdin)
        with self._input.open() as source, self._monkeypatch.context() as patched:
            patched.setattr("sys.stdin", source)
            code = cli.run(list(arguments))
        captured = self._capsys.readouterr()
        return code, captured.out or captured.err

    def json(self, *arguments: str) -> Any:
        code, out = self.run(*arguments, "-o", "json")
        assert code == EXIT_OK, out
        return json.loads(out)

    def bodies(self) -> list[int]:
        """Return all bodies of the topic."""
        code, out = self.run("tail", "orders", "-F", "--from", "start", "-o", "raw")
        assert code == EXIT_OK, out
        return sorted(map(int, out.split()))


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    return Shell(capsys, monkeypatch, tmp_path)


def has_caught_up(shell: Shell) -> bool:
    """Return True when both brokers are registered and the slave has caught up."""
    code, out = shell.run("cluster", "list", "-o", "json")
    records = json.loads(out) if code == EXIT_OK else []
    return len(records) == 2 and all(not one["problems"] for one in records) and records[1]["lag_bytes"] == 0


def segments(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def flip_bytes(path: Path) -> None:
    with path.open("r+b") as file:
        for at in range(1000, SEGMENT_BYTES, SEGMENT_BYTES // 5):
            file.seek(at)
            file.write(b"damage")


@pytest.mark.slow
def test_a_master_directory_is_rebuilt_after_any_loss(group: Group, shell: Shell) -> None:
    shell.run("topic", "create", "orders", "--wq", "4", "--rq", "4")
    shell.run("topic", "create", "gone", "--wq", "1", "--rq", "1")
    shell.run("send", "gone", "deleted with its topic")
    assert shell.run("topic", "delete", "gone", "--yes")[0] == EXIT_OK
    # A slave that connects later, with an empty log, would get the newest segment alone.
    wait_for("the slave follows", lambda: has_caught_up(shell))
    lines = "".join(f"{number}\n" for number in range(MESSAGE_COUNT))
    assert shell.run("send", "orders", "--batch", "50", stdin=lines)[0] == EXIT_OK
    wait_for("the slave has everything", lambda: has_caught_up(shell))
    _show(group, shell)
    root, source = group.home / "0", group.addresses[1]

    def lose_middle() -> None:
        segments(root)[1].unlink()

    def lose_all() -> None:
        shutil.rmtree(root)

    losses = [
        (lose_middle, True),
        (lambda: flip_bytes(segments(root)[0]), False),
        (lambda: shutil.rmtree(root / "consumequeue"), True),
        (lose_all, False),
    ]
    for lose, orderly in losses:
        group.master.terminate() if orderly else group.master.kill()
        group.master.wait()
        lose()
        code, text = shell.run("store", "recover", str(root), "--from", source)
        assert code == EXIT_OK, text
        compared = shell.json("store", "recover", str(root), "--from", source, "--verify-only")
        assert_documented("store recover", compared)
        assert "sound" in text and compared["sound"]
        group.master = group.start(0)
        wait_for("the slave follows again", lambda: has_caught_up(shell))
        assert shell.bodies() == list(range(MESSAGE_COUNT))
        # The slave may catch up with the log before it has asked for the tables.
        wait_for("the same tables", lambda: shell.run("check", "replica", "--full")[0] == EXIT_OK)
    shell.run("topic", "create", "gone", "--wq", "1", "--rq", "1")
    shell.run("send", "gone", "in the new one")
    assert shell.run("tail", "gone", "-F", "--from", "start", "-o", "raw")[1].split("\n")[0] == "in the new one"
    assert shell.run("send", "orders", str(MESSAGE_COUNT))[0] == EXIT_OK
    wait_for("a new message reaches the slave", lambda: has_caught_up(shell))


def _show(group: Group, shell: Shell) -> None:
    """Check what the replication commands show of a master and its slave."""
    first, second = shell.json("cluster", "list")
    assert (first["role"], first["in_sync_slaves"], first["connected_slaves"]) == ("ASYNC_MASTER", 1, 1)
    assert (second["role"], second["in_sync"], second["in_sync_slaves"]) == ("SLAVE", True, None)
    assert "1/1" in shell.run("cluster", "list")[1]
    assert first["log_end"] == second["log_end"] > 2 * SEGMENT_BYTES and second["lag_messages"] == 0
    master, slave = shell.json("broker", "status", "broker-a")
    assert (master["slaves"][0]["broker_id"], slave["ha_client"]["state"]) == (1, "following")
    assert master["epoch_history"] == slave["epoch_history"] != []
    code, text = shell.run("broker", "status", group.addresses[1])
    assert code == EXIT_OK and "following" in text and group.addresses[0] in text
    code, text = shell.run("broker", "status", "broker-a")
    assert code == EXIT_OK and "HAS UP TO" in text and "newest epochs" in text
    code, text = shell.run("cluster", "list")
    assert code == EXIT_OK and "IN SYNC" in text
    wait_for("the same tables", lambda: shell.run("check", "replica")[0] == EXIT_OK)
    (checked,) = shell.json("check", "replica", "--full")
    assert checked["ok"] and checked["compared_bytes"] == first["log_end"]
    code, text = shell.run("check", "replica", "broker-a")
    assert code == EXIT_OK and "COMPARED" in text


@pytest.mark.slow
def test_an_impossible_recovery_is_refused(group: Group, shell: Shell, tmp_path: Path) -> None:
    root = str(tmp_path / "0")
    assert shell.run("store", "recover", root, "--from", "127.0.0.1:1")[0] == EXIT_UNREACHABLE
    assert shell.run("store", "recover", root, "--from", "a:1;b:2")[0] == EXIT_USAGE
    assert shell.run("store", "recover", root, "--from", "a:1", "--verify-only", "--force")[0] == EXIT_USAGE
    shell.run("topic", "create", "orders")
    shell.run("send", "orders", "one")
    wait_for("the slave has it", lambda: has_caught_up(shell))
    code, text = shell.run("store", "recover", root, "--from", group.addresses[1])
    assert code == EXIT_FAILED and "locked" in text


@pytest.mark.slow
def test_bytes_are_read_ahead_and_arrive_unchanged(group: Group, shell: Shell) -> None:
    shell.run("topic", "create", "orders")
    shell.run("send", "orders", "--batch", "50", stdin="".join(f"{number}\n" for number in range(2000)))
    with BrokerSource(group.addresses[0]) as source:
        end = source.facts().log_end
        whole = b"".join(source.read(at, min(at + 10_000, end)) for at in range(0, end, 10_000))
        log = segments(group.home / "0")[0].read_bytes()
        assert whole == log[:end]
        assert source.read(50, 70) == log[50:70]
