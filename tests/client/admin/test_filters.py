"""The filter figures of a group, read from each place where a filter runs and in each place's format."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pymq.client import PushConsumer
from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.filters import (
    MEMBERS_ASKED_MAX,
    FilterAdmin,
    FilterFigures,
    of_broker,
    of_filter_server,
    of_member,
)
from pymq.client.consumer_settings import FIRST
from pymq.errors import RefusedError
from pymq.filter import registry
from pymq.filter.registry import FilterRegistry
from pymq.model.record import StoredMessage
from pymq.wire.bodies_admin import Connection, ConsumerConnections, ConsumerRunningInfo
from tests.client.test_local_filter import Entry
from tests.filterserver.test_server import Cluster, run, until


def make_consumer(made: Cluster, group: str, got: list[bytes]) -> PushConsumer:
    def take(messages: list[StoredMessage]) -> None:
        got.extend(message.body for message in messages)

    return PushConsumer(group, namesrv=made.namesrv.address, on_message=take, consume_from=FIRST)


def test_figures_of_members_and_of_filter_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "installed_filters", lambda: FilterRegistry(lambda: [Entry()]))  # type: ignore[list-item]

    async def scenario(made: Cluster) -> None:
        await made.send(b"yes", b"no", b"pass")
        got: list[bytes] = []
        there = make_consumer(made, "there", got)
        there.subscribe("T", filter="hostile", expression="obey", via="filter-server")
        here = make_consumer(made, "here", got)
        here.subscribe("T", filter="length", expression="1")
        async with there, here, Admin(made.namesrv.address) as admin:
            await until(lambda: len(got) == 5)
            [at_server] = await admin.filters.figures("there")
            [at_client] = await admin.filters.figures("here")
            assert await admin.filters.figures("unknown") == []
            assert at_server._replace(time_ms=0) == FilterFigures(
                "T", "filter-server", made.filter_server.address, "hostile", 2, 1, 0, 0
            )
            assert at_client._replace(time_ms=0, at="") == FilterFigures("T", "client", "", "length", 3, 0, 0, 0)
            assert "@" in at_client.at
            await made.filter_server.stop()
            assert await admin.filters.figures("there") == []
            assert await admin.filters.figures("here") == [at_client]

    run(tmp_path, scenario)


def test_the_shapes_of_each_place() -> None:
    text = "matched 1, skipped 2, errors 3, 4 ms"
    info = {"filter.T@G": text, "filter.T@H": text, "filter.U@G": "another text", "bootTimestamp": "5"}
    assert list(of_broker("a", "G", info)) == [FilterFigures("T", "broker", "a", "sql92", 1, 2, 3, 4)]
    properties = {"filter.T": f"regex: {text}", "filter.U": text, "PROP_CONSUMEORDERLY": "false"}
    assert list(of_member("me", properties)) == [FilterFigures("T", "client", "me", "regex", 1, 2, 3, 4)]
    table = {"role": "filter-server"}
    for where, matched in (("filter.G.T", "1"), ("filter.G.T#7", "5"), ("filter.GG.T", "6"), ("filter.G.U", "many")):
        table |= {f"{where}.name": "cel", f"{where}.matched": matched, f"{where}.skipped": "2", f"{where}.timeMs": "4"}
    assert list(of_filter_server("h:1", "G", table)) == [
        FilterFigures("T", "filter-server", "h:1", "cel", 1, 2, 0, 4),
        FilterFigures("T", "filter-server", "h:1", "cel", 5, 2, 0, 4),
    ]


class Members:
    """Replaces a cluster with one broker and a group of many members."""

    def __init__(self, count: int) -> None:
        self.online = ConsumerConnections(
            connection_set=[Connection(client_id="java", client_addr="", language="JAVA", version=0)]
            + [
                Connection(client_id=f"{number:03}", client_addr="", language="PYTHON", version=0)
                for number in range(count)
            ]
        )
        self.asked: list[str] = []

    async def masters(self) -> list[BrokerTarget]:
        return [BrokerTarget("a", "c", "a:1")]

    async def runtime_info(self, address: str) -> dict[str, str]:
        return {}

    async def topics(self, group: str) -> list[str]:
        return []

    async def connections(self, address: str, group: str) -> ConsumerConnections:
        return self.online

    async def running_info(self, address: str, group: str, client_id: str) -> ConsumerRunningInfo:
        self.asked.append(client_id)
        if client_id == "000":
            raise RefusedError(1, "it is gone")
        return ConsumerRunningInfo(properties={"filter.T": "cel: matched 1, skipped 0, errors 0, 0 ms"})


def test_a_bounded_number_of_members_is_asked_and_missing_ones_skipped() -> None:
    members: Any = Members(MEMBERS_ASKED_MAX + 1)
    figures = asyncio.run(FilterAdmin(members, members, members, members).figures("G"))
    assert members.asked == [f"{number:03}" for number in range(MEMBERS_ASKED_MAX)]
    assert [one.at for one in figures] == members.asked[1:]
