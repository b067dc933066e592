"""The gRPC clients of RocketMQ 5 against the server under test: a program for each language, scenarios side by side."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import ClientType, Code
from tests.interop.conftest import server_kinds
from tests.interop.support import probe
from tests.interop.support.apache import CHECKS_SOON
from tests.interop.support.grpc_driver import COMMANDS, Driver, text
from tests.interop.support.grpc_runs import Runs, selected_cases
from tests.interop.support.grpc_scenarios import (
    GROUP,
    NOT_ON_APACHE,
    PROPERTIES,
    WAIT_S,
    after_restart,
    before_restart,
    collect,
    prepare,
    scenarios_of,
    simple,
    tail,
)
from tests.interop.support.grpc_servers import ApacheProxy, GrpcServer, PymqProxy
from tests.interop.support.pymq_server import REPOSITORY
from tests.interop.support.second_runs import SecondRuns
from tests.interop.support.tools import unavailable
from tests.proxy.harness import RawClient

# Rust's client is one of them on request: cargo builds it for minutes.
LANGUAGES = [name for name in COMMANDS if name != "rust" or os.environ.get("PYMQ_INTEROP_RUST") == "1"]
CASES = [(language, scenario) for language in LANGUAGES for scenario in scenarios_of(language)]
# Against Apache these consumers get errors after a restart, until they send their settings again: 5 to 10 minutes.
STAND_STILL_ON_APACHE = ("go", "python")
NORMAL = 1
CALL_TIMEOUT_S = 20


@pytest.fixture(scope="module", params=server_kinds())
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcServer]:
    if request.param == "pymq" and importlib.util.find_spec("grpc") is None:
        unavailable("the extra `grpc` is not installed")
    directory = tmp_path_factory.mktemp(f"grpc-{request.param}")
    started: GrpcServer = ApacheProxy(directory) if request.param == "apache" else PymqProxy(directory, CHECKS_SOON)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def drivers(server: GrpcServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Driver]]:
    directory = tmp_path_factory.mktemp("drivers")
    started = {name: Driver(name, directory / name) for name in LANGUAGES}
    yield {name: driver.using(server.endpoint, server.namesrv) for name, driver in started.items()}
    for driver in started.values():
        driver.end()


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, server: GrpcServer, drivers: dict[str, Driver], second_runs: SecondRuns
) -> Iterator[Runs]:
    started = Runs(server, drivers, selected_cases(request), second_runs)
    yield started
    started.end()


@pytest.mark.parametrize(("language", "scenario"), CASES)
def test_scenario(runs: Runs, language: str, scenario: str) -> None:
    if runs.server_kind == "apache" and (language, scenario) in NOT_ON_APACHE:
        pytest.skip("Apache's proxy passes bodies on as this client can't read them")
    runs.check(language, scenario)


def test_spark_and_tail_read_what_the_clients_sent_and_the_reverse(
    server: GrpcServer, drivers: dict[str, Driver], runs: Runs
) -> None:
    """Ids, bodies, tags, keys and properties are the same on both sides, for messages of each type."""
    pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")
    from pymq.spark.session import gateway

    sent_there, sent_here = (f"grpc-{word}-{uuid.uuid4().hex[:6]}" for word in ("spark", "back"))
    for topic in (sent_there, sent_here):
        probe.create_topic(server.namesrv, server.broker, topic, attributes="+message.type=MIXED")
    with ThreadPoolExecutor(len(drivers)) as pool:
        sending = {name: pool.submit(_send_each_type, driver, sent_there) for name, driver in drivers.items()}
        sent = {each["id"]: each for done in sending.values() for each in done.result()}
    probe.wait_for_messages(server.broker, sent_there, len(sent))
    frame = {"namesrv": server.namesrv, "columns": "msgId,body,tags,keys,properties", "startingOffsets": "earliest"}
    with gateway.running("local[2]", gateway.light_conf({})) as spark:
        rows = spark.read.format("pymq").options(**frame).load(sent_there).collect()
        made = spark.createDataFrame(
            [(b"by spark", "TagA", ["k1", "k2"], PROPERTIES)],
            "body binary, tags string, keys array<string>, properties map<string,string>",
        )
        made.write.format("pymq").option("namesrv", server.namesrv).mode("append").save(sent_here)
    assert sorted(row.msgId for row in rows) == sorted(sent)
    for row in rows:
        one = sent[row.msgId]
        assert (bytes(row.body), row.tags, sorted(row.keys.split())) == (one["body"], "TagA", ["k1", "k2"])
        assert row.properties.items() >= {**PROPERTIES, **one["more"]}.items()
    for shown in tail(server, sent_there, "--count", str(len(sent))):
        one = sent.pop(shown["message_id"])
        assert (shown["body"].encode(), shown["tags"]) == (one["body"], "TagA")
        assert sorted(shown["keys"].split()) == ["k1", "k2"]
        assert shown["properties"].items() >= PROPERTIES.items()
    assert not sent, "tail shows each message"
    send = [sys.executable, "-m", "pymq", "send", sent_here, "by pymq", "--tag", "TagA", "--namesrv", server.namesrv]
    send += ["--key", "k1", "--key", "k2", *(f"--property={name}={value}" for name, value in PROPERTIES.items())]
    subprocess.run(send, cwd=REPOSITORY, check=True, capture_output=True)
    for language, driver in drivers.items():
        probe.create_group(server.broker, f"{sent_here}-{language}", **GROUP)
        consumer = simple(driver, f"{sent_here}-{language}", topic=sent_here)
        got = collect(driver, consumer, 2)
        assert sorted(text(one) for one in got) == ["by pymq", "by spark"]
        for one in got:
            assert (one["tag"], sorted(one["keys"])) == ("TagA", ["k1", "k2"])
            assert one["properties"].items() >= PROPERTIES.items()


def test_receipts_that_settle_nothing(server: GrpcServer) -> None:
    """One that is outdated or another group's gets OK within its time; after it, INVALID_RECEIPT_HANDLE."""
    asyncio.run(_settle_in_vain(server, f"grpc-receipts-{uuid.uuid4().hex[:6]}"))


