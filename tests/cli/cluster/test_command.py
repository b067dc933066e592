"""``pymq cluster list``: a table of brokers with their problems below it."""

from __future__ import annotations

import asyncio

import pytest

from pymq.cli import main as cli
from pymq.cli.common.session import Session
from pymq.errors import EXIT_PARTIAL
from pymq.operations.broker.listing import list_brokers
from tests.cli.worlds import WorldAdmin, master


def test_problems_stand_below_the_table_and_silent_brokers_are_named_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = WorldAdmin()
    admin.add("broker-a", 0, master())
    dead = admin.add("broker-a", 1, None)
    found = asyncio.run(list_brokers(admin, None))  # type: ignore[arg-type]
    found[0][0]["problems"] = ["its disk is full"]
    monkeypatch.setattr(Session, "ask_reachable", lambda session, work: (found, {}))
    assert cli.run(["cluster", "list"]) == EXIT_PARTIAL
    printed = capsys.readouterr()
    table, below = printed.out.split("\n\nproblems\n")
    assert [line.split()[2] for line in table.splitlines()] == ["ID", "0", "1"] and table.splitlines()[1].endswith(
        "0/0"
    )
    assert below == f"  broker-a 0 at {found[0][0]['address']}: its disk is full\n"
    assert printed.err == f"pymq: the part of broker-a:1 is missing: {dead} can't be reached\n"
    found[0][0]["problems"] = []
    monkeypatch.setattr(Session, "ask_reachable", lambda session, work: ((found[0][:1], {}), {}))
    assert cli.run(["cluster", "list"]) == 0
    assert "problems" not in capsys.readouterr().out
