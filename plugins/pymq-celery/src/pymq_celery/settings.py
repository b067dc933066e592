"""Where the cluster is, and the transport options: what a URL and ``broker_transport_options`` say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote, urlsplit

from pymq.client import Credentials, Tls
from pymq.client.producer import COMPRESS_ABOVE_BYTES
from pymq.errors import UsageError
from pymq.model.names import check_group

DEFAULT_PORT = 9876
DEFAULT_PREFIX = "kombu"
PREFIX_LENGTH_MAX = 40
PRIORITY_MAX = 9
LIMITS = {
    "visibility_timeout": (1, 259_200),
    "delay_max_s": (0, 31_536_000),
    "poll_ms": (50, 15_000),
    "queue_count": (1, 256),
    "deliveries_max": (1, 10_000),
    "body_size_max_bytes": (1024, 1 << 30),
    "compress_above_bytes": (0, 1 << 30),
}
_SIMILAR = 0.8  # how much a misspelled option has in common with the one that is meant


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a URL says. ``prefix`` divides applications on one cluster, as a virtual host does."""

    namesrv: str
    prefix: str
    user: str
    secret: str

    @property
    def credentials(self) -> Credentials | None:
        """The user of the URL, else of the environment."""
        return Credentials(self.user, self.secret) if self.user else Credentials.from_environment()


def parse_url(url: str) -> Cluster:
    """Return what ``pymq://user:secret@host:9876,host:9876/prefix`` says. Raises UsageError."""
    parts = urlsplit(url)
    login, _, places = parts.netloc.rpartition("@")
    user, _, secret = login.partition(":")
    if bool(user) != bool(secret):
        raise UsageError(f"the URL of the broker has a user or a secret alone: {masked(url)}")
    prefix = unquote(parts.path.strip("/")) or DEFAULT_PREFIX
    if len(prefix) > PREFIX_LENGTH_MAX:
        raise UsageError(f"the prefix {prefix!r} has {len(prefix)} characters, the limit is {PREFIX_LENGTH_MAX}")
    if parts.query or parts.fragment:
        raise UsageError(f"{masked(url)}: options stand in broker_transport_options, not in the URL")
    return Cluster(
        ";".join(_with_port(place) for place in (places or "localhost").split(",")),
        check_group(prefix),
        unquote(user),
        unquote(secret),
    )


def masked(url: str, mask: str = "**") -> str:
    """Return the URL without the secret."""
    scheme, divider, rest = url.partition("://")
    login, at, places = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{divider}{user}{colon}{mask if colon else ''}{at}{places}"


def _with_port(place: str) -> str:
    return place if place.rpartition(":")[2].isdecimal() and not place.endswith("]") else f"{place}:{DEFAULT_PORT}"


@dataclass(frozen=True, slots=True)
class Options:
    """``broker_transport_options``; the README has the table."""

    visibility_timeout: float = 60
    priority_steps: tuple[int, ...] = (0,)
    delay_max_s: float = 259_200
    poll_ms: int = 500
    queue_count: int = 4
    deliveries_max: int = 16
    body_size_max_bytes: int = 4 << 20
    compress_above_bytes: int = COMPRESS_ABOVE_BYTES
    group: str = ""

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Options:
        """Return the options. Raises UsageError for a value beyond its limits; kombu's own options are passed over."""
        known = {field.name for field in fields(cls)}
        for name in given.keys() - known:
            if meant := get_close_matches(str(name), known, 1, _SIMILAR):
                raise UsageError(f"the transport option {name!r} does not exist: {meant[0]} is meant, perhaps")
        values = {name: value for name, value in given.items() if name in known}
        for name in values.keys() & LIMITS.keys():
            _check_number(name, values[name])
        if "priority_steps" in values:
            values["priority_steps"] = _steps(values["priority_steps"])
        if values.get("group"):
            check_group(values["group"])
        return cls(**values)

    def step_of(self, priority: int) -> int:
        """Return the step that a message of this priority belongs to: the largest that is not above it."""
        return max((step for step in self.priority_steps if step <= priority), default=self.priority_steps[0])


def _check_number(name: str, value: Any) -> None:
    least, most = LIMITS[name]
    kinds = (int, float) if name in ("visibility_timeout", "delay_max_s") else (int,)
    if type(value) not in kinds or not least <= value <= most:
        whole = "" if float in kinds else "whole "
        raise UsageError(f"the transport option {name}={value!r}: use a {whole}number from {least} to {most}")


def _steps(given: Any) -> tuple[int, ...]:
    steps = tuple(sorted(set(given))) if isinstance(given, list | tuple | set | range) else ()
    if not steps or not all(type(step) is int and 0 <= step <= PRIORITY_MAX for step in steps) or steps[0] != 0:
        raise UsageError(
            f"the transport option priority_steps={given!r}: use whole numbers from 0 to {PRIORITY_MAX}, with 0"
        )
    return steps


def tls_of(ssl: Any) -> Tls | None:
    """Return TLS from Celery's ``broker_use_ssl``: True, or ca_certs, certfile and keyfile. Raises UsageError."""
    if not ssl:
        return None
    if ssl is True:
        return Tls()
    names = {"ca_certs": "trust_path", "certfile": "cert_path", "keyfile": "key_path", "password": "key_password"}
    if not isinstance(ssl, Mapping) or set(ssl) - set(names):
        raise UsageError(f"broker_use_ssl={ssl!r}: use True, or a dict with {', '.join(names)}")
    return Tls(**{names[name]: value for name, value in ssl.items()})
