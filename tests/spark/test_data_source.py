"""``format("pymq")`` in queries: options, columns, partitions, and the reads that WHERE avoids."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException

from pymq.errors import FilterStopError
from pymq.filter.raw_properties import SEPARATOR
from pymq.filter.sql92 import compile_sql
from pymq.model.record import decode_record
from pymq.spark.planning.ranges import QueueRange
from pymq.spark.session.failures import translated
from pymq.spark.source.pushdown import Pushdown
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record


@pytest.fixture
def filled(cluster: FakeCluster) -> Any:
    for queue_id in range(2):
        cluster.add("orders", queue_id, [record(n, topic="orders", queue_id=queue_id) for n in range(100)])
    cluster.add("other", 0, [record(n, topic="other") for n in range(10)])
    return cluster


def frame(spark: Any, cluster: FakeCluster, **options: Any) -> Any:
    reader = spark.read.format("pymq").option("namesrv", cluster.address)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def judged(raw: bytes, subscription: str) -> bool:
    """Return a broker's filter decision; every subscription here is SQL92, a tag or everything."""
    message = decode_record(raw)
    if subscription in ("*", "A"):
        return subscription in ("*", message.tags)
    return compile_sql(subscription).test(SEPARATOR + message.raw_properties) is True


@pytest.mark.spark
def test_a_query_over_topics(spark: Any, filled: FakeCluster) -> None:
    filled.pulls.clear()
    rows = frame(spark, filled, topics="orders, oth*", minPartitions=6)
    assert rows.rdd.getNumPartitions() >= 6
    counts = {(row["topic"], row["tags"]): row["count"] for row in rows.groupBy("topic", "tags").count().collect()}
    assert counts == {("orders", "A"): 100, ("orders", "B"): 100, ("other", "A"): 5, ("other", "B"): 5}


@pytest.mark.slow
@pytest.mark.spark
def test_columns_positions_and_path(spark: Any, filled: FakeCluster) -> None:
    start = '{"other":{"broker-a":{"0":7}}}'
    rows = frame(spark, filled, topic="other", columns="queueOffset,bodyText", startingOffsets=start)
    assert rows.columns == ["queueOffset", "bodyText"]
    assert [tuple(row) for row in rows.collect()] == [(7, "body"), (8, "body"), (9, "body")]
    chosen = (
        spark.read.format("pymq").option("namesrv", filled.address).schema("keys string, queueId int").load("other")
    )
    assert chosen.where("keys = 'k3'").collect()[0].asDict() == {"keys": "k3", "queueId": 0}


@pytest.mark.spark
def test_where_limits_the_pulls(spark: Any, filled: FakeCluster) -> None:
    where = "topic = 'orders' and queueId = 1 and queueOffset >= 90 and tags = 'A'"
    rows = frame(spark, filled, pushFilters="true").where(where)
    filled.pulls.clear()
    assert sorted(row["queueOffset"] for row in rows.collect()) == [91, 93, 95, 97, 99]
    assert {(pull["topic"], pull["queueId"], pull["subscription"]) for pull in filled.pulls} == {("orders", "1", "A")}
    assert min(int(pull["queueOffset"]) for pull in filled.pulls) == 90


@pytest.mark.slow
@pytest.mark.spark
def test_where_on_properties_is_pushed_to_the_broker(spark: Any, filled: FakeCluster) -> None:
    filled.select = judged
    rows = frame(
        spark, filled, topic="orders", columns="queueOffset,keys,property_KEYS,property_none", pushFilters="true"
    )
    for where, pushed, count in (
        ("keys = 'k7'", "KEYS = 'k7'", 2),
        ("property_KEYS in ('k7', 'k8', 'x')", "KEYS IN ('k7', 'k8', 'x')", 4),
        ("keys like 'k9%' and property_none is null", "none IS NULL", 22),
        ("property_none = 'x'", "none = 'x'", 0),
        ("not (keys <=> 'k7')", "*", 198),
        ("keys > 'k8' and try_cast(property_KEYS as int) is null", "KEYS IS NOT NULL", 42),
    ):
        filled.pulls.clear()
        assert rows.where(where).count() == count, where
        assert all(pushed in pull["subscription"] for pull in filled.pulls), filled.pulls[0]


@pytest.mark.slow
@pytest.mark.spark
def test_sql_and_filters_by_option(spark: Any, filled: FakeCluster) -> None:
    filled.select = judged
    by_sql = frame(spark, filled, topic="orders", columns="queueOffset", sql="KEYS = 'k5' OR TAGS IS NULL")
    assert [row["queueOffset"] for row in by_sql.collect()] == [5, 5]
    assert {pull["expressionType"] for pull in filled.pulls} == {"SQL92"}
    filled.pulls.clear()
    filter_options = {"filter": "jsonpath", "filterExpression": "$[?@ > 2]"}
    filled.add("json", 0, [record(n, b"[%d]" % n if n else b"no JSON", topic="json") for n in range(6)])
    read = {"topic": "json", "columns": "queueOffset"}
    here = frame(spark, filled, **read, **filter_options)
    assert [row["queueOffset"] for row in here.collect()] == [3, 4, 5]
    delivered = frame(spark, filled, **read, **filter_options, filterOnError="deliver").collect()
    assert [row["queueOffset"] for row in delivered] == [0, 3, 4, 5]
    stopped = frame(spark, filled, **read, **filter_options, filterOnError="stop")
    with pytest.raises(FilterStopError, match="json broker-a/0@0"), translated():
        stopped.collect()


