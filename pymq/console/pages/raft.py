"""Raft groups: who leads, who follows, and who lags."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.links import raft_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.operations.raft.changes import status

_ABOUT: Final = (
    Column("leader", "Leader", why_unknown="no node leads now"),
    Column("leader_address", "Its address", why_unknown="no node leads now"),
    Column("term", "Term", Kind.number),
    Column("voters", "Voters", Kind.number),
    Column("heard_voters", "Voters that answer", Kind.number),
    Column("majority", "A majority", Kind.number),
    Column("confirm_offset", "Confirmed up to", Kind.number),
    Column("problems", "Problems", Kind.names),
)
_NO_ANSWER: Final = "it does not answer"
_NO_LEADER: Final = "only a leader knows it"
_MEMBERS: Final = (
    Column("node", "Node"),
    Column("address", "Address", why_unknown=_NO_ANSWER),
    Column("kind", "Kind", why_unknown="it is no member"),
    Column("role", "Role", why_unknown=_NO_ANSWER),
    Column("term", "Term", Kind.number, _NO_ANSWER),
    Column("log_end", "Log ends at", Kind.number, _NO_ANSWER),
    Column("match_end", "Has up to", Kind.number, _NO_LEADER),
    Column("lag_bytes", "Lag", Kind.size, _NO_LEADER),
    Column("silent_ms", "Silent", Kind.span, _NO_LEADER),
    Column("elections", "Elections", Kind.number, _NO_ANSWER),
    Column("problem", "Problem"),
)


async def raft(visit: Visit) -> Page:
    """Return all Raft groups of the cluster."""

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        return await status(admin, None)

    groups = await visit.cluster.ask("raft", ask)
    return Page(
        "Raft groups",
        "sections.html",
        {"groups": groups},
        ("raft", "status"),
        {
            "sections": [part for each in groups for part in _parts(each)] or [_NONE],
            "links": [link for each in groups for link in _changes(each["broker"])] if visit.allows_changes else [],
        },
        visit.cluster.unreached,
    )


def _changes(name: str) -> list[tuple[str, str]]:
    path = raft_path(name)
    return [(f"Hand {name} over", f"{path}/transfer"), (f"Members of {name}", f"{path}/members")]


def _parts(group: dict[str, Any]) -> list[Values | Table]:
    title = f"{group['broker']} ({group['cluster']})"
    return [Values(title, _ABOUT, group), Table(f"Members of {group['broker']}", _MEMBERS, group["members"], "")]


_NONE: Final = Table("Groups", (), (), "No broker is in a Raft group. Apache's brokers have none of this kind.")
