"""How a consumer names a filter that a filter server runs: ``POLICY.NAME:EXPRESSION`` in place of a tag expression.

The form of a RocketMQ filter class (pymq.filterserver.classes reads it). Importing this imports no plugins.
"""

from __future__ import annotations

from pymq.errors import UsageError

FILTER_SERVER = "filter-server"


def class_text(name: str, expression: str, on_error: str) -> str:
    """The class of a filter with a policy for errors. Raises UsageError for a name that would be read as another."""
    if not name or ":" in name or "." in name:
        raise UsageError(f"filter={name!r} is no filter's name: use one of pymq filter list")
    return f"{on_error}.{name}:{expression}"
