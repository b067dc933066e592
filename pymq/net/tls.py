"""TLS contexts from PEM files, read again when a file changes.

RocketMQ's clients and servers speak TLS as any other program: nothing of the protocol changes inside. PyMQ takes TLS
1.2 and 1.3. It refuses files at the start that would fail later: an expired certificate, a key that does not belong to
it, a key that every user of the machine can read.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_IROTH
from typing import Protocol

from pymq.clock import Clock
from pymq.errors import ConfigError
from pymq.packages import pip_install

log = logging.getLogger(__name__)

LOOK_PERIOD_MS = 5_000  # between looks at the files
FILE_SIZE_MAX_BYTES = 1024 * 1024
HELLO_BYTE = b"\x16"  # the first byte of a TLS connection: a record of the type "handshake"
HANDSHAKE_TIMEOUT_S = 10.0

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key: paths of PEM files, and the key's password ("" for none)."""

    cert_path: str
    key_path: str
    password: str = ""

    def load_into(self, context: ssl.SSLContext, now_ms: int) -> None:
        """Give ``context`` this certificate. Raises ConfigError for files that can't serve at this time."""
        _check_private(self.key_path)
        _check_dates(self.cert_path, now_ms)
        try:
            context.load_cert_chain(self.cert_path, self.key_path, password=lambda: self.password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                what = f"it does not belong to the certificate in {self.cert_path}"
            elif self.password:
                what = f"it can't be read with this password ({error.reason or error})"
            else:
                what = f"it can't be read, or needs a password ({error.reason or error})"
            raise ConfigError(f"private key {self.key_path}: {what}") from None


class WatchedContext:
    """An SSL context that follows its files. Use it from one thread."""

    def __init__(self, make: Callable[[int], ssl.SSLContext], paths: tuple[str, ...], clock: Clock) -> None:
        """``make(now_ms)`` reads ``paths``. Raises its ConfigError, and ConfigError for files that can't be read."""
        self._make = make
        self._paths = paths
        self._clock = clock
        self._looked_at_ms = clock.monotonic_ms()
        self._stamp = _stamp(paths)
        self._context = make(clock.now_ms())

    def current(self) -> ssl.SSLContext:
        """Return the context of the files as they are now, as they were LOOK_PERIOD_MS ago at the latest.

        Files that can't be used are logged once, and the context before them stays.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_at_ms < LOOK_PERIOD_MS:
            return self._context
        self._looked_at_ms = now_ms
        before = self._stamp
        try:
            self._stamp = ()  # as long as they can't be read
            self._stamp = _stamp(self._paths)
            if self._stamp != before:
                self._context = self._make(self._clock.now_ms())
                log.info("TLS files were read again: %s", ", ".join(self._paths))
        except ConfigError as error:
            if self._stamp != before:
                log.error("TLS files changed and can't be used, the former ones stay in use: %s", error)
        return self._context

    async def fresh(self) -> ssl.SSLContext:
        """Return what :meth:`current` returns."""
        return self.current()


class ServerContext(Protocol):
    """The context of a server's ports."""

    async def fresh(self) -> ssl.SSLContext:
        """Return the context for a new connection. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class ServerTls:
    """How a port takes TLS: its certificate, and whether a connection without TLS is refused."""

    context: ServerContext
    is_required: bool = False
    principal_rules: str = ""  # which users clients' certificates stand for


def verified_certificate(transport: asyncio.BaseTransport) -> bytes | None:
    """Return a client's certificate (DER), which the handshake has verified; None when there is none."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    # Without the first condition it may be any certificate: only a verified one has its members.
    return tls.getpeercert(binary_form=True) if tls is not None and tls.getpeercert() else None


def bare_server_context() -> ssl.SSLContext:
    """Return the context of a server, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    return context


def server_context(
    identity: Identity,
    clock: Clock,
    *,
    trust_path: str = "",
    is_client_required: bool = False,
    protocols: Sequence[str] = (),
) -> WatchedContext:
    """Return the context of a server. With ``trust_path`` it asks clients for a certificate of one of these CAs.

    ``protocols``: what the server speaks inside, for clients that negotiate it (ALPN). Raises ConfigError.
    """

    def make(now_ms: int) -> ssl.SSLContext:
        context = bare_server_context()
        identity.load_into(context, now_ms)
        if trust_path:
            _trust(context, trust_path)
            context.verify_mode = ssl.CERT_REQUIRED if is_client_required else ssl.CERT_OPTIONAL
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context

    return WatchedContext(make, _paths(identity, trust_path), clock)


def client_context(
    clock: Clock, *, trust_path: str = "", identity: Identity | None = None, is_checked: bool = True
) -> WatchedContext:
    """Return the context of a client.

    It trusts the CAs in ``trust_path``. Without it, it trusts the system's CAs and checks the host name as well,
    because those CAs give certificates to anyone. ``is_checked=False`` takes any server. Raises ConfigError.
    """

    def make(now_ms: int) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION
        context.check_hostname = is_checked and not trust_path
        if not is_checked:
            context.verify_mode = ssl.CERT_NONE
        elif trust_path:
            _trust(context, trust_path)
        else:
            context.load_default_certs()
        if identity is not None:
            identity.load_into(context, now_ms)
        return context

    return WatchedContext(make, _paths(identity, trust_path if is_checked else ""), clock)


def handshake_text(error: Exception) -> str:
    """Return what went wrong in a TLS handshake, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused, {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, ConnectionResetError):
        return "the other side closed the connection"
    return str(error) or type(error).__name__


def _paths(identity: Identity | None, trust_path: str) -> tuple[str, ...]:
    own = (identity.cert_path, identity.key_path) if identity is not None else ()
    return (*own, trust_path) if trust_path else own


def _stamp(paths: tuple[str, ...]) -> _Stamp:
    """Return what changes when a file is written or replaced. Raises ConfigError for a file that can't be read."""
    stamp = []
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        if status.st_size > FILE_SIZE_MAX_BYTES:
            raise ConfigError(
                f"{path} has {status.st_size} bytes, the limit is {FILE_SIZE_MAX_BYTES}: is it a PEM file?"
            )
        stamp.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(stamp)


def _trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(f"CA certificates {path}: no certificate in PEM can be read ({error.reason})") from None


def _check_private(path: str) -> None:
    if Path(path).stat().st_mode & S_IROTH:
        raise ConfigError(f"private key {path}: every user of this machine can read it: chmod 600 {path}")


def _check_dates(path: str, now_ms: int) -> None:
    # Not a base dependency: only servers with TLS and `pymq auth cert` need it.
    try:
        from cryptography import x509  # noqa: PLC0415
    except ImportError:
        raise ConfigError(f"TLS needs the package cryptography: {pip_install('tls')}") from None
    try:
        certificates = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except (ValueError, OSError) as error:
        raise ConfigError(f"certificate {path}: {error}") from None
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    for each in certificates:
        name = each.subject.rfc4514_string()
        if each.not_valid_after_utc < now:
            raise ConfigError(f"certificate {path}: {name} expired on {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
        if each.not_valid_before_utc > now:
            raise ConfigError(
                f"certificate {path}: {name} is not valid before {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC: is "
                "this machine's clock right?"
            )
