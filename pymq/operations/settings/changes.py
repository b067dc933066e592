"""Reads, compares and changes settings; a record for each setting and server."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pymq.client.admin import Admin
from pymq.client.admin.settings import ServerSettings
from pymq.config import BrokerConfig, Config, NamesrvConfig, load_broker_config, load_namesrv_config
from pymq.config.base import format_value
from pymq.config.values import RETENTION_KEYS
from pymq.errors import ConfigError, NotFoundError, PymqError, UnsafeError
from pymq.operations.settings.servers import Found, Server, Targets, find, read_all
from pymq.units import format_bytes

# Settings that say which server it is, and where: they differ between any two.
OWN_KEYS = frozenset(
    {
        "brokerName",
        "brokerId",
        "brokerIP1",
        "brokerIP2",
        "bindAddress",
        "listenPort",
        "fastListenPort",
        "haListenPort",
        "haMasterAddress",
        "storePathRootDir",
        "storePathCommitLog",
        "storePathEpochFile",
        "brokerConfigPath",
        "metricsPromExporterHost",
        "metricsPromExporterPort",
        "runtimeSettingsPath",
    }
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change of settings. ``forget``: keys whose changes are taken back; ``only_if``: the value of the one key."""

    values: Mapping[str, str]
    forget: tuple[str, ...] = field(default=())
    is_kept: bool = False
    only_if: str | None = None

    @property
    def keys(self) -> list[str]:
        return [*self.values, *self.forget]


async def show(admin: Admin, targets: Targets, text: str, *, changed: bool) -> Found:
    """Return the settings whose key contains ``text``; ``changed``: only those without their default."""
    settings, found = await read_all(admin, await find(admin, targets))
    for server, read in settings.items():
        found.records += [
            _record(server, read, key)
            for key in sorted(read.values)
            if text.lower() in key.lower() and not (changed and not _is_changed(server, read, key))
        ]
    return found


async def diff(admin: Admin, targets: Targets, path: str, *, everything: bool = False) -> Found:
    """Return the settings that differ: from those of the file at ``path``, else between the servers, else, of a
    single one, from PyMQ's defaults.

    Without ``everything``, keys that differ between servers by their nature are left out between them.
    """
    settings, found = await read_all(admin, await find(admin, targets))
    if len(settings) > 1 and not path:
        keys = sorted({key for read in settings.values() for key in read.values})
        for key in keys:
            if (everything or key not in OWN_KEYS) and len({read.values.get(key) for read in settings.values()}) > 1:
                found.records += [_difference(server, read, key) for server, read in settings.items()]
        return found
    for server, read in settings.items():
        other = _of_file(server, path)
        # Where both have their default there is no difference; RocketMQ's defaults are not PyMQ's.
        named = [key for key in read.values if other.origin(key) != "default" or key in (read.origins or ())]
        texts = other.as_properties()
        found.records += [
            {**_difference(server, read, key), "other": texts[key]}
            for key in sorted(named)
            if key in texts and texts[key] != read.values[key]
        ]
    return found


async def preview(admin: Admin, targets: Targets, wanted: Wanted) -> list[dict[str, Any]]:
    """Return what a change would do; changes nothing. Raises what :func:`change` raises before it changes anything."""
    settings = await _checked(admin, targets, wanted)
    return [
        {**_change_of(server, read, key), "value": wanted.values.get(key), "is_kept": wanted.is_kept}
        for server, read in settings.items()
        for key in wanted.keys
    ]


async def what_goes(admin: Admin, targets: Targets, wanted: Wanted) -> str:
    """Return which segments a change would delete, as a text to confirm; empty when no more than without it.

    Raises NotFoundError, RefusedError.
    """
    deleting = RETENTION_KEYS.intersection(wanted.keys)
    if not deleting or targets.is_namesrv:
        return ""
    found = []
    for server in await find(admin, targets):
        plan = await admin.brokers.plan_config(server.address, dict(wanted.values), wanted.forget)
        if plan is None:
            found.append(f"{server.address} can't say what it would delete with {', '.join(sorted(deleting))}")
        elif plan.doomed_then > plan.doomed_now:
            found.append(
                f"{server.address} would delete {plan.doomed_then} of {plan.segments} segments "
                f"({format_bytes(plan.doomed_bytes)}, {', '.join(plan.reasons)}) from the next minute on; without the "
                f"change {plan.doomed_now}"
            )
    return "; ".join(found)


