"""How far a mirror has come: in a file of its own, or as the offsets of a consumer group at the source."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from pymq.client import MessageQueue, PullConsumer
from pymq.errors import UsageError
from pymq.file_lock import try_lock_file

VERSION = 1

Offsets = Mapping[MessageQueue, int]


class Progress(Protocol):
    """Where each queue of the source goes on. Everything before these offsets is stored at the target."""

    async def offset(self, queue: MessageQueue) -> int | None:
        """Return the offset to go on at, None if the queue was never copied."""
        ...

    async def save(self, offsets: Offsets) -> None:
        """Keep the offsets of these queues; others keep theirs."""
        ...

    def close(self) -> None:
        """Let another mirror use it."""
        ...


class GroupProgress:
    """The committed offsets of a consumer group at the source: ``pymq group lag`` shows how far a mirror is behind."""

    def __init__(self, pull: PullConsumer) -> None:
        self._pull = pull

    async def offset(self, queue: MessageQueue) -> int | None:
        """Return the committed offset."""
        return await self._pull.committed(queue)

    async def save(self, offsets: Offsets) -> None:
        """Commit the offsets."""
        await asyncio.gather(*(self._pull.commit(queue, offset) for queue, offset in offsets.items()))

    def close(self) -> None:
        """Do nothing: the source's brokers keep the offsets."""


class FileProgress:
    """A JSON file, replaced as a whole at each save: a crash leaves the old or the new one.

    One mirror at a time uses it, which a lock on ``FILE.lock`` holds as long as the process lives.
    """

    def __init__(self, path: Path, source: str, target: str) -> None:
        """Raise UsageError for a file that another mirror uses, is none, or belongs to other clusters."""
        self._path = path
        self._names = {"source": source, "target": target}
        self._lock = _lock(path.with_name(path.name + ".lock"))
        try:
            self._offsets = self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> dict[MessageQueue, int]:
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self._path} can't be read: {error}") from error
        try:
            known = json.loads(text)
            names = {name: known[name] for name in self._names}
            found = {
                MessageQueue(topic, broker, int(queue_id)): int(offset)
                for topic, brokers in known["offsets"].items()
                for broker, queues in brokers.items()
                for queue_id, offset in queues.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{self._path} is no progress of a mirror: {error!r}; give the name of a new file"
            ) from error
        if known.get("version") != VERSION:
            raise UsageError(f"{self._path} has version {known.get('version')}, this pymq reads {VERSION}")
        if names != self._names:
            raise UsageError(
                f"{self._path} is the progress from {names['source']} to {names['target']}, not from "
                f"{self._names['source']} to {self._names['target']}: give another file"
            )
        return found

    async def offset(self, queue: MessageQueue) -> int | None:
        """Return the offset in the file."""
        return self._offsets.get(queue)

    async def save(self, offsets: Offsets) -> None:
        """Replace the file. Raises OSError when the disk does not take it."""
        self._offsets.update(offsets)
        table: dict[str, dict[str, dict[str, int]]] = {}
        for queue, offset in sorted(self._offsets.items()):
            table.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
        document: dict[str, Any] = {"version": VERSION, **self._names, "offsets": table}
        part = self._path.with_name(self._path.name + ".new")
        with part.open("w") as target:
            target.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
            target.flush()
            os.fsync(target.fileno())
        part.replace(self._path)

    def close(self) -> None:
        """Unlock the file."""
        self._lock.close()


def _lock(path: Path) -> IO[str]:
    try:
        held = path.open("a")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from error
    if not try_lock_file(held.fileno()):
        held.close()
        raise UsageError(f"another mirror uses {path}: stop it, or give another file")
    return held
