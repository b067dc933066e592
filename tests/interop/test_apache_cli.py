"""PyMQ's commands against a real Apache RocketMQ 5.3.3: topics, groups, send, tail, look-ups, a small bench."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest

from pymq.cli.exporter.names import Names
from pymq.cli.exporter.serve import View
from pymq.client import ConsumeResult, StoredMessage, sync
from pymq.client.admin import Admin
from pymq.clock import SystemClock
from pymq.errors import EXIT_NOT_FOUND, EXIT_REFUSED
from pymq.metrics.exposition import slices
from pymq.operations.facts import Facts, FactsCollector
from tests.interop.support import probe
from tests.interop.support.apache import BROKER_NAME, CLUSTER, ApacheServer
from tests.interop.support.pymq_server import REPOSITORY

COMMAND_TIMEOUT_S = 180


class Pymq:
    """Runs `pymq` commands, each in its own process, against one name server."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command and return the finished process."""
        return subprocess.run(
            [sys.executable, "-m", "pymq", *arguments, "--namesrv", self._namesrv],
            cwd=REPOSITORY,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
        )

    def ok(self, *arguments: str, stdin: str = "") -> str:
        """Return the output of the command; raise AssertionError when it failed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"pymq {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """Return the command's JSON output."""
        return json.loads(self.ok(*arguments, "-o", "json", stdin=stdin))


@pytest.fixture(scope="module")
def pymq(apache: ApacheServer) -> Pymq:
    return Pymq(apache.namesrv)


@pytest.fixture
def topic(apache: ApacheServer) -> str:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    probe.create_topic(apache.namesrv, apache.broker, name)
    return name


def test_topic_life(pymq: Pymq, apache: ApacheServer) -> None:
    name = f"cli-life-{uuid.uuid4().hex[:8]}"
    pymq.ok("topic", "create", name, "-c", CLUSTER, "--wq", "8", "--rq", "8")
    (queues,) = probe.route(apache.namesrv, name)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"]) == (8, 8)
    pymq.ok("topic", "update", name, "--wq", "4")
    (queues,) = probe.route(apache.namesrv, name)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"]) == (8, 4)
    assert name in pymq.ok("topic", "list")
    assert BROKER_NAME in pymq.ok("topic", "route", name)
    assert name in pymq.ok("topic", "describe", name)
    pymq.ok("topic", "delete", name, "--yes")
    assert name not in pymq.ok("topic", "list")


def test_settings(pymq: Pymq, apache: ApacheServer) -> None:
    (shown,) = pymq.json("config", "show", "fileReservedTime", "--broker", BROKER_NAME)
    assert (shown["value"].isdigit(), shown["origin"], shown["changeable"]) == (True, None, None)
    for value in ("73", shown["value"]):
        (done,) = pymq.json("config", "set", f"fileReservedTime={value}", "--cluster", CLUSTER, "--persist", "--yes")
        assert (done["value"], done["is_kept"]) == (value, True)
    assert f"fileReservedTime={shown['value']}\n" in (apache.directory / "broker.conf").read_text()
    unknown = pymq.run("config", "set", "maxMesageSize=1", "--broker", BROKER_NAME)
    assert unknown.returncode == 3 and "did you mean maxMessageSize" in unknown.stderr
    ignored = pymq.run("config", "set", "maxMessageSize=many", "--broker", BROKER_NAME)
    assert ignored.returncode == 5 and "maxMessageSize is" in ignored.stderr
    (before,) = pymq.json("config", "show", "scanNotActiveBrokerInterval", "--namesrv-server")
    (done,) = pymq.json("config", "set", "scanNotActiveBrokerInterval=6000", "--namesrv-server")
    assert (done["before"], done["value"]) == (before["value"], "6000")


