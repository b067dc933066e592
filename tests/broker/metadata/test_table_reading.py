"""Reading tables back: invalid entries are left out and logged, and the rest counts."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.table_reading import read_configs, read_numbers, read_version
from pymq.model.order_info import from_saved
from pymq.model.tables import DataVersion, TopicConfig


@pytest.mark.parametrize(
    ("value", "numbers"),
    [({"0": 5, 1: "6", "x": 7, "2": None}, {0: 5, 1: 6}), (None, {}), ({}, {}), ([1], {}), ("text", {}), (7, {})],
)
def test_numbers(value: object, numbers: dict[int, int], caplog: pytest.LogCaptureFixture) -> None:
    assert read_numbers(value) == numbers
    assert bool(caplog.records) == (value not in (None, {}))


def test_a_config_that_makes_no_sense_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    table = {"topics": {"A": {"topicName": "A", "perm": 4, "attributes": None}, "B": {"perm": "much"}, "C": 3}}
    assert read_configs(table, "topics", TopicConfig) == {"A": TopicConfig(topic_name="A", perm=4)}
    assert "'B'" in caplog.text and "'C'" in caplog.text
    assert read_configs({}, "topics", TopicConfig) == {}


def test_a_version_that_makes_no_sense_is_a_fresh_one() -> None:
    assert read_version({"dataVersion": {"counter": 7}}).counter == 7
    assert read_version({"dataVersion": {"counter": "x"}}) == read_version({}) == DataVersion()


@pytest.mark.parametrize("entries", [5, "T", [1]])
def test_a_member_that_is_no_map_is_left_out(entries: object, caplog: pytest.LogCaptureFixture) -> None:
    assert read_configs({"topicConfigTable": entries}, "topicConfigTable", TopicConfig) == {}
    assert "is not a map of entries and was left out" in caplog.text


def test_an_infinite_number_is_left_out_or_refused() -> None:
    assert read_numbers({"1": float("inf"), "2": 3}) == {2: 3}
    with pytest.raises(ValueError, match="another type"):
        from_saved({"o": [1], "popTime": 5, "ot": {"1": float("inf")}})
