"""``pymq namesrv status`` and ``kv``: with the session's server, and with one that is away."""

from __future__ import annotations

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_PARTIAL, EXIT_UNREACHABLE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented

AWAY = "127.0.0.1:1"


def test_status_shows_each_name_server(pymq: Pymq, server: StandaloneProcess) -> None:
    [record] = pymq("namesrv", "status", "-o", "json").json()
    assert (record["address"], record["answers"], record["brokers"]) == (server.namesrv, True, 1)
    both = pymq("namesrv", "status", "--namesrv", f"{server.namesrv};{AWAY}")
    assert both.code == EXIT_PARTIAL and f"{AWAY}: no connection" in both.out
    assert pymq("namesrv", "status", "--namesrv", AWAY).code == EXIT_UNREACHABLE


def test_values_are_set_listed_and_deleted(pymq: Pymq, server: StandaloneProcess) -> None:
    assert pymq("namesrv", "kv", "set", "paint", "color", "blue").code == EXIT_OK
    assert pymq("namesrv", "kv", "get", "paint", "color").out == "blue\n"
    listed = pymq("namesrv", "kv", "list", "paint", "--json").json()
    assert listed == [{"key": "color", "value": "blue"}]
    assert_documented("namesrv kv list", listed)
    partly = pymq("namesrv", "kv", "delete", "paint", "color", "--namesrv", f"{server.namesrv};{AWAY}")
    assert partly.code == EXIT_PARTIAL and f"done at {server.namesrv}, but not at" in partly.err
    assert pymq("namesrv", "kv", "get", "paint", "color").code == EXIT_NOT_FOUND
    assert "no values in namespace paint" in pymq("namesrv", "kv", "list", "paint").err
