"""One topic: where it is, its queues, and who reads it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.history.rings import Kind as Of
from pymq.console.history.rings import Subject
from pymq.console.history.section import charts_of
from pymq.console.pages.links import group_path, messages_path, tail_path, topic_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Lists
from pymq.operations.topic.listing import describe_topic, topic_queues, topic_route

_BROKERS: Final = (
    Column("broker", "Broker"),
    Column("cluster", "Cluster"),
    Column("address", "Address"),
    Column("read_queues", "Read queues", Kind.number),
    Column("write_queues", "Write queues", Kind.number),
    Column("perm", "Permission"),
    Column("order", "In order", Kind.flag),
    Column("messages", "Stored", Kind.number),
)
_QUEUES: Final = (
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("min_offset", "First", Kind.number),
    Column("max_offset", "Next", Kind.number),
    Column("messages", "Stored", Kind.number),
    Column("last_message_ms", "Last message", Kind.time),
)
_ROUTE: Final = (
    Column("broker", "Broker"),
    Column("broker_id", "Id", Kind.number),
    Column("address", "Address"),
    Column("read_queues", "Read queues", Kind.number),
    Column("write_queues", "Write queues", Kind.number),
    Column("perm", "Permission"),
)
_GROUPS: Final = (Column("group", "Group", Kind.link, path=lambda record: group_path(record["group"])),)


async def topic(visit: Visit) -> Page:
    """Return the topic that the address names. Raises NotFoundError."""
    name = visit.path["topic"]

    async def ask(admin: Admin) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
        about, queues, route = await asyncio.gather(
            describe_topic(admin, name), topic_queues(admin, name), topic_route(admin, name)
        )
        return about, queues, route

    about, queues, route = await visit.cluster.ask(("topic", name), ask)
    subject = Subject(Of.topic, name)
    if visit.sight is not None:
        visit.sight.allow(subject)
    charts = await charts_of(visit.sight, subject, visit.clock.now_ms())
    groups = [{"group": group} for group in about["groups"]]
    lists = Lists(visit.parameters)
    sections = [
        charts,
        lists.table(
            "brokers", "Brokers", _BROKERS, about["brokers"], "No broker has this topic.", sorts=("broker", "messages")
        ),
        lists.table("groups", "Groups", _GROUPS, groups, "No group reads this topic."),
        lists.table("queues", "Queues", _QUEUES, queues, "This topic has no queues."),
        lists.table("route", "Route", _ROUTE, route, "Name servers know no broker with this topic."),
    ]
    shown = lists.as_record()
    return Page(
        f"Topic {name}",
        "sections.html",
        about | shown | {"groups": [row["group"] for row in shown["groups"]], "lastHour": charts.as_record()},
        ("topic", "describe", name),
        {
            "sections": sections,
            "links": [
                ("Messages", messages_path(name)),
                ("Tail", tail_path(name)),
                *(_changes(name) if visit.allows_changes else []),
            ],
        },
        visit.cluster.unreached,
    )


def _changes(name: str) -> list[tuple[str, str]]:
    path = topic_path(name)
    return [
        ("Send", f"{path}/send"),
        ("Change it", f"{path}/update"),
        ("Shrink it", f"{path}/shrink"),
        ("Delete it", f"{path}/delete"),
    ]
