"""Admin calls about users and ACLs of RocketMQ 5.x. Each broker keeps its own; slaves of PyMQ have their master's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from pymq.client.admin.connection import AdminConnection
from pymq.errors import RefusedError
from pymq.model.fastjson import JsonError, loads
from pymq.wire.bodies_auth import AclEntryInfo, AclInfo, PolicyInfo, UserInfo
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.auth import DeleteAclHeader, ListAclsHeader, ListUsersHeader, SubjectHeader, UserHeader

T = TypeVar("T")


class AuthAdmin:
    """Calls about users and their ACLs, for one broker each."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    async def users(self, address: str, name_filter: str | None = None) -> list[UserInfo]:
        """Return the users whose names contain a text; with passwords where the broker shows them to the sender."""
        header = ListUsersHeader(filter=name_filter)
        answer = await self._connection.ask_broker(address, RequestCode.AUTH_LIST_USER, header)
        return _decoded(answer.body, list[UserInfo], address) or []

    async def user(self, address: str, name: str) -> UserInfo | None:
        """Return a user, None when the broker has none of that name."""
        header = UserHeader(username=name)
        answer = await self._connection.ask_broker(address, RequestCode.AUTH_GET_USER, header)
        return _decoded(answer.body, UserInfo, address)

    async def create_user(self, address: str, name: str, password: str, *, user_type: str | None = None) -> None:
        """Make a user: ``user_type`` is Normal, also without one, or Super."""
        info = UserInfo(username=name, password=password, user_type=user_type)
        await self._connection.ask_broker(address, RequestCode.AUTH_CREATE_USER, UserHeader(username=name), info)

    async def update_user(
        self,
        address: str,
        name: str,
        *,
        password: str | None = None,
        user_type: str | None = None,
        status: str | None = None,
    ) -> None:
        """Change what is given of a user: ``user_type`` is Normal or Super, ``status`` enable or disable.

        RocketMQ changes one of them in a request, so each goes alone.
        """
        changes = (
            UserInfo(username=name, password=password) if password is not None else None,
            UserInfo(username=name, user_type=user_type) if user_type is not None else None,
            UserInfo(username=name, user_status=status) if status is not None else None,
        )
        for info in changes:
            if info is not None:
                await self._connection.ask_broker(
                    address, RequestCode.AUTH_UPDATE_USER, UserHeader(username=name), info
                )

    async def delete_user(self, address: str, name: str) -> None:
        """Delete a user with its ACL; an unknown one counts as deleted."""
        await self._connection.ask_broker(address, RequestCode.AUTH_DELETE_USER, UserHeader(username=name))

    async def acls(
        self, address: str, subject_filter: str | None = None, resource_filter: str | None = None
    ) -> list[AclInfo]:
        """Return the ACLs whose subject ``User:name`` contains a text, with the entries whose resource does."""
        header = ListAclsHeader(subject_filter=subject_filter, resource_filter=resource_filter)
        answer = await self._connection.ask_broker(address, RequestCode.AUTH_LIST_ACL, header)
        return _decoded(answer.body, list[AclInfo], address) or []

    async def acl(self, address: str, name: str) -> AclInfo | None:
        """Return the ACL of a user, None for one without."""
        header = SubjectHeader(subject=f"User:{name}")
        answer = await self._connection.ask_broker(address, RequestCode.AUTH_GET_ACL, header)
        return _decoded(answer.body, AclInfo, address)

    async def put_acl(
        self, address: str, name: str, entries: Sequence[AclEntryInfo], *, policy_type: str = "Custom"
    ) -> None:
        """Add entries to a user's ACL, and make it if there is none; an entry replaces the one of its resource."""
        subject = f"User:{name}"
        info = AclInfo(subject=subject, policies=[PolicyInfo(policy_type=policy_type, entries=list(entries))])
        is_new = await self.acl(address, name) is None
        code = RequestCode.AUTH_CREATE_ACL if is_new else RequestCode.AUTH_UPDATE_ACL
        await self._connection.ask_broker(address, code, SubjectHeader(subject=subject), info)

    async def delete_acl(
        self, address: str, name: str, *, policy_type: str | None = None, resource: str | None = None
    ) -> None:
        """Delete the entries of a user's ACL that are about ``resource``, or all of them."""
        header = DeleteAclHeader(subject=f"User:{name}", policy_type=policy_type, resource=resource)
        await self._connection.ask_broker(address, RequestCode.AUTH_DELETE_ACL, header)


def _decoded(body: bytes, kind: type[T], address: str) -> T | None:
    """Return the decoded body, None for an empty one. Raises RefusedError naming the broker."""
    if not body:
        return None
    try:
        return msgspec.convert(loads(body), kind, strict=False)
    except (JsonError, msgspec.ValidationError) as error:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"the answer of {address} can't be read: {error}") from error
