"""One consumer group: how far it is, who is in it, and what they subscribe to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from pymq.client.admin import Admin
from pymq.console.history.rings import Kind as Of
from pymq.console.history.rings import Subject
from pymq.console.history.section import Charts, charts_of
from pymq.console.pages.links import dead_letters_path, group_path, member_path, topic_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Lists, Table, Values
from pymq.console.web.parameters import Parameters
from pymq.errors import PymqError
from pymq.model.names import RETRY_TOPIC_LENGTH_MAX
from pymq.operations.group.lag import lag_of_group, with_waits
from pymq.operations.group.listing import group_record

_NO_OFFSET: Final = "nothing is committed yet"
_ABOUT: Final = (
    Column("lag", "Lag", Kind.number, _NO_OFFSET),
    Column("invisible", "Invisible", Kind.number, "a broker does not count them"),
    Column("enabled", "Enabled", Kind.flag),
    Column("model", "Model", why_unknown="no member is connected"),
    Column("consume_type", "Reads", why_unknown="no member is connected"),
    Column("retry_max", "Retries", Kind.number),
    Column("brokers", "Brokers", Kind.names),
)
_QUEUE_LIST: Final = "queues"
_TOPIC: Final = Column("topic", "Topic", Kind.link, path=lambda record: topic_path(record["topic"]))
_PROGRESS: Final = (
    Column("lag", "Lag", Kind.number, _NO_OFFSET),
    Column("lag_ms", "Waits", Kind.span, "nothing waits"),
    Column("invisible", "Invisible", Kind.number, "a broker does not count them"),
    Column("retry", "In retry", Kind.number),
)
_QUEUES: Final = (
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.number),
    Column("topic", "Topic"),
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
    """Return the group that the address names, with the queues of one topic: ``topic``, else the one most behind.

    Raises NotFoundError, BadRequest.
    """
    name = visit.path["group"]
    chosen = visit.parameters.text("topic", "", length_max=RETRY_TOPIC_LENGTH_MAX)
    clock = visit.clock

    async def ask(admin: Admin) -> dict[str, Any]:
        return await group_record(admin, name, await admin.groups.topic_lags(name), clock)

    about = await visit.cluster.ask(("group", name), ask, may_be_old=True)
    subject = Subject(Of.group, name)
    if visit.sight is not None:
        visit.sight.allow(subject)
    charts = await charts_of(visit.sight, subject, clock.now_ms())
    lists = Lists(visit.parameters)
    progress = await _with_waits(visit, name, _progress(lists, visit.parameters, name, about["progress"]))
    topic = chosen or _most_behind(progress.records)
    queues, missing = await _queues(visit, name, topic) if topic else ([], {})
    of_topic = await _charts_of_topic(visit, name, topic)
    members = [{**member, "group": name} for member in about["members"]]
    differing = about["differing_subscriptions"]
    sections = [
        Values("State", _ABOUT, about),
        charts,
        *(
            [lists.table("differing_subscriptions", "Members differ", _differing(differing), differing, "")]
            if differing
            else []
        ),
        progress,
        lists.table("members", "Members", _MEMBERS, members, "No member is connected: offsets stay, and lag grows."),
        lists.table(
            "subscriptions", "Subscriptions", _SUBSCRIPTIONS, about["subscriptions"], "No member is connected."
        ),
        *([of_topic] if of_topic is not None else []),
        lists.table(
            _QUEUE_LIST,
            f"Lag by queue of {topic}" if topic else "Lag by queue",
            _QUEUES,
            queues,
            "Its queues are not known." if missing else "The group has read no queue yet.",
            sorts=("broker", "lag", "lag_ms"),
        ),
    ]
    return Page(
        f"Group {name}",
        "sections.html",
        about
        | lists.as_record()
        | {"progress": list(progress.records), "topic": topic or None, "lastHour": charts.as_record()}
        | ({"lastHourOfTopic": of_topic.as_record()} if of_topic is not None else {}),
        ("group", "describe", name),
        {
            "sections": sections,
            "links": [
                ("Dead letters", dead_letters_path(name)),
                *(_changes(name) if visit.allows_changes else []),
            ],
        },
        missing | visit.cluster.unreached,
    )


def _changes(name: str) -> list[tuple[str, str]]:
    path = group_path(name)
    return [
        ("Move its place", f"{path}/reset"),
        ("Send its dead letters again", f"{dead_letters_path(name)}/resend"),
        ("Change it", f"{path}/update"),
        ("Delete it", f"{path}/delete"),
    ]


def _progress(lists: Lists, parameters: Parameters, group: str, records: list[dict[str, Any]]) -> Table:
    """Return the table of topics, each with a link to its queues on this page."""
    kept = [(name, value) for name, value in parameters.without_list(_QUEUE_LIST) if name not in ("topic", "format")]

    def queues_of(record: Mapping[str, Any]) -> str:
        query = urlencode([*kept, ("topic", record["topic"])], errors="surrogatepass")
        return f"{group_path(group)}?{query}#{_QUEUE_LIST}"

    columns = (_TOPIC, Column("queues", "Queues", Kind.link, path=queues_of), *_PROGRESS)
    empty = "The group has read no topic yet."
    return lists.table(
        "progress", "Lag by topic", columns, records, empty, sorts=("topic", "lag", "invisible", "retry")
    )


async def _with_waits(visit: Visit, group: str, table: Table) -> Table:
    """Return the table with the time that messages of the shown topics wait, where a broker's sums lack it."""
    untimed = tuple(record["topic"] for record in table.records if record["lag"] and record["lag_ms"] is None)
    if not untimed:
        return table

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        return await with_waits(admin, group, table.records, visit.clock)

    try:
        return replace(table, records=await visit.cluster.ask(("waits", group, untimed), ask))
    except PymqError:
        return table  # a dash says that the time is not known


async def _charts_of_topic(visit: Visit, group: str, topic: str) -> Charts | None:
    """Return the chart of the group's lag on one topic, which is kept while someone looks at the group."""
    if not topic or visit.sight is None:
        return None
    visit.sight.watch(group, topic)
    subject = Subject(Of.pair, group, topic)
    return await charts_of(visit.sight, subject, visit.clock.now_ms(), f"Last hour of {topic}")


def _most_behind(records: Sequence[Mapping[str, Any]]) -> str:
    return max(records, key=lambda record: record["lag"] or 0)["topic"] if records else ""


async def _queues(visit: Visit, group: str, topic: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the queues of a topic and of its retry topics; and why they are not known."""

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        return await lag_of_group(admin, group, topic, visit.clock)

    try:
        return await visit.cluster.ask(("lag by queue", group, topic), ask), {}
    except PymqError as error:
        return [], {f"queues of {topic}": str(error)}


def _differing(records: list[dict[str, Any]]) -> list[Column]:
    return [Column(key, key.replace("_", " ").capitalize()) for key in records[0]]
