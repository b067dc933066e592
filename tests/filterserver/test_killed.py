"""One of two filter servers is killed while a topic is read from start to end: no message is lost or skipped."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from pymq.client import MessageQueue, PullConsumer
from pymq.model.record import encode_batch_entry
from pymq.spark.export.export import ExportOptions, NoProgress, run
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.remote import Remote
from pymq.spark.planning.selection import Selection
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.reading.reader import RangeReader
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from tests.cli.common.test_servers import STOP_TIMEOUT_S, first_line, process
from tests.filterserver.processes import filter_servers

# More than pipes and answers hold: a reader that has begun still has most of the topic to read.
COUNT = 2500
BLANK_UNIT = b"x" * 2000
WANTED = list(range(0, COUNT, 5))
FILTER = {"filter": "regex", "expression": "^[0-9]*[05] ", "via": "filter-server"}
TOPIC = "served"

Pair = dict[str, subprocess.Popen[str]]


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as running:
        with Remote(running.broker) as remote:
            for first in range(0, COUNT, 100):
                entries = [encode_batch_entry(b"%d %s" % (n, BLANK_UNIT), b"") for n in range(first, first + 100)]
                header = {"a": "P", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1767225600000"}
                header |= {"h": "0", "i": "", "j": "0", "k": "false", "m": "true"}
                remote.ask_ok(request(RequestCode.SEND_BATCH_MESSAGE, header, b"".join(entries)))
        yield running


@pytest.fixture
def pair(server: StandaloneProcess, tmp_path: Path) -> Iterator[Pair]:
    with filter_servers(server, tmp_path, count=2) as running:
        yield running


def number(body: bytes) -> int:
    return int(body.split()[0])


@pytest.mark.slow
def test_a_tail(server: StandaloneProcess, pair: Pair, tmp_path: Path) -> None:
    arguments = ["tail", TOPIC, "-F", "--from", "start", "--queue", "0", "-o", "raw", "--namesrv", server.namesrv]
    arguments += ["--filter", FILTER["filter"], "--expr", FILTER["expression"], "--via", FILTER["via"]]
    with process(*arguments, home=tmp_path) as tail:
        assert tail.stdout is not None
        begun = first_line(tail)
        next(iter(pair.values())).kill()
        lines = [begun, *tail.stdout]
        assert tail.wait(STOP_TIMEOUT_S) == 0
    assert [number(line.encode()) for line in lines] == WANTED


def test_a_pull_consumer(server: StandaloneProcess, pair: Pair) -> None:
    async def read() -> list[int]:
        queue, offset, got = MessageQueue(TOPIC, "broker-a", 0), 0, []
        async with PullConsumer("Reader", namesrv=server.namesrv) as pull:
            while offset < COUNT:
                result = await pull.pull(queue, offset, **FILTER)  # type: ignore[arg-type]
                assert result.next_offset > offset
                got += [number(message.body) for message in result.messages()]
                offset = result.next_offset
                if offset > COUNT // 3:
                    next(iter(pair.values())).kill()
        return got

    assert asyncio.run(read()) == WANTED


def test_a_spark_task(server: StandaloneProcess, pair: Pair) -> None:
    settings = ReadSettings(columns=("body",), selection=Selection(**FILTER), batch_rows=10, pull_count_max=100)
    got: list[int] = []
    with RemoteCluster(server.namesrv) as view:
        plan = make_plan(view, TopicChoice((TOPIC,)), Position(), Position(symbol=LATEST), via_filter_servers=True)
    [part] = plan.ranges
    assert (part.count, len(part.addresses)) == (COUNT, 2)
    reader = RangeReader(part, settings)
    for batch in reader.batches():
        got += [number(body) for body in batch.column("body").to_pylist()]
        if got[-1] > COUNT // 3:
            pair[part.addresses[0]].kill()
    assert got == WANTED and reader.lost == 0


@pytest.mark.slow
@pytest.mark.spark
def test_an_export(spark: Any, server: StandaloneProcess, pair: Pair, tmp_path: Path) -> None:
    class KillAtStart(NoProgress):
        """Kills a server at the start, when the plan already includes it."""

        def phase(self, text: str) -> None:
            if text == "exporting":
                next(iter(pair.values())).kill()

    filter_options = {f"filter_{name}" if name != "filter" else name: value for name, value in FILTER.items()}
    options = ExportOptions(
        namesrv=server.namesrv,
        topics=(TOPIC,),
        output=tmp_path / "out",
        master="local[2]",
        rows_per_task=COUNT // 5,
        **filter_options,  # type: ignore[arg-type]
    )
    summary = run(options, KillAtStart())
    assert (summary.rows, summary.planned_rows, summary.lost) == (len(WANTED), COUNT, 0)
    bodies = pyarrow.dataset.dataset(tmp_path / "out", partitioning="hive").to_table().column("body").to_pylist()
    assert sorted(map(number, bodies)) == WANTED
    assert run(options).planned_rows == 0, "positions cover omitted messages, too"
