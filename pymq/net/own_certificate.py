"""OwnContext: the TLS of a server that was given no certificate. It makes one that proves nothing.

As RocketMQ's servers do (``tls.test.mode.enable``): a client that wants TLS gets it, and nobody on the way can read
along, but an attacker who stands between can pretend to be the server. The certificate is made with the first TLS
connection and kept in memory, because the package for it takes 17 MiB and 0.1 s.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

from pymq.clock import Clock
from pymq.net.tls import bare_server_context

NAME = "PyMQ, without proof"
VALID_DAYS = 3650
CLOCK_SKEW = timedelta(days=1)  # clients' clocks may be behind


def can_be_made() -> bool:
    """True where the package ``cryptography`` is installed."""
    return find_spec("cryptography") is not None


class OwnContext:
    """The context of one server's ports."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._making: asyncio.Task[ssl.SSLContext] | None = None

    async def fresh(self) -> ssl.SSLContext:
        """Return the context; the first call makes it, in a thread. Raises OSError."""
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(_made, self._clock.now_ms()))
        try:
            return await asyncio.shield(self._making)
        except OSError:
            self._making = None  # the next connection tries again
            raise


def _made(now_ms: int) -> ssl.SSLContext:
    context = bare_server_context()
    with tempfile.TemporaryDirectory(prefix="pymq-") as directory:  # ssl reads files alone
        path = Path(directory) / "own.pem"
        path.touch(mode=0o600)
        path.write_bytes(_pem(datetime.fromtimestamp(now_ms / 1000, UTC)))
        context.load_cert_chain(path)
    return context


def _pem(now: datetime) -> bytes:
    """Return a new key of the curve P-256 and its certificate."""
    # Not a base dependency, and only needed once a client wants TLS.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)
