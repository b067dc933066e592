"""A running broker as a source of log and tables for ``pymq store recover``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from pymq.cli.common.options import request_credentials
from pymq.client.admin import Admin
from pymq.client.admin.replication import ROCKETMQ_PROTOCOL_VERSION, ReplicationAdmin
from pymq.errors import StoreError, UsageError
from pymq.model.route import MASTER_ID
from pymq.offline.log_source import SourceFacts
from pymq.store.replica.epoch_table import ENTRIES, EPOCH_HISTORY_FILE
from pymq.wire.bodies_replication import LogDigestsRequest, ReplicationStatus
from pymq.wire.ha import OFFSET_MAX

T = TypeVar("T")

TIMEOUT_S = 15.0
REQUEST_BYTES = 1 << 20
AHEAD_BYTES = 8 << 20  # read-ahead: enough requests in flight to keep the connection busy


class BrokerSource:
    """A LogSource with its own connections, used as ``with BrokerSource("10.0.0.2:10911") as source``.

    All calls raise UnreachableError, RefusedError, and StoreError for an answer that can't be true.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        # Not asyncio.Runner: it formats each result, megabytes of log, into the text of an error that is never shown.
        self._loop = asyncio.new_event_loop()
        self._admin: Admin | None = None
        self._facts: SourceFacts | None = None
        self._next = -1  # end of the last read
        self._ahead = (0, b"")  # offset and bytes of the last read, with its read-ahead

    def __enter__(self) -> BrokerSource:
        # These calls need no name server, so the broker's address takes the place of theirs.
        self._admin = Admin(self._address, timeout_s=TIMEOUT_S, credentials=request_credentials.get())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._admin is not None:
            self._run(self._admin.close())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    @property
    def _replication(self) -> ReplicationAdmin:
        assert self._admin is not None, "use it in a with statement"
        return self._admin.replication

    def _status(self) -> ReplicationStatus:
        return self._run(self._replication.status(self._address))

    def facts(self) -> SourceFacts:
        """Return facts about the log. Raises UsageError for a RocketMQ broker, StoreError for an impossible log."""
        status = self._status()
        if status.protocol_version == ROCKETMQ_PROTOCOL_VERSION:
            raise UsageError(
                f"{self._address} is a RocketMQ broker, which has no digests of its log: copy its directory, or let a "
                "PyMQ slave follow it and recover from that"
            )
        size, start, end = status.segment_size_bytes, status.log_start, status.log_end
        if not (size > 0 and 0 <= start <= end <= OFFSET_MAX and start % size == 0):
            raise StoreError(
                f"{self._address} answers that its log goes from {start} to {end} in segments of {size} bytes, "
                "which is impossible: is it a PyMQ broker?"
            )
        is_master = status.broker_id == MASTER_ID
        self._facts = SourceFacts(self._address, status.cluster, status.broker_name, size, start, end, is_master)
        return self._facts

    def digests(self, start: int, end: int, chunk_bytes: int) -> list[str]:
        request = LogDigestsRequest(start=start, end=end, chunk_bytes=chunk_bytes)
        return self._run(self._replication.digests(self._address, request)).digests

    def read(self, start: int, end: int) -> bytes:
        """Return a part of the log. For consecutive reads it sends several requests at once and reads ahead."""
        ahead_start, ahead = self._ahead
        is_next = start == self._next
        self._next = end
        if not (ahead_start <= start and end <= ahead_start + len(ahead)):
            stop = max(end, min(start + AHEAD_BYTES, self._readable_end(start))) if is_next else end
            ahead_start, ahead = self._ahead = (start, self._run(self._read_many(start, stop)))
        return ahead[start - ahead_start : end - ahead_start]

    def _readable_end(self, start: int) -> int:
        """Return the end of the segment that holds ``start``, or the end of the log."""
        assert self._facts is not None, "call facts() before read()"
        size = self._facts.segment_size_bytes
        return min(start - start % size + size, self._facts.log_end)

    async def _read_many(self, start: int, end: int) -> bytes:
        pieces = [self._read(at, min(at + REQUEST_BYTES, end)) for at in range(start, end, REQUEST_BYTES)]
        return b"".join(await asyncio.gather(*pieces))

    async def _read(self, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        while start < end:
            part = await self._replication.read_log(self._address, start, end - start)
            if not 0 < len(part) <= end - start:
                raise StoreError(
                    f"{self._address} sent {len(part)} bytes of its log at offset {start}, expected were 1 to "
                    f"{end - start}: is it a PyMQ broker?"
                )
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def tables(self) -> dict[str, bytes]:
        found = self._run(self._replication.tables(self._address))
        epoch_history = self._status().epoch_history
        if epoch_history:
            found[EPOCH_HISTORY_FILE] = msgspec.json.encode({ENTRIES: epoch_history})
        return found

    def deleted_topics(self) -> dict[str, int]:
        return self._run(self._replication.deleted_topics(self._address))
