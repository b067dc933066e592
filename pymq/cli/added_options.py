"""Options that commands get by what they take: --json, --context, --credentials, --timeout and --watch; and live
completion."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from typer.core import TyperOption

from pymq.cli.common.options import (
    CREDENTIAL_VARIABLES,
    DEFAULT_TIMEOUT_S,
    TIMEOUT_MAX_S,
    TIMEOUT_MIN_S,
    KnownBrokers,
    credentials_reference,
    known_brokers,
    request_credentials,
    request_timeout_s,
)
from pymq.errors import UsageError

# Commands that only look, and may look again and again.
WATCHED = frozenset(
    {
        "broker status",
        "check broker",
        "check disk",
        "check lag",
        "check raft",
        "check replica",
        "cluster clients",
        "cluster list",
        "cluster shards",
        "config diff",
        "config show",
        "dlq list",
        "group describe",
        "group lag",
        "group list",
        "group members",
        "namesrv status",
        "offset show",
        "raft status",
        "stats",
        "topic describe",
        "topic list",
        "topic route",
        "topic stats",
    }
)
# Commands that take --namesrv and don't work through the admin client of pymq.cli.common.session.
_WITHOUT_ADMIN = frozenset(
    {"bench", "context", "filter", "filter-server", "proxy", "send", "spark-export", "spark-sql", "standalone", "tail"}
)
_WATCH_KEY, _CONTEXT_KEY, _CHOICE_KEY = "pymq.watch", "pymq.context", "pymq.choice"


def add_options(command: Any, path: str) -> None:
    """Adds to a command, and to those below it, what its own options call for; ``path`` is "topic list"."""
    for name, below in getattr(command, "commands", {}).items():
        add_options(below, f"{path} {name}")
    _offer_json(command)
    _offer_context(command)
    _offer_credentials(command)
    if path != "broker" and path.partition(" ")[0] not in _WITHOUT_ADMIN:
        _offer_timeout(command)
    if path in WATCHED:
        _offer_watch(command, path)
    _offer_names(command, path)


def _offer_json(command: Any) -> None:
    """Adds ``--json`` to every command with ``-o json``, so that both forms work everywhere."""
    for at, option in enumerate(command.params):
        formats = getattr(option.type, "choices", ()) or (option.metavar or "").split("|")
        if option.name == "output" and "json" in formats:
            flag = TyperOption(
                param_decls=["--json"],
                is_flag=True,
                is_eager=True,  # parsed before -o, which wins when both are given
                expose_value=False,
                callback=_print_json_by_default,
                help="The same as -o json.",
            )
            command.params.insert(at + 1, flag)
            return


def _print_json_by_default(ctx: Any, param: Any, wanted: bool) -> None:
    if wanted:
        _set_default(ctx, "output", "json")


def _set_default(ctx: Any, name: str, value: str) -> None:
    ctx.default_map = {**(ctx.default_map or {}), name: value}


def _is_namesrv(option: Any) -> bool:
    """Returns whether an option is NamesrvOption, and not a server's own."""
    return bool(option.name == "namesrv" and option.envvar == "NAMESRV_ADDR")


def _offer_context(command: Any) -> None:
    """Adds ``--context`` to every command that takes the name servers of a cluster from --namesrv."""
    at = next((at for at, option in enumerate(command.params) if _is_namesrv(option)), None)
    if at is None:
        return
    flag = TyperOption(
        param_decls=["--context"],
        metavar="NAME",
        is_eager=True,  # parsed before --namesrv, which wins when both are given
        expose_value=False,
        callback=_choose_context,
        help="The cluster, as pymq context list shows them.",
    )
    command.params.insert(at + 1, flag)


def _choose_context(ctx: Any, param: Any, value: str | None) -> None:
    """Makes a context's name servers the default of --namesrv; those of a flag go before the environment, too."""
    ctx.meta[_CONTEXT_KEY] = value
    known_brokers.set(None)
    name = value if value is not None else ctx.find_root().params.get("context")
    if ctx.resilient_parsing or (name is None and os.environ.get("NAMESRV_ADDR")):
        return
    from pymq.cli.common.context_choice import chosen

    found = chosen(name, os.environ)
    if found.origin == "default":
        return
    ctx.meta[_CHOICE_KEY] = found
    known_brokers.set(KnownBrokers(found.namesrv, found.brokers))
    _set_default(ctx, "namesrv", found.namesrv)
    for option in ctx.command.params:
        if _is_namesrv(option):
            option.envvar = None


def _offer_credentials(command: Any) -> None:
    """Adds ``--credentials`` to every command that is a client of a cluster."""
    at = next((at for at, option in enumerate(command.params) if _is_namesrv(option)), None)
    if at is None or any(option.name == "credentials" for option in command.params):
        return
    flag = TyperOption(
        param_decls=["--credentials"],
        metavar="env:PREFIX|file:PATH",
        expose_value=False,
        callback=_take_credentials,
        help="What requests are signed with; default: the context's, then PYMQ_CREDENTIALS_FILE or PYMQ_ACCESS_KEY.",
    )
    command.params.append(flag)


