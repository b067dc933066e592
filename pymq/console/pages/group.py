"""One consumer group: how far it is, who is in it, and what they subscribe to."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.history.rings import Kind as Of
from pymq.console.history.rings import Subject
from pymq.console.history.section import charts_of
from pymq.console.pages.links import dead_letters_path, group_path, member_path, topic_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.operations.group.lag import lag_of_group
from pymq.operations.group.listing import describe_group

_NO_OFFSET: Final = "nothing is committed yet"
_ABOUT: Final = (
    Column("lag", "Lag", Kind.number, _NO_OFFSET),
    Column("invisible", "Invisible", Kind.number, "a broker does not count them"),
    Column("enabled", "Enabled"),
    Column("model", "Model", why_unknown="no member is connected"),
    Column("consume_type", "Reads", why_unknown="no member is connected"),
    Column("retry_max", "Retries", Kind.number),
    Column("brokers", "Brokers", Kind.names),
)
_PROGRESS: Final = (
    Column("topic", "Topic", Kind.link, path=lambda record: topic_path(record["topic"])),
    Column("queues", "Queues", Kind.number),
    Column("lag", "Lag", Kind.number, _NO_OFFSET),
    Column("lag_ms", "Waits", Kind.span, "nothing waits"),
    Column("invisible", "Invisible", Kind.number, "a broker does not count them"),
    Column("retry", "In retry", Kind.number),
)
_QUEUES: Final = (
    Column("topic", "Topic"),
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("committed", "Offset", Kind.number, _NO_OFFSET),
    Column("end_offset", "End", Kind.number),
    Column("lag", "Lag", Kind.number, _NO_OFFSET),
    Column("lag_ms", "Waits", Kind.span, "nothing waits"),
    Column("last_consumed_ms", "Last consumed", Kind.time),
)
_MEMBERS: Final = (
    Column("client_id", "Member", Kind.link, path=lambda record: member_path(record["group"], record["client_id"])),
    Column("address", "Address"),
    Column("language", "Language"),
    Column("version", "Version"),
)
_SUBSCRIPTIONS: Final = (
    Column("topic", "Topic", Kind.link, path=lambda record: topic_path(record["topic"])),
    Column("expression", "Expression"),
    Column("type", "Type"),
)


async def group(visit: Visit) -> Page:
    """Return the group that the address names. Raises NotFoundError."""
    name = visit.path["group"]
    clock = visit.clock

    async def ask(admin: Admin) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        about, queues = await asyncio.gather(describe_group(admin, name, clock), lag_of_group(admin, name, None, clock))
        return about, queues

    about, queues = await visit.cluster.ask(("group", name), ask)
    members = [{**member, "group": name} for member in about["members"]]
    subject = Subject(Of.group, name)
    if visit.sight is not None:
        visit.sight.allow(subject)
    charts = await charts_of(visit.sight, subject, clock.now_ms())
    differing = about["differing_subscriptions"]
    return Page(
        f"Group {name}",
        "sections.html",
        about | {"queues": queues, "lastHour": charts.as_record()},
        ("group", "describe", name),
        {
            "sections": [
                Values("State", _ABOUT, about),
                charts,
                *([Table("Members differ", _differing(differing), differing, "")] if differing else []),
                Table("Lag by topic", _PROGRESS, about["progress"], "The group has read no topic yet."),
                Table("Members", _MEMBERS, members, "No member is connected: offsets stay, and lag grows."),
                Table("Subscriptions", _SUBSCRIPTIONS, about["subscriptions"], "No member is connected."),
                Table("Lag by queue", _QUEUES, queues, "The group has read no queue yet."),
            ],
            "links": [
                ("Dead letters", dead_letters_path(name)),
                *(_changes(name) if visit.allows_changes else []),
            ],
        },
        visit.cluster.unreached,
    )


def _changes(name: str) -> list[tuple[str, str]]:
    path = group_path(name)
    return [("Move its place", f"{path}/reset"), ("Change it", f"{path}/update"), ("Delete it", f"{path}/delete")]


def _differing(records: list[dict[str, Any]]) -> list[Column]:
    return [Column(key, key.replace("_", " ").capitalize()) for key in records[0]]