def test_send_and_tail(pymq: Pymq, topic: str, apache: ApacheServer) -> None:
    sent = pymq.json("send", topic, "hello 消息", "--tag", "new", "--key", "k1", "--property", "color=red")
    assert (sent["status"], sent["broker"]) == ("SEND_OK", BROKER_NAME)
    pymq.ok("send", topic, "--batch", "16", stdin="".join(f"line {i}\n" for i in range(100)))
    probe.wait_for_messages(apache.broker, topic, 101)
    lines = pymq.ok("tail", topic, "--from", "start", "--no-follow", "-o", "jsonl").splitlines()
    messages = [json.loads(line) for line in lines]
    assert sorted(m["body"] for m in messages) == sorted(["hello 消息", *(f"line {i}" for i in range(100))])
    (tagged,) = pymq.ok("tail", topic, "--from", "start", "--no-follow", "--tag", "new", "-o", "jsonl").splitlines()
    assert json.loads(tagged)["properties"]["color"] == "red"
    assert len(pymq.ok("tail", topic, "--last", "10", "--no-follow", "-o", "raw").splitlines()) == 10


def test_messages_are_found_by_id_and_key(pymq: Pymq, topic: str) -> None:
    sent = pymq.json("send", topic, "find me", "--key", "needle")
    assert "find me" in pymq.ok("message", "get", sent["offset_message_id"])
    probe.wait_until("the index", lambda: pymq.run("message", "query", topic, "--key", "needle").returncode == 0)
    assert "find me" in pymq.ok("message", "query", topic, "--key", "needle", "-o", "json")


