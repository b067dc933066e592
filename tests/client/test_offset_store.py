"""The two offset stores: brokers, or a file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pymq.client.offset_store import BrokerOffsets, FileOffsets, java_path
from pymq.client.queue_offsets import QueueOffsets
from pymq.errors import UnreachableError
from pymq.model.message import MessageQueue

QUEUE = MessageQueue("T", "b", 0)
OTHER = MessageQueue("T", "b", 1)


class FakeRequests(QueueOffsets):
    """Offsets at a broker that may be unreachable and that answers only while its gate is open."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self.commits: list[tuple[MessageQueue, int]] = []
        self.reachable = True
        self.gate = asyncio.Event()
        self.gate.set()

    async def committed(self, group: str, queue: MessageQueue) -> Any:
        return self.offsets.get(queue)

    async def commit(self, group: str, queue: MessageQueue, offset: Any) -> None:
        if not self.reachable:
            raise UnreachableError("gone")
        self.commits.append((queue, offset))
        await self.gate.wait()
        self.offsets[queue] = offset


def test_offsets_only_go_forward_unless_forced() -> None:
    store = FileOffsets(None)
    store.move(QUEUE, 5)
    store.move(QUEUE, 3)
    assert store.current(QUEUE) == 5
    store.move(QUEUE, 3, back=True)
    assert store.current(QUEUE) == 3
    store.forget(QUEUE)
    assert store.current(QUEUE) is None


def test_only_changes_go_to_the_broker() -> None:
    async def main() -> None:
        requests = FakeRequests()
        store = BrokerOffsets("G", requests)
        store.move(QUEUE, 5)
        await store.store([QUEUE, OTHER])
        await store.store([QUEUE, OTHER])
        store.move(QUEUE, 6)
        await store.store([QUEUE])
        assert requests.commits == [(QUEUE, 5), (QUEUE, 6)]
        assert await store.stored(QUEUE) == 6
        assert await store.stored(OTHER) is None

    asyncio.run(main())


async def turns(count: int = 5) -> None:
    """Let every other task run until it waits."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_the_first_commit_to_a_topic_goes_alone() -> None:
    async def main() -> None:
        requests = FakeRequests()
        store = BrokerOffsets("G", requests)
        queues = [MessageQueue("T", "b", n) for n in range(3)]
        elsewhere = MessageQueue("T", "c", 0)
        for queue in [*queues, elsewhere]:
            store.move(queue, 1)
        requests.gate.clear()
        storing = asyncio.ensure_future(store.store([*queues, elsewhere]))
        await turns()
        assert requests.commits == [(queues[0], 1), (elsewhere, 1)]
        assert not store.can_commit_by_pull(queues[1])
        requests.gate.set()
        await storing
        assert requests.offsets == dict.fromkeys([*queues, elsewhere], 1)
        assert store.can_commit_by_pull(queues[1]) and not store.can_commit_by_pull(MessageQueue("Other", "b", 0))
        for queue in queues:
            store.move(queue, 2)
        requests.gate.clear()
        storing = asyncio.ensure_future(store.store(queues))
        await turns()
        assert requests.commits[4:] == [(queue, 2) for queue in queues]
        requests.gate.set()
        await storing

    asyncio.run(main())


def test_a_newer_offset_is_sent_once_the_older_one_is_answered() -> None:
    async def main() -> None:
        requests = FakeRequests()
        store = BrokerOffsets("G", requests)
        store.move(QUEUE, 5)
        requests.gate.clear()
        first = asyncio.ensure_future(store.store([QUEUE]))
        await turns()
        first.cancel()
        store.move(QUEUE, 6)
        second = asyncio.ensure_future(store.store([QUEUE]))
        await turns()
        assert requests.commits == [(QUEUE, 5)]
        requests.gate.set()
        await second
        assert requests.commits == [(QUEUE, 5), (QUEUE, 6)]
        assert first.cancelled()

    asyncio.run(main())


def test_a_failed_commit_is_retried() -> None:
    async def main() -> None:
        requests = FakeRequests()
        store = BrokerOffsets("G", requests)
        store.move(QUEUE, 5)
        requests.reachable = False
        await store.store([QUEUE])
        requests.reachable = True
        await store.store([QUEUE])
        assert requests.offsets == {QUEUE: 5}

    asyncio.run(main())


def test_an_offset_file_survives_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "deep" / "offsets.json"
        store = FileOffsets(path)
        assert await store.stored(QUEUE) is None
        store.move(QUEUE, 5)
        store.move(OTHER, 6)
        await store.store([QUEUE])
        await store.store([OTHER])
        again = FileOffsets(path)
        assert (await again.stored(QUEUE), await again.stored(OTHER)) == (5, 6)
        assert [file.name for file in path.parent.iterdir()] == ["offsets.json"]

    asyncio.run(main())


# As a Java client 5.3.3 writes it (tests/interop/test_sharing_java.py).
JAVA_FILE = """{
\t"offsetTable":{{
\t\t\t"brokerName":"b",
\t\t\t"queueId":1,
\t\t\t"topic":"T"
\t\t}:102,{
\t\t\t"brokerName":"b",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:100
\t}
}"""


def test_the_file_of_a_java_client_is_read(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "offsets.json"
        path.write_text(JAVA_FILE)
        store = FileOffsets(path)
        assert (await store.stored(QUEUE), await store.stored(OTHER)) == (100, 102)

    asyncio.run(main())


def test_a_java_client_has_its_file_below_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".rocketmq_offsets" / "10.0.0.1@billing" / "G" / "offsets.json"
    assert java_path("10.0.0.1@billing", "G") == expected


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"offsetTable": {"x": 1}}'])
def test_a_backup_replaces_a_missing_or_damaged_file(tmp_path: Path, content: bytes | None) -> None:
    async def main() -> None:
        path = tmp_path / "offsets.json"
        if content is not None:
            path.write_bytes(content)
        (tmp_path / "offsets.json.bak").write_text(JAVA_FILE)
        assert await FileOffsets(path).stored(QUEUE) == 100

    asyncio.run(main())


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1}', b'[["T", "b"]]', b'{"offsetTable": {"x": []}}'])
def test_a_damaged_file_is_a_new_start(tmp_path: Path, content: Any) -> None:
    async def main() -> None:
        path = tmp_path / "offsets.json"
        path.write_bytes(content)
        assert await FileOffsets(path).stored(QUEUE) is None

    asyncio.run(main())
