"""The options of ``format("pymq")``: names of PyMQ and of Spark's Kafka source, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pymq.errors import UsageError
from pymq.spark.planning.planner import PartitionSizes
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.selection import ALL
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.source.option_names import known_names
from pymq.spark.source.options import SourceOptions

NOW_MS = 1_800_000_000_000


def settings(**options: str) -> Any:
    return SourceOptions(options).read_settings((), ALL)


def test_names_in_any_case_and_synonyms() -> None:
    assert SourceOptions({"NAMESRV": "h:1"}).namesrv == "h:1"
    for name in ("topics", "topic", "subscribe", "SUBSCRIBE"):
        assert SourceOptions({name: "a, b*"}).topics() == TopicChoice(("a", "b*"))
    assert SourceOptions({"path": "a"}).topics() == TopicChoice(("a",))
    assert SourceOptions({"maxRecordsPerPartition": "7"}).partition_sizes() == PartitionSizes(7, 1)
    assert settings(groupIdPrefix="g").group == "g"


def test_columns_are_named_as_in_sql() -> None:
    assert SourceOptions({"columns": "tags, `property_x-y`,`property_a,b`"}).columns() == (
        "tags",
        "property_x-y",
        "property_a,b",
    )
    with pytest.raises(UsageError, match="either whole in backticks or has none"):
        SourceOptions({"columns": "`tags"}).columns()


def test_topics_by_pattern_and_by_queue() -> None:
    assert SourceOptions({"subscribePattern": "a.*"}).topics() == TopicChoice(pattern="a.*")
    assert SourceOptions({"assign": '{"t": [1]}'}).topics() == TopicChoice(assigned={"t": frozenset({1})})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "latest"}, Position(symbol=LATEST)),
        ({"startingTimestamp": "1700000000000"}, Position(time_ms=1_700_000_000_000)),
        ({"startingTimestamp": "-1h"}, Position(time_ms=NOW_MS - 3_600_000)),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 5}}'},
            Position(symbol=LATEST, times_ms={"t": {"": {"0": 5}}}),
        ),
        ({}, Position()),
    ],
)
def test_where_to_begin(options: dict[str, str], expected: Position) -> None:
    assert SourceOptions(options).start(NOW_MS) == expected


@pytest.mark.parametrize(("text", "mode"), [("true", "fail"), ("No", "report"), ("0", "report"), ("YES", "fail")])
def test_fail_on_data_loss(text: str, mode: str) -> None:
    assert settings(failOnDataLoss=text).on_data_loss == mode


def test_headers_are_a_column() -> None:
    assert SourceOptions({"includeHeaders": "yes", "columns": "key,value"}).columns() == ("key", "value", "headers")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"colums": "body"}, "option colums is not known to format pymq: did you mean columns?"),
        ({"startingoffset": "x"}, "did you mean startingOffsets?"),
        ({"qqqq": "x"}, "pymq docs spark lists the options"),
        ({"kafka.bootstrap.servers": "h:1"}, "write namesrv"),
        ({"nameServer": "h:1"}, "write namesrv"),
        ({"fetchOffset.numRetries": "3"}, "write retryBudgetSeconds"),
        ({"kafka.security.protocol": "SSL"}, "PyMQ has no Kafka client"),
        ({"topic": "a", "subscribe": "b"}, "topics is given twice, as 'a' and 'b'"),
    ],
)
def test_unknown_options_name_what_to_write(options: dict[str, str], expected: str) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        SourceOptions(options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pushFilters": "maybe"}, "pushFilters is 'maybe': write true or false"),
        ({"minPartitions": "0"}, "minPartitions is '0': write a whole number"),
        ({"onDataLoss": "maybe"}, "onDataLoss is 'maybe'"),
        ({"onDataLoss": "fail", "failOnDataLoss": "true"}, "exclude each other"),
        ({"subscribePattern": "a", "topics": "b"}, "exclude each other"),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "exclude each other"),
        ({"registry": "host:8081"}, "'host:8081' is no registry: write http://host:8081"),
        ({"retryBudgetSeconds": "-1"}, "retryBudgetSeconds is '-1'"),
        ({"retryBudgetSeconds": "inf"}, "retryBudgetSeconds is 'inf'"),
        ({"maxTriggerDelay": "soon"}, "not a duration"),
        ({"maxOffsetsPerTrigger": "5"}, "is for spark.readStream"),
    ],
)
def test_illegal_values_are_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        parsed = SourceOptions(options)
        assert parsed.pushes_filters or parsed.partition_sizes()
        parsed.read_settings((), ALL)
        parsed.topics()
        parsed.start(NOW_MS)
        assert parsed.delay_max_ms
        parsed.refuse_stream_options()


def test_every_option_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.partition("| option |")[2].partition("\n\n")[0].splitlines()]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == known_names()
