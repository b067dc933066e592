"""Mutation tests of transactions: their tests catch every seeded bug."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

from tests.broker.transactions.driver import TransactionProducer, world_with_topic
from tests.broker.transactions.seeded_bugs import BUGS
from tests.broker.transactions.story import search
from tests.planting import Bug, arguments_of, is_caught

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


def _run(suite: str) -> None:
    if suite in ("kill", "power loss"):
        search(6, power=suite == "power loss")
        return
    module, _, name = suite.rpartition(".")
    test = getattr(import_module(f"tests.broker.{module}"), name)
    for arguments in arguments_of(test):
        _call(test, arguments)


def _call(test: Any, arguments: dict[str, Any]) -> None:
    wanted = inspect.signature(test).parameters
    if "world" in wanted or "producer" in wanted:
        world = world_with_topic()
        made = {"world": world, "producer": TransactionProducer(world)}
        arguments = arguments | {name: value for name, value in made.items() if name in wanted}
    test(**arguments)
