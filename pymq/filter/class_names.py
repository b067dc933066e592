"""The name of a filter that a filter server runs: ``POLICY.NAME:EXPRESSION`` in place of a tag expression.

It has the form of a RocketMQ filter class (pymq.filterserver.classes reads it). Importing this imports no plugins.
"""

from __future__ import annotations

from pymq.errors import UsageError

FILTER_SERVER = "filter-server"


def class_text(name: str, expression: str, on_error: str) -> str:
    """Return the class text of a filter with an error policy. Raises UsageError for an ambiguous name."""
    if not name or ":" in name or "." in name:
        raise UsageError(f"filter={name!r} is not a filter's name: choose one from pymq filter list")
    return f"{on_error}.{name}:{expression}"
