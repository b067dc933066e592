"""RocketMQ's request signature, both ways: made for a request that is sent, and compared with one that arrived.

A signature is the base64 of HMAC-SHA1, with the user's secret as key, over the values of all named fields in the order
of their names, and then the body. Java: AclClientRPCHook, AclUtils, AclSigner.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Final, NoReturn

from pymq.errors import UsageError

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
# Clients of this version (V4_9_3) and older ones add this field after they have signed.
LATE_FIELD: Final = "_UNIQUE_KEY_QUERY"
LATE_FIELD_VERSION_MAX: Final = 399


class Secret:
    """A key to sign with. Neither ``str`` nor ``repr`` shows it, so no log and no traceback does."""

    __slots__ = ("_key",)

    def __init__(self, text: str) -> None:
        """Raises UsageError for an empty text: everybody could sign with it."""
        if not text:
            raise UsageError("the secret is empty: give one of 8 characters or more")
        self._key = text.encode()

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
        return base64.b64encode(hmac.digest(self._key, content, "sha1")).decode("ascii")


def signed_content(ext: Mapping[str, str], body: bytes, *, left_out: frozenset[str] = frozenset()) -> bytes:
    """Return the bytes that a signature covers: all values but the signature's, ordered by name, then the body.

    Neither the request's code nor its opaque, flags and version are among them.
    """
    names = [name for name in ext if name != SIGNATURE and name not in left_out]
    if all(map(str.isascii, names)):
        names.sort()
    else:
        names.sort(key=_java_order)
    return "".join([ext[name] for name in names]).encode("utf-8", "replace") + body


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
    left_out = frozenset({LATE_FIELD}) if version <= LATE_FIELD_VERSION_MAX else frozenset()
    expected = secret.sign(signed_content(ext, body, left_out=left_out))
    return hmac.compare_digest(expected.encode("ascii"), ext.get(SIGNATURE, "").encode("utf-8", "replace"))


def _java_order(name: str) -> bytes:
    """Return a key that orders as Java orders strings: by UTF-16 units, not by code points."""
    return name.encode("utf-16-be", "surrogatepass")