def _take_credentials(ctx: Any, param: Any, value: str | None) -> None:
    """Keeps what the command's clients sign with. A context's credentials are for its own name servers alone."""
    request_credentials.set(None)
    credentials_reference.set("")
    choice = ctx.meta.get(_CHOICE_KEY)
    if value is None and choice is not None and ctx.params.get("namesrv") == choice.namesrv:
        value = choice.credentials
    if ctx.resilient_parsing or not (value or any(name in os.environ for name in CREDENTIAL_VARIABLES)):
        return
    from pymq.security.credentials import Credentials

    credentials_reference.set(value or "")
    request_credentials.set(Credentials.find(value or "", os.environ))


def _offer_timeout(command: Any) -> None:
    """Adds ``--timeout`` to every command with ``--namesrv`` that has no such option of its own."""
    names = [name for option in command.params for name in option.opts]
    if "--namesrv" in names and "--timeout" not in names:
        flag = TyperOption(
            param_decls=["--timeout"],
            type=float,
            metavar="SECONDS",
            expose_value=False,
            callback=_set_timeout,
            help=f"How long each request may take; default: {DEFAULT_TIMEOUT_S:g}.",
        )
        command.params.append(flag)


def _set_timeout(ctx: Any, param: Any, value: float | None) -> None:
    timeout_s = DEFAULT_TIMEOUT_S if value is None else value
    if not TIMEOUT_MIN_S <= timeout_s <= TIMEOUT_MAX_S:
        raise UsageError(
            f"--timeout {timeout_s:g} is out of range: write {TIMEOUT_MIN_S:g} to {TIMEOUT_MAX_S:g} seconds"
        )
    request_timeout_s.set(timeout_s)


def _offer_watch(command: Any, path: str) -> None:
    from pymq.cli.common.watch import INTERVAL_MAX_S, INTERVAL_MIN_S

    flag = TyperOption(
        param_decls=["--watch"],
        type=float,
        metavar="SECONDS",
        expose_value=False,
        callback=_keep_interval,
        help=f"Show it again every {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds, until Ctrl-C.",
    )
    command.params.append(flag)
    command.invoke = partial(_invoke_watched, command.invoke, path)


def _keep_interval(ctx: Any, param: Any, value: float | None) -> None:
    from pymq.cli.common.watch import INTERVAL_MAX_S, INTERVAL_MIN_S

    if value is not None and not INTERVAL_MIN_S <= value <= INTERVAL_MAX_S:
        raise UsageError(f"--watch {value:g}: write {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds")
    ctx.meta[_WATCH_KEY] = value


def _invoke_watched(invoke: Callable[[Any], Any], path: str, ctx: Any) -> Any:
    interval_s = ctx.meta.get(_WATCH_KEY)
    if interval_s is None:
        return invoke(ctx)
    from pymq.cli.common.watch import watch

    return watch(lambda: invoke(ctx), f"pymq {path}", interval_s)


def _offer_names(command: Any, path: str) -> None:
    """Lets the shell complete names that the cluster knows: see :mod:`pymq.cli.completion`."""
    for option in command.params:
        kind = name_kind(path, option.name)
        if kind is not None:
            option._custom_shell_complete = partial(_live_names, kind)


_KINDS = {
    "topic": "topic",
    "topics": "topic",
    "origin": "topic",
    "source_topic": "topic",
    "group": "group",
    "groups": "group",
    "without": "group",
    "broker": "broker",
    "brokers": "broker",
    "cluster": "cluster",
    "clusters": "cluster",
    "context": "context",
}
_KINDS_OF_NAME = {
    "topic": "topic",
    "group": "group",
    "context": "context",
    "broker": "broker",
    "check": "broker",
    "raft": "broker",
}
_SETTINGS = {"config show": "text", "config set": "changes", "config unset": "keys"}
_NEW_NAMES = frozenset({"topic create", "group create", "context add", "namesrv", "broker", "standalone", "send"})


def name_kind(path: str, option: str) -> str | None:
    """Returns what an argument or option names: topic, group, broker, cluster, context or setting (``setting=``: with a
    value); None for another thing."""
    if path in _SETTINGS and option == _SETTINGS[path]:
        return "setting=" if path == "config set" else "setting"
    if option in ("name", "names"):
        return _KINDS_OF_NAME.get(path.partition(" ")[0]) if path not in _NEW_NAMES else None
    return _KINDS.get(option)


def _live_names(kind: str, ctx: Any, param: Any, incomplete: str) -> list[Any]:
    from pymq.cli.completion.names import complete_names

    return complete_names(kind, ctx, incomplete)
