"""Front: what may stand before a broker's dispatcher and see each request first. Tests inject faults there."""

from __future__ import annotations

from typing import Protocol

from pymq.net.server import Server


class Front(Protocol):
    """Is called each time a broker begins to serve in a role."""

    def stand_before(self, server: Server) -> None:
        """Put a dispatcher and a fast path before the server's. They may hand requests on to the server's own."""
        ...
