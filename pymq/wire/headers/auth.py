"""Headers of the AUTH_* requests (3001 to 3010): which user or ACL a request is about."""

from __future__ import annotations

from pymq.wire.header import Header


class UserHeader(Header, kw_only=True, frozen=True):
    """AUTH_CREATE_USER (3001), AUTH_UPDATE_USER (3002), AUTH_DELETE_USER (3003), AUTH_GET_USER (3004)."""

    username: str | None = None


class ListUsersHeader(Header, kw_only=True, frozen=True):
    """AUTH_LIST_USER (3005). ``filter``: a part of the users' names."""

    filter: str | None = None


class SubjectHeader(Header, kw_only=True, frozen=True):
    """AUTH_CREATE_ACL (3006), AUTH_UPDATE_ACL (3007), AUTH_GET_ACL (3009). ``subject``: ``User:name``."""

    subject: str | None = None


class DeleteAclHeader(Header, kw_only=True, frozen=True):
    """AUTH_DELETE_ACL (3008). Without ``resource`` all entries go, without ``policy_type`` those of both levels."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsHeader(Header, kw_only=True, frozen=True):
    """AUTH_LIST_ACL (3010). Parts of ``User:name``, and of entries' resources."""

    subject_filter: str | None = None
    resource_filter: str | None = None
