"""The text form of settings in requests and answers: ``name=value`` lines without escapes.

Java: MixAll.properties2String.
"""

from __future__ import annotations

from collections.abc import Mapping

from pymq.errors import UsageError

# RocketMQ's brokers answer these with the secrets in them.
SECRET_KEYS = frozenset({"initAuthenticationUser", "innerClientAuthenticationCredentials"})
MASK = "******"  # as PyMQ's brokers answer a secret


def encode_settings(settings: Mapping[str, str]) -> bytes:
    """Return the lines. Raises UsageError for a name or value with a line break, or a name with ``=`` or empty."""
    for name, value in settings.items():
        if not name or any(mark in name for mark in "=\r\n") or any(mark in value for mark in "\r\n"):
            raise UsageError(f"setting {name!r}={value!r} does not fit on a name=value line")
    return "".join(f"{name}={value}\n" for name, value in settings.items()).encode()


def decode_settings(body: bytes) -> dict[str, str]:
    """Return name -> value of each line; lines without ``=`` and comments are skipped, secrets are masked."""
    settings = {}
    for line in body.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            name, value = name.strip(), value.strip()
            settings[name] = MASK if name in SECRET_KEYS and value else value
    return settings
