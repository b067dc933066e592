"""Brokers that a cluster should have, and that no name server lists."""

from __future__ import annotations

from collections.abc import Iterable

_REASON = "the context names it, and no name server lists it: it hangs or has stopped"


def unlisted(names: Iterable[str], listed: Iterable[str]) -> dict[str, str]:
    """Return the names that are not ``listed`` by name servers, sorted, each with the reason for a line of its own.

    A name server forgets a broker that hangs after two minutes, so what is left looks like all there is.
    """
    return dict.fromkeys(sorted(set(names) - set(listed)), _REASON)
