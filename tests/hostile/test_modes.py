"""What servers make on disk is their own user's alone, whatever the umask of the caller; what was open is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE, S_ISDIR
from typing import Any

import pytest

from pymq.cli import main as cli
from tests.cli.brokers import Brokers
from tests.hostile.harness import eventually

DIRECTORY_MODE, FILE_MODE = 0o700, 0o600
OPEN_DIRECTORY_MODE, OPEN_FILE_MODE = 0o755, 0o644


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    """Brokers whose processes inherit a umask that takes nothing away."""
    before = os.umask(0)
    try:
        with Brokers(tmp_path) as started:
            yield started
    finally:
        os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """Return the mode of a directory and of all below it, by the path from there ("." for itself)."""
    return {str(path.relative_to(root)): S_IMODE(path.lstat().st_mode) for path in (root, *root.rglob("*"))}


def open_to_others(root: Path) -> dict[str, str]:
    """Return what has another mode than its user's alone, with that mode."""
    found = {}
    for path in (root, *root.rglob("*")):
        try:
            status = path.lstat()
        except FileNotFoundError:  # a temporary file of a running broker, which has its name now
            continue
        if S_IMODE(status.st_mode) != (DIRECTORY_MODE if S_ISDIR(status.st_mode) else FILE_MODE):
            found[str(path.relative_to(root))] = oct(S_IMODE(status.st_mode))
    return found


def use(brokers: Brokers, topic: str) -> None:
    """Let the master make a topic, a message with a key, and a delayed one."""
    assert brokers.run("send", topic, "body", "--key", "k") == 0
    assert brokers.run("send", topic, "later", "--delay-level", "18") == 0


@pytest.mark.slow
def test_a_pair_of_brokers_makes_nothing_that_other_users_may_open(brokers: Brokers, capsys: Any) -> None:
    """In a directory that was open, what is new is closed, too; an operator may have opened the rest on purpose."""
    before = set(brokers.home.iterdir())
    brokers.start("first", "--id", "0")
    brokers.start("second", "--id", "1")
    use(brokers, "Mine")
    brokers.wait_for(capsys, first=0, second=1)
    stores = [brokers.directory(name) for name in ("first", "second")]
    eventually(lambda: (stores[1] / "config" / "topics.json").exists())  # saved by the slave some time after its copy
    assert [open_to_others(store) for store in stores] == [{}, {}]  # with locks and files of running brokers
    brokers.stop("first")
    brokers.stop("second")
    for store in stores:
        assert open_to_others(store) == {}
        kinds = {"commitlog", "consumequeue/Mine", "config", "config/topics.json", "lock"}
        assert kinds <= modes(store).keys(), store
    old = modes(stores[0])
    assert "checkpoint" in old and any(name.startswith("index/") for name in old)
    # A name server keeps nothing on disk: the other new files are the logs that this test gives to the brokers.
    assert {path.suffix for path in set(brokers.home.iterdir()) - before - set(stores)} == {".log"}

    for path in (stores[0], *stores[0].rglob("*")):
        path.chmod(OPEN_DIRECTORY_MODE if path.is_dir() else OPEN_FILE_MODE)
    brokers.start("first")
    use(brokers, "New")
    said = f"{stores[0]} has mode 755, so other users of this machine may read messages there"
    eventually(lambda: any(said in log.read_text() for log in brokers.home.glob("broker-*.log")))
    brokers.stop("first")
    now = modes(stores[0])
    new = [name for name in now if name not in old]
    assert "consumequeue/New" in new and {now[name] for name in new} == {DIRECTORY_MODE, FILE_MODE}
    assert {now[name] for name in (".", "commitlog", "consumequeue/Mine")} == {OPEN_DIRECTORY_MODE}
    assert now["commitlog/" + "0" * 20] == OPEN_FILE_MODE
    assert now["config/topics.json"] == FILE_MODE  # a table is written as a new file, which takes its name


def test_commands_make_keys_and_credentials_that_other_users_may_not_open(tmp_path: Path) -> None:
    """Certificates are for everyone, but the directories around them, which are new, are not."""
    before = os.umask(0)
    try:
        assert cli.run(["auth", "init", str(tmp_path / "new" / "auth")]) == 0
        assert cli.run(["auth", "cert", str(tmp_path / "new" / "tls"), "--name", "broker-a"]) == 0
    finally:
        os.umask(before)
    found = modes(tmp_path / "new")
    certificates = {name for name in found if name.endswith(".pem")}
    assert certificates == {"tls/ca.pem", "tls/broker-a.pem"}
    directories = {".", "auth", "tls"}
    assert {found[name] for name in directories} == {DIRECTORY_MODE}
    keys = found.keys() - certificates - directories
    assert keys == {"auth/administrator.yml", "auth/servers.yml", "tls/ca.key", "tls/broker-a.key"}
    assert {found[name] for name in keys} == {FILE_MODE}
