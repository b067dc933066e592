"""RocketMQ's request signature, both ways: made for a request that is sent, and compared with one that arrived.

A signature is the base64 of HMAC-SHA1, with the user's secret as key, over the values of all named fields in the order
of their names, and then the body. Java: AclClientRPCHook, AclUtils, AclSigner.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final, NoReturn

from pymq.errors import UsageError
from pymq.model.sized_cache import SizedCache

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
# Clients of this version (V4_9_3) and older ones add this field after they have signed.
LATE_FIELD: Final = "_UNIQUE_KEY_QUERY"
LATE_FIELD_VERSION_MAX: Final = 399


_BLOCK_BYTES: Final = 64  # of SHA-1
_INNER, _OUTER = bytes(n ^ 0x36 for n in range(256)), bytes(n ^ 0x5C for n in range(256))
LAYOUTS_LIMIT_BYTES: Final = 256 * 1024


class Secret:
    """A key to sign with. Neither ``str`` nor ``repr`` shows it, so no log and no traceback does."""

    __slots__ = ("_inner", "_key", "_outer")

    def __init__(self, text: str) -> None:
        """Raise UsageError for an empty text: everybody could sign with it."""
        if not text:
            raise UsageError("the secret is empty: give one of 8 characters or more")
        self._key = text.encode()
        # HMAC (RFC 2104) with the key hashed already: half the time of hmac.digest for a kilobyte.
        key = self._key if len(self._key) <= _BLOCK_BYTES else hashlib.sha1(self._key).digest()
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha1(block.translate(_INNER))
        self._outer = hashlib.sha1(block.translate(_OUTER))

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled or copied: hand over where it is kept, and read it there")

    def reveal(self) -> str:
        """Return the text, to be written where only its owner reads it."""
        return self._key.decode()

    def sign(self, content: bytes) -> str:
        """Return the signature of ``content``: HMAC-SHA1 as base64."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False).decode("ascii")

    def has_signed(self, content: bytes, signature: bytes) -> bool:
        """True when ``signature`` (base64) was made with this secret. Takes as long for any wrong signature."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return hmac.compare_digest(b2a_base64(outer.digest(), newline=False), signature)

    def prove(self, content: bytes) -> bytes:
        """Return 32 bytes that only a holder of this secret can make of ``content``: HMAC-SHA256.

        No request's signature is one: those are made with SHA-1.
        """
        return hmac.digest(self._key, content, "sha256")


def signed_content(ext: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes that a signature covers: all values but the signature's, ordered by name, then the body.

    Neither the request's code nor its opaque, flags and version are among them.
    """
    return "".join(_values_of[tuple(ext)](ext)).encode("utf-8", "replace") + body


def sign(secret: Secret, ext: Mapping[str, str], body: bytes) -> str:
    """Return the signature of a request. ``ext`` holds the access key already, as it is sent."""
    assert ACCESS_KEY in ext, "the access key is part of what is signed"
    return secret.sign(signed_content(ext, body))


def signed_fields(access_key: str, secret: Secret, ext: Mapping[str, str], body: bytes) -> dict[str, str]:
    """Return the named fields of a request with access key and signature."""
    named = {**ext, ACCESS_KEY: access_key}
    named[SIGNATURE] = sign(secret, named, body)
    return named


def is_signed_with(secret: Secret, ext: Mapping[str, str], body: bytes, version: int) -> bool:
    """True when the request's signature was made with ``secret``. Takes as long for any wrong signature.

    ``ext`` are the fields as they arrived, before any is renamed or left out; ``version`` is the header's.
    """
    signature = ext.get(SIGNATURE, "").encode("utf-8", "replace")
    if version <= LATE_FIELD_VERSION_MAX and LATE_FIELD in ext:
        ext = {name: value for name, value in ext.items() if name != LATE_FIELD}
    return secret.has_signed(signed_content(ext, body), signature)


def _values_in_order(names: tuple[str, ...]) -> Callable[[Mapping[str, str]], Iterable[str]]:
    """Return a function that takes the signed values out of named fields of these names."""
    signed = [name for name in names if name != SIGNATURE]
    signed.sort(key=None if "".join(signed).isascii() else _java_order)
    if len(signed) > 1:
        return itemgetter(*signed)
    return lambda ext: [ext[name] for name in signed]


def _java_order(name: str) -> bytes:
    """Return a key that orders as Java orders strings: by UTF-16 units, not by code points."""
    return name.encode("utf-16-be", "surrogatepass")


# Clients send the same few sets of fields again and again: the order of each is found once.
_values_of = SizedCache[tuple[str, ...], Callable[[Mapping[str, str]], Iterable[str]]](
    _values_in_order, lambda names, _: sum(map(sys.getsizeof, names)) + 16 * len(names), LAYOUTS_LIMIT_BYTES
)
