"""Settings from environment variables: one for each key, ``PYMQ_`` and the key in upper snake case."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

PREFIX = "PYMQ_"
# A word begins at a capital after a small letter or digit, and at the last capital of several before a small letter.
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NEAR = 0.85


def variable_of(key: str) -> str:
    """Return the variable of a key: ``maxMessageSize`` -> ``PYMQ_MAX_MESSAGE_SIZE``, ``tls.enable`` ->
    ``PYMQ_TLS_ENABLE``."""
    return PREFIX + _WORD.sub("_", key).replace(".", "_").upper()


def settings_in(env: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Return the values of those keys whose variable is set; an empty variable counts as not set."""
    return {key: env[variable] for key in keys if env.get(variable := variable_of(key))}


def misspelled_in(env: Mapping[str, str], keys: Iterable[str]) -> list[str]:
    """Return one sentence for each variable that nearly is the one of a key. Others with the prefix have other uses."""
    known = {variable_of(key) for key in keys}
    found = []
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
            if near:
                found.append(f"environment variable {name}: no key has it, did you mean {near[0]}?; it has no effect")
    return found
