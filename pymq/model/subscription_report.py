"""The text about members of a consumer group that subscribe differently, for the logs of brokers and clients."""

from __future__ import annotations

from collections.abc import Mapping

TOPICS_SHOWN_MAX = 5
DIFFERING = "subscribe differently, and lose messages that others skip"
NEXT_STEP = "give all members the same subscriptions, or each kind of member a group of its own"


def differing_text(group: str, differences: Mapping[str, Mapping[str, int]]) -> str:
    """Describe ``differences``: topic -> selection -> number of members; ``-`` stands for no subscription."""
    parts = []
    for topic, selections in list(differences.items())[:TOPICS_SHOWN_MAX]:
        found = ", ".join(f"'{selection}' by {count}" for selection, count in selections.items())
        parts.append(f"topic '{topic}': {found}")
    more = len(differences) - TOPICS_SHOWN_MAX
    if more > 0:
        parts.append(f"{more} more topics")
    return f"members of group '{group}' {DIFFERING}: {'; '.join(parts)}: {NEXT_STEP}"
