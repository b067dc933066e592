"""Finds the name servers of a command: from its flags, the environment, or a context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pymq.cli.common.context_file import Contexts, broker_names, load_contexts
from pymq.cli.common.options import DEFAULT_NAMESRV

NAMESRV_VARIABLE, CONTEXT_VARIABLE = "NAMESRV_ADDR", "PYMQ_CONTEXT"


class Choice(NamedTuple):
    """Name servers, where they come from, and what their cluster's requests are signed with."""

    namesrv: str
    origin: str
    credentials: str = ""  # a reference, see Credentials.find
    brokers: tuple[str, ...] = ()  # that the cluster has, by the context


def chosen(flag: str | None, env: Mapping[str, str]) -> Choice:
    """Return the name servers of a command without ``--namesrv``; ``flag`` is the value of ``--context``.

    The first of these counts: ``--context``, NAMESRV_ADDR, PYMQ_CONTEXT, the current context, the default. Raises
    NotFoundError for an unknown context, ConfigError for a file that can't be read.
    """
    if flag is not None:
        return _of_context(load_contexts(env), flag, "--context")
    if env.get(NAMESRV_VARIABLE):
        return Choice(env[NAMESRV_VARIABLE], NAMESRV_VARIABLE)
    contexts = load_contexts(env)
    name = env.get(CONTEXT_VARIABLE) or ""
    if name:
        return _of_context(contexts, name, CONTEXT_VARIABLE)
    if contexts.current is not None:
        return _of_context(contexts, contexts.current, "current")
    return Choice(DEFAULT_NAMESRV, "default")


def _of_context(contexts: Contexts, name: str, why: str) -> Choice:
    brokers = tuple(broker_names(contexts.brokers.get(name, "")))
    return Choice(contexts.find(name), f"context {name} ({why})", contexts.credentials.get(name, ""), brokers)
