"""Options that declared commands share without naming them: --json, --context, --credentials, --timeout and --watch.

Their values reach the command by the context of the run, and by the context variables of
:mod:`pymq.cli.common.options`.
"""

# No postponed annotations here: Typer evaluates those of a callback once for each option of each command.

import os
from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import (
    CHOICE_KEY,
    CONTEXT_KEY,
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
from pymq.cli.common.watch import INTERVAL_MAX_S, INTERVAL_MIN_S
from pymq.errors import UsageError

_WATCH_KEY = "pymq.watch"


def watch_interval_s(ctx: typer.Context) -> float | None:
    """Return the seconds of --watch, None without it."""
    found: float | None = ctx.meta.get(_WATCH_KEY)
    return found


def _print_json_by_default(ctx: typer.Context, wanted: bool | None) -> None:
    if wanted:
        ctx.default_map = {**(ctx.default_map or {}), "output": "json"}


def _choose_context(ctx: typer.Context, value: str | None) -> None:
    """Keep a context's choice for --namesrv; name servers of a flag go before the environment, too."""
    ctx.meta[CONTEXT_KEY] = value
    ctx.meta.pop(CHOICE_KEY, None)
    known_brokers.set(None)
    name = value if value is not None else ctx.find_root().params.get("context")
    if ctx.resilient_parsing or (name is None and os.environ.get("NAMESRV_ADDR")):
        return
    from pymq.cli.common.context_choice import chosen

    found = chosen(name, os.environ)
    if found.origin == "default":
        return
    ctx.meta[CHOICE_KEY] = found
    known_brokers.set(KnownBrokers(found.namesrv, found.brokers))


def _take_credentials(ctx: typer.Context, value: str | None) -> None:
    """Keep what the command's clients sign with. A context's credentials are for its own name servers alone."""
    request_credentials.set(None)
    credentials_reference.set("")
    choice = ctx.meta.get(CHOICE_KEY)
    if value is None and choice is not None and ctx.params.get("namesrv") == choice.namesrv:
        value = choice.credentials
    if ctx.resilient_parsing or not (value or any(name in os.environ for name in CREDENTIAL_VARIABLES)):
        return
    from pymq.security.credentials import Credentials

    credentials_reference.set(value or "")
    request_credentials.set(Credentials.find(value or "", os.environ))


def _set_timeout(value: float | None) -> None:
    timeout_s = DEFAULT_TIMEOUT_S if value is None else value
    if not TIMEOUT_MIN_S <= timeout_s <= TIMEOUT_MAX_S:
        raise UsageError(
            f"--timeout {timeout_s:g} is out of range: write {TIMEOUT_MIN_S:g} to {TIMEOUT_MAX_S:g} seconds"
        )
    request_timeout_s.set(timeout_s)


def _keep_interval(ctx: typer.Context, value: float | None) -> None:
    if value is not None and not INTERVAL_MIN_S <= value <= INTERVAL_MAX_S:
        raise UsageError(f"--watch {value:g}: write {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds")
    ctx.meta[_WATCH_KEY] = value


SameAsJsonOption = Annotated[
    bool | None,
    typer.Option(
        "--json",
        is_eager=True,  # parsed before -o, which wins when both are given
        expose_value=False,
        callback=_print_json_by_default,
        help="The same as -o json.",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        is_eager=True,  # parsed before --namesrv, which wins when both are given
        expose_value=False,
        callback=_choose_context,
        help="The cluster, as pymq context list shows them.",
        autocompletion=live("context"),
    ),
]
CredentialsOption = Annotated[
    str | None,
    typer.Option(
        "--credentials",
        metavar="env:PREFIX|file:PATH",
        expose_value=False,
        callback=_take_credentials,
        help="What requests are signed with; default: the context's, then PYMQ_CREDENTIALS_FILE or PYMQ_ACCESS_KEY.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        expose_value=False,
        callback=_set_timeout,
        help=f"How long each request may take; default: {DEFAULT_TIMEOUT_S:g}.",
    ),
]
WatchOption = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="SECONDS",
        expose_value=False,
        callback=_keep_interval,
        help=f"Show it again every {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds, until Ctrl-C.",
    ),
]
