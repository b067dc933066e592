"""Mutation tests of the console: its tests catch every seeded bug."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.console import test_app, test_serve
from tests.console.asking import test_cluster, test_clusters
from tests.console.history import test_chart, test_pace, test_pairs, test_rings, test_section, test_sight, test_trend
from tests.console.pages import (
    test_brokers,
    test_lists,
    test_member,
    test_name_servers,
    test_overview,
    test_rendering,
    test_sampled,
    test_sections,
    test_topics,
    test_users,
)
from tests.console.people import test_log_in, test_sessions, test_waits
from tests.console.seeded_bugs import BUGS
from tests.console.web import test_bodies, test_headers, test_origins, test_parameters, test_renewed_tls
from tests.planting import Bug, arguments_of, follow, is_caught

pytestmark = [
    pytest.mark.usefixtures("quiet_log"),
    # A test that ends in the midst leaves what it has begun.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(test_app, test_bodies, test_brokers, test_cluster, test_clusters, test_headers, test_lists, test_log_in),
        *(test_member, test_name_servers, test_origins, test_parameters, test_rendering, test_sections, test_serve),
        *(test_renewed_tls, test_sessions, test_topics, test_users, test_waits),
        *(
            test_chart,
            test_overview,
            test_pace,
            test_pairs,
            test_rings,
            test_sampled,
            test_section,
            test_sight,
            test_trend,
        ),
    )
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug} passed {bug.suites}"


@pytest.mark.parametrize("suite", sorted({suite for bug in BUGS for suite in bug.suites}))
def test_suites_pass_without_a_bug(suite: str) -> None:
    _run(suite)


def _run(suite: str) -> None:
    """Run a test with each set of its parameters."""
    module_name, _, path = suite.partition(".")
    module = MODULES[module_name]
    owner_name, _, name = path.rpartition(".")
    owner: Any = getattr(module, owner_name)() if owner_name else module
    with pytest.MonkeyPatch.context() as patch:
        follow(module, patch)
        test = getattr(owner, name)
        for arguments in arguments_of(test):
            test(**_fixtures(test, patch), **arguments)


def _fixtures(test: Callable[..., Any], patch: pytest.MonkeyPatch) -> dict[str, Any]:
    wanted = inspect.signature(test).parameters
    known = {"world": test_log_in.World, "monkeypatch": lambda: patch}
    return {name: make() for name, make in known.items() if name in wanted}
