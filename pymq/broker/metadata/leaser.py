"""Leaser: a consumer needs a queue's lease to consume it in order, so that only one consumer at a time does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.model.message import MessageQueue

LEASE_COUNT_MAX = 100_000  # beyond, no client gets a further one: about 30 MiB


class Lease(NamedTuple):
    """The client that holds a queue, and since when (monotonic ms)."""

    client_id: str
    renewed_ms: int


class Leaser:
    """Leases by group and queue. A lease lasts ``rebalanceLockTime`` (60 s) unless renewed; none is saved.

    Java: RebalanceLockManager.
    """

    def __init__(self, *, clock: Clock, config: BrokerConfig) -> None:
        self._clock = clock
        self._config = config
        self._leases: dict[str, dict[MessageQueue, Lease]] = {}
        self._count = 0

    def lock_batch(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues of ``queues`` that the client holds now: new, renewed, or taken over after their end."""
        now_ms = self._clock.monotonic_ms()
        held = self._leases.setdefault(group, {})
        granted = []
        for queue in queues:
            lease = held.get(queue)
            if lease is None:
                if self._count >= LEASE_COUNT_MAX:
                    continue
                self._count += 1
            if lease is None or lease.client_id == client_id or self._has_ended(lease, now_ms):
                held[queue] = Lease(client_id, now_ms)
                granted.append(queue)
        if not held:
            del self._leases[group]
        return granted

    def unlock_batch(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up leases of the client; those of other clients stay."""
        held = self._leases.get(group, {})
        for queue in queues:
            lease = held.get(queue)
            if lease is not None and lease.client_id == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            self._leases.pop(group, None)

    def held_by(self, group: str, queue: MessageQueue) -> str | None:
        """Return the client that holds the queue, or None."""
        lease = self._leases.get(group, {}).get(queue)
        return None if lease is None or self._has_ended(lease, self._clock.monotonic_ms()) else lease.client_id

    def is_ordered(self, group: str) -> bool:
        """Return True when the group holds a lease now, so it consumes in order."""
        held = self._leases.get(group)
        if not held:
            return False
        now_ms = self._clock.monotonic_ms()
        return any(not self._has_ended(lease, now_ms) for lease in held.values())

    def forget_group(self, *groups: str) -> None:
        """Drop all leases of groups."""
        for group in groups:
            self._count -= len(self._leases.pop(group, {}))

    def tick(self) -> None:
        """Forget leases that have ended."""
        if not self._leases:
            return
        now_ms = self._clock.monotonic_ms()
        for group, held in list(self._leases.items()):
            for queue in [queue for queue, lease in held.items() if self._has_ended(lease, now_ms)]:
                del held[queue]
                self._count -= 1
            if not held:
                del self._leases[group]

    def _has_ended(self, lease: Lease, now_ms: int) -> bool:
        return now_ms - lease.renewed_ms > self._config.lease_time_ms
