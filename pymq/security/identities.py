"""Users and the proof that a request comes from one. A table of users never changes: a change makes another table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from pymq.errors import Refusal
from pymq.security.addresses import Address, AddressRange
from pymq.security.signature import ACCESS_KEY, SIGNATURE, Secret, is_signed_with
from pymq.wire.codes import ResponseCode

NAME_LENGTH_MAX: Final = 255


class UserType(Enum):
    """What a user is. The first two are RocketMQ's names; ``Inner`` is PyMQ's, for brokers and filter servers."""

    SUPER = "Super"  # an administrator: every check passes
    NORMAL = "Normal"  # what its policy allows
    INNER = "Inner"  # the rows between servers, and what pymq.security.policies.INNER_POLICY allows


@dataclass(frozen=True)
class User:
    """One user. ``trusted_from``: addresses that need no signature, as 4.x ACL files have them.

    ``token``: what a proof of the user counts for. A user that was deleted and made again has another one.
    """

    name: str
    secret: Secret
    kind: UserType = UserType.NORMAL
    is_enabled: bool = True
    trusted_from: tuple[AddressRange, ...] = ()
    token: object = field(default_factory=object, compare=False, repr=False)

    @property
    def is_administrator(self) -> bool:
        """True for a user that can change users."""
        return self.kind is UserType.SUPER and self.is_enabled


@dataclass(frozen=True)
class Identity:
    """The proven sender of a request: ``user`` None is an address that the global white list of a 4.x file trusts.

    A trusted identity passes every check: RocketMQ's 4.x white lists mean that. ``is_proven``: something shows that the
    request comes from the user; without that it is neither a server nor an administrator.
    """

    user: User | None
    is_trusted: bool = False
    is_proven: bool = True

    @property
    def name(self) -> str:
        """The user's name, for logs."""
        if self.user is not None:
            return self.user.name
        return "white list" if self.is_trusted else ""

    @property
    def is_administrator(self) -> bool:
        """True when the user is one; a white list's address names no user."""
        return self.user is not None and self.is_proven and self.user.is_administrator


STRANGER: Final = Identity(None, is_proven=False)  # of a request that needs no user


class Users:
    """A table of users by name."""

    def __init__(self, users: Iterable[User] = (), trusted_from: Sequence[AddressRange] = ()) -> None:
        """``trusted_from``: the global white list. Raises Refusal for two users of a name."""
        self._users: dict[str, User] = {}
        self.trusted_from = tuple(trusted_from)
        for user in users:
            if user.name in self._users:
                raise _refused(f"The user is existed: {user.name} is there twice, keep one")
            self._users[user.name] = user

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

    def get(self, name: str) -> User | None:
        """Return the user of that name, or None."""
        return self._users.get(name)

    def with_user(self, user: User) -> Users:
        """Return a table in which ``user`` replaces the one of its name, or is new.

        Raises Refusal for a bad name, and for a change that leaves no administrator.
        """
        if not 0 < len(user.name) <= NAME_LENGTH_MAX or any(sign.isspace() or sign == ":" for sign in user.name):
            raise _refused(
                f"the username {user.name[:40]!r} is not usable: use 1 to {NAME_LENGTH_MAX} characters without blanks "
                "and colons"
            )
        return self._changed({**self._users, user.name: user})

    def without_user(self, name: str) -> Users:
        """Return a table without that user. Raises Refusal for the last administrator."""
        return self._changed({key: user for key, user in self._users.items() if key != name})

    def _changed(self, users: Mapping[str, User]) -> Users:
        had = any(user.is_administrator for user in self)
        if had and not any(user.is_administrator for user in users.values()):
            raise _refused("this would leave no enabled user of type Super: make another one first")
        return Users(users.values(), self.trusted_from)

    def following(self, before: Users) -> Users:
        """Return the table in which users that ``before`` has with the same secret keep what was proven of them."""
        users = []
        for user in self:
            known = before.get(user.name)
            is_same = known is not None and known.secret == user.secret
            users.append(replace(user, token=known.token) if known is not None and is_same else user)
        return Users(users, self.trusted_from)

    def authenticate(
        self,
        ext: Mapping[str, str],
        body: bytes,
        version: int,
        address: Address,
        certificate_user: str = "",
        *,
        must_prove: bool = True,
    ) -> Identity:
        """Return the sender of a request, whose named fields ``ext`` are as they arrived.

        ``certificate_user``: for whom the connection's certificate stands, if it has one. It proves requests without a
        signature. A signature that is there must hold, and names the sender: many programs may share a host's
        certificate. Without ``must_prove`` the name is believed. Raises Refusal(NO_PERMISSION) with RocketMQ's remarks:
        no access key, unknown user, disabled, wrong signature.
        """
        if any(block.contains(address) for block in self.trusted_from):
            return Identity(None, is_trusted=True)
        name = ext.get(ACCESS_KEY, "")
        is_signed = bool(name or ext.get(SIGNATURE))
        if not is_signed:
            name = certificate_user
        if not name:
            raise _refused("username cannot be null.")
        user = self._users.get(name)
        if user is None:
            raise _refused(f"User:{name[:NAME_LENGTH_MAX]} is not found.")
        if not user.is_enabled:
            raise _refused(f"User:{name} is disabled.")
        if any(block.contains(address) for block in user.trusted_from):
            return Identity(user, is_trusted=True)
        if is_signed and not is_signed_with(user.secret, ext, body, version):
            if must_prove:
                raise _refused("check signature failed.")
            return Identity(user, is_proven=False)
        return Identity(user)

    def still(self, identity: Identity, address: Address) -> Identity | None:
        """Return the identity that an earlier proof has in this table; None when the proof counts no more.

        Then the address has left the white list, or the user is gone or disabled, was gone in between, or has another
        secret.
        """
        if any(block.contains(address) for block in self.trusted_from):
            return Identity(None, is_trusted=True)
        user = self._users.get(identity.name) if identity.user is not None else None
        if user is None or identity.user is None or not user.is_enabled or user.token is not identity.user.token:
            return None
        is_trusted = any(block.contains(address) for block in user.trusted_from)
        if not is_trusted and identity.is_trusted:
            return None
        return Identity(user, is_trusted, identity.is_proven)


def _refused(remark: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark)
