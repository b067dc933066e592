"""TailSearch: a master that lost the end of its log in a power loss gets it from its slaves before a new epoch begins.

Acknowledged messages may not have been on the master's disk, while its slaves have them. If the master continued at its
shorter end, the slaves would truncate them. So it asks the group. It takes the missing bytes from a member whose log is
the same one and longer: the newest epoch and the bytes before our end are equal. Digests verify the bytes. A crash at
any point leaves a log that is a prefix of that member's; the next start does the same again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from xxhash import xxh3_64_hexdigest

from pymq.broker.replication.history.epoch_body import history_of_body
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.history.log_end import TAIL_BYTES_MAX, tail_size
from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.second_master import is_newer
from pymq.broker.runtime import Runtime
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import LogDigests, LogDigestsRequest, ReadLogRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command

log = logging.getLogger(__name__)

# How long a start waits for unsynced replicas. A slave that starts together with its master has to recover first.
WAIT_MS = 5000
RETRY_MS = 200
ASK_TIMEOUT_MS = 3000
PIECE_BYTES = 1 << 20  # per request

Ask = Callable[[str, Command, int], Awaitable[Command | str]]
Unsynced = Mapping[int, str]


class GrowingLog(Protocol):
    """The log to extend: :class:`pymq.store.replica.tail_refill.TailRefill`."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def segment_size_bytes(self) -> int: ...

    def tail_digest(self, end: int, tail_bytes: int) -> str: ...

    def append(self, position: int, data: bytes) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RecoveredTail:
    """The result: the log grew from ``start`` to ``end`` with bytes of ``sources`` ("host:port").

    ``missing`` are slaves that may have more and did not answer. ``newer`` is the address of a member with a newer
    epoch, empty without one.
    """

    start: int
    end: int
    sources: tuple[str, ...] = ()
    missing: Unsynced = field(default_factory=dict)
    newer: str = ""

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


def missing_of(unsynced: Unsynced, members: Sequence[Member]) -> dict[int, str]:
    """Return the slaves of ``unsynced`` without a status among ``members``.

    A slave is recognized by its id, because its address may change, or by its address, because its id may change.
    """
    known = [member for member in members if member.status is not None]
    ids, addresses = {member.broker_id for member in known}, {member.address for member in known}
    return {
        broker_id: address
        for broker_id, address in unsynced.items()
        if broker_id not in ids and address not in addresses
    }


def named(slaves: Unsynced) -> str:
    """Return the slaves' ids and addresses as text."""
    return ", ".join(f"slave {broker_id} at {address}" for broker_id, address in sorted(slaves.items()))


