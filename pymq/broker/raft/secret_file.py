"""The secret of a Raft group: who has it is a member. It is in a file, in no answer, no log line and no metric.

A file has one or two lines. The first secret proves what this node sends, and both are accepted. So a secret is
replaced in three steps, after each of which the members accept each other: the next one is added, it takes the first
place, and the former one goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from pymq.broker.raft.members import GroupSettings
from pymq.config import BrokerConfig
from pymq.config.raft import PEERS_KEY, SECRET_FILE_KEY
from pymq.errors import ConfigError
from pymq.file_modes import FILE_MODE, is_open_to_others
from pymq.security.local_secret import absolute_path, local_path, make_once
from pymq.store.disk.fs import Files, put_file

SECRET_SIZE_BYTES = 32
FILE_BYTES_MAX = 4096
NEXT, FORMER = "next", "former"
_LINE = re.compile(rf"([0-9a-f]{{{2 * SECRET_SIZE_BYTES}}})( {NEXT}| {FORMER})?")
_SHOWN_NAME_LENGTH = 40
_MAKE_ONE = "make one with `pymq raft secret FILE`, and give every member the same file"


class Secrets(NamedTuple):
    """What a file has: the secret that proves, and a second one that is accepted too, with its kind. 32 bytes each."""

    first: bytes
    second: bytes = b""
    kind: str = ""

    @property
    def accepted(self) -> tuple[bytes, ...]:
        return (self.first, self.second) if self.second else (self.first,)


def encode_secrets(secrets: Secrets) -> bytes:
    """Return the content of a file with these secrets."""
    lines = [secrets.first.hex()]
    if secrets.second:
        lines.append(f"{secrets.second.hex()} {secrets.kind}")
    return "".join(f"{line}\n" for line in lines).encode()


def decode_secrets(raw: bytes, path: str) -> Secrets:
    """Return the secrets of a file. Raises ConfigError, whose text has nothing of the content."""
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} has {len(raw)} bytes, a file of secrets has at most {FILE_BYTES_MAX}: {_MAKE_ONE}")
    found = [_LINE.fullmatch(line) for line in raw.decode("ascii", "replace").splitlines()]
    if (
        not 1 <= len(found) <= 2
        or found[0] is None
        or found[0][2]
        or (len(found) == 2 and not (found[1] or [0] * 3)[2])
    ):
        raise ConfigError(
            f"{path} is no file of a group's secret: it has a line of {2 * SECRET_SIZE_BYTES} hex digits, perhaps a "
            f"second one with the word {NEXT} or {FORMER}: {_MAKE_ONE}"
        )
    if len(found) == 1:
        return Secrets(bytes.fromhex(found[0][1]))
    assert found[1] is not None
    return Secrets(bytes.fromhex(found[0][1]), bytes.fromhex(found[1][1]), found[1][2].strip())


def next_step(secrets: Secrets, fresh: bytes) -> Secrets:
    """Return what the file has after the next step of a change; ``fresh`` is the new secret for the first step."""
    if not secrets.second:
        return Secrets(secrets.first, fresh, NEXT)
    if secrets.kind == NEXT:
        return Secrets(secrets.second, secrets.first, FORMER)
    return Secrets(secrets.first)


class SecretFile:
    """One node's secrets, as its file has them now."""

    def __init__(self, files: Files, path: str) -> None:
        """Raise ConfigError for a file that is missing, open to others, or has no secret."""
        self.path = path
        self._files = files
        self.problem = ""  # why the file can't be read now; then what it had before counts
        self.secrets = self._read()

    def look(self) -> bool:
        """Read the file again; return True when its secrets have changed."""
        try:
            secrets, self.problem = self._read(), ""
        except ConfigError as error:
            self.problem = str(error)
            return False
        has_changed, self.secrets = secrets != self.secrets, secrets
        return has_changed

    def _read(self) -> Secrets:
        try:
            if is_open_to_others(mode := self._files.mode(self.path)):
                raise ConfigError(
                    f"{self.path} holds a secret and has mode {mode:04o}, the limit is {FILE_MODE:04o}: run chmod 600"
                )
            raw = self._files.read_bytes(self.path)
        except OSError as error:
            raise ConfigError(
                f"{SECRET_FILE_KEY}: {self.path} can't be read: {error.strerror} (errno {error.errno}); {_MAKE_ONE}"
            ) from error
        return decode_secrets(raw, self.path)


def open_secret(files: Files, config: BrokerConfig, group: GroupSettings, draw: Callable[[int], bytes]) -> SecretFile:
    """Return the secret of a node's group. ``draw(n)`` returns n random bytes. Raises ConfigError.

    Without a setting the members of a group on loopback share a file in their user's home directory, which the first
    one makes. Who can read it could read the members' logs as well.
    """
    path = secret_path(config, group)
    if not config.raft_secret_file:
        try:
            make_once(path, encode_secrets(Secrets(draw(SECRET_SIZE_BYTES))))
        except OSError as error:
            raise ConfigError(
                f"the secret of {group.name} can't be kept in {path}: {error.strerror} (errno {error.errno}); "
                f"{_MAKE_ONE}: set {SECRET_FILE_KEY}"
            ) from error
    return SecretFile(files, path)


def secret_path(config: BrokerConfig, group: GroupSettings) -> str:
    """Return where the secret of a node's group is. Raises ConfigError for members on several machines without one."""
    if config.raft_secret_file:
        return absolute_path(config.raft_secret_file)
    if not group.is_local:
        away = next(member for member in group.members if not member.is_local)
        raise ConfigError(
            f"{PEERS_KEY} has {away.node} at {away.address}, which strangers may reach, and {SECRET_FILE_KEY} is not "
            f"set: members prove each other by a secret that they share; {_MAKE_ONE}: set {SECRET_FILE_KEY}"
        )
    name = re.sub(r"[^A-Za-z0-9_-]", "_", group.name)[:_SHOWN_NAME_LENGTH]
    digest = blake2b(f"{config.broker_cluster_name}\0{group.name}".encode(), digest_size=8).hexdigest()
    return local_path(f"{name}-{digest}.secret")


def write_secrets(files: Files, path: str, secrets: Secrets) -> None:
    """Write a file of secrets, for its owner alone. Raises OSError."""
    put_file(files, path, encode_secrets(secrets))
