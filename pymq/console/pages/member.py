"""One member of a group: what it says about itself."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.links import messages_path, topic_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Lists, Table, Values
from pymq.model.names import RETRY_PREFIX
from pymq.operations.group.members import client_or_silence

STACK_CHARACTERS_MAX: Final = 32_768  # that are shown
LINKS_MAX: Final = 5
_NOT_SAID: Final = "the member does not say it"
_ABOUT: Final = (
    Column("address", "Address"),
    Column("language", "Language"),
    Column("version", "Version"),
)
_QUEUES: Final = (
    Column("topic", "Topic", Kind.link, path=lambda record: topic_path(record["topic"])),
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("committed", "Offset", Kind.number, _NOT_SAID),
    Column("cached", "Held", Kind.number, _NOT_SAID),
    Column("last_pull_ms", "Last asked", Kind.time, _NOT_SAID),
    Column("last_consumed_ms", "Last consumed", Kind.time, _NOT_SAID),
    Column("locked", "Locked", Kind.flag, _NOT_SAID),
)
_RATES: Final = (
    Column("topic", "Topic"),
    Column("pulled_per_second", "Pulled a second", Kind.rate, _NOT_SAID),
    Column("consumed_per_second", "Consumed a second", Kind.rate, _NOT_SAID),
    Column("consume_ms", "Takes ms", Kind.rate, _NOT_SAID),
    Column("failed_per_second", "Failed a second", Kind.rate, _NOT_SAID),
    Column("failed_in_an_hour", "Failed in an hour", Kind.number, _NOT_SAID),
)
_SUBSCRIPTIONS: Final = (Column("topic", "Topic"), Column("expression", "Expression"), Column("type", "Type"))
_PROPERTIES: Final = (Column("name", "Name"), Column("value", "Value"))


async def member(visit: Visit) -> Page:
    """Return the member that the address names; ``stack`` asks for its threads. Raises NotFoundError."""
    group, client_id = visit.path["group"], visit.path["client"]
    with_stack = visit.parameters.flag("stack")

    async def ask(admin: Admin) -> tuple[dict[str, Any], str]:
        return await client_or_silence(admin, group, client_id, with_stacks=with_stack)

    found, silence = await visit.cluster.ask(("member", group, client_id, with_stack), ask)
    lists = Lists(visit.parameters)
    tables = [] if silence else _said(lists, found)
    shown = lists.as_record()
    if not silence:
        shown |= {"properties": {row["name"]: row["value"] for row in shown["properties"]}}
    stack: str = found["stack"] or ""
    return Page(
        f"Member {client_id}",
        "member.html",
        found | shown,
        ("group", "client", group, client_id, *(["--stack"] if with_stack else [])),
        {
            "sections": [Values(f"In the group {group}", _ABOUT, found), *tables],
            **({"links": _handled(found)} if visit.allows_changes and not silence else {}),
            "silence": silence,
            "with_stack": with_stack,
            "stack": stack[:STACK_CHARACTERS_MAX],
            "stack_characters": len(stack) if len(stack) > STACK_CHARACTERS_MAX else None,
        },
        visit.cluster.unreached | ({"what the member says": silence} if silence else {}),
    )


def _handled(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the way to messages that the member may handle, from each of the first topics that it reads."""
    topics = [each["topic"] for each in found["subscriptions"] if not each["topic"].startswith(RETRY_PREFIX)]
    return [(f"Choose a message of {topic} that it handles", messages_path(topic)) for topic in topics[:LINKS_MAX]]


def _said(lists: Lists, found: dict[str, Any]) -> list[Table]:
    """Return the tables of what the member alone knows."""
    properties = [{"name": name, "value": value} for name, value in sorted(found["properties"].items())]
    subscriptions = found["subscriptions"]
    return [
        lists.table("queues", "Queues", _QUEUES, found["queues"], "It owns no queue now."),
        lists.table("rates", "Rates", _RATES, found["rates"], "It says no rates."),
        lists.table("subscriptions", "Subscriptions", _SUBSCRIPTIONS, subscriptions, "It subscribes to nothing."),
        lists.table("properties", "Properties", _PROPERTIES, properties, "It says none."),
    ]
