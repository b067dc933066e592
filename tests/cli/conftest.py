"""A real standalone PyMQ for the commands that need servers, and a way to run commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pymq.cli import main as cli
from pymq.testing.standalone import StandaloneProcess


class Outcome(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Pymq = Callable[..., Outcome]


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the session's server."""
    return tmp_path_factory.mktemp("standalone") / "data"


@pytest.fixture(scope="session")
def server(data_directory: Path) -> Iterator[StandaloneProcess]:
    with StandaloneProcess(data_directory) as process:
        yield process


@pytest.fixture
def pymq(
    server: StandaloneProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Pymq:
    """Return a runner: ``pymq("topic", "list", stdin="…")`` runs a command against the session's server."""
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv)

    def run(*arguments: str, stdin: str | None = None) -> Outcome:
        capsys.readouterr()
        with (tmp_path / "stdin").open("w+") as source:
            source.write(stdin or "")
            source.seek(0)
            with monkeypatch.context() as patched:
                patched.setattr("sys.stdin", source)
                code = cli.run(list(arguments))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
