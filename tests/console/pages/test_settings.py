"""Settings of several servers: which server, and which did not answer."""

from __future__ import annotations

import asyncio

from pymq.console.pages.settings import FoundSettings, find_settings
from pymq.operations.settings.servers import Targets
from tests.console.pages.records import settings
from tests.console.pages.visits import FakeCluster, visit


def found(answer: object, query: str = "") -> FoundSettings:
    async def ask() -> FoundSettings:
        return await find_settings(visit(FakeCluster({"settings": answer}), query), Targets(is_namesrv=True))

    return asyncio.run(ask())


def test_a_single_server_is_not_named_in_each_row() -> None:
    assert "server" not in [column.key for column in found(settings("a", "b")).table.columns]
    both = settings("a")
    both.records += settings("a", server="other").records
    assert found(both).table.columns[0].key == "server"


def test_a_server_without_an_answer_is_missing() -> None:
    assert found(settings("a", silent="10.0.0.2:9876")).missing == {
        "10.0.0.2:9876": "10.0.0.2:9876 did not answer in time"
    }


def test_nothing_found_and_nothing_changed_are_different() -> None:
    assert found(settings(), "changed=on").table.empty == "No value differs from its default."
    assert found(settings(), "changed=on&q=x").table.empty == "No key has this text."
    assert found(settings(), "q=x").table.empty == "No key has this text."


def test_the_command_shows_the_same() -> None:
    assert found(settings("a"), "q=a&changed=1").command("-b", "x") == (
        *("config", "show", "a", "--origin", "--changed", "-b", "x"),
    )
