"""Settings that differ between brokers."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.console.pages.differences import differences
from pymq.errors import RefusedError, UnreachableError
from pymq.operations.settings.servers import Found
from tests.console.pages.visits import FakeCluster, html_of, page_of


def record(server: str, value: str | None) -> dict[str, Any]:
    return {"key": "flushDiskType", "server": server, "address": "10.0.0.1:1", "origin": "file", "value": value}


def found(*records: dict[str, Any], silent: str = "") -> FakeCluster:
    failed = {silent: UnreachableError("timed out")} if silent else {}
    servers = [each["server"] for each in records]
    return FakeCluster({"differences": Found(list(records), servers, dict(failed))})


def test_each_broker_has_a_row_for_a_key_that_differs() -> None:
    rows = [record("broker-a:0", "ASYNC_FLUSH"), record("broker-b:0", None)]
    page = page_of(differences, found(*rows))
    assert page.data["settings"] == rows and page.command == ("config", "diff")
    text = html_of(differences, found(*rows)).text
    assert "ASYNC_FLUSH" in text and 'title="this broker has no such key"' in text


def test_a_silent_broker_is_named_and_one_alone_is_not_compared_with_defaults() -> None:
    page = page_of(differences, found(record("broker-a:0", "ASYNC_FLUSH"), silent="broker-b:0"))
    assert page.missing == {"broker-b:0": "timed out"} and page.data["settings"] == []
    assert "nothing to compare" in html_of(differences, found(record("broker-a:0", "x"))).text


def test_a_refusal_is_no_empty_list() -> None:
    with pytest.raises(RefusedError):
        page_of(differences, FakeCluster({"differences": RefusedError(16, "has no permission")}))