class TailSearch:
    """One search at a start. ``members`` probes the group, ``ask`` sends a request, ``pause`` waits milliseconds."""

    def __init__(
        self,
        runtime: Runtime,
        own: GrowingLog,
        epoch_history: EpochHistory,
        *,
        members: Callable[[], Awaitable[Sequence[Member]]],
        ask: Ask,
        pause: Callable[[int], Awaitable[None]],
    ) -> None:
        self._own = own
        self._epoch_history = epoch_history
        self._cluster = runtime.config.broker_cluster_name
        self._broker_name = runtime.config.broker_name
        self._members = members
        self._ask = ask
        self._pause = pause
        self._clock = runtime.clock
        self._start = own.end
        self._sources: dict[str, None] = {}
        self._useless: set[str] = set()  # addresses of members whose bytes can't be used

    async def run(self, unsynced: Unsynced) -> RecoveredTail:
        """Take what the group has, and wait up to ``WAIT_MS`` for members of ``unsynced`` that do not answer.

        Raises StoreUnavailableError when our own disk fails.
        """
        began_ms = self._clock.monotonic_ms()
        while True:
            members = [member for member in await self._members() if self._is_ours(member)]
            newer = next((member.address for member in members if is_newer(self._epoch_history, member)), "")
            failed = await self._take_all(members) if not newer else set[str]()
            missing = missing_of(unsynced, [member for member in members if member.address not in failed])
            is_done = newer or not (missing or failed)
            if is_done or self._clock.monotonic_ms() - began_ms >= WAIT_MS:
                break
            await self._pause(RETRY_MS)
        if self._sources:
            self._own.finish()
        return RecoveredTail(self._start, self._own.end, tuple(self._sources), missing, newer)

    def _is_ours(self, member: Member) -> bool:
        status = member.status
        return status is not None and (status.cluster, status.broker_name) == (self._cluster, self._broker_name)

    async def _take_all(self, members: Sequence[Member]) -> set[str]:
        """Take bytes from the member with the longest log, then from other members what is still missing.

        Return the addresses of members that stopped answering before the end.
        """
        failed = set()
        for member in sorted(members, key=self._limit, reverse=True):
            limit = self._limit(member)
            if limit <= self._own.end or member.address in self._useless:
                continue
            if not await self._is_continuation(member) or not await self._take(member.address, limit):
                failed.add(member.address)
        return failed - self._useless

    def _limit(self, member: Member) -> int:
        """Return the end of our newest epoch in its log; 0 when its log lacks that epoch."""
        assert member.status is not None
        theirs, entries = history_of_body(member.status.epoch_history), self._epoch_history.entries
        if not entries or entries[-1] not in theirs.entries:
            return 0
        return theirs.end_of(theirs.entries.index(entries[-1]), member.status.log_end)

    async def _is_continuation(self, member: Member) -> bool:
        """Return True when the bytes before our end are equal there; False also when it stops answering."""
        assert member.status is not None
        own, address, end = self._own, member.address, self._own.end
        size = tail_size(own.start, end, own.segment_size_bytes)
        if member.status.segment_size_bytes != own.segment_size_bytes:
            return self._refuse(address, f"its segments have {member.status.segment_size_bytes} bytes")
        if member.status.log_start > end - size:
            return self._refuse(address, f"its log begins at {member.status.log_start}, ours ends at {end}")
        if not size:
            return True
        digest = await self._digest(address, end - size, end, TAIL_BYTES_MAX)
        if digest is not None and digest != own.tail_digest(end, size):
            return self._refuse(address, f"the {size} bytes before offset {end} differ there")
        return digest is not None

    def _refuse(self, address: str, why: str) -> bool:
        log.error("the log of %s is longer than ours, but can't be used: %s", address, why)
        self._useless.add(address)
        return False

    async def _take(self, address: str, limit: int) -> bool:
        """Fetch piece after piece. Return False when the member stops answering or sends damaged bytes."""
        while (start := self._own.end) < limit:
            segment_end = start - start % self._own.segment_size_bytes + self._own.segment_size_bytes
            stop = min(start + PIECE_BYTES, segment_end, limit)
            digest = await self._digest(address, start, stop, PIECE_BYTES)
            if digest == "":
                return self._refuse(address, f"it is damaged there between {start} and {stop}")
            data = await self._read(address, start, stop - start)
            if digest is None or data is None or xxh3_64_hexdigest(data) != digest:
                log.warning("the log between %d and %d could not be fetched from %s", start, stop, address)
                return False
            self._own.append(start, data)
            self._sources[address] = None
        return True

    async def _digest(self, address: str, start: int, end: int, chunk_bytes: int) -> str | None:
        """Return the digest of a piece of its log; empty where that is damaged, None without an answer."""
        request = LogDigestsRequest(start=start, end=end, chunk_bytes=chunk_bytes, count_max=1)
        body = await self._body(address, RequestCode.PYMQ_LIST_LOG_DIGESTS, request)
        try:
            digests = decode_json(body, LogDigests).digests if body else []
        except JsonError:
            return None
        return digests[0] if digests else None

    async def _read(self, address: str, start: int, size_bytes: int) -> bytes | None:
        return await self._body(address, RequestCode.PYMQ_READ_LOG, ReadLogRequest(start=start, size_bytes=size_bytes))

    async def _body(self, address: str, code: int, request: msgspec.Struct) -> bytes | None:
        answer = await self._ask(address, Command(code, body=msgspec.json.encode(request)), ASK_TIMEOUT_MS)
        if isinstance(answer, str) or answer.code != ResponseCode.SUCCESS:
            return None
        return bytes(answer.body)
