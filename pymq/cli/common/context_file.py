"""The file of contexts: ``$XDG_CONFIG_HOME/pymq/contexts.toml``, else ``~/.config/pymq/contexts.toml``, mode 0600."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymq.errors import ConfigError, NotFoundError, UsageError
from pymq.file_modes import DIRECTORY_MODE, FILE_MODE

NAME_LENGTH_MAX = 64
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_LENGTH_MAX}}}")


@dataclass(slots=True)
class Contexts:
    """The contexts of a file: name servers ("host:port;host:port") by name, references to credentials and the names of
    the cluster's brokers ("broker-a;broker-b") by name where there are some, and the current name or None."""

    path: Path
    name_servers: dict[str, str] = field(default_factory=dict)
    current: str | None = None
    credentials: dict[str, str] = field(default_factory=dict)
    brokers: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str:
        """Return the name servers of a context. Raises NotFoundError."""
        if name not in self.name_servers:
            names = ", ".join(sorted(self.name_servers)) or "none"
            raise NotFoundError(f"no context {name!r} in {self.path}: there are {names}; pymq context add makes one")
        return self.name_servers[name]

    def save(self) -> None:
        """Write the file at once: a reader sees the old contexts or the new ones. Raises OSError."""
        lines = [] if self.current is None else [f"current = {_text(self.current)}\n"]
        for name, servers in sorted(self.name_servers.items()):
            lines.append(f"\n[contexts.{_text(name)}]\nnamesrv = {_text(servers)}\n")
            if name in self.credentials:
                lines.append(f"credentials = {_text(self.credentials[name])}\n")
            if name in self.brokers:
                lines.append(f"brokers = {_text(self.brokers[name])}\n")
        self.path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w") as stream:
                stream.write("".join(lines).lstrip("\n"))
            new.replace(self.path)
        finally:
            new.unlink(missing_ok=True)


def contexts_path(env: Mapping[str, str]) -> Path:
    """Return the place of the file. A relative XDG_CONFIG_HOME does not count, as its specification says."""
    home = env.get("XDG_CONFIG_HOME", "")
    base = Path(home) if home.startswith("/") else Path("~/.config").expanduser()
    return base / "pymq" / "contexts.toml"


def load_contexts(env: Mapping[str, str]) -> Contexts:
    """Read the file; without one there are no contexts. Raises ConfigError for one that can't be read."""
    path = contexts_path(env)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return Contexts(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error
    import tomllib

    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}: mend or remove it") from error
    return _from_parsed(path, parsed)


def _from_parsed(path: Path, parsed: Mapping[str, Any]) -> Contexts:
    tables, current = parsed.get("contexts", {}), parsed.get("current")
    found = Contexts(path)
    if not isinstance(tables, dict) or not (current is None or isinstance(current, str)):
        raise ConfigError(f"{path} has no table of contexts, or a current one that is no text: mend or remove it")
    for name, table in tables.items():
        servers = table.get("namesrv") if isinstance(table, dict) else None
        if not isinstance(servers, str):
            raise ConfigError(f'{path}: the context {name!r} has no text namesrv: write namesrv = "HOST:PORT"')
        found.name_servers[name] = servers
        reference = table.get("credentials", "")
        if not isinstance(reference, str):
            raise ConfigError(f'{path}: the context {name!r} has credentials that are no text: write "file:PATH"')
        if reference:
            found.credentials[name] = reference
        brokers = table.get("brokers", "")
        if not isinstance(brokers, str):
            raise ConfigError(f'{path}: the context {name!r} has brokers that are no text: write "broker-a;broker-b"')
        if brokers:
            found.brokers[name] = ";".join(broker_names(brokers))
    found.current = current
    return found


def broker_names(text: str) -> list[str]:
    """Return the names in a text such as ``broker-a;broker-b``, each once."""
    return list(dict.fromkeys(filter(None, (name.strip() for name in text.split(";")))))


def check_name(name: str) -> str:
    """Return the name of a context. Raises UsageError for a name with other characters than those of _NAME."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a context: use 1 to {NAME_LENGTH_MAX} letters, digits, '_', '.' and '-'"
        )
    return name


def _text(text: str) -> str:
    """Return a TOML string; JSON's escapes are valid in it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
