"""Where a consumer's progress is kept: at the brokers for a group that shares, in a local file for broadcasting."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from pymq.client.queue_offsets import QueueOffsets
from pymq.errors import PymqError
from pymq.model.message import MessageQueue

log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Offsets by queue: moved in memory while consuming, stored now and then."""

    def current(self, queue: MessageQueue) -> int | None:
        """The offset in memory; None for a queue that wasn't consumed from yet."""
        ...

    def move(self, queue: MessageQueue, offset: int, *, back: bool = False) -> None:
        """Sets the offset in memory; only forward unless ``back``."""
        ...

    async def stored(self, queue: MessageQueue) -> int | None:
        """The offset as stored; None when there is none. Raises RefusedError, UnreachableError."""
        ...

    async def store(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Stores what changed of ``queues``; failures are logged and tried again the next time."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """The queue is another member's now."""
        ...


class _Table:
    """The part both stores share: offsets in memory and what was stored of them."""

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
    """Clustering: every queue's offset at its broker (codes 14 and 15)."""

    def __init__(self, group: str, requests: QueueOffsets) -> None:
        super().__init__()
        self._group = group
        self._requests = requests

    async def stored(self, queue: MessageQueue) -> int | None:
        return await self._requests.committed(self._group, queue)

    async def store(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """``wait``: until the broker says it has them; else one-way, as the Java client does."""
        await asyncio.gather(*[self._commit(queue, offset, wait) for queue, offset in self._changed(queues)])

    async def _commit(self, queue: MessageQueue, offset: int, wait: bool) -> None:
        try:
            await self._requests.commit(self._group, queue, offset, oneway=not wait)
            self._stored[queue] = offset
        except PymqError as error:
            log.warning("offset %d of %s is not committed yet: %s", offset, queue, error)


class FileOffsets(_Table):
    """Broadcasting: all offsets in one JSON file, replaced as a whole; in memory only without a path."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path
        self._loaded: dict[MessageQueue, int] | None = None

    async def stored(self, queue: MessageQueue) -> int | None:
        if self._loaded is None:
            self._loaded = self._load()
        return self._offsets.get(queue, self._loaded.get(queue))

    async def store(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
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
        if self._path is None or not self._path.exists():
            return {}
        try:
            rows = msgspec.json.decode(self._path.read_bytes(), type=list[tuple[str, str, int, int]])
        except (OSError, msgspec.DecodeError) as error:
            log.warning("the offsets in %s can't be read, consuming starts as for a new group: %s", self._path, error)
            return {}
        return {MessageQueue(topic, broker, queue_id): offset for topic, broker, queue_id, offset in rows}

    @staticmethod
    def _save(path: Path, offsets: dict[MessageQueue, int]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [[*queue, offset] for queue, offset in sorted(offsets.items())]
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(rows), indent=1))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
