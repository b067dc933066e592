"""Addresses of pages below a context, with names that may hold any character."""

from __future__ import annotations

from urllib.parse import quote


def topic_path(name: str) -> str:
    """Return the path of a topic's page."""
    return f"topics/{_quoted(name)}"


def group_path(name: str) -> str:
    """Return the path of a group's page."""
    return f"groups/{_quoted(name)}"


def _quoted(name: str) -> str:
    return quote(name.encode("utf-8", "surrogatepass"), safe="")
