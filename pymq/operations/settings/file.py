"""The mistakes of a configuration file, with the line of each."""

from __future__ import annotations

import re
from typing import Any

from pymq.config import BrokerConfig, Config, NamesrvConfig, load_broker_config, load_namesrv_config, parse_properties
from pymq.config.load import read_file
from pymq.errors import ConfigError, UsageError

ERROR, NOTE = "error", "note"
_ROLES: dict[str, type[Config]] = {"broker": BrokerConfig, "namesrv": NamesrvConfig}


def check(path: str, role: str = "") -> list[dict[str, Any]]:
    """Return the mistakes of a file in the order of its lines; the last ones are about several keys together.

    ``role``: broker, namesrv, or empty for what the keys say. Raises ConfigError for a file that can't be read.
    """
    if role and role not in _ROLES:
        raise UsageError(f"--role {role!r} is unknown: write broker or namesrv")
    text = read_file(path)
    values = parse_properties(text)
    kind = _ROLES[role] if role else _kind_of(values)
    lines = _lines(text)
    found = []

    def note(key: str, level: str, what: str) -> None:
        at = lines.get(key, [0])
        found.append({"file": path, "line": at[-1] or None, "key": key, "level": level, "text": what})

    for key, value in values.items():
        problem = kind().problem_of_key(key)
        if problem:
            note(key, NOTE if key in kind.IGNORED else ERROR, f"{key}: {problem}; it has no effect")
            continue
        if len(lines.get(key, ())) > 1:
            note(key, NOTE, f"{key} is set {len(lines[key])} times: the last one counts")
        try:
            kind.settings()[key].parse(value)
        except ConfigError as error:
            note(key, ERROR, str(error))
    if not any(finding["level"] == ERROR for finding in found):
        known = {finding["text"] for finding in found}
        try:
            config = load_namesrv_config(path) if kind is NamesrvConfig else load_broker_config(path)
        except ConfigError as error:
            note("", ERROR, str(error).removeprefix(f"{path}: "))
        else:
            for warning in config.warnings:
                if warning not in known:
                    note("", NOTE, warning)
    return sorted(found, key=lambda finding: finding["line"] or len(text))


def _kind_of(values: dict[str, str]) -> type[Config]:
    """Return whose file it is: the role that knows more of its keys, a broker when both know as many."""
    counts = {kind: sum(key in kind.settings() for key in values) for kind in _ROLES.values()}
    return NamesrvConfig if counts[NamesrvConfig] > counts[BrokerConfig] else BrokerConfig


def _lines(text: str) -> dict[str, list[int]]:
    """Return the numbers of the lines that set each key."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*([^#!=:\s][^=:\s]*)\s*[=:\s]", line)
        if match:
            found.setdefault(match[1], []).append(number)
    return found
