"""How a console is reached, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pymq.config.security import is_loopback
from pymq.console.memory import MemoryBudget
from pymq.errors import ConfigError
from pymq.security.credentials import Credentials


@dataclass(frozen=True)
class ConsoleSettings:
    """How a console is reached, and what it may do.

    ``contexts``: the name servers ("host:port" texts) of each cluster, by the name of its context. ``public_url``:
    where browsers reach the console behind a proxy, "" without one. ``is_insecure``: others may come without TLS and
    log-in. ``shows_bodies``: whether bodies and properties of messages are shown, followed and downloaded.
    ``schemas``: a folder as of :class:`~pymq.operations.message.schemas.Schemas`. ``credentials``: what the console's
    own requests are signed with, by context; persons sign theirs. ``brokers``: the names of those that a cluster should
    have, by context, where they are known. ``memory``: how much is held at most for those who look.
    """

    contexts: Mapping[str, tuple[str, ...]]
    host: str = "127.0.0.1"
    port: int = 8082
    public_url: str = ""
    is_insecure: bool = False
    allow_changes: bool = False
    audit_directory: str = ""
    shows_bodies: bool = True
    schemas: Path | None = None
    credentials: Mapping[str, Credentials] = field(default_factory=dict)
    brokers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory: MemoryBudget = field(default_factory=MemoryBudget)

    @property
    def is_local(self) -> bool:
        """Return whether only this machine reaches the console."""
        return is_loopback(self.host) and not self.public_url

    def check(self, *, has_tls: bool) -> list[str]:
        """Return warnings. Raises ConfigError for a console that strangers could read or listen to."""
        is_encrypted = has_tls or self.public_url.startswith("https://")
        if self.is_local or is_encrypted:
            return []
        if not self.is_insecure:
            raise ConfigError(
                f"the console would send secrets and messages to other machines without TLS, from {self.host}: give it "
                "a certificate (PYMQ_TLS_SERVER_CERT_PATH), or --behind-proxy with --public-url https://..., or "
                "--insecure"
            )
        return [f"other machines reach the console at {self.host} without TLS: others can read along (--insecure)"]
