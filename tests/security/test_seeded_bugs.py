"""Mutation tests of identity and permission: their tests catch every seeded bug."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.assembly import test_security
from tests.broker.fast import test_secured
from tests.broker.handlers import test_auth, test_replies
from tests.broker.metadata import test_auth_manager
from tests.broker.replication.master import test_ha_proof
from tests.broker.report import test_group_rows, test_member_rows, test_topic_rows
from tests.broker.transactions import test_check_permission
from tests.filterserver import test_filter_audit
from tests.model import test_access
from tests.planting import Bug, arguments_of, follow, is_caught
from tests.security import (
    test_acl_5x,
    test_acl_file,
    test_acl_migration,
    test_addresses,
    test_audit,
    test_certificate_users,
    test_gatekeeper,
    test_guard,
    test_identities,
    test_made_by_users,
    test_plain_acl,
    test_policies,
    test_rows,
    test_sender_limits,
    test_signature,
    test_user_table,
)
from tests.security.seeded_bugs import BUGS

MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        test_access,
        test_acl_5x,
        test_acl_file,
        test_acl_migration,
        test_addresses,
        test_audit,
        test_auth,
        test_auth_manager,
        test_certificate_users,
        test_check_permission,
        test_filter_audit,
        test_gatekeeper,
        test_group_rows,
        test_guard,
        test_ha_proof,
        test_identities,
        test_made_by_users,
        test_member_rows,
        test_plain_acl,
        test_policies,
        test_replies,
        test_rows,
        test_secured,
        test_security,
        test_sender_limits,
        test_signature,
        test_topic_rows,
        test_user_table,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug) -> None:
    assert is_caught(bug, _run), f"{bug.name} passed {bug.suites}"


@pytest.mark.parametrize("name", sorted({suite for bug in BUGS for suite in bug.suites}))
def test_without_a_bug_the_tests_pass(name: str) -> None:
    _run(name)


def _run(suite: str) -> None:
    """Run a test with each set of its parameters."""
    module_name, _, name = suite.partition(".")
    module = MODULES[module_name]
    with pytest.MonkeyPatch.context() as patch:
        follow(module, patch)
        test = getattr(module, name)
        for arguments in arguments_of(test):
            with tempfile.TemporaryDirectory() as directory:
                test(**_fixtures(test, Path(directory), patch), **arguments)


def _fixtures(test: Callable[..., Any], directory: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    wanted = inspect.signature(test).parameters
    known: dict[str, Callable[[], Any]] = {
        "tmp_path": lambda: directory,
        "monkeypatch": lambda: patch,
        "audited": lambda: test_audit.Audited(directory / "audit"),
    }
    return {name: make() for name, make in known.items() if name in wanted}
