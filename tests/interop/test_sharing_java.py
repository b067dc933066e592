"""What the Java client 5.3.3 decides by itself: the shares of its strategies, and a broadcaster's file of offsets."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pymq.client.offset_store import FileOffsets
from pymq.model.message import MessageQueue
from tests.interop.support.maven import compiled
from tests.interop.support.tools import require

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def run_java(tmp_path: Path) -> Callable[[str], str]:
    (java,) = require("java")
    classes = compiled("sharing", "client-5.3.3")

    def run(what: str) -> str:
        flags = [
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Drocketmq.client.logRoot={tmp_path}/logs",
        ]
        flags += [f"-Drocketmq.client.localOffsetStoreDir={tmp_path}/offsets"]
        command = [java, *flags, "-cp", classes, "interop.SharingMain", what]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    return run


def test_the_golden_shares_are_javas(run_java: Callable[[str], str]) -> None:
    assert run_java("strategies") == (GOLDEN / "sharing.jsonl").read_text()


def test_either_client_goes_on_with_the_others_offsets_of_a_broadcast(
    run_java: Callable[[str], str], tmp_path: Path
) -> None:
    path = tmp_path / "offsets" / "10.0.0.1@billing" / "sharing_group" / "offsets.json"
    queues = [MessageQueue("Orders", "broker-a", queue_id) for queue_id in range(4)]

    async def take_over() -> list[int | None]:
        store = FileOffsets(path)
        found = [await store.stored(queue) for queue in queues]
        store.move(queues[0], 500)
        await store.store(queues)
        return found

    run_java("write")
    assert asyncio.run(take_over()) == [100, 101, 102, None]
    assert run_java("read").splitlines() == ["0 500", "1 101", "2 102", "3 -1"]