async def _settle_in_vain(server: GrpcServer, name: str) -> None:
    others = f"{name}-others"
    probe.create_topic(server.namesrv, server.broker, name, attributes="+message.type=NORMAL")
    for group in (name, others):
        probe.create_group(server.broker, group, **GROUP)
    client = RawClient(server.endpoint, name)
    settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER, request_timeout=m.Duration(seconds=3))
    settings.subscription.group.name = name
    stream = await client.settle(settings)
    received: dict[bytes, Any] = {}

    async def receive() -> None:
        times = {"invisible_duration": m.Duration(seconds=10), "long_polling_timeout": m.Duration(seconds=5)}
        _, messages = await client.received(name, name, CALL_TIMEOUT_S, **times)
        received.update({each.body: each for each in messages})

    async def change(group: str, message: Any, handle: str = "") -> tuple[int, str]:
        """Return the code and the new handle."""
        answer = await client.change(group, with_handle(message, handle), 10_000)
        return answer.status.code, answer.receipt_handle

    async def ack(group: str, message: Any, handle: str = "") -> int:
        return await client.ack(group, with_handle(message, handle))

    def with_handle(message: Any, handle: str) -> Any:
        other = m.Message()
        other.CopyFrom(message)
        other.system_properties.receipt_handle = handle or message.system_properties.receipt_handle
        return other

    bodies = (b"acknowledged", b"changed", b"another group's")
    for body in bodies:
        assert (await client.send(name, body, message_type=NORMAL)).status.code == Code.OK
    async with asyncio.timeout(WAIT_S):
        while len(received) < len(bodies):
            await receive()
    acknowledged, changed, kept = (received.pop(body) for body in bodies)
    # OK, though another group's: the message comes again.
    assert await ack(others, kept) == Code.OK
    code, handle = await change(others, kept)
    assert code == Code.OK and handle
    # Outdated by an acknowledgement, and by a change.
    assert [await ack(name, acknowledged) for _ in range(2)] == [Code.OK] * 2
    assert (await change(name, acknowledged))[0] == Code.OK
    code, handle = await change(name, changed)
    assert code == Code.OK and handle != changed.system_properties.receipt_handle
    assert await ack(name, changed) == Code.OK
    code, second = await change(name, changed)
    assert code == Code.OK and second
    assert await ack(name, changed, handle) == Code.OK
    # Over.
    async with asyncio.timeout(WAIT_S):
        while kept.body not in received:
            await receive()
    again = received[kept.body]
    assert again.system_properties.delivery_attempt == 2
    assert await ack(name, kept) == Code.INVALID_RECEIPT_HANDLE
    assert (await change(name, kept))[0] == Code.INVALID_RECEIPT_HANDLE
    assert await ack(name, again) == Code.OK
    stream.cancel()
    await client.close()


def _send_each_type(driver: Driver, topic: str) -> list[dict[str, Any]]:
    """Send a message of each type; return them with their ids, and with what their type adds to the properties."""
    producer = f"{topic}-{driver.language}"
    driver.call("producer", name=producer, topic=topic)
    due_ms = (int(time.time()) + 1) * 1000
    types: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
        "normal": ({}, {}),
        "fifo": ({"message_group": "a"}, {"__SHARDINGKEY": "a"}),
        "delay": ({"delivery_ms": due_ms}, {}),
        "transaction": ({"transaction": True}, {}),
    }
    sent = []
    for kind, (fields, more) in types.items():
        content = f"{driver.language} {kind} 消息".encode()
        fields = {**fields, "tag": "TagA", "keys": ["k1", "k2"], "properties": PROPERTIES}
        receipt = driver.call("send", name=producer, topic=topic, body=content, **fields)
        if kind == "transaction":
            driver.call("end", id=receipt["id"], commit=True)
        sent.append({"id": receipt["id"], "body": content, "more": more})
    return sent


def test_producers_and_consumers_go_on_after_a_restart(
    server: GrpcServer, drivers: dict[str, Driver], runs: Runs, second_runs: SecondRuns
) -> None:
    runs.end()  # the restart would disturb them
    names: dict[str, str] = {}

    def begin(language: str) -> str | None:
        name = names[language] = f"grpc-{language}-restart-{uuid.uuid4().hex[:6]}"
        prepare(server, "restart", name)
        try:
            before_restart(drivers[language], name)
        except AssertionError as failure:
            return str(failure)
        return None

    for language in drivers:
        stands_still = server.kind == "apache" and language in STAND_STILL_ON_APACHE
        if "push" in scenarios_of(language) and not stands_still and (error := begin(language)) is not None:
            second_runs.run(f"{language} (gRPC) against {server.kind} restart", error, partial(begin, language))
    for restart, content in ((server.restart_cleanly, "after a stop"), (server.restart, "after a kill")):
        restart()
        with ThreadPoolExecutor(len(names)) as pool:
            for done in [pool.submit(after_restart, drivers[each], names[each], content) for each in names]:
                done.result()