def test_groups_and_lag(pymq: Pymq, topic: str) -> None:
    group = f"{topic}-group"
    pymq.ok("send", topic, stdin="one\ntwo\nthree\n")
    # Apache requires a group's configuration: create the group before its first commit.
    made = {"groupName": group, "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True}
    broker = next(iter(probe.route(pymq._namesrv, topic)["brokerDatas"]))["brokerAddrs"]["0"]
    made |= {"retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1}
    assert probe.call(broker, 200, body=json.dumps(made).encode()).code == 0
    pymq.ok("tail", topic, "--group", group, "--create-group", "--commit", "--no-follow", "-o", "raw")
    assert group in pymq.ok("group", "list")
    lag = pymq.ok("group", "lag", group, "-o", "json")
    assert topic in lag
    assert json.loads(pymq.ok("group", "describe", group, "-o", "json"))["filters"] == []


def test_rows_of_all_topics_and_groups_come_from_single_requests(pymq: Pymq, topic: str, apache: ApacheServer) -> None:
    """Apache's broker knows no requests for all rows, and answers them as questions about a name that is not there."""
    group = f"{topic}-rows"
    pymq.ok("group", "create", group, "-c", CLUSTER)
    pymq.ok("send", topic, stdin="one\ntwo\nthree\n")
    probe.wait_for_messages(apache.broker, topic, 3)
    pymq.ok("tail", topic, "--group", group, "--commit", "--from", "start", "--no-follow", "-o", "raw")
    pymq.ok("send", topic, "four")
    probe.wait_for_messages(apache.broker, topic, 4)

    async def work() -> None:
        async with Admin(apache.namesrv) as admin:
            questions = (admin.rows.ends, admin.rows.lags, admin.rows.readers, admin.rows.places, admin.rows.members)
            assert [await ask(apache.broker) for ask in questions] == [None] * 5
            ends = (await admin.topics.all_ends())[topic][BROKER_NAME]
            assert (ends.end, ends.stored) == (4, 4) and ends.last_ms is not None
            lags = (await admin.groups.all_lags())[group]
            assert (lags.topics, lags.lag, lags.committed, lags.invisible, lags.waiting_since_ms) == (
                1,
                1,
                3,
                None,
                None,
            )
            readers = (await admin.groups.all_readers())[topic]
            assert (readers.groups, readers.lag) == (1, 1)
            assert group not in await admin.groups.all_member_counts()
            places = (await admin.instances.positions())[group]
            assert sum(place.lag or 0 for place in places.values()) == 1

    asyncio.run(work())
    [listed] = [row for row in pymq.json("group", "list") if row["group"] == group]
    assert (listed["members"], listed["lag"], listed["invisible"]) == (0, 1, None)


def test_the_lag_of_a_group_that_pops(pymq: Pymq, topic: str, apache: ApacheServer) -> None:
    group = f"{topic}-pops"
    pymq.ok("group", "create", group, "-c", CLUSTER)
    pymq.ok("send", topic, stdin="one\ntwo\nthree\n")
    with sync.SimpleConsumer(group, namesrv=apache.namesrv) as consumer:
        probe.wait_until("a message", lambda: consumer.receive(topic, 1, invisible_ms=1000, wait_ms=1000))

    def has_come_again() -> bool:
        [record] = [one for one in pymq.json("group", "describe", group)["progress"] if one["topic"] == topic]
        # What RocketMQ's broker does not say is not 0.
        assert record["invisible"] is None
        return bool(record["retry"] == 1 and record["lag"] == 2)

    probe.wait_until("the popped message in retry", has_come_again, timeout_s=60)
    assert "1 of it in retry, invisible messages are not counted" in pymq.ok("group", "lag", group)


def test_group_life(pymq: Pymq, topic: str, apache: ApacheServer) -> None:
    group = f"{topic}-life"
    [made] = pymq.json("group", "create", group, "-c", CLUSTER, "--retries", "5")
    assert (made["broker"], made["changes"]) == (BROKER_NAME, ["new"])
    assert pymq.run("group", "create", group).returncode == EXIT_REFUSED
    [changed] = pymq.json("group", "update", group, "--retries", "7", "--consume-timeout", "20")
    assert changed["changes"] == ["retry_max 5 -> 7", "consume_timeout_min 15 -> 20"]
    pymq.ok("group", "disable", group, "-b", BROKER_NAME)
    described = pymq.json("group", "describe", group)
    assert (described["enabled"], described["retry_max"], described["lag"]) == (False, 7, None)
    pymq.ok("group", "enable", group)

    sent = pymq.json("send", topic, "first")
    consumer = sync.PushConsumer(group, namesrv=apache.namesrv, on_message=lambda messages: None, consume_from="first")
    consumer.subscribe(topic)
    with consumer:
        [member] = pymq.json("group", "members", group)["members"]
        probe.wait_until("queues", lambda: pymq.json("group", "members", group)["queues"][0]["owner"])
        shown = pymq.json("group", "client", group, member["client_id"], "--stack")
        assert "thread MainThread" in shown["stack"] and member["version"] == "V5_3_3"
        done = pymq.json("group", "consume", group, member["client_id"], sent["offset_message_id"])
        assert done["result"] == "CR_SUCCESS"
        assert pymq.run("group", "delete", group, "--yes").returncode == EXIT_REFUSED
    pymq.ok("group", "delete", group, "--yes", "--with-topics")
    assert pymq.run("group", "describe", group).returncode == EXIT_NOT_FOUND


def test_lag_in_time(pymq: Pymq, topic: str) -> None:
    group = f"{topic}-late"
    pymq.ok("send", topic, stdin="one\ntwo\n")
    pymq.ok("offset", "reset", group, "--topic", topic, "--to", "start", "--yes")
    [of_all] = [record for record in pymq.json("group", "lag") if record["group"] == group]
    by_queue = [record for record in pymq.json("group", "lag", group) if record["lag"]]
    assert of_all["lag"] == sum(record["lag"] for record in by_queue) == 2
    assert 0 < max(record["lag_ms"] for record in by_queue) < 600_000
    assert 0 < of_all["lag_ms"] < 600_000


def test_a_new_group_is_moved_there_and_back(pymq: Pymq, topic: str, apache: ApacheServer) -> None:
    group = f"{topic}-moved"
    pymq.ok("send", topic, "--queue", f"{BROKER_NAME}:0", stdin="one\ntwo\nthree\n")
    probe.wait_for_messages(apache.broker, topic, 3)
    for where, offset in (("2", 2), ("start", 0), ("end", 3), ("-1h", 0)):
        done = pymq.json("offset", "reset", group, "--topic", topic, "--queue", "0", "--to", where, "--yes")
        assert [entry["now"] for entry in done["queues"]] == [offset]
    pymq.ok("offset", "skip", group, "--topic", topic, "--count", "1", "--queue", "0", "--yes")
    pymq.ok("offset", "copy", group, f"{group}-2", "--topic", topic, "--yes")
    shown = pymq.json("offset", "show", f"{group}-2", "--topic", topic)
    assert [entry["committed"] for entry in shown if entry["queue"] == 0] == [1]


def test_dead_letters_are_sent_again_and_purged(pymq: Pymq, topic: str) -> None:
    group = f"{topic}-dead"
    pymq.ok("send", topic, "one", "--key", "k")
    handled: list[StoredMessage] = []
    heals = threading.Event()

    def handle(messages: list[StoredMessage]) -> ConsumeResult:
        handled.extend(messages if heals.is_set() else [])
        return ConsumeResult.SUCCESS if heals.is_set() else ConsumeResult.RECONSUME_LATER

    consumer = sync.PushConsumer(
        group, namesrv=pymq._namesrv, on_message=handle, consume_from="first", max_reconsume_times=0
    )
    consumer.subscribe(topic)
    with consumer:
        probe.wait_until("a dead letter", lambda: [group] == [one["group"] for one in pymq.json("dlq", "list")])
        probe.wait_until("its body", lambda: pymq.run("dlq", "show", group, "-o", "raw").stdout == "one\n")
        heals.set()
        assert pymq.json("dlq", "resend", group, "--yes")["sent"] == 1
        probe.wait_until("its next try", lambda: [(one.topic, one.keys) for one in handled] == [(topic, "k")])
    assert pymq.json("dlq", "purge", group, "--yes")["left"] == 0
    assert pymq.json("dlq", "list") == []


def test_a_missing_topic_is_reported(pymq: Pymq) -> None:
    done = pymq.run("topic", "describe", "cli-not-there")
    assert done.returncode == 3
    assert "cli-not-there" in done.stderr and "Traceback" not in done.stderr


def test_bench_send_and_consume(pymq: Pymq, topic: str, apache: ApacheServer) -> None:
    sent = pymq.json("bench", "send", topic, "--messages", "2000")
    assert sent["messages"] == 2000
    # The benchmark sends one message before its clock starts.
    probe.wait_for_messages(apache.broker, topic, 2001)
    assert pymq.json("bench", "consume", topic)["messages"] == 2001


def test_commands_that_watch_a_cluster(pymq: Pymq, topic: str, apache: ApacheServer) -> None:
    group = f"{topic}-watched"
    pymq.ok("send", topic, stdin="one\ntwo\nthree\n")
    pymq.ok("tail", topic, "--group", group, "--create-group", "--commit", "--from", "start", "-F", "-o", "raw")
    pymq.ok("send", topic, "four")
    probe.wait_for_messages(apache.broker, topic, 4)
    looked = pymq.json("doctor", "--check", "clock", "--check", "disk", "--check", "files", "--check", "stuck")
    found = {(one["check"], one["severity"], one["subject"]) for one in looked["findings"]}
    assert ("files", "unknown", BROKER_NAME) in found, "Apache's brokers don't report it"
    assert ("stuck", "warning", group) in found
    assert not [one for one in found if one[0] == "clock"]
    assert pymq.ok("check", "broker").startswith("BROKER OK - 1 broker answering")
    late = pymq.run("check", "lag", group, "-w", "0")
    assert late.returncode == 1 and late.stdout.startswith(f"LAG WARNING - {group}: 1 message behind")
    frame = json.loads(pymq.ok("top", "--once", "-d", "0.5", "--find", topic, "-o", "json"))
    assert [(row["name"], row["messages"], row["lag"]) for row in frame["topics"]] == [(topic, 4, 1)]
    assert frame["groups"][0]["lag"] == 1
    sent, got = pymq.json("stats", topic)
    assert (sent["group"], got["group"], got["lag"]) == (None, group, 1)


def test_the_exporter_serves_what_an_apache_broker_reports(apache: ApacheServer) -> None:
    async def collect() -> Facts:
        async with Admin(apache.namesrv) as admin:
            return await FactsCollector(admin, SystemClock(), with_stats=True).collect()

    facts = asyncio.run(collect())
    (broker,) = facts.brokers
    assert (facts.error, broker.permission) == ("", 6)
    assert None not in broker.capacity()
    view = View(Names.both, SystemClock())
    view.facts = facts
    text = b"".join(slices(view.collectors(), view.labels(), lambda: 0.0)).decode()
    # Its rates and its distribution of times come with its age.
    always = {"rocketmq_broker_permission", "rocketmq_messages_in_total", "pymq_store_log_end_bytes"}
    always |= {"rocketmq_producer_offset", "rocketmq_brokeruntime_commitlogdir_capacity_free"}
    always |= {"rocketmq_brokeruntime_msg_put_total_today_now", "rocketmq_brokeruntime_commitlog_maxoffset"}
    assert [name for name in sorted(always) if f"\n{name}{{" not in text] == []
