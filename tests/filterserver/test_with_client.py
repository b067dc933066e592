"""PyMQ's own consumer through filter servers: the messages it gets, also after a kill, and the errors."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from pymq.client import MessageQueue, PullConsumer, PullStatus, PushConsumer
from pymq.client.consumer_settings import FIRST
from pymq.errors import RefusedError, UnreachableError, UsageError
from pymq.model.record import StoredMessage
from pymq.wire.codes import ResponseCode
from tests.filterserver.test_server import Cluster, run, until

RETRY_S = 0.05
MESSAGE_COUNT = 60
QUEUE = MessageQueue("T", "broker-a", 0)
OBEY: dict[str, Any] = {"filter": "hostile", "expression": "obey", "via": "filter-server"}


def make_consumer(made: Cluster, got: list[bytes]) -> PushConsumer:
    def take(messages: list[StoredMessage]) -> None:
        got.extend(message.body for message in messages)

    return PushConsumer(
        "G",
        namesrv=made.namesrv.address,
        on_message=take,
        consume_from=FIRST,
        pull_count_max=4,
        retry_interval_s=RETRY_S,
    )


def test_only_matches_arrive_and_a_new_expression_takes_effect(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"no", b"pass")
        got: list[bytes] = []
        consumer = make_consumer(made, got)
        consumer.subscribe("T", filter="hostile", expression="obey", via="filter-server")
        async with consumer:
            await until(lambda: len(got) == 2)
            await made.send(b"no", b"late")
            await until(lambda: len(got) == 3)
        assert sorted(got) == [b"late", b"pass", b"yes"]
        again = make_consumer(made, got)
        again.subscribe("T", filter="sql92", expression="TAGS IS NULL", via="filter-server")
        async with again:
            await made.send(b"no")
            await until(lambda: len(got) == 4)
        assert got[3] == b"no"

    run(tmp_path, scenario)


def test_a_consumer_switches_servers_without_a_loss(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        second = await made.add_filter_server()
        await made.send(*[b"%d" % number for number in range(MESSAGE_COUNT)])
        got: list[bytes] = []
        consumer = make_consumer(made, got)
        consumer.subscribe("T", filter="hostile", expression="obey", via="filter-server")
        async with consumer:
            await until(lambda: len(got) >= MESSAGE_COUNT // 4)
            await second.stop()
            await made.send(b"last")
            await until(lambda: len(got) == MESSAGE_COUNT + 1)
        assert sorted(got) == sorted([*[b"%d" % number for number in range(MESSAGE_COUNT)], b"last"])

    run(tmp_path, scenario)


def test_without_a_filter_server_the_error_names_the_next_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes")
        await made.filter_server.stop()
        await until(lambda: made.registered() == [])
        got: list[bytes] = []
        consumer = make_consumer(made, got)
        consumer.subscribe("T", filter="hostile", expression="obey", via="filter-server")
        async with consumer:
            await until(lambda: f"pymq filter-server --broker {made.broker.address}" in caplog.text)
            assert got == []
            made.filter_server = await made.add_filter_server()
            await until(lambda: got == [b"yes"])

    with caplog.at_level(logging.WARNING):
        run(tmp_path, scenario)


async def read(pull: PullConsumer, offset: int, end: int, got: list[bytes], **options: object) -> int:
    """Pull [offset, end) four messages at a time; return the offset to continue at."""
    while offset < end:
        result = await pull.pull(QUEUE, offset, 4, **{**OBEY, **options})
        assert result.next_offset > offset and len(result.messages()) <= 4
        got += [message.body for message in result.messages()]
        offset = result.next_offset
    return offset


def test_a_reader_without_a_group_pulls_through_a_server(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"no", b"bad", b"pass", *[b"no"] * 5, b"last")
        got: list[bytes] = []
        async with PullConsumer("Reader", namesrv=made.namesrv.address) as pull:
            assert await read(pull, 0, 10, got) == 10
            assert got == [b"yes", b"pass", b"last"]
            none = await pull.pull(QUEUE, 4, 5, **OBEY)
            assert (none.status, none.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 9)
            beyond = await pull.pull(QUEUE, 99, **OBEY)
            assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 10)
            waiting = asyncio.ensure_future(pull.pull(QUEUE, 10, suspend_ms=15_000, **OBEY))
            await made.send(b"late")
            assert [message.body for message in (await waiting).messages()] == [b"late"]

    run(tmp_path, scenario)


def test_two_expressions_of_one_group_are_independent(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"no")
        async with PullConsumer("Reader", namesrv=made.namesrv.address) as pull:
            for _ in range(2):
                obeyed = await pull.pull(QUEUE, 0, **OBEY)
                assert [message.body for message in obeyed.messages()] == [b"yes"]
                all_of_them: dict[str, Any] = {**OBEY, "filter": "sql92", "expression": "TAGS IS NULL"}
                assert len((await pull.pull(QUEUE, 0, **all_of_them)).messages()) == 2
        figures = await made.figures()
        counted = [name for name in figures if name.startswith("filter.Reader.T#") and name.endswith(".matched")]
        assert sorted(figures[name] for name in counted) == ["2", "4"] and figures["classCount"] == "2"

    run(tmp_path, scenario)


def test_a_reader_gets_the_reason_of_a_refusal(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"bad", b"no")
        async with PullConsumer("Reader", namesrv=made.namesrv.address) as pull:
            with pytest.raises(RefusedError, match="'x' is no order") as refused:
                await pull.pull(QUEUE, 0, **{**OBEY, "expression": "x"})
            assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
            stopped = await pull.pull(QUEUE, 0, on_error="stop", **OBEY)
            assert (stopped.next_offset, len(stopped.messages())) == (1, 1)
            with pytest.raises(RefusedError, match="queue 0 offset 1: this one is bad; its policy is stop"):
                await pull.pull(QUEUE, 1, on_error="stop", **OBEY)

    run(tmp_path, scenario)


def test_a_reader_switches_to_another_server_and_to_a_new_one(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        second = await made.add_filter_server()
        await made.send(*[b"%d" % number for number in range(MESSAGE_COUNT)])
        got: list[bytes] = []
        async with PullConsumer("Reader", namesrv=made.namesrv.address) as pull:
            offset = await read(pull, 0, MESSAGE_COUNT // 4, got)
            await second.stop()
            offset = await read(pull, offset, MESSAGE_COUNT // 2, got)
            await made.filter_server.stop()
            await until(lambda: made.registered() == [])
            with pytest.raises(UnreachableError, match=f"pymq filter-server --broker {made.broker.address}"):
                await read(pull, offset, MESSAGE_COUNT, got)
            made.filter_server = await made.add_filter_server()
            await read(pull, offset, MESSAGE_COUNT, got)
        assert got == [b"%d" % number for number in range(MESSAGE_COUNT)]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "arguments",
    [
        {"via": "filter-server"},
        {"via": "elsewhere", "filter": "tag"},
        {"via": "filter-server", "filter": "a:b"},
        {"via": "filter-server", "filter": "tag", "on_error": "panic"},
        {"via": "filter-server", "filter": "tag", "sql": "a = 1"},
    ],
)
def test_contradictory_options_are_refused(arguments: dict[str, str]) -> None:
    async def scenario() -> None:
        consumer = PushConsumer("G", namesrv="127.0.0.1:1", on_message=lambda _: None)
        with pytest.raises(UsageError):
            consumer.subscribe("T", **arguments)
        await consumer.stop()

    asyncio.run(scenario())
