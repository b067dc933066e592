"""The selections of a range: allowed combinations, and the fields of a pull that carry them."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.errors import ExpressionError, UsageError
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.selection import Selection, checked, parse_tags

SERVED = {"filter": "cel", "expression": "a.b", "via": "filter-server"}


def check(**fields: Any) -> Selection:
    return checked(Selection(**fields), ManualClock())


def test_tag_expressions() -> None:
    assert parse_tags("*") is None and parse_tags("") is None and parse_tags("A || *") is None
    assert parse_tags("A||B ") == frozenset({"A", "B"})
    with pytest.raises(UsageError):
        parse_tags("||")


def test_the_fields_of_a_pull() -> None:
    assert check().pull_subscription() == ("*", "TAG") and check().is_all
    assert check(tag="A || B").pull_subscription() == ("A || B", "TAG")
    assert check(sql="a > 5").pull_subscription() == ("a > 5", "SQL92") and not check(sql="a > 5").is_all
    assert check(**SERVED).pull_subscription() == ("skip.cel:a.b", "TAG") and not check(**SERVED).runs_here
    regex = check(filter="regex", expression="x", tag="A")
    assert regex.pull_subscription() == ("A", "TAG") and regex.runs_here


def test_broker_side_filters_stay_on_the_broker() -> None:
    assert check(filter="tag", expression="A || B") == Selection(tag="A || B")
    assert check(filter="SQL92", expression="a > 5") == Selection(sql="a > 5")


def test_pushed_conditions_use_the_free_slot() -> None:
    assert check().with_pushdown("A", "KEYS = 'x'") == Selection(tag="A")
    assert check().with_pushdown(None, "KEYS = 'x'") == Selection(pushed_sql="KEYS = 'x'")
    regex = check(filter="regex", expression="x")
    assert regex.with_pushdown("A", None).tag == "A" and regex.with_pushdown(None, "a = 'b'").pushed_sql == "a = 'b'"
    for taken in (check(tag="B"), check(sql="a > 5"), check(**SERVED)):
        assert taken.with_pushdown("A", "KEYS = 'x'") == taken


def test_a_wrong_expression_is_reported_with_its_column() -> None:
    with pytest.raises(ExpressionError, match="column 4"):
        check(sql="a >")
    with pytest.raises(ExpressionError, match=r"column 4.*") as wrong:
        check(filter="sql92", expression="a >")
    assert wrong.value.column == 4
    with pytest.raises(ExpressionError, match=r"filter regex"):
        check(filter="regex", expression="(")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tag": "A", "sql": "a > 5"}, "tag and sql exclude each other"),
        ({"filter": "sql92", "expression": "a > 5", "tag": "A"}, "excludes tag and sql"),
        ({"filter": "tag", "expression": "A", "sql": "a > 5"}, "excludes tag and sql"),
        ({"filter": "regex"}, "has no expression"),
        ({"expression": "x"}, "name the filter"),
        ({"via": "filter-server"}, "name the filter"),
        ({"filter": "regx", "expression": "x"}, "did you mean regex"),
        ({"filter": "regex", "expression": "x", "on_error": "retry"}, "skip, deliver, stop"),
        ({"filter": "dedup", "expression": "KEYS"}, "each task reads a part"),
        ({**SERVED, "tag": "A"}, "leave out tag and sql"),
        ({**SERVED, "sql": "a > 5"}, "leave out tag and sql"),
        ({**SERVED, "via": "broker"}, "via 'broker' is unknown"),
        ({**SERVED, "filter": "a.b"}, "not a filter's name"),
        ({**SERVED, "on_error": "retry"}, "skip, deliver, stop"),
    ],
)
def test_contradictory_selections_are_refused(fields: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        check(**fields)


def test_settings_travel_as_json() -> None:
    settings = ReadSettings(columns=("body",), selection=check(**SERVED))
    assert ReadSettings.from_dict(settings.to_dict()) == settings
