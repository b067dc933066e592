"""Users and their rules on all brokers, read and changed through the admin client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.asking import change_each
from pymq.errors import NotFoundError, RefusedError, UnsafeError
from pymq.operations.where import Where
from pymq.security.addresses import parse_block
from pymq.security.policies import ResourcePattern, action_texts, parse_actions
from pymq.wire.bodies_auth import AclEntryInfo, AclInfo, UserInfo
from pymq.wire.codes import ResponseCode

ENABLED = "enable"
CUSTOM, DEFAULT = "Custom", "Default"


async def users(admin: Admin, where: Where, name_filter: str | None) -> list[dict[str, Any]]:
    """Return a record per user; two for a user that differs between brokers.

    An open ``where``: the brokers of the only cluster.
    """
    found: dict[tuple[str, str, bool], list[str]] = {}
    chosen = await admin.cluster.select(where.clusters, where.brokers)
    for target, infos in await admin.cluster.asking.each(chosen, lambda at: admin.auth.users(at, name_filter)):
        for info in infos:
            found.setdefault(_user_key(info), []).append(_name(target))
    return [
        {"user": name, "type": kind, "enabled": enabled, "brokers": brokers}
        for (name, kind, enabled), brokers in sorted(found.items())
    ]


async def user(admin: Admin, where: Where, name: str) -> dict[str, Any]:
    """Return a user with its rules. Raises NotFoundError."""
    records = [record for record in await users(admin, where, name) if record["user"] == name]
    if not records:
        raise no_user(name)
    return {**records[0], "differs": len(records) > 1, "rules": await rules(admin, where, name)}


async def rules(
    admin: Admin, where: Where, name: str | None = None, resource_filter: str | None = None
) -> list[dict[str, Any]]:
    """Return a record per entry of all ACLs, or of one user's, with the brokers that have it."""
    found: dict[tuple[Any, ...], list[str]] = {}
    chosen = await admin.cluster.select(where.clusters, where.brokers)
    subject = None if name is None else f"User:{name}"

    async def ask(address: str) -> list[AclInfo]:
        return await admin.auth.acls(address, subject, resource_filter)

    for target, acls in await admin.cluster.asking.each(chosen, ask):
        for acl in acls:
            if subject in (None, acl.subject):
                for key in _entry_keys(acl):
                    found.setdefault(key, []).append(_name(target))
    return [
        {
            "user": of,
            "level": level,
            "resource": resource,
            "actions": list(actions),
            "sources": list(sources),
            "effect": effect,
            "brokers": brokers,
        }
        for (of, level, resource, actions, sources, effect), brokers in sorted(found.items())
    ]


async def change(
    admin: Admin, where: Where, what: dict[str, Any], apply: Callable[[str], Awaitable[None]], *, dry_run: bool
) -> dict[str, Any]:
    """Make a change on the masters and then on the slaves of the chosen brokers; return the record ``what`` of it.

    RocketMQ's slaves have users of their own; PyMQ's take their master's and leave the request to it.
    """
    targets = await _with_slaves(admin, where)
    if not dry_run:
        await change_each(targets, lambda target: apply(target.address))
    names = list(dict.fromkeys(_name(target) for target in targets))
    return {**what, "brokers": names, "applied": not dry_run}


async def check_there(admin: Admin, where: Where, name: str, *, is_there: bool) -> None:
    """Raise NotFoundError for a user that no chosen broker has; UnsafeError, without ``is_there``, for a known one."""
    found = [record for record in await users(admin, where, name) if record["user"] == name]
    if is_there and not found:
        raise no_user(name)
    if found and not is_there:
        raise UnsafeError(
            f"{', '.join(found[0]['brokers'])} has a user {name!r} already: pymq auth user update changes it"
        )


async def check_rule(admin: Admin, where: Where, name: str, level: str, resource: str, *, is_there: bool) -> None:
    """Raise NotFoundError for a rule that no chosen broker has; UnsafeError, without ``is_there``, for a known one."""
    await check_there(admin, where, name, is_there=True)
    found = [
        record
        for record in await rules(admin, where, name)
        if (record["level"], record["resource"]) == (level, resource)
    ]
    if is_there and not found:
        raise NotFoundError(f"{name} has no {level} rule about {resource}: pymq auth acl show {name} lists its rules")
    if found and not is_there:
        raise UnsafeError(f"{name} has a {level} rule about {resource} already: pymq auth acl update changes it")


def entry(resource: str, actions: Iterable[str], sources: Iterable[str], *, denies: bool) -> AclEntryInfo:
    """Return an entry, checked before anything is sent. Raises UsageError."""
    return AclEntryInfo(
        resource=str(ResourcePattern.parse(resource)),
        actions=action_texts(parse_actions(actions)),
        source_ips=[parse_block(source).text for source in sources] or None,
        decision="Deny" if denies else "Allow",
    )


def keeps_no_users(error: RefusedError) -> bool:
    """Return whether a broker refuses because it keeps no users and rules.

    PyMQ and RocketMQ 4.x do not serve the request then. RocketMQ 5.3.3 says so when it is asked for rules; asked for
    users, it says that an error occurred.
    """
    return error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED or "MetadataProvider is not configured" in error.remark


def no_user(name: str) -> NotFoundError:
    return NotFoundError(f"no user {name!r}: pymq auth user list shows all")


async def _with_slaves(admin: Admin, where: Where) -> list[BrokerTarget]:
    masters = await admin.cluster.select(where.clusters, where.brokers)
    table = (await admin.cluster.info()).broker_addr_table
    slaves = [
        target._replace(address=address)
        for target in masters
        if target.name in table and target.address not in where.brokers
        for address in table[target.name].broker_addrs.values()
        if address != target.address
    ]
    return [*masters, *slaves]


def _user_key(info: UserInfo) -> tuple[str, str, bool]:
    return info.username or "", info.user_type or "", info.user_status == ENABLED


def _entry_keys(acl: AclInfo) -> Iterable[tuple[Any, ...]]:
    name = (acl.subject or "").partition(":")[2]
    for part in acl.policies or ():
        for one in part.entries or ():
            yield (
                name,
                part.policy_type or CUSTOM,
                one.resource or "",
                tuple(one.actions or ()),
                tuple(one.source_ips or ()),
                one.decision or "",
            )


def _name(target: BrokerTarget) -> str:
    return target.name or target.address
