"""The blocking admin client: each part has all methods of the asynchronous one, as they are."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import Any

import pytest

from pymq.client import Admin, sync
from pymq.errors import ClosedError, UnreachableError

NO_SERVER = "127.0.0.1:1"
PARTS = [
    "auth",
    "namesrv",
    "cluster",
    "topics",
    "draining",
    "rows",
    "groups",
    "offsets",
    "brokers",
    "instances",
    "permissions",
    "settings",
    "filters",
    "lites",
    "replication",
    "messages",
    "traces",
]


def public(of: Any) -> dict[str, Any]:
    return {name: member for name, member in vars(type(of)).items() if not name.startswith("_")}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_all_methods_with_their_signatures(part: str) -> None:
    asynchronous = public(getattr(Admin(NO_SERVER), part))
    with sync.Admin(NO_SERVER) as admin:
        blocking = public(getattr(admin, part))
    assert blocking.keys() == asynchronous.keys()
    for name, method in asynchronous.items():
        if inspect.iscoroutinefunction(method):
            assert inspect.signature(blocking[name]) == inspect.signature(method)
            assert blocking[name].__doc__ == method.__doc__


def test_no_part_is_left_out() -> None:
    asynchronous = {name for name, member in vars(Admin).items() if isinstance(member, cached_property)}
    with sync.Admin(NO_SERVER) as admin:
        assert asynchronous == set(PARTS) == {name for name in vars(admin) if not name.startswith("_")}


def test_calls_block_and_raise_in_the_caller() -> None:
    with sync.Admin(NO_SERVER) as admin:
        with pytest.raises(UnreachableError):
            admin.cluster.info()
        assert admin.namesrv.addresses == [NO_SERVER]
    with pytest.raises(ClosedError, match="the client is stopped: make a new one"):
        admin.cluster.info()
