"""FilterServers: the filter servers that report to this broker, for routes to name them.

Java until 4.2: FilterServerManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.model.hosts import parse_address
from pymq.wire.codes import ResponseCode
from pymq.wire.dispatch import Peer

log = logging.getLogger(__name__)

FILTER_SERVER_COUNT_MAX = 64
SILENCE_MAX_MS = 30_000
ADDRESS_LENGTH_MAX = 300


@dataclass(slots=True)
class _Known:
    address: str
    seen_ms: int  # monotonic


class FilterServers:
    """The filter servers by connection. Each stays until its connection ends, at most ``SILENCE_MAX_MS`` after its
    last report.

    ``on_change`` is called when the addresses have changed.
    """

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._known: dict[Peer, _Known] = {}

    def addresses(self) -> list[str]:
        """Return each address once, sorted."""
        return sorted({known.address for known in self._known.values()})

    def register(self, peer: Peer, address: str) -> None:
        """Note a report. Raises Refusal for an unusable address, or for too many servers."""
        self._check(peer, address)
        before = self.addresses()
        self._known[peer] = _Known(address, self._clock.monotonic_ms())
        self._report_change(before)

    def disconnect(self, peer: Peer) -> None:
        """Forget the filter server of a connection that has ended."""
        before = self.addresses()
        if self._known.pop(peer, None) is not None:
            self._report_change(before)

    def tick(self) -> None:
        """Forget servers that have not reported for too long."""
        if not self._known:
            return
        oldest_ms = self._clock.monotonic_ms() - SILENCE_MAX_MS
        for peer in [peer for peer, known in self._known.items() if known.seen_ms < oldest_ms]:
            self.disconnect(peer)

    def _check(self, peer: Peer, address: str) -> None:
        try:
            _, port = parse_address(address)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"filterServerAddr is unusable: {error}") from error
        if port == 0 or len(address) > ADDRESS_LENGTH_MAX:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"filterServerAddr {address[:ADDRESS_LENGTH_MAX]!r} is unusable: give host:port as it listens",
            )
        if peer not in self._known and len(self._known) >= FILTER_SERVER_COUNT_MAX:
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._known)} filter servers report to this broker, the limit is {FILTER_SERVER_COUNT_MAX}: "
                "stop some of them",
            )

    def _report_change(self, before: list[str]) -> None:
        after = self.addresses()
        if after != before:
            log.info("filter servers of this broker: %s", ", ".join(after) or "none")
            self._on_change()
