"""What a declared command takes follows from its signature, on apps of this file."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from pymq.cli.common.live import live
from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption, OutputOption, request_timeout_s
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat

CLIENT = ["--context", "--credentials"]


@pytest.fixture(autouse=True)
def home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


def made(function: Any, **settings: Any) -> Any:
    app = new_app("For tests.")
    app.command(**settings)(function)
    return get_command(app)


def flags(command: Any) -> list[str]:
    return [one.opts[0] for one in command.params]


def test_a_session_gives_the_options_of_the_admin_client() -> None:
    def look(session: Session, name: str, output: OutputOption = OutputFormat.table) -> None: ...

    assert flags(made(look)) == ["name", "--output", "--json", "--namesrv", *CLIENT, "--timeout"]
    assert flags(made(look, watched=True))[-1] == "--watch"


def test_a_command_keeps_its_own_options() -> None:
    def look(
        session: Session,
        wait_s: Annotated[float, typer.Option("--timeout")] = 1,
        credentials: Annotated[str, typer.Option("--credentials")] = "",
    ) -> None: ...

    assert flags(made(look)) == ["--timeout", "--credentials", "--namesrv", "--context"]


def test_name_servers_alone_give_what_every_client_needs() -> None:
    def follow(namesrv: NamesrvOption = DEFAULT_NAMESRV) -> None: ...

    assert flags(made(follow)) == ["--namesrv", *CLIENT]


def test_other_commands_get_nothing() -> None:
    def work(path: str, output: str = "x") -> None: ...

    assert flags(made(work)) == ["path", "--output"]


def test_the_function_gets_a_session_and_its_own_values_alone() -> None:
    got: list[Any] = []

    def look(session: Session, name: str, output: OutputOption = OutputFormat.table) -> None:
        got.append((session.namesrv, name, output, request_timeout_s.get()))

    command = made(look)
    command.main(["a", "--json", "--namesrv", "h:1", "--timeout", "7"], standalone_mode=False)
    command.main(["b"], standalone_mode=False)
    assert got == [("h:1", "a", OutputFormat.json, 7), (DEFAULT_NAMESRV, "b", OutputFormat.table, 5)]


def test_the_flag_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[str] = []

    def look(session: Session) -> None:
        got.append(session.namesrv)

    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    made(look).main([], standalone_mode=False)
    made(look).main(["--namesrv", "flag:1"], standalone_mode=False)
    assert got == ["env:1", "flag:1"]


def test_an_argument_says_what_completes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(name: Annotated[str, typer.Argument(autocompletion=live("group"))]) -> None: ...

    monkeypatch.setattr("pymq.cli.completion.names.complete_names", lambda kind, ctx, incomplete: [f"{kind}-1", "x"])
    command = made(look)
    offered = command.params[0].shell_complete(typer.Context(command), "g")
    assert [one.value for one in offered] == ["group-1"]


def test_help_has_the_examples_line_by_line() -> None:
    def look(name: str) -> None:
        """Look."""

    command = made(look, epilog=examples("pymq look a", "pymq look b"))
    assert "Examples:\n    pymq look a\n    pymq look b" in command.get_help(typer.Context(command))
