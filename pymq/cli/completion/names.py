"""Names for completion: asked of the cluster, for a second at most, and kept for some seconds."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pymq.cache_folder import cache_folder
from pymq.file_modes import DIRECTORY_MODE

if TYPE_CHECKING:
    from pymq.client.admin import Admin

TIMEOUT_S = 1.0
KEPT_S = 10.0
NAMES_MAX = 5_000  # a shell lists no more
# The shells evaluate what they get: a name with other characters, which servers should not take, is left out.
_SAFE = re.compile(r"[%|A-Za-z0-9_.-]{1,255}")


def complete_names(kind: str, ctx: Any, incomplete: str) -> list[str]:
    """Return the names that complete a topic, group, broker, cluster, context or setting; none if the cluster can't be
    asked."""
    try:
        if kind.startswith("setting"):
            found = _setting_names(ctx, kind.removeprefix("setting"))
        else:
            found = _context_names() if kind == "context" else live_names(kind, _namesrv(ctx), os.environ)
    except Exception:  # a shell has no place for an error
        return []
    return [name for name in found if name.startswith(incomplete)]


def live_names(kind: str, namesrv: str, env: Mapping[str, str], now: Callable[[], float] = time.time) -> list[str]:
    """Return the names of a kind, from the cache if they are young enough. Raises PymqError, OSError, TimeoutError."""
    path = _cache_path(kind, namesrv, env)
    kept = _read_cache(path, now())
    if kept is not None:
        return kept
    from pymq.cli.common.options import split_addresses
    from pymq.client.admin import Admin

    async def ask() -> list[str]:
        async with Admin(split_addresses(namesrv), timeout_s=TIMEOUT_S) as admin:
            return await asyncio.wait_for(_ASK[kind](admin), TIMEOUT_S)

    found = [name for name in asyncio.run(ask()) if _SAFE.fullmatch(name)][:NAMES_MAX]
    _write_cache(path, now(), found)
    return found


async def _topics(admin: Admin) -> list[str]:
    from pymq.operations.topic.listing import user_topics

    return await user_topics(admin)


async def _groups(admin: Admin) -> list[str]:
    from pymq.model.names import is_system_group

    return sorted(name for name in await admin.groups.all_configs() if not is_system_group(name))


async def _brokers(admin: Admin) -> list[str]:
    return sorted((await admin.cluster.info()).broker_addr_table)


async def _clusters(admin: Admin) -> list[str]:
    return sorted((await admin.cluster.info()).cluster_addr_table)


_ASK: Mapping[str, Any] = {"topic": _topics, "group": _groups, "broker": _brokers, "cluster": _clusters}


def _context_names() -> list[str]:
    from pymq.cli.common.context_file import load_contexts

    return sorted(load_contexts(os.environ).name_servers)


def _setting_names(ctx: Any, end: str) -> list[str]:
    """Return the keys of a broker or, after --namesrv-server, of a name server; those to change may change."""
    from pymq.config import BrokerConfig, NamesrvConfig

    kind = NamesrvConfig if ctx.params.get("namesrv_server") else BrokerConfig
    changes = ctx.info_name != "show"
    return sorted(key + end for key, row in kind.settings().items() if row.runtime or not changes)


def _namesrv(ctx: Any) -> str:
    """Return the name servers that the command line up to here means."""
    from pymq.cli.common.context_choice import chosen
    from pymq.cli.common.options import CONTEXT_KEY

    source = ctx.get_parameter_source("namesrv")
    if source is not None and source.name == "COMMANDLINE":
        return str(ctx.params["namesrv"])
    flag = ctx.meta.get(CONTEXT_KEY) or ctx.find_root().params.get("context")
    return chosen(flag, os.environ).namesrv


def _cache_path(kind: str, namesrv: str, env: Mapping[str, str]) -> Path:
    return cache_folder(env) / f"names-{kind}-{hashlib.sha256(namesrv.encode()).hexdigest()[:16]}.json"


def _read_cache(path: Path, now_s: float) -> list[str] | None:
    try:
        kept = json.loads(path.read_text())
        is_young = 0 <= now_s - kept["at_s"] < KEPT_S
        return [str(name) for name in kept["names"] if _SAFE.fullmatch(name)] if is_young else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write_cache(path: Path, now_s: float, names: list[str]) -> None:
    """Write the cache if it can: without one the next completion asks again."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        new.write_text(json.dumps({"at_s": now_s, "names": names}))
        new.replace(path)
    except OSError:
        return
