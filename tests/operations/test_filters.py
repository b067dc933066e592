"""Filters as options name them."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.operations.filters import PluginChoice, check_sql, parse_plugin


def test_sql_is_checked_and_text_that_brokers_ignore_is_noted() -> None:
    notes: list[str] = []
    check_sql("a > 1", notes.append)
    assert not notes
    check_sql("a = 5 b = 6", notes.append)
    assert "from column 7 on: 'b = 6'" in notes[0]
    for wrong in ("a >", "5", "a LIKE"):
        with pytest.raises(UsageError, match="is wrong at"):
            check_sql(wrong, notes.append)


def test_a_filter_is_named_with_its_expression() -> None:
    assert parse_plugin("tag:a:b", None, None) == PluginChoice("tag", "a:b", None)
    assert parse_plugin("tag", "a", "filter-server") == PluginChoice("tag", "a", "filter-server")
    assert parse_plugin(None, None, None) is None
    for wrong in ((None, "a", None), ("tag", None, None), ("tag:a", "b", None), ("tag:a", None, "broker")):
        with pytest.raises(UsageError):
            parse_plugin(*wrong)
