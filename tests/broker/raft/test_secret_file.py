"""The file of a group's secret: its bytes, who makes it, how it is replaced, and that no text shows it."""

from __future__ import annotations

import concurrent.futures
import itertools
import random
from pathlib import Path

import pytest

from pymq.broker.raft.members import GroupSettings, parse_peers
from pymq.broker.raft.secret_file import (
    FILE_BYTES_MAX,
    FORMER,
    NEXT,
    SecretFile,
    Secrets,
    decode_secrets,
    encode_secrets,
    next_step,
    open_secret,
    secret_path,
    write_secrets,
)
from pymq.config import BrokerConfig
from pymq.errors import ConfigError
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.memory_fs import MemoryFiles

A, B = bytes(range(32)), bytes(range(32, 64))
LOCAL = GroupSettings("shard-a", "n0", parse_peers("n0-127.0.0.1:1;n1-localhost:2;n2-[::1]:3"))
AWAY = GroupSettings("shard-a", "n0", parse_peers("n0-127.0.0.1:1;n1-10.0.0.2:2;n2-127.0.0.1:3"))


@pytest.mark.parametrize("secrets", [Secrets(A), Secrets(A, B, NEXT), Secrets(A, B, FORMER)])
def test_secrets_come_back_from_their_file(secrets: Secrets) -> None:
    assert decode_secrets(encode_secrets(secrets), "f") == secrets
    assert secrets.accepted == ((A, B) if secrets.second else (A,))


def test_golden_bytes() -> None:
    assert encode_secrets(Secrets(A, B, NEXT)) == b"%s\n%s next\n" % (A.hex().encode(), B.hex().encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        A.hex().encode()[:-1],
        A.hex().encode() + b" next\n",
        A.hex().encode() + b"\n" + B.hex().encode() + b"\n",
        A.hex().encode() + b"\n" + B.hex().encode() + b" other\n",
        (A.hex().encode() + b"\n") + (B.hex().encode() + b" next\n") * 2,
        A.hex().encode() + b"\xff",
        b"\0" * 64,
    ],
)
def test_other_files_are_refused_without_a_word_of_them(raw: bytes) -> None:
    with pytest.raises(ConfigError, match="f is no file of a group's secret") as refused:
        decode_secrets(raw, "f")
    assert A.hex()[:8] not in str(refused.value) and B.hex()[:8] not in str(refused.value)


def test_a_file_has_a_limit() -> None:
    with pytest.raises(ConfigError, match="no file of a group's"):
        decode_secrets(b"\n" * FILE_BYTES_MAX, "f")
    with pytest.raises(ConfigError, match=rf"f has {FILE_BYTES_MAX + 1} bytes, a file of secrets has at most"):
        decode_secrets(b"\n" * (FILE_BYTES_MAX + 1), "f")


def test_a_secret_is_replaced_in_three_steps_of_which_each_accepts_the_one_before() -> None:
    steps = [Secrets(A)]
    for _ in range(3):
        steps.append(next_step(steps[-1], B))
    assert steps == [Secrets(A), Secrets(A, B, NEXT), Secrets(B, A, FORMER), Secrets(B)]
    for before, after in itertools.pairwise(steps):
        assert before.first in after.accepted and after.first in before.accepted


def test_members_on_loopback_share_a_file_that_one_of_them_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    def start(number: int) -> Secrets:
        return open_secret(RealFiles(), BrokerConfig(), LOCAL, random.Random(number).randbytes).secrets

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(start, range(8)))
    assert len(secrets) == 1
    (file,) = (tmp_path / ".pymq" / "raft").iterdir()
    assert file.name.startswith("shard-a-") and file.suffix == ".secret"
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert start(99) in secrets, "a start again finds it"


def test_each_group_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    east, other = BrokerConfig(), LOCAL
    west = BrokerConfig()
    west.broker_cluster_name = "west"
    slash = GroupSettings("a/../b", "n0", LOCAL.members)
    paths = {secret_path(east, other), secret_path(west, other), secret_path(east, slash)}
    assert len(paths) == 3 and {Path(path).parent for path in paths} == {tmp_path / ".pymq" / "raft"}


def test_members_on_several_machines_need_a_file_that_they_are_given() -> None:
    with pytest.raises(
        ConfigError, match=r"n1 at 10\.0\.0\.2:2, which strangers may reach, and raftSecretFile is not set"
    ):
        open_secret(RealFiles(), BrokerConfig(), AWAY, random.Random(1).randbytes)


def config_with(path: str) -> BrokerConfig:
    config = BrokerConfig()
    config.raft_secret_file = path
    return config


def test_a_file_of_the_operator_is_read_and_never_made(tmp_path: Path) -> None:
    path = str(tmp_path / "raft.secret")
    with pytest.raises(ConfigError, match=r"raftSecretFile: .*raft.secret can't be read: No such file"):
        open_secret(RealFiles(), config_with(path), AWAY, random.Random(1).randbytes)
    write_secrets(RealFiles(), path, Secrets(A))
    assert open_secret(RealFiles(), config_with(path), AWAY, random.Random(1).randbytes).secrets == Secrets(A)
    Path(path).chmod(0o640)
    with pytest.raises(ConfigError, match="has mode 0640, the limit is 0600: run chmod 600"):
        open_secret(RealFiles(), config_with(path), LOCAL, random.Random(1).randbytes)


def test_a_changed_file_is_noticed_and_a_broken_one_changes_nothing() -> None:
    files = MemoryFiles()
    write_secrets(files, "/raft.secret", Secrets(A))
    file = SecretFile(files, "/raft.secret")
    assert not file.look()
    write_secrets(files, "/raft.secret", Secrets(A, B, NEXT))
    assert file.look() and file.secrets == Secrets(A, B, NEXT) and not file.look()
    files.remove("/raft.secret")
    assert not file.look() and "can't be read" in file.problem and file.secrets == Secrets(A, B, NEXT)
    write_secrets(files, "/raft.secret", Secrets(B, A, FORMER))
    assert file.look() and not file.problem
