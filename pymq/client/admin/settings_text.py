"""Settings as servers tell and take them: ``name=value`` lines without escapes (Java: MixAll.properties2String)."""

from __future__ import annotations

from collections.abc import Mapping

from pymq.errors import UsageError


def encode_settings(settings: Mapping[str, str]) -> bytes:
    """The lines. Raises UsageError for a name or value that would make two lines or another name."""
    for name, value in settings.items():
        if not name or any(mark in name for mark in "=\r\n") or any(mark in value for mark in "\r\n"):
            raise UsageError(f"setting {name!r}={value!r} does not fit on a name=value line")
    return "".join(f"{name}={value}\n" for name, value in settings.items()).encode()


def decode_settings(body: bytes) -> dict[str, str]:
    """Name -> value of each line; lines without ``=`` and comments are left out."""
    settings = {}
    for line in body.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings[name.strip()] = value.strip()
    return settings
