"""A running broker as a source of log and tables for ``pymq store recover``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from pymq.client.admin import Admin
from pymq.client.admin.replication import ROCKETMQ_PROTOCOL_VERSION, ReplicationAdmin
from pymq.errors import UsageError
from pymq.offline.log_source import SourceFacts
from pymq.offline.recover_rest import LINEAGE_FILE
from pymq.wire.bodies_replication import LogDigestsRequest, ReplicationStatus

T = TypeVar("T")

TIMEOUT_S = 15.0
AHEAD_BYTES = 1 << 20


class BrokerSource:
    """A LogSource over connections of its own, used as ``with BrokerSource("10.0.0.2:10911") as source``.

    All calls raise UnreachableError and RefusedError.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._runner = asyncio.Runner()
        self._admin: Admin | None = None
        self._next = -1  # where a read would go on
        self._ahead = (0, b"")  # bytes that were read beyond what was asked for, and from where

    def __enter__(self) -> BrokerSource:
        # No name server is ever asked, the broker's address stands where theirs would.
        self._admin = Admin(self._address, timeout_s=TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._admin is not None:
            self._run(self._admin.close())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    @property
    def _replication(self) -> ReplicationAdmin:
        assert self._admin is not None, "use it in a with statement"
        return self._admin.replication

    def _status(self) -> ReplicationStatus:
        return self._run(self._replication.status(self._address))

    def facts(self) -> SourceFacts:
        """Raises UsageError for a broker of RocketMQ."""
        status = self._status()
        if status.protocol_version == ROCKETMQ_PROTOCOL_VERSION:
            raise UsageError(
                f"{self._address} is a RocketMQ broker, which tells no digests of its log: copy its directory, or let "
                f"a PyMQ slave follow it and recover from that"
            )
        return SourceFacts(
            self._address,
            status.cluster,
            status.broker_name,
            status.segment_size_bytes,
            status.log_start,
            status.log_end,
        )

    def digests(self, start: int, end: int, chunk_bytes: int) -> list[str]:
        request = LogDigestsRequest(start=start, end=end, chunk_bytes=chunk_bytes)
        return self._run(self._replication.digests(self._address, request)).digests

    def read(self, start: int, end: int) -> bytes:
        """One request for several calls that go on from each other, so that small pieces cost little."""
        ahead_start, ahead = self._ahead
        is_next = start == self._next
        self._next = end
        if ahead_start <= start and end <= ahead_start + len(ahead):
            return ahead[start - ahead_start : end - ahead_start]
        parts: list[bytes] = []
        at = start
        while at < end:
            size = AHEAD_BYTES if is_next else end - at
            parts.append(self._run(self._replication.read_log(self._address, at, size)))
            at += len(parts[-1])
        self._ahead = (start, b"".join(parts))
        return self._ahead[1][: end - start]

    def tables(self) -> dict[str, bytes]:
        found = self._run(self._replication.tables(self._address))
        lineage = self._status().lineage
        if lineage:
            found[LINEAGE_FILE] = msgspec.json.encode({"reigns": lineage})
        return found

    def deleted_topics(self) -> dict[str, int]:
        return self._run(self._replication.deleted_topics(self._address))
