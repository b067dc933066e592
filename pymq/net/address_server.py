"""Asks an HTTP or HTTPS address server for the addresses of name servers: one blocking request, no redirects.

The certificate of an HTTPS server must be signed by an authority of this machine, or by one in the file that the
environment's SSL_CERT_FILE names (OpenSSL reads it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pymq.errors import UnreachableError
from pymq.model.hosts import HTTPS_PREFIX, parse_address

if TYPE_CHECKING:
    from http.client import HTTPConnection

FETCH_TIMEOUT_S = 3.0
ANSWER_BYTES_MAX = 64 * 1024
ADDRESSES_MAX = 64
HTTP_OK = 200
MISMATCHES = (62, 64)  # OpenSSL's codes for a certificate of another host name or IP address


def named_by(url: str, connect: Callable[[str, str], HTTPConnection] | None = None) -> list[str]:
    """Return the addresses that an address server names. Raises UnreachableError with what it answered.

    ``connect`` takes the URL and its host with port, and returns a connection of one's own.
    """
    # Imported here: few programs need it, and each would start 20 ms later.
    import http.client  # noqa: PLC0415

    try:
        status, body = _answer(url, connect or _connection)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnreachableError(f"the address server {url} does not answer: {_reason(error)}") from None
    text = body.decode("utf-8", "replace").strip()
    addresses = [part.strip() for part in re.split("[;,\n]", text) if part.strip()]
    problem = f"status {status}" if status != HTTP_OK else _problem(addresses)
    if problem:
        raise UnreachableError(f"the address server {url} names no name servers: {problem}")
    return addresses


def _answer(url: str, connect: Callable[[str, str], HTTPConnection]) -> tuple[int, bytes]:
    """Return the status and the body. Raises OSError, HTTPException, ValueError."""
    from urllib.parse import urlsplit  # noqa: PLC0415

    parts = urlsplit(url)
    connection = connect(url, parts.netloc)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        with connection.getresponse() as answer:
            return answer.status, answer.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()


def _connection(url: str, place: str) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415

    if not url.startswith(HTTPS_PREFIX):
        return HTTPConnection(place, timeout=FETCH_TIMEOUT_S)
    import ssl  # noqa: PLC0415

    return HTTPSConnection(place, timeout=FETCH_TIMEOUT_S, context=ssl.create_default_context())


def _reason(error: Exception) -> str:
    verify_message = getattr(error, "verify_message", "")  # of ssl.SSLCertVerificationError
    if getattr(error, "verify_code", 0) in MISMATCHES:
        return f"its certificate is for another host: {verify_message}: write the certificate's name in the URL"
    if verify_message:
        return f"its certificate is not trusted: {verify_message}: name a file with its authority in SSL_CERT_FILE"
    return str(error) or type(error).__name__


def _problem(addresses: Sequence[str]) -> str:
    if not 1 <= len(addresses) <= ADDRESSES_MAX:
        return f"{len(addresses)} addresses, allowed are 1 to {ADDRESSES_MAX}"
    try:
        for address in addresses:
            parse_address(address[:300])
    except ValueError as error:
        return str(error)
    return ""
