"""TableRequests: slaves' requests for tables, answered by long polling.

A request is answered at once when a table differs from the slave's. Otherwise it waits for a change. So a change is
sent in the turn that made it, and an idle pair of brokers exchanges next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pymq.clock import Clock
from pymq.wire.bodies_replication import TEXT_LENGTH_MAX, MetadataTables
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.replication.tables.replicated_tables import ReplicatedTable, Stamp
    from pymq.store.store import MessageStore

# An answer of this size gets no further table, because a frame has at most 16 MB. One table is sent whole.
ANSWER_BYTES = 4 * 1024 * 1024
HOLD_MS_MAX = 10_000
# One per slave; there are no more slaves than HA connections (ha_service.CONNECTIONS_MAX).
HELD_COUNT_MAX = 64
# The log's growth also answers requests, because a slave computes its lag from the answers.
HELD_LOG_BYTES = 1024 * 1024


@dataclass(slots=True)
class _Held:
    """One waiting request, with the tables' ``stamps`` and the ``log_end`` at the time it came.

    Nothing that a slave may send at any length is kept: a request waits only if its versions are ours.
    """

    peer: Peer
    request: Command
    known: Mapping[str, str]
    since_ms: int
    deadline_ms: int
    stamps: list[Stamp]
    log_end: int


class TableRequests:
    """Serves a master's slaves. Call :meth:`end_turn` after each turn and :meth:`tick` several times a second."""

    def __init__(
        self,
        *,
        tables: Sequence[ReplicatedTable],
        store: MessageStore,
        clock: Clock,
        fence: Callable[[], int],
    ) -> None:
        """``fence`` returns the number of the master's write fence, 0 for none.

        During a fence no request waits, because the new master needs the answers. Each answer has the number of the
        fence behind which its tables were read.
        """
        self._tables = tables
        self._store = store
        self._clock = clock
        self._fence = fence
        self._held: dict[str, _Held] = {}  # by the slave's address
        self._is_closed = False

    @property
    def held_count(self) -> int:
        """The number of waiting requests."""
        return len(self._held)

    def ask(self, slave: str, known: Mapping[str, str], wait_ms: int, request: Command, peer: Peer) -> Reply | None:
        """Return the tables that differ from the versions ``known``; None when the answer comes later.

        ``slave`` is the asking broker's "host:port". One request of each slave waits; an older one is answered now.
        """
        self._release(slave)
        answer = self._difference(known)
        if answer.versions or not self._may_hold(slave, wait_ms):
            return Reply(body=msgspec.json.encode(answer))
        now_ms = self._clock.monotonic_ms()
        self._held[slave] = _Held(
            peer,
            request.envelope(),
            {table.name: known[table.name] for table in self._tables},
            now_ms,
            now_ms + min(wait_ms, HOLD_MS_MAX),
            self._stamps(),
            answer.log_end,
        )
        return None

    def end_turn(self) -> None:
        """Answer the requests that the turn's changes concern."""
        if not self._held:
            return
        is_fenced, stamps = bool(self._fence()), self._stamps()
        much = self._store.physical_max_offset - HELD_LOG_BYTES
        due = [s for s, held in self._held.items() if is_fenced or held.stamps != stamps or held.log_end <= much]
        for slave in due:
            self._release(slave)

    def tick(self) -> None:
        """Answer requests whose time is over, and drop those of closed connections."""
        now_ms = self._clock.monotonic_ms()
        for slave, held in list(self._held.items()):
            if held.peer.closed or now_ms >= held.deadline_ms:
                self._release(slave)

    def close(self) -> None:
        """Answer all requests; from now on none waits."""
        self._is_closed = True
        for slave in list(self._held):
            self._release(slave)

    def _may_hold(self, slave: str, wait_ms: int) -> bool:
        if not 0 < len(slave) <= TEXT_LENGTH_MAX or wait_ms <= 0 or self._is_closed or self._fence():
            return False
        return len(self._held) < HELD_COUNT_MAX

    def _stamps(self) -> list[Stamp]:
        return [table.stamp() for table in self._tables]

    def _release(self, slave: str) -> None:
        held = self._held.pop(slave, None)
        if held is None or held.peer.closed:
            return
        answer = self._difference(held.known)
        answer.held_ms = self._clock.monotonic_ms() - held.since_ms
        held.peer.answer(held.request, Reply(body=msgspec.json.encode(answer)))

    def _difference(self, known: Mapping[str, str]) -> MetadataTables:
        """Return the tables whose versions differ from the known ones."""
        answer = MetadataTables(log_end=self._store.physical_max_offset, fence=self._fence())
        size = 0
        for table in self._tables:
            version = table.version()
            if version == known.get(table.name):
                continue
            if size >= ANSWER_BYTES:
                answer.more = True
                break
            read = table.read(known.get(table.name, ""))
            raw = msgspec.json.encode(read.table)
            size += len(raw)
            answer.versions[table.name] = read.version or version
            answer.tables[table.name] = msgspec.Raw(raw)
            if read.is_part:
                answer.parts.append(table.name)
            answer.more = answer.more or not read.is_last
        return answer
