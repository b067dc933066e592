"""New connections take a renewed certificate."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from pymq.console.web.renewed_tls import RenewedTls
from tests.certificates import certificates


class Renewed:
    """A certificate's files that were replaced, and then can't be read."""

    def __init__(self, *found: ssl.SSLContext) -> None:
        self.found = list(found)

    async def fresh(self) -> ssl.SSLContext:
        if not self.found:
            raise OSError("the files are gone")
        return self.found.pop(0)


def context_of(cert_path: object, key_path: object) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(str(cert_path), str(key_path))
    return made


def test_new_connections_take_a_renewed_certificate() -> None:
    files = certificates()
    old = context_of(files.stranger.cert_path, files.stranger.key_path)
    new = context_of(files.server.cert_path, files.server.key_path)
    trusts = ssl.create_default_context(cafile=files.ca_path)

    async def run() -> None:
        tls = await RenewedTls.of(Renewed(old, new))
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=trusts)
        await tls.renew()
        await tls.renew()  # and now they can't be read
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusts)
        writer.close()
        server.close()

    asyncio.run(run())
