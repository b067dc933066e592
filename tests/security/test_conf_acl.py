"""The examples in conf/acl do what their comments say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pymq.config import load_broker_config
from pymq.errors import ConfigError
from pymq.model.access import Action, group_need, topic_need
from pymq.model.names import dlq_topic, retry_topic
from pymq.security.addresses import parse_address
from pymq.security.identities import Identity
from pymq.security.plain_acl import parse_plain_acl
from pymq.security.security import open_security, server_credentials

EXAMPLES = Path(__file__).parents[2] / "conf" / "acl"
SOMEWHERE = parse_address("10.0.0.1")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The settings of the comments, with copies that only their owner can use."""
    for path in EXAMPLES.iterdir():
        shutil.copyfile(path, tmp_path / path.name)
        (tmp_path / path.name).chmod(0o600)
    files = {"plainAclFile": tmp_path / "plain_acl.yml", "innerCredentialsFile": tmp_path / "inner.yml"}
    return {"aclEnable": "true"} | {key: str(path) for key, path in files.items()}


def test_the_examples_load_and_allow_what_they_say(settings: dict[str, str]) -> None:
    config = load_broker_config(None, settings)
    security = open_security(config, "C", server_credentials(config))
    assert security is not None
    guard = security.gatekeeper.guard

    def may(name: str, what: str) -> bool:
        user = guard.users.get(name)
        assert user is not None
        kind, _, action = what.partition(" ")
        make, _, resource = kind.partition(":")
        need = (topic_need if make == "topic" else group_need)(resource, Action(action))
        return guard.policies.refused_need(Identity(user), [need], SOMEWHERE) is None

    assert {user.name for user in guard.users} == {
        "administrator", "orders-service", "billing-service", "search-service", "servers",
    }  # fmt: skip
    for name, what in (
        ("administrator", "topic:anything Delete"),
        ("orders-service", "topic:orders Pub"),
        ("billing-service", "topic:orders Sub"),
        ("billing-service", "group:billing Sub"),
        ("billing-service", f"topic:{retry_topic('billing')} Sub"),
        ("billing-service", f"topic:{dlq_topic('billing')} Sub"),
        ("search-service", "topic:anything Sub"),
        ("search-service", "group:anything Sub"),
    ):
        assert may(name, what), (name, what)
    for name, what in (
        ("orders-service", "topic:orders Sub"),
        ("orders-service", "topic:payments Pub"),
        ("billing-service", "topic:orders Pub"),
        ("billing-service", "group:other Sub"),
        ("search-service", "topic:salaries Sub"),
        ("search-service", "topic:anything Pub"),
        ("search-service", "topic:anything Create"),
    ):
        assert not may(name, what), (name, what)


def test_the_examples_have_no_white_list_and_no_notes() -> None:
    acl = parse_plain_acl((EXAMPLES / "plain_acl.yml").read_bytes())
    assert not acl.notes and not acl.trusted_from()


def test_an_example_that_others_can_read_is_refused(settings: dict[str, str]) -> None:
    Path(settings["plainAclFile"]).chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644, others than its owner can use it: run chmod 600"):
        open_security(load_broker_config(None, settings), "C", None)
