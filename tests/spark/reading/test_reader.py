"""A range is read completely, once and in order, despite a broker's limits, short failures and losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pymq.errors import FilterStopError, RefusedError, UnreachableError, UsageError
from pymq.model import sysflag
from pymq.model.record import MalformedRecordError
from pymq.spark.planning.ranges import DataLossError, Identity, QueueRange, ReadSettings
from pymq.spark.planning.selection import Selection
from pymq.spark.reading.reader import PULL_AGAIN_COUNT_MAX, RangeReader, unreadable_text
from pymq.spark.records.decode import Decoder
from pymq.spark.records.schema import BY_NAME, OF_REGISTRY
from pymq.wire.codes import ResponseCode
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import LIES, lying, record


def selected(**fields: Any) -> ReadSettings:
    return ReadSettings(columns=("queueOffset",), selection=Selection(**fields))


OFFSETS = ReadSettings(columns=("queueOffset",))


def filled(count: int, **caps: Any) -> FakeCluster:
    cluster = FakeCluster(**caps)
    cluster.add("T", 0, [record(n, b"x" * (n % 200)) for n in range(count)])
    return cluster


def read(part: QueueRange, settings: ReadSettings = OFFSETS) -> tuple[list[int], RangeReader, list[float]]:
    sleeps: list[float] = []
    reader = RangeReader(part, settings, sleep=sleeps.append, monotonic=lambda: sum(sleeps))
    offsets = [offset for batch in reader.batches() for offset in batch.column("queueOffset").to_pylist()]
    return offsets, reader, sleeps


@pytest.mark.parametrize("caps", [{"count_cap": 32}, {"count_cap": 5000}, {"bytes_cap": 3000, "count_cap": 999}])
def test_reads_everything_in_order(caps: Any) -> None:
    with filled(3000, **caps) as cluster:
        offsets, reader, sleeps = read(cluster.range())
    assert offsets == list(range(3000))
    assert (reader.rows, reader.lost, sleeps) == (3000, 0, [])
    assert reader.bytes_read == sum(map(len, cluster.queues["T", 0]))


def test_reads_only_its_range() -> None:
    with filled(500) as cluster:
        assert read(cluster.range(start=17, stop=303))[0] == list(range(17, 303))
        assert read(cluster.range(start=9, stop=9))[0] == []


def test_batches_are_limited_by_rows_and_by_bytes() -> None:
    with filled(1000, count_cap=100) as cluster:
        rows = RangeReader(cluster.range(), ReadSettings(columns=("queueId",), batch_rows=200))
        assert all(200 <= batch.num_rows < 300 for batch in list(rows.batches())[:-1])
        size = RangeReader(cluster.range(), ReadSettings(columns=("queueId",), batch_size_bytes=1))
        assert max(batch.num_rows for batch in size.batches()) <= 100


@pytest.mark.parametrize("columns", [(), tuple(BY_NAME.keys() - {OF_REGISTRY})])
def test_batches_stay_as_they_are_while_later_ones_are_received(columns: tuple[str, ...]) -> None:
    with filled(600, count_cap=50) as cluster:
        found = list(RangeReader(cluster.range(), ReadSettings(columns=columns, batch_rows=100)).batches())
        raw = b"".join(cluster.queues["T", 0])
    assert len(found) == 6
    decoded = Decoder("broker-a", columns).decode(raw)
    assert pa.Table.from_batches(found).combine_chunks() == pa.Table.from_batches(decoded)


def test_a_lost_connection_is_reopened() -> None:
    with filled(400) as cluster:
        cluster.answers += [-1]
        offsets, reader, sleeps = read(cluster.range())
        assert offsets == list(range(400)) and len(sleeps) == 1
        assert reader.lost == 0


def test_a_busy_broker_is_asked_again() -> None:
    with filled(100) as cluster:
        cluster.answers += [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL]
        offsets, _, sleeps = read(cluster.range())
        assert offsets == list(range(100)) and len(sleeps) == 2


def test_another_address_serves_when_the_first_is_gone() -> None:
    with filled(50) as cluster:
        gone = "127.0.0.1:1"
        part = QueueRange("T", "broker-a", 0, 0, 50, (gone, cluster.address))
        assert read(part)[0] == list(range(50))


@pytest.mark.parametrize("has_master", [True, False])
@pytest.mark.parametrize("on_data_loss", ["fail", "report"])
def test_what_a_slave_lacks_is_waited_for(has_master: bool, on_data_loss: Any) -> None:
    """Its master is killed after the plan: the slave may only be behind, and no row is lost before a master says so."""
    settings = ReadSettings(columns=("queueOffset",), on_data_loss=on_data_loss)
    with filled(50) as slave, filled(120) as master:
        addresses = ("127.0.0.1:1", slave.address) if has_master else (slave.address,)
        part = QueueRange("T", "broker-a", 0, 0, 120, addresses, has_master=has_master)
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 5:
                slave.queues["T", 0] = list(master.queues["T", 0])

        reader = RangeReader(part, settings, sleep=pause, monotonic=lambda: sum(pauses))
        assert [n for batch in reader.batches() for n in batch.column("queueOffset").to_pylist()] == list(range(120))
        assert reader.lost == 0 and len(pauses) >= 5
        slave.queues["T", 0] = slave.queues["T", 0][:50]
        with pytest.raises(UnreachableError, match=r"its master does not answer, and the slave at .* before offset 50"):
            read(part, settings)
        whole = QueueRange("T", "broker-a", 0, 0, 120, (slave.address,))
        if on_data_loss == "report":  # here it is the master that says it
            assert read(whole, settings)[0] == list(range(50))


def test_a_range_of_a_topic_that_was_deleted_is_a_loss() -> None:
    with filled(50) as cluster:
        cluster.deleted_below = {"T": 7}
        for known, found in ((7, 50), (6, 0)):
            part = replace(cluster.range(), identity=Identity(known))
            offsets, reader, _ = read(part, ReadSettings(columns=("queueOffset",), on_data_loss="report"))
            assert (len(offsets), reader.lost) == (found, 50 - found)
        with pytest.raises(DataLossError, match="made again"):
            read(replace(cluster.range(), identity=Identity(6)))


def test_unreachable_brokers_fail_after_the_retry_budget() -> None:
    part = QueueRange("T", "broker-a", 0, 0, 50, ("127.0.0.1:1",))
    for budget_s, expected in ((0.0, []), (0.3, [0.1, 0.2]), (60.0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[5.0] * 11])):
        sleeps: list[float] = []
        settings = ReadSettings(columns=("queueOffset",), retry_budget_s=budget_s)
        reader = RangeReader(part, settings, sleep=sleeps.append, monotonic=lambda times=sleeps: sum(times))
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
            list(reader.batches())
        assert sleeps == expected


def test_each_answer_renews_the_retry_budget() -> None:
    with filled(100, count_cap=10) as cluster:
        outages = {offset: [ResponseCode.SYSTEM_BUSY] * 3 for offset in (0, 40)}

        def select(raw: bytes, expression: str) -> bool:
            cluster.answers += outages.pop(int.from_bytes(raw[20:28], "big"), [])
            return True

        cluster.select = select
        settings = ReadSettings(columns=("queueOffset",), retry_budget_s=0.6)
        offsets, _, sleeps = read(cluster.range(), settings)
        assert offsets == list(range(100)) and outages == {} and sum(sleeps) > 2 * 0.6


def test_a_refusal_is_raised_at_once() -> None:
    with filled(10) as cluster:
        cluster.answers += [ResponseCode.NO_PERMISSION]
        with pytest.raises(RefusedError, match="code 16"):
            read(cluster.range())


def test_messages_gone_from_the_front_fail_or_are_reported() -> None:
    with filled(300) as cluster:
        cluster.min_offsets["T", 0] = 120
        part = cluster.range(start=50)
        with pytest.raises(DataLossError, match=r"no longer has 70 messages of \[50, 120\)"):
            read(part)
        offsets, reader, _ = read(part, ReadSettings(columns=("queueOffset",), on_data_loss="report"))
        assert offsets == list(range(120, 300)) and reader.lost == 70


def test_a_queue_that_became_shorter_is_a_loss_too() -> None:
    with filled(100) as cluster:
        part = QueueRange("T", "broker-a", 0, 90, 130, (cluster.address,))
        with pytest.raises(DataLossError):
            read(part)
        offsets, reader, _ = read(part, ReadSettings(columns=("queueOffset",), on_data_loss="report"))
        assert offsets == list(range(90, 100)) and reader.lost == 30


def test_a_hole_in_the_middle_is_counted() -> None:
    with filled(100) as cluster:
        cluster.queues["T", 0][40] = b""
        offsets, reader, _ = read(cluster.range(), ReadSettings(columns=("queueOffset",), on_data_loss="report"))
        assert offsets == [n for n in range(100) if n != 40] and reader.lost == 1


def test_tags_are_checked_exactly_and_no_match_is_progress() -> None:
    with filled(200) as cluster:
        # The broker lets tag B through too, as its hash is equal. Most of the range matches nothing.
        cluster.select = lambda raw, expression: expression == "A || C" and int.from_bytes(raw[20:28], "big") % 40 < 2
        reader = RangeReader(cluster.range(), ReadSettings(columns=("queueOffset",), selection=Selection(tag="A || C")))
        rows = [row for batch in reader.batches() for row in batch.to_pylist()]
    assert rows == [{"queueOffset": n} for n in (1, 41, 81, 121, 161)]
    assert reader.rows == 5 and reader.lost == 0


OFF = "The broker does not support consumer to filter message by SQL92"


def test_sql_runs_on_the_broker_and_no_match_is_no_loss() -> None:
    with filled(3000) as cluster:
        cluster.select = lambda raw, expression: (
            expression == "a > 5" and int.from_bytes(raw[20:28], "big") in (7, 1500)
        )
        offsets, reader, sleeps = read(cluster.range(), selected(sql="a > 5"))
        assert offsets == [7, 1500] and (reader.lost, sleeps) == (0, [])
        assert {pull["expressionType"] for pull in cluster.pulls} == {"SQL92"}
        cluster.select = lambda raw, expression: False
        assert read(cluster.range(), selected(sql="a > 5"))[0] == []
        cluster.min_offsets["T", 0] = 2999
        with pytest.raises(DataLossError, match="no longer has 2999 messages"):
            read(cluster.range(start=0), selected(sql="a > 5"))


def test_a_broker_without_sql_is_reported_with_its_setting() -> None:
    with filled(10) as cluster:
        cluster.answers += [ResponseCode.SYSTEM_ERROR]
        cluster.remark = OFF
        with pytest.raises(RefusedError, match="set enablePropertyFilter=true"):
            read(cluster.range(), selected(sql="a > 5"))


def test_a_broker_that_refuses_pushed_sql_is_asked_without_it() -> None:
    with filled(300) as cluster:
        cluster.answers += [ResponseCode.SYSTEM_ERROR]
        cluster.remark = OFF
        offsets, reader, sleeps = read(cluster.range(), selected(pushed_sql="KEYS = 'k7'"))
        assert offsets == list(range(300)) and (reader.lost, sleeps) == (0, [])
        assert [pull["expressionType"] for pull in cluster.pulls][:2] == ["SQL92", "TAG"]
        cluster.queues["T", 0][40] = b""
        with pytest.raises(DataLossError):
            cluster.answers += [ResponseCode.SYSTEM_ERROR]
            read(cluster.range(), selected(pushed_sql="KEYS = 'k7'"))


def test_gaps_of_pushed_sql_are_not_losses() -> None:
    with filled(300) as cluster:
        cluster.select = lambda raw, expression: expression == "KEYS = 'k7'" and int.from_bytes(raw[20:28], "big") == 7
        offsets, reader, _ = read(cluster.range(), selected(pushed_sql="KEYS = 'k7'"))
        assert offsets == [7] and reader.lost == 0


def test_a_filter_of_the_reader_does_not_hide_losses() -> None:
    expression = {"filter": "regex", "expression": "^x{190,}$"}
    with filled(1000) as cluster:
        offsets, reader, _ = read(cluster.range(), selected(**expression))
        assert offsets == [n for n in range(1000) if n % 200 >= 190] and (reader.lost, reader.filter_errors) == (0, 0)
        assert {pull["subscription"] for pull in cluster.pulls} == {"*"}
        cluster.queues["T", 0][40] = b""
        with pytest.raises(DataLossError):
            read(cluster.range(), selected(**expression))


@pytest.mark.parametrize(("on_error", "expected"), [("skip", [2]), ("deliver", [1, 2]), ("stop", None)])
def test_messages_that_a_filter_fails_on(on_error: Any, expected: Any) -> None:
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(n, body) for n, body in enumerate((b"{}", b"no JSON", b'{"a":7}'))])
        chosen = selected(filter="jsonpath", expression="$.a", on_error=on_error)
        if expected is None:
            with pytest.raises(FilterStopError, match="T broker-a/0@1"):
                read(cluster.range(), chosen)
            return
        offsets, reader, _ = read(cluster.range(), chosen)
        assert offsets == expected and reader.filter_errors == 1


SERVED = {"filter": "f", "expression": "a:b", "on_error": "stop", "via": "filter-server"}


def test_a_pull_from_a_filter_server_carries_the_filter_and_leaves_gaps() -> None:
    with filled(300) as cluster:
        cluster.select = lambda raw, expression: (
            expression == "stop.f:a:b" and int.from_bytes(raw[20:28], "big") % 100 == 7
        )
        offsets, reader, _ = read(cluster.range(), selected(**SERVED))
        assert offsets == [7, 107, 207] and reader.lost == 0
        flags = {int(pull["sysFlag"]) for pull in cluster.pulls}
        assert flags == {sysflag.PULL_SUBSCRIPTION | sysflag.PULL_CLASS_FILTER}


def test_retries_asked_by_a_filter_server_are_bounded() -> None:
    with filled(300) as cluster:
        cluster.answers += [ResponseCode.PULL_RETRY_IMMEDIATELY] * PULL_AGAIN_COUNT_MAX
        offsets, _, sleeps = read(cluster.range(), selected(**SERVED))
        assert offsets == list(range(300)) and sleeps == []
        cluster.answers += [ResponseCode.PULL_RETRY_IMMEDIATELY] * (PULL_AGAIN_COUNT_MAX + 1)
        with pytest.raises(RefusedError, match="no progress at offset 0"):
            read(cluster.range(), selected(**SERVED))


def test_without_a_filter_server_the_error_names_the_next_step() -> None:
    part = QueueRange("T", "broker-a", 0, 0, 50, ("127.0.0.1:1", "127.0.0.1:2"))
    with pytest.raises(UnreachableError, match=r"none of its filter servers \(127.*start one with pymq filter-server"):
        read(part, selected(**SERVED))


def test_a_filter_server_without_its_broker_is_replaced_by_the_next() -> None:
    with filled(50) as first, filled(50) as second:
        first.answers += [ResponseCode.SERVICE_NOT_AVAILABLE] * 9
        part = QueueRange("T", "broker-a", 0, 0, 50, (first.address, second.address))
        offsets, _, sleeps = read(part, selected(**SERVED))
        assert offsets == list(range(50)) and len(sleeps) == 1 and len(first.pulls) == 1


def test_damaged_bytes_are_refused() -> None:
    with filled(10) as cluster:
        cluster.queues["T", 0][3] = cluster.queues["T", 0][3][:-1]
        with pytest.raises(MalformedRecordError):
            read(cluster.range())


REPORTED = ReadSettings(columns=("queueOffset",), on_data_loss="report")


@pytest.mark.parametrize("part", LIES)
@pytest.mark.parametrize("bad", [{0}, {7}, {49}, {3, 4, 30}, set(range(50))])
def test_a_record_whose_lengths_lie_hides_no_others(bad: set[int], part: str, caplog: pytest.LogCaptureFixture) -> None:
    with filled(50, count_cap=20) as cluster:
        for offset in bad:
            cluster.queues["T", 0][offset] = lying(cluster.queues["T", 0][offset], part)
        offsets, reader, _ = read(cluster.range(), REPORTED)
        assert offsets == [offset for offset in range(50) if offset not in bad]
        assert reader.lost == len(bad)
        assert f"are left out, offsets {min(bad)}" in caplog.text
        with pytest.raises(DataLossError, match=f"offsets {min(bad)}.*accept losses with on-data-loss report"):
            read(cluster.range())


def test_filters_leave_such_a_record_out_and_count_it_too() -> None:
    with filled(20) as cluster:
        cluster.queues["T", 0][6] = lying(cluster.queues["T", 0][6])
        settings = ReadSettings(columns=("queueOffset",), on_data_loss="report", selection=Selection(tag="B"))
        offsets, reader, _ = read(cluster.range(), settings)
    assert offsets == [offset for offset in range(0, 20, 2) if offset != 6]
    assert reader.lost == 1


@pytest.mark.parametrize(("count", "ending"), [(10, "9: why"), (11, "9, …: why")])
def test_a_text_names_some_offsets(count: int, ending: str) -> None:
    text = unreadable_text(list(range(count)), "why")
    assert text.startswith(f"{count} messages can't be read") and text.endswith(ending)


def test_sizes_are_checked() -> None:
    with pytest.raises(UsageError, match="pull_depth is 0"):
        ReadSettings(pull_depth=0)
