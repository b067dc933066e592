"""Credentials: who a client is. It signs each of the client's requests as RocketMQ's clients do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from pymq.errors import UsageError
from pymq.security.identities import User, UserType
from pymq.security.private_file import read_private_file
from pymq.security.signature import SECURITY_TOKEN, Secret, signed_fields
from pymq.security.yaml_tree import Mapping as YamlMapping
from pymq.security.yaml_tree import Scalar, YamlError, parse_yaml
from pymq.wire.command import Command

ACCESS_KEY_VARIABLE: Final = "PYMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "PYMQ_SECRET_KEY"  # noqa: S105 - a name
FILE_VARIABLE: Final = "PYMQ_CREDENTIALS_FILE"


class Credentials:
    """A user's access key and secret. Nothing shows the secret, and it can't be pickled.

    Take them from the environment or a file rather than from source code.
    """

    __slots__ = ("_secret", "_security_token", "access_key")

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        """Raise UsageError for an empty key."""
        if not access_key:
            raise UsageError("the access key is empty: give the user's name")
        self.access_key = access_key
        self._secret = Secret(secret_key)
        self._security_token = security_token

    @classmethod
    def from_environment(cls, env: Mapping[str, str] | None = None) -> Credentials | None:
        """Return the credentials that the environment names; None when it names none.

        ``PYMQ_CREDENTIALS_FILE`` is the path of a file, see :meth:`from_file`; else ``PYMQ_ACCESS_KEY`` and
        ``PYMQ_SECRET_KEY`` are the keys. Raises UsageError for one key without the other, and what from_file raises.
        """
        env = os.environ if env is None else env
        if path := env.get(FILE_VARIABLE):
            return cls.from_file(path)
        access_key, secret_key = env.get(ACCESS_KEY_VARIABLE, ""), env.get(SECRET_KEY_VARIABLE, "")
        if bool(access_key) != bool(secret_key):
            missing = SECRET_KEY_VARIABLE if access_key else ACCESS_KEY_VARIABLE
            raise UsageError(f"the environment has no {missing}: set both keys, or neither")
        return cls(access_key, secret_key) if access_key else None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Credentials:
        """Return the credentials in a file with the lines ``accessKey: NAME`` and ``secretKey: SECRET``.

        mqadmin's ``conf/tools.yml`` is such a file; ``securityToken`` may stand there too. Raises UsageError when the
        file can't be read, is not of that form, or can be read by others than its owner.
        """
        members = _members(path)
        unknown = members.keys() - {"accessKey", "secretKey", "securityToken"}
        if unknown or not members.get("accessKey") or not members.get("secretKey"):
            raise UsageError(f"{path}: write the lines accessKey: NAME and secretKey: SECRET, and no others")
        return cls(members["accessKey"], members["secretKey"], members.get("securityToken") or None)

    @classmethod
    def find(cls, reference: str = "", env: Mapping[str, str] | None = None) -> Credentials | None:
        """Return the credentials that a reference names; without one, those of :meth:`from_environment`.

        ``env:PREFIX`` stands for the variables ``PREFIX_ACCESS_KEY`` and ``PREFIX_SECRET_KEY``, ``file:PATH`` for a
        file as of :meth:`from_file`. A reference holds no secret, so it may stand in options, plans and files. Raises
        UsageError, whose text never has the reference: it may be a secret by mistake.
        """
        env = os.environ if env is None else env
        if not reference:
            return cls.from_environment(env)
        kind, rest = check_reference(reference)
        if kind == "file":
            return cls.from_file(rest)
        names = f"{rest}_ACCESS_KEY", f"{rest}_SECRET_KEY"
        missing = [name for name in names if not env.get(name)]
        if missing:
            raise UsageError(f"the environment has no {' and no '.join(missing)}: set both {names[0]} and {names[1]}")
        return cls(env[names[0]], env[names[1]])

    def sign(self, command: Command) -> None:
        """Add access key and signature to a request's named fields; a second call replaces them."""
        ext = command.ext
        if self._security_token is not None:
            ext = {**ext, SECURITY_TOKEN: self._security_token}
        command.ext = signed_fields(self.access_key, self._secret, ext, command.body)

    def prove(self, content: bytes) -> bytes:
        """Return 32 bytes that only a holder of the same secret can make of ``content``."""
        return self._secret.prove(content)

    def server_user(self) -> User:
        """Return the user that servers are among each other when they sign with these credentials."""
        return self.user(UserType.INNER)

    def user(self, kind: UserType) -> User:
        """Return the user of that type that these credentials prove."""
        return User(self.access_key, self._secret, kind)

    def reveal(self) -> str:
        """Return the secret, to be sent to a broker that makes the user."""
        return self._secret.reveal()

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, ***)"


def check_reference(reference: str) -> tuple[str, str]:
    """Return the two parts of a reference, see :meth:`Credentials.find`. Raises UsageError for another text."""
    kind, _, rest = reference.partition(":")
    if (kind == "file" and rest) or (kind == "env" and rest.isidentifier()):
        return kind, rest
    raise UsageError(
        "credentials are given by reference: write env:PREFIX for the variables PREFIX_ACCESS_KEY and "
        "PREFIX_SECRET_KEY, or file:PATH for a file that only its owner can use"
    )


def _members(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the file's lines as texts. Raises UsageError, whose text never has one of the values."""
    try:
        root = parse_yaml(read_private_file(path))
    except YamlError as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(root, YamlMapping) or not all(isinstance(node, Scalar) for node in root.members.values()):
        raise UsageError(f"{path}: write the lines accessKey: NAME and secretKey: SECRET, and no others")
    return {name: node.text or "" for name, node in root.members.items() if isinstance(node, Scalar)}
