"""TailSearch: a master that lost its log's end with its power gets it from its slaves before it begins a new epoch.

What it answered for may have been on no disk of its own yet, while slaves have it. Were it to go on at its shorter end,
they would cut what lies behind. So it asks the group; whoever's log is this very one (it claims the same newest epoch,
and the bytes before our end are the same) and goes further gives its end, verified by digests. A crash at any point
leaves a log that is still a beginning of theirs: the next start does the same again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from xxhash import xxh3_64_hexdigest

from pymq.broker.replication.epoch_body import history_of_body
from pymq.broker.replication.epoch_history import EpochHistory
from pymq.broker.replication.log_end import TAIL_BYTES_MAX, tail_size
from pymq.broker.replication.roles.group_probe import Member
from pymq.clock import Clock
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import LogDigests, LogDigestsRequest, ReadLogRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command

log = logging.getLogger(__name__)

# How long a start waits for slaves that may have more: one that was started together with its master recovers, too.
WAIT_MS = 5000
RETRY_MS = 200
ASK_TIMEOUT_MS = 3000
PIECE_BYTES = 1 << 20  # asked for at once

Ask = Callable[[str, Command, int], Awaitable[Command | str]]
Unsynced = Mapping[int, str]


class GrowingLog(Protocol):
    """The log that is to grow: :class:`pymq.store.replica.tail_refill.TailRefill`."""

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
    """The log grew from ``start`` to ``end``, with what ``sources`` gave, "host:port" each.

    ``missing``: slaves that may have more and did not answer; ``newer``: another master was made meanwhile, says this
    address, empty when nobody does.
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
    """Those of ``unsynced`` that did not say how far their log goes; known by their id, which moves with a slave's
    address, or by their address, which stays when ids change."""
    told = [member for member in members if member.status is not None]
    ids, addresses = {member.broker_id for member in told}, {member.address for member in told}
    return {
        broker_id: address
        for broker_id, address in unsynced.items()
        if broker_id not in ids and address not in addresses
    }


def named(slaves: Unsynced) -> str:
    """For people."""
    return ", ".join(f"slave {broker_id} at {address}" for broker_id, address in sorted(slaves.items()))


class TailSearch:
    """One start's search. ``members`` takes a group probe, ``ask`` a question to a broker, ``pause`` some milliseconds."""

    def __init__(
        self,
        own: GrowingLog,
        epoch_history: EpochHistory,
        *,
        cluster: str,
        broker_name: str,
        members: Callable[[], Awaitable[Sequence[Member]]],
        ask: Ask,
        pause: Callable[[int], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._own = own
        self._epoch_history = epoch_history
        self._cluster = cluster
        self._broker_name = broker_name
        self._members = members
        self._ask = ask
        self._pause = pause
        self._clock = clock
        self._start = own.end
        self._sources: dict[str, None] = {}
        self._useless: set[str] = set()  # addresses of those whose bytes can't be ours

    async def run(self, unsynced: Unsynced) -> RecoveredTail:
        """Takes what the group has, and waits up to ``WAIT_MS`` for ``unsynced`` that do not answer.

        Raises StoreUnavailableError when the own disk fails.
        """
        began_ms = self._clock.monotonic_ms()
        while True:
            members = [member for member in await self._members() if self._is_ours(member)]
            newer = next((member.address for member in members if member.epoch > self._epoch_history.epoch), "")
            broken_off = await self._take_all(members) if not newer else set[str]()
            missing = missing_of(unsynced, [member for member in members if member.address not in broken_off])
            is_done = newer or not (missing or broken_off)
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
        """Takes from the one that goes furthest, then from the next ones what it could not give.

        Returns who stopped answering before it had given everything.
        """
        broken_off = set()
        for member in sorted(members, key=self._limit, reverse=True):
            limit = self._limit(member)
            if limit <= self._own.end or member.address in self._useless:
                continue
            if not await self._is_continuation(member) or not await self._take(member.address, limit):
                broken_off.add(member.address)
        return broken_off - self._useless

    def _limit(self, member: Member) -> int:
        """How far its log is this one: beyond our end, where its part of our newest epoch does; else 0."""
        assert member.status is not None
        theirs, entries = history_of_body(member.status.epoch_history), self._epoch_history.entries
        if not entries or entries[-1] not in theirs.entries:
            return 0
        return theirs.end_of(theirs.entries.index(entries[-1]), member.status.log_end)

    async def _is_continuation(self, member: Member) -> bool:
        """Whether the bytes before our end are the same there; False as well when it stops answering."""
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
            return self._refuse(address, f"the {size} bytes before offset {end} are others there")
        return digest is not None

    def _refuse(self, address: str, why: str) -> bool:
        log.error("the log of %s goes on behind our end, but can't be taken: %s", address, why)
        self._useless.add(address)
        return False

    async def _take(self, address: str, limit: int) -> bool:
        """Fetches piece after piece; False when it stops answering, or gives what is not whole."""
        while (start := self._own.end) < limit:
            segment_end = start - start % self._own.segment_size_bytes + self._own.segment_size_bytes
            stop = min(start + PIECE_BYTES, segment_end, limit)
            digest = await self._digest(address, start, stop, PIECE_BYTES)
            if digest == "":
                return self._refuse(address, f"it is damaged there between {start} and {stop}")
            data = await self._read(address, start, stop - start)
            if digest is None or data is None or xxh3_64_hexdigest(data) != digest:
                log.warning("the log between %d and %d could not be had from %s", start, stop, address)
                return False
            self._own.append(start, data)
            self._sources[address] = None
        return True

    async def _digest(self, address: str, start: int, end: int, chunk_bytes: int) -> str | None:
        """Of one piece of its log; empty where it is damaged, None when that is not told."""
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
