"""PyMQ's own consumer through filter servers: what arrives, also when one is killed, and what it is told."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from pymq.client import PushConsumer
from pymq.client.consumer_settings import FIRST
from pymq.errors import UsageError
from pymq.model.record import StoredMessage
from tests.filterserver.test_server import Cluster, run, until

RETRY_S = 0.05
MESSAGE_COUNT = 60


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


def test_only_what_the_filter_wants_arrives_and_a_new_expression_is_taken(tmp_path: Path) -> None:
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


def test_a_consumer_goes_on_with_the_other_server_and_misses_nothing(tmp_path: Path) -> None:
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


def test_without_a_filter_server_the_next_step_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
def test_what_can_not_be_meant_is_refused(arguments: dict[str, str]) -> None:
    async def scenario() -> None:
        consumer = PushConsumer("G", namesrv="127.0.0.1:1", on_message=lambda _: None)
        with pytest.raises(UsageError):
            consumer.subscribe("T", **arguments)  # type: ignore[arg-type]
        await consumer.stop()

    asyncio.run(scenario())
