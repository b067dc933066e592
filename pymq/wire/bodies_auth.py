"""JSON bodies of the AUTH_* requests (3001 to 3010): users, and ACLs with policies and entries.

:mod:`pymq.security.acl_5x` says what they mean.
"""

from __future__ import annotations

import msgspec


class UserInfo(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A user. In a change, members that are absent stay as they are."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class AclEntryInfo(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What a policy says of one resource."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A policy: ``Custom``, also without a type, or ``Default``."""

    policy_type: str | None = None
    entries: list[AclEntryInfo] | None = None


class AclInfo(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The ACL of one subject, ``User:name``."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None