async def change(admin: Admin, targets: Targets, wanted: Wanted) -> Found:
    """Change settings, and return them before and after. All servers are asked first whether they can.

    Raises NotFoundError for an unknown key, UnsafeError for one that can't change or has another value than expected.
    """
    found = Found()
    for server, read in (await _checked(admin, targets, wanted)).items():
        try:
            after = await _change_one(admin, server, read, wanted)
        except PymqError as error:
            found.failed[server.label] = error
            continue
        found.done.append(server.label)
        is_kept = wanted.is_kept or read.is_apache
        found.records += [
            {**_change_of(server, read, key), "value": after.values.get(key), "is_kept": is_kept} for key in wanted.keys
        ]
        if read.is_apache and not wanted.is_kept:
            found.notes.append(f"{server.label} is an Apache server, which writes each change into its file")
        if (count := _count(after.version) - _count(read.version)) > 1:
            found.notes.append(
                f"{server.label}: {count} changes were made at the same time: pymq config show says what holds"
            )
    return found


async def _change_one(admin: Admin, server: Server, read: ServerSettings, wanted: Wanted) -> ServerSettings:
    await admin.settings.change(
        server.address,
        wanted.values,
        forget=wanted.forget,
        is_kept=wanted.is_kept,
        seen=read,
        is_namesrv=server.is_namesrv,
    )
    after = await server.settings(admin)
    for key, value in wanted.values.items():
        if not _is_same(server, key, after.values.get(key, ""), value):
            raise UnsafeError(
                f"{server.label} answered with success, but {key} is {after.values.get(key)!r} and not {value!r}: the "
                "server did not take that value, or it was changed at the same time"
            )
    return after


async def _checked(admin: Admin, targets: Targets, wanted: Wanted) -> dict[Server, ServerSettings]:
    """Return the settings of all servers, once each of them could take the change as far as can be seen."""
    settings, found = await read_all(admin, await find(admin, targets))
    if found.failed:
        raise next(iter(found.failed.values()))
    for server, read in settings.items():
        for key in wanted.keys:
            _check_key(server, read, key)
        if wanted.forget and read.is_apache:
            raise UnsafeError(f"{server.label} is an Apache server, which knows no value before a change: set it")
        for key in wanted.values:
            if wanted.only_if is not None and not _is_same(server, key, read.values[key], wanted.only_if):
                raise UnsafeError(
                    f"{server.label}: {key} is {read.values[key]!r}, not {wanted.only_if!r}: nothing is changed"
                )
    return settings


def _check_key(server: Server, read: ServerSettings, key: str) -> None:
    if key not in read.values:
        near = difflib.get_close_matches(key, read.values, n=3, cutoff=0.6)
        hint = f"did you mean {', '.join(near)}?" if near else "pymq config show lists all keys"
        raise NotFoundError(f"{server.label} has no key {key!r}: {hint}")
    if read.changeable is not None and key not in read.changeable:
        reason = _class_of(server).reason_fixed(key)
        raise UnsafeError(f"{server.label}: {key} can't be changed at run time, because {reason}")


def _record(server: Server, read: ServerSettings, key: str) -> dict[str, Any]:
    """Return a setting, with PyMQ's default and what it means; None for a key or a server that is Apache's alone."""
    row = _class_of(server).settings().get(key)
    return {
        "server": server.label,
        "address": server.address,
        "key": key,
        "value": read.values[key],
        "origin": read.origin(key),
        "changeable": None if read.changeable is None else key in read.changeable,
        "default": None if row is None or read.is_apache else format_value(row.default),
        "meaning": None if row is None else row.doc,
    }


def _change_of(server: Server, read: ServerSettings, key: str) -> dict[str, Any]:
    return {"server": server.label, "address": server.address, "key": key, "before": read.values.get(key)}


def _difference(server: Server, read: ServerSettings, key: str) -> dict[str, Any]:
    return {
        "key": key,
        "server": server.label,
        "address": server.address,
        "origin": read.origin(key),
        "value": read.values.get(key),
    }


def _is_changed(server: Server, read: ServerSettings, key: str) -> bool:
    if read.origins is not None:
        return key in read.origins
    known = _class_of(server)().as_properties()
    return key in known and known[key] != read.values[key]


def _class_of(server: Server) -> type[Config]:
    return NamesrvConfig if server.is_namesrv else BrokerConfig


def _of_file(server: Server, path: str) -> Config:
    """Return the settings that a file gives; those of PyMQ's defaults for an empty path."""
    if not path:
        return _class_of(server)()
    return load_namesrv_config(path) if server.is_namesrv else load_broker_config(path)


def _is_same(server: Server, key: str, one: str, other: str) -> bool:
    """Compare two texts of a setting as values: ``4MB`` is ``4194304``."""
    row = _class_of(server).settings().get(key)
    if row is None or one == other:
        return one == other
    try:
        return row.parse(one) == row.parse(other)
    except ConfigError:
        return False


def _count(version: str) -> int:
    """Return the number of changes that a data version counts; 0 for none."""
    try:
        return int(json.loads(version).get("counter", 0))
    except (ValueError, AttributeError, TypeError):
        return 0
