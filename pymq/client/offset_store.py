"""Stores a consumer's offsets: at the brokers for clustering, in a local file for broadcasting."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from pymq.client.queue_offsets import QueueOffsets
from pymq.client.uninterrupted import uninterrupted
from pymq.errors import PymqError
from pymq.model.message import MessageQueue
from pymq.wire.bodies_admin import QueueOffsets as QueueOffsetTable
from pymq.wire.bodies_admin import decode_admin_body, encode_admin_body

log = logging.getLogger(__name__)

JAVA_DIRECTORY = ".rocketmq_offsets"  # in the home directory


class OffsetStore(Protocol):
    """Offsets by queue: moved in memory while consuming, stored at intervals."""

    def current(self, queue: MessageQueue) -> int | None:
        """Return the offset in memory, None for a queue that was not consumed from yet."""
        ...

    def move(self, queue: MessageQueue, offset: int, *, back: bool = False) -> None:
        """Set the offset in memory; only forward unless ``back``."""
        ...

    async def stored(self, queue: MessageQueue) -> int | None:
        """Return the stored offset, None when there is none. Raises RefusedError, UnreachableError."""
        ...

    async def store(self, queues: Iterable[MessageQueue]) -> None:
        """Store the offsets of ``queues`` that changed, durably. A failure is logged; the next call tries again."""
        ...

    def can_commit_by_pull(self, queue: MessageQueue) -> bool:
        """Return True when a pull request of ``queue`` may carry the offset to the broker."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Drop the offset of a queue that now belongs to another member."""
        ...


class _Table:
    """The base of both stores: offsets in memory, and the values last stored."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._stored: dict[MessageQueue, int] = {}

    def current(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def move(self, queue: MessageQueue, offset: int, *, back: bool = False) -> None:
        if back or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._stored.pop(queue, None)

    def _changed(self, queues: Iterable[MessageQueue]) -> list[tuple[MessageQueue, int]]:
        changed = []
        for queue in queues:
            offset = self._offsets.get(queue)
            if offset is not None and self._stored.get(queue) != offset:
                changed.append((queue, offset))
        return changed


class BrokerOffsets(_Table):
    """Clustering: keeps every queue's offset at its broker (codes 14 and 15).

    Java's broker handles the requests of one connection in many threads, and the last offset it handles wins. So this
    store waits for the answer to a commit before it sends the next one of that queue: an older offset must not
    overwrite a newer one. A group's first commit to a topic is sent alone: of two commits that find no table for the
    topic, each creates one, and the second table replaces the first (Java: ConsumerOffsetManager.commitOffset).
    """

    def __init__(self, group: str, requests: QueueOffsets) -> None:
        super().__init__()
        self._group = group
        self._requests = requests
        self._one_at_a_time = asyncio.Lock()
        self._committed_tables: set[tuple[str, str]] = set()  # (topic, broker) pairs that have answered a commit

    async def stored(self, queue: MessageQueue) -> int | None:
        return await self._requests.committed(self._group, queue)

    async def store(self, queues: Iterable[MessageQueue]) -> None:
        """Return once the brokers have answered all commits, even if the caller is cancelled."""
        await uninterrupted(self._store(list(queues)))

    def can_commit_by_pull(self, queue: MessageQueue) -> bool:
        return (queue.topic, queue.broker_name) in self._committed_tables

    async def _store(self, queues: list[MessageQueue]) -> None:
        async with self._one_at_a_time:
            tables: dict[tuple[str, str], list[tuple[MessageQueue, int]]] = defaultdict(list)
            for queue, offset in self._changed(queues):
                tables[queue.topic, queue.broker_name].append((queue, offset))
            await asyncio.gather(*[self._commit_to(table, changes) for table, changes in tables.items()])

    async def _commit_to(self, table: tuple[str, str], changes: list[tuple[MessageQueue, int]]) -> None:
        if table not in self._committed_tables:
            first, *changes = changes
            if not await self._commit(*first):
                return
            self._committed_tables.add(table)
        await asyncio.gather(*[self._commit(queue, offset) for queue, offset in changes])

    async def _commit(self, queue: MessageQueue, offset: int) -> bool:
        try:
            await self._requests.commit(self._group, queue, offset)
        except PymqError as error:
            log.warning("offset %d of %s is not committed yet: %s", offset, queue, error)
            return False
        self._stored[queue] = offset
        return True


def java_path(client_id: str, group: str) -> Path:
    """Return the place of the file in which a Java client keeps a broadcasting consumer's offsets."""
    return Path.home() / JAVA_DIRECTORY / client_id / group / "offsets.json"


class FileOffsets(_Table):
    """Broadcasting: keeps all offsets in one file, replaced as a whole. Without a path, in memory only.

    The file is a Java client's offsets.json (LocalFileOffsetStore): either client goes on with the other's.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path
        self._loaded: dict[MessageQueue, int] | None = None

    async def stored(self, queue: MessageQueue) -> int | None:
        if self._loaded is None:
            self._loaded = self._load()
        return self._offsets.get(queue, self._loaded.get(queue))

    def can_commit_by_pull(self, queue: MessageQueue) -> bool:
        return False

    async def store(self, queues: Iterable[MessageQueue]) -> None:
        changed = self._changed(queues)
        if not changed or self._path is None:
            return
        if self._loaded is None:
            self._loaded = self._load()
        self._loaded.update(changed)
        try:
            self._save(self._path, self._loaded)
            self._stored.update(changed)
        except OSError as error:
            log.warning("offsets are not saved to %s: %s", self._path, error)

    def _load(self) -> dict[MessageQueue, int]:
        """Return the offsets of the file, else of the backup that a Java client makes of it."""
        if self._path is None:
            return {}
        for path in (self._path, self._path.with_name(self._path.name + ".bak")):
            try:
                content = path.read_bytes()
                if content:
                    return decode_admin_body(QueueOffsetTable, content).offset_table
            except FileNotFoundError:
                pass
            except (OSError, PymqError) as error:
                log.warning(
                    "the offsets in %s can't be read: %s; without a backup, consuming starts as for a new group",
                    *(path, error),
                )
        return {}

    @staticmethod
    def _save(path: Path, offsets: dict[MessageQueue, int]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("wb") as file:
            file.write(encode_admin_body(QueueOffsetTable(offset_table=offsets)))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
