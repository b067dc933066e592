"""Front: what may stand before a broker's dispatcher and see each request first. Tests inject faults there."""

from __future__ import annotations

from typing import Protocol

from pymq.net.server import Server


class Front(Protocol):
    """Is called each time a broker begins to serve in a role."""

    def stand_before(self, server: Server) -> None:
        """Replace the server's dispatcher and fast path by ones that may ask those that are there."""
        ...
