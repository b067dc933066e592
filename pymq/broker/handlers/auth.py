"""Operators' requests about users and their ACLs (3001 to 3010), in RocketMQ 5.x's form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.metadata.late import answer_when_saved
from pymq.errors import Refusal
from pymq.security.acl_5x import acl_info, filtered, subject_name, user_info
from pymq.security.policies import NO_POLICY
from pymq.wire.bodies_admin import decode_admin_body, encode_admin_body
from pymq.wire.bodies_auth import AclInfo, UserInfo
from pymq.wire.bodies_client import encode_body
from pymq.wire.codes import ResponseCode, request_name
from pymq.wire.command import Command, ProvenSender
from pymq.wire.dispatch import Peer
from pymq.wire.headers.auth import DeleteAclHeader, ListAclsHeader, ListUsersHeader, SubjectHeader, UserHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.auth_manager import AuthManager, Change
    from pymq.config import BrokerConfig


class AuthHandlers:
    """Makes, changes, deletes and shows users and ACLs. A change takes effect, and is answered, once it is saved."""

    def __init__(self, *, config: BrokerConfig, auth: AuthManager) -> None:
        self._config = config
        self._auth = auth

    # -- users -------------------------------------------------------------------------------------------------------

    def create_user(self, request: Command, header: UserHeader, peer: Peer) -> None:
        """Make a user."""
        by, name = self._sender(request), _username(header)
        info = decode_admin_body(UserInfo, request.body)
        self._change(request, peer, lambda table: table.with_new_user(name, info, by))

    def update_user(self, request: Command, header: UserHeader, peer: Peer) -> None:
        """Change password, type or status of a user; what the body leaves out stays."""
        by, name = self._sender(request), _username(header)
        info = decode_admin_body(UserInfo, request.body)
        self._change(request, peer, lambda table: table.with_changed_user(name, info, by))

    def delete_user(self, request: Command, header: UserHeader, peer: Peer) -> None:
        """Delete a user with its ACL. A missing user counts as deleted."""
        by, name = self._sender(request), _username(header)
        self._change(request, peer, lambda table: table.without_user(name, by))

    def get_user(self, request: Command, header: UserHeader, peer: Peer) -> Reply:
        """Return a user; nothing for an unknown one. Only users of type Super are shown the password."""
        sees_secrets = self._sender(request).is_administrator
        user = self._auth.table.users.get(_username(header))
        return Reply(body=b"" if user is None else encode_admin_body(user_info(user, with_secret=sees_secrets)))

    def list_users(self, request: Command, header: ListUsersHeader, peer: Peer) -> Reply:
        """Return all users whose names have a text in them, by name."""
        sees_secrets = self._sender(request).is_administrator
        users = sorted(self._auth.table.users, key=lambda user: user.name)
        found = [user_info(user, with_secret=sees_secrets) for user in users if (header.filter or "") in user.name]
        return Reply(body=encode_body(found) if found else b"")

    # -- ACLs --------------------------------------------------------------------------------------------------------

    def put_acl(self, request: Command, header: SubjectHeader, peer: Peer) -> None:
        """Add entries to a user's ACL; an entry replaces the one of its resource."""
        self._check_on(request)
        name, info = subject_name(header.subject), decode_admin_body(AclInfo, request.body)
        self._change(request, peer, lambda table: table.with_acl(name, info))

    def delete_acl(self, request: Command, header: DeleteAclHeader, peer: Peer) -> None:
        """Delete entries of a user's ACL, or all of it."""
        self._check_on(request)
        name = subject_name(header.subject)
        self._change(request, peer, lambda table: table.without_acl(name, header.policy_type, header.resource))

    def get_acl(self, request: Command, header: SubjectHeader, peer: Peer) -> Reply:
        """Return a user's ACL; nothing for a user without one."""
        self._check_on(request)
        name = subject_name(header.subject)
        policy = self._auth.table.policies.of(name)
        return Reply(body=b"" if policy == NO_POLICY else encode_admin_body(acl_info(name, policy)))

    def list_acls(self, request: Command, header: ListAclsHeader, peer: Peer) -> Reply:
        """Return the ACLs of all subjects that have a text in them, with the entries whose resources have another."""
        self._check_on(request)
        acls = (acl_info(name, policy) for name, policy in sorted(self._auth.table.policies))
        shown = (
            filtered(acl, header.resource_filter) for acl in acls if (header.subject_filter or "") in str(acl.subject)
        )
        found = [acl for acl in shown if acl is not None]
        return Reply(body=encode_body(found) if found else b"")

    # ----------------------------------------------------------------------------------------------------------------

    def _change(self, request: Command, peer: Peer, change: Change) -> None:
        self._auth.change(change, answer_when_saved(request, peer, Reply))

    def _sender(self, request: Command) -> ProvenSender:
        """Return the sender, whom the broker's gate has proven. Raises Refusal as :meth:`_check_on`."""
        self._check_on(request)
        assert request.sender is not None, "a broker with users of its own has a gate"
        return request.sender

    def _check_on(self, request: Command) -> None:
        """Raise Refusal(REQUEST_CODE_NOT_SUPPORTED) when the users are not this broker's own."""
        if self._auth.is_on:
            return
        why = (
            "there are no users and no access rules: authenticationEnabled is off; `pymq auth init` makes an "
            "administrator and shows the settings that turn it on"
        )
        if self._config.acl_enable:
            why = "its users are those of plainAclFile: change that file"
        raise Refusal(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {request.code} not supported by this broker ({request_name(request.code)}): {why}",
        )


def _username(header: UserHeader) -> str:
    if not header.username:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The username is blank: name the user")
    return header.username
