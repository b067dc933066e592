"""An export from a real PyMQ broker over real sockets holds every sent message once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from pymq.clock import ManualClock
from pymq.errors import UnreachableError, UsageError
from pymq.model.record import encode_batch_entry
from pymq.net.name_server_list import REFRESH_MS, RETRY_MS
from pymq.spark.export.export import ExportOptions, run
from pymq.spark.planning.cluster import AddressServers, RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import Position
from pymq.spark.planning.ranges import QueueRange, ReadSettings
from pymq.spark.planning.remote import Remote
from pymq.spark.planning.selection import Selection
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.reading.reader import RangeReader
from pymq.spark.source.byte_limit import ENTRIES_PER_REQUEST_MAX, within_bytes
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.command import request
from tests.net.test_name_server_list import CERTIFICATE, AddressServer

COUNT = 6000
QUEUES = 4


@pytest.fixture(scope="module")
def server() -> Any:
    with StandaloneProcess() as process:
        with Remote(process.broker) as remote:
            for first in range(0, COUNT, 100):
                entries = [
                    encode_batch_entry(b"message %d" % n, b"TAGS\x01T%d\x02UNIQ_KEY\x01U%08d\x02" % (n % 3, n))
                    for n in range(first, first + 100)
                ]
                header = {"a": "G", "b": "orders", "c": "TBW102", "d": str(QUEUES), "e": str(first // 100 % QUEUES)}
                header |= {"f": "0", "g": "1767225600000", "h": "0", "i": "", "j": "0", "k": "false", "m": "true"}
                remote.ask_ok(request(320, header, b"".join(entries)))
        yield process


def test_ranges_are_read_completely_and_by_tag(server: StandaloneProcess) -> None:
    with RemoteCluster(server.namesrv) as view:
        assert view.user_topics() == ["orders"]
        plan = make_plan(view, TopicChoice(("orders",)), Position(), Position(symbol=-1))
    assert plan.rows == COUNT and len(plan.ranges) == QUEUES
    for tag, expected in (("*", COUNT), ("T1", COUNT // 3), ("T0 || T2", COUNT * 2 // 3), ("none", 0)):
        settings = ReadSettings(columns=("msgId",), selection=Selection(tag=tag))
        readers = [RangeReader(part, settings) for part in plan.ranges]
        ids = [name for reader in readers for batch in reader.batches() for name in batch.column("msgId").to_pylist()]
        assert len(ids) == expected and sum(reader.lost for reader in readers) == 0


def test_the_sizes_of_a_batch_are_those_of_the_records(server: StandaloneProcess) -> None:
    with RemoteCluster(server.namesrv) as view:
        queue = view.queues_of(["orders"])["orders"][0]
        (entries,) = view.entries([(queue, 0, COUNT)])
        size = sum(one.size_bytes for one in entries[:500])
        cut = within_bytes({queue: 0}, {queue: COUNT // QUEUES}, size, view.entries, 0)
        reader = RangeReader(queue.range(0, cut[queue]), ReadSettings(columns=("queueOffset",)))
        assert sum(batch.num_rows for batch in reader.batches()) == cut[queue] == 500
    assert len(entries) == ENTRIES_PER_REQUEST_MAX
    assert reader.bytes_read == size


@pytest.mark.parametrize("is_secret", [False, True])
def test_name_servers_by_an_address_server(
    server: StandaloneProcess, is_secret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    address_server = AddressServer(is_secret=is_secret)
    address_server.body = server.namesrv.encode()
    try:
        with RemoteCluster(address_server.url) as view:
            assert view.user_topics() == ["orders"]
    finally:
        address_server.close()
    with RemoteCluster(address_server.url) as view:
        assert view.user_topics() == ["orders"], "an answer stays while the address server is away"
    with RemoteCluster("http://127.0.0.1:1/none") as view, pytest.raises(UnreachableError, match="does not answer"):
        view.user_topics()
    with pytest.raises(UsageError, match="write its whole URL"):
        RemoteCluster("https://host")


def test_an_address_server_is_asked_again_in_time_and_may_be_away() -> None:
    clock, answers, asked = ManualClock(), [["a:1"], None, ["b:2"]], []

    def fetch(url: str) -> list[str]:
        asked.append(url)
        answer = answers.pop(0)
        if answer is None:
            raise UnreachableError("away")
        return answer

    servers = AddressServers(clock, fetch)
    places = ["fixed:9", "https://x/y"]
    assert servers.addresses(places) == servers.addresses(places) == ["fixed:9", "a:1"] and len(asked) == 1
    clock.advance(REFRESH_MS)
    assert servers.addresses(places) == servers.addresses(places) == ["fixed:9", "a:1"] and len(asked) == 2
    clock.advance(RETRY_MS)
    assert servers.addresses(places) == ["fixed:9", "b:2"]


@pytest.mark.slow
@pytest.mark.spark
def test_an_export_holds_every_message_once(spark: Any, server: StandaloneProcess, tmp_path: Path) -> None:
    summary = run(ExportOptions(namesrv=server.namesrv, output=tmp_path / "out", master="local[2]"))
    assert summary.rows == COUNT and summary.counts_by_topic == {"orders": COUNT}
    table = pyarrow.dataset.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert sorted(table.column("body").to_pylist()) == sorted(b"message %d" % n for n in range(COUNT))


def test_messages_of_inner_batches_are_rows(server: StandaloneProcess) -> None:
    """Each has its id and offset, also where a range begins or ends inside a batch. The last test: it adds a topic."""
    create = {
        "topic": "measured", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "attributes": "+queue.type=BatchCQ",
    }  # fmt: skip
    with Remote(server.broker) as remote:
        remote.ask_ok(request(17, create))
        for first in range(0, 30, 5):
            entries = [encode_batch_entry(b"m%d" % n, b"UNIQ_KEY\x01V%08d\x02" % n) for n in range(first, first + 5)]
            header = {"a": "G", "b": "measured", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1767225600000"}
            header |= {"h": "0", "i": f"UNIQ_KEY\x01V{first:08d}\x02", "j": "0", "k": "false", "m": "true"}
            remote.ask_ok(request(320, header, b"".join(entries)))
    with RemoteCluster(server.namesrv) as view:
        (whole,) = make_plan(view, TopicChoice(("measured",)), Position(), Position(symbol=-1)).ranges
    assert _rows(whole) == [(n, f"V{n:08d}", b"m%d" % n) for n in range(30)]
    assert _rows(replace(whole, from_offset=7, to_offset=23)) == [(n, f"V{n:08d}", b"m%d" % n) for n in range(7, 23)]


def _rows(part: QueueRange) -> list[tuple[int, str, bytes]]:
    reader = RangeReader(part, ReadSettings(columns=("queueOffset", "msgId", "body")))
    batches = list(reader.batches())
    assert reader.lost == 0
    return [(row["queueOffset"], row["msgId"], row["body"]) for batch in batches for row in batch.to_pylist()]
