"""Commands sign their requests with credentials given by reference: a flag, the environment, or a context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE, RefusedError
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.ranges import ReadSettings
from pymq.testing.standalone import StandaloneProcess

SECRET = "hunter22-hunter22"
TOPIC = "Signed"
ACL = f"""
accounts:
- {{accessKey: administrator, secretKey: {SECRET}, admin: true}}
- {{accessKey: producer, secretKey: {SECRET}-2, topicPerms: [{TOPIC}=PUB]}}
"""


class Secured(NamedTuple):
    """A server, and the files of two users."""

    namesrv: str
    administrator: str
    producer: str


def private(path: Path, content: str) -> str:
    path.write_text(content)
    path.chmod(0o600)
    return str(path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("secured")
    settings = {"aclEnable": "true", "plainAclFile": private(home / "plain_acl.yml", ACL)}
    with StandaloneProcess(settings=settings) as process:
        yield Secured(
            process.namesrv,
            private(home / "admin.yml", f"accessKey: administrator\nsecretKey: {SECRET}\n"),
            private(home / "producer.yml", f"accessKey: producer\nsecretKey: {SECRET}-2\n"),
        )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secured: Secured) -> Path:
    """Return an empty home for configuration; the environment names the server and no credentials."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("NAMESRV_ADDR", secured.namesrv)
    for name in ("PYMQ_CONTEXT", "PYMQ_CREDENTIALS_FILE", "PYMQ_ACCESS_KEY", "PYMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_commands_sign_with_what_a_flag_names(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    flag = ["--credentials", f"file:{secured.administrator}"]
    assert cli.run(["topic", "create", TOPIC, *flag]) == EXIT_OK
    assert cli.run(["send", TOPIC, "hello", "--key", "k", "--credentials", f"file:{secured.producer}"]) == EXIT_OK
    for command in (
        ["topic", "list"],
        ["topic", "describe", TOPIC],
        ["cluster", "list"],
        ["message", "query", TOPIC, "--key", "k"],
        ["tail", TOPIC, "--no-follow"],
        ["doctor", "--observe", "0"],
    ):
        capsys.readouterr()
        assert cli.run([*command, *flag]) in (EXIT_OK, 1 if command[0] == "doctor" else EXIT_OK), command
        captured = capsys.readouterr()
        assert SECRET not in captured.out + captured.err
        assert cli.run(command) != EXIT_OK, command
        assert "username cannot be null." in capsys.readouterr().err or command[0] == "doctor"


def test_the_environment_and_prefixes_name_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYMQ_ACCESS_KEY", "administrator")
    monkeypatch.setenv("PYMQ_SECRET_KEY", SECRET)
    assert cli.run(["topic", "list"]) == EXIT_OK
    monkeypatch.setenv("OTHER_ACCESS_KEY", "administrator")
    monkeypatch.setenv("OTHER_SECRET_KEY", "not-the-secret")
    assert cli.run(["topic", "list", "--credentials", "env:OTHER"]) == EXIT_REFUSED
    assert "check signature failed." in capsys.readouterr().err
    monkeypatch.delenv("OTHER_SECRET_KEY")
    assert cli.run(["topic", "list", "--credentials", "env:OTHER"]) == EXIT_USAGE
    assert "the environment has no OTHER_SECRET_KEY" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [SECRET, f"administrator:{SECRET}", f"env:{SECRET}", "file:"])
def test_a_secret_in_place_of_a_reference_is_not_repeated(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["topic", "list"], ["context", "add", "x", "--namesrv", "h:1"]):
        assert cli.run([*command, "--credentials", wrong]) == EXIT_USAGE
        text = capsys.readouterr().err
        assert "write env:PREFIX" in text and SECRET not in text


def test_a_context_holds_a_reference_for_its_own_name_servers(
    secured: Secured, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR")
    reference = f"file:{secured.administrator}"
    assert cli.run(["context", "add", "prod", "--namesrv", secured.namesrv, "--credentials", reference]) == EXIT_OK
    text = (home / "pymq" / "contexts.toml").read_text()
    assert reference in text and SECRET not in text
    assert cli.run(["topic", "list"]) == EXIT_OK
    assert cli.run(["topic", "list", "--context", "prod"]) == EXIT_OK
    capsys.readouterr()
    assert cli.run(["context", "show"]) == EXIT_OK
    assert reference in capsys.readouterr().out
    # The same server by another name is not the context's.
    assert cli.run(["topic", "list", "--namesrv", secured.namesrv.replace("127.0.0.1", "localhost")]) == EXIT_REFUSED
    assert cli.run(["context", "add", "prod", "--namesrv", secured.namesrv, "--replace"]) == EXIT_OK
    assert cli.run(["topic", "list"]) == EXIT_REFUSED


def test_spark_signs_with_a_reference_and_keeps_nothing_else(secured: Secured) -> None:
    with RemoteCluster(secured.namesrv, credentials=f"file:{secured.administrator}") as view:
        assert "SELF_TEST_TOPIC" in view.all_topics()
        queues = view.queues_of(["SELF_TEST_TOPIC"])["SELF_TEST_TOPIC"]
        assert len(view.bounds(queues)) == len(queues) > 0
    with RemoteCluster(secured.namesrv) as view, pytest.raises(RefusedError, match="username cannot be null"):
        view.all_topics()
    settings = ReadSettings(credentials=f"file:{secured.administrator}")
    assert ReadSettings.from_dict(settings.to_dict()) == settings and SECRET not in str(settings.to_dict())
