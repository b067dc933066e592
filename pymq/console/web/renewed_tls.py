"""A port's TLS, whose certificate may be renewed while it serves."""

from __future__ import annotations

from contextlib import suppress
from ssl import SSLContext, SSLObject

from pymq.net.tls import ServerContext


class RenewedTls:
    """The TLS of the port. New connections take a certificate that was renewed."""

    def __init__(self, watched: ServerContext, first: SSLContext) -> None:
        self._watched = watched
        self._newest = first
        self.context = first
        first.sni_callback = self._take_newest

    @classmethod
    async def of(cls, watched: ServerContext) -> RenewedTls:
        """Load the certificate. Raises ConfigError."""
        return cls(watched, await watched.fresh())

    async def renew(self) -> None:
        """Look whether there is a newer certificate; one that can't be had leaves the one in use."""
        with suppress(OSError):
            self._newest = await self._watched.fresh()

    def _take_newest(self, connection: SSLObject, name: str | None, context: SSLContext) -> None:
        connection.context = self._newest