@pytest.mark.slow
@pytest.mark.spark
def test_a_wrong_expression_is_refused_before_the_first_read(spark: Any, filled: FakeCluster) -> None:
    filled.pulls.clear()
    for options, text in (
        ({"sql": "a >"}, "column 4"),
        ({"sql": "a > 5", "tag": "A"}, "exclude each other"),
        ({"filter": "regex", "filterExpression": "("}, "column"),
        ({"filter": "f", "filterExpression": "x", "filterVia": "filter-server"}, "pymq filter-server --broker"),
    ):
        with pytest.raises(AnalysisException, match=text):
            frame(spark, filled, topic="orders", **options).collect()
    assert filled.pulls == []


@pytest.mark.spark
def test_a_query_without_possible_matches_reads_nothing(spark: Any, filled: FakeCluster) -> None:
    rows = frame(spark, filled, pushFilters="true").where("queueId = 55")
    filled.pulls.clear()
    assert rows.collect() == [] and filled.pulls == []


@pytest.mark.spark
def test_filters_need_one_setting_of_a_session(spark: Any, filled: FakeCluster) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "false")
    try:
        with pytest.raises(Exception, match=f"{setting}' is false. Set it to true"):
            frame(spark, filled, pushFilters="true").where("queueId = 55").collect()
    finally:
        spark.conf.set(setting, "true")
    assert frame(spark, filled, pushFilters="true").where("queueId = 55").collect() == []


@pytest.mark.spark
def test_an_empty_topic_has_no_rows(spark: Any, filled: FakeCluster) -> None:
    filled.add("empty", 0, [])
    rows = frame(spark, filled, topic="empty")
    assert rows.collect() == [] and rows.count() == 0
    assert frame(spark, filled, topics="empty,other").count() == 10


@pytest.mark.slow
@pytest.mark.spark
def test_what_can_not_work_fails_when_the_query_is_planned(spark: Any, filled: FakeCluster) -> None:
    filled.pulls.clear()
    for options, text in (
        ({"colums": "body"}, "did you mean columns"),
        ({"pushFilters": "perhaps"}, "write true or false"),
        ({"startingOffsets": '{"orders": {"broker-a": {"99": 5}}}'}, "queue '99' of orders"),
        ({"startingOffsets": "group:typo"}, "group 'typo' has no offset"),
    ):
        with pytest.raises(Exception, match=text):
            frame(spark, filled, **options).count()
    assert filled.pulls == []


@pytest.mark.spark
def test_the_columns_and_options_of_kafkas_source(spark: Any, filled: FakeCluster) -> None:
    columns = "key,value,topic,partition,offset,timestamp,timestampType,rowId"
    rows = frame(
        spark, filled, subscribePattern="ord.*", columns=columns, includeHeaders="true", pushFilters="yes",
        startingOffsets='{"orders": {"0": 98, "1": -1}}', failOnDataLoss="false",
    )  # fmt: skip
    first, second = sorted((row.asDict(recursive=True) for row in rows.collect()), key=lambda row: row["offset"])
    assert (first["key"], first["value"], first["partition"], first["offset"]) == (b"k98", b"body", 0, 98)
    assert (first["timestampType"], first["rowId"]) == (1, "orders/broker-a/0@98")
    assert {"key": "KEYS", "value": bytearray(b"k98")} in first["headers"]
    assert second["offset"] == 99


class EqualTo:
    def __init__(self, column: str, value: Any) -> None:
        self.attribute, self.value = (column,), value


class In(EqualTo):
    pass


class LessThan(EqualTo):
    pass


class GreaterThan(EqualTo):
    pass


def pushdown(*conditions: Any) -> Pushdown:
    result = Pushdown()
    for condition in conditions:
        result.take(condition)
    return result


PART = QueueRange("T", "b", 3, 10, 20, ())


def test_offset_conditions_limit_the_ranges() -> None:
    (part,) = pushdown(GreaterThan("queueOffset", 12), LessThan("queueOffset", 15)).apply([PART])
    assert (part.from_offset, part.to_offset) == (13, 15)
    assert pushdown(EqualTo("queueOffset", 20)).apply([PART]) == []
    assert pushdown(EqualTo("queueOffset", None)).apply([PART]) == [PART]


def test_queues_are_left_out() -> None:
    assert pushdown(In("queueId", (1, 3)), EqualTo("brokerName", "b")).apply([PART]) == [PART]
    assert pushdown(In("queueId", (1, 2))).apply([PART]) == []


def test_tags_become_an_expression_only_when_possible() -> None:
    assert pushdown(In("tags", ("B", "A"))).tag_expression() == "A || B"
    for tag in ("", "*", "a||b", " a"):
        assert pushdown(EqualTo("tags", tag)).tag_expression() is None
    assert pushdown(LessThan("tags", "x")).tag_expression() is None


def test_topics_that_where_excludes() -> None:
    assert not pushdown(EqualTo("topic", "T"), In("topic", ("U", "V"))).allows_topic("T")
    assert pushdown().allows_topic("U") and pushdown(In("topic", ("U",))).allows_topic("U")
