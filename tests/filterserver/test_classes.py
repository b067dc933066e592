"""The meaning of class names, and the table of classes."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.errors import Refusal
from pymq.filter.running import EXPRESSION_LENGTH_MAX, OnError
from pymq.filterserver.classes import (
    CARRIED,
    CLASS_COUNT_MAX,
    CLASS_IDLE_MS,
    UPLOADED,
    ClassTable,
    FilterText,
    parse_class,
)
from pymq.filterserver.workers import Filter
from pymq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("class_name", "source", "text"),
    [
        ("pymq.filters.jsonpath", " $.a > 3\n", FilterText("jsonpath", "$.a > 3")),
        ("org.example.JSONPath", "$.a", FilterText("jsonpath", "$.a")),
        ("regex:^a.*:b$", None, FilterText("regex", "^a.*:b$")),
        ("regex:^a", "ignored", FilterText("regex", "^a")),
        ("pymq.filters.stop.cel", "x == 1", FilterText("cel", "x == 1", OnError.STOP)),
        ("Deliver.tag:a", None, FilterText("tag", "a", OnError.DELIVER)),
        ("org.example.my_filter", "", FilterText("my-filter", "")),
        ("tag:" + "a" * EXPRESSION_LENGTH_MAX, None, FilterText("tag", "a" * EXPRESSION_LENGTH_MAX)),
    ],
)
def test_a_class_name_selects_a_filter(class_name: str, source: str | None, text: FilterText) -> None:
    assert parse_class(class_name, source) == text


@pytest.mark.parametrize(
    ("class_name", "source", "code", "why"),
    [
        ("", "x", ResponseCode.INVALID_PARAMETER, "names no filter"),
        ("org.example.", "x", ResponseCode.INVALID_PARAMETER, "names no filter"),
        ("a" * 101, "x", ResponseCode.INVALID_PARAMETER, "names no filter"),
        ("tag:" + "a" * (EXPRESSION_LENGTH_MAX + 1), None, ResponseCode.INVALID_PARAMETER, "the limit is"),
        ("jsonpath", None, ResponseCode.FILTER_DATA_NOT_EXIST, '"jsonpath:EXPRESSION"'),
    ],
)
def test_a_class_that_names_no_filter_is_refused(class_name: str, source: str | None, code: int, why: str) -> None:
    with pytest.raises(Refusal, match=why) as caught:
        parse_class(class_name, source)
    assert caught.value.code == code


def put(table: ClassTable, number: int) -> Filter:
    made = Filter("tag", "a")
    table.put(f"G{number}", "T", FilterText("tag", "a"), made, 0)
    return made


def test_filters_of_pulls_and_of_the_group_coexist() -> None:
    removed: list[Filter] = []
    table = ClassTable(ManualClock(), removed.append)
    own = table.put("G", "T", FilterText("tag", "a"), Filter("tag", "a"), 7)
    texts = [FilterText("tag", "a"), FilterText("tag", "b"), FilterText("tag", "a", OnError.STOP)]
    carried = [table.put("G", "T", text, Filter("tag", text.expression), CARRIED) for text in texts]
    assert [table.find("G", "T", text) for text in texts] == carried and table.find("G", "T") is own
    assert table.find("G", "T", FilterText("tag", "c")) is None
    assert table.all() == [own, *carried] and removed == []
    again = table.put("G", "T", texts[0], Filter("tag", "a"), CARRIED)
    assert removed == [carried[0].filter] and table.find("G", "T", texts[0]) is again


def test_the_table_is_bounded_and_drops_only_unused_classes() -> None:
    clock, removed = ManualClock(), list[Filter]()
    table = ClassTable(clock, removed.append)
    filters = [put(table, number) for number in range(CLASS_COUNT_MAX)]
    clock.advance(CLASS_IDLE_MS - 1)
    with pytest.raises(Refusal, match=f"the limit is {CLASS_COUNT_MAX}"):
        put(table, CLASS_COUNT_MAX)
    assert table.find("G0", "T") is not None
    clock.advance(1)
    put(table, CLASS_COUNT_MAX)
    assert removed == [filters[1]] and len(table.all()) == CLASS_COUNT_MAX
    assert table.find("G0", "T") is not None and table.find("G1", "T") is None


def test_a_new_class_replaces_the_groups_former_one() -> None:
    removed = list[Filter]()
    table = ClassTable(ManualClock(), removed.append)
    old, new = put(table, 1), put(table, 1)
    assert removed == [old] and [known.filter for known in table.all()] == [new]


def test_a_class_with_the_same_text_continues_the_figures() -> None:
    table = ClassTable(ManualClock(), lambda unneeded: None)
    text, other = FilterText("tag", "a"), FilterText("tag", "b")
    learned = table.put("G", "T", text, Filter("tag", "a"), 7)
    learned.stats.matched = 1
    uploaded = table.put("G", "T", text, Filter("tag", "a"), UPLOADED)
    learned.stats.matched += 1  # a pull that began before
    assert uploaded is not learned and uploaded.stats.matched == 2
    assert table.put("G", "T", other, Filter("tag", "b"), UPLOADED).stats.matched == 0
