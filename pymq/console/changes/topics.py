"""Topics made, changed and deleted."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import CLUSTER, SAME, TEXT_LENGTH_MAX, Field, Input, form_page, options_of, where_of
from pymq.console.changes.plan import Prepare
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import UsageError
from pymq.model.message_types import TYPES
from pymq.model.names import check_topic
from pymq.model.tables import PERM_READ, PERM_READ_WRITE, PERM_WRITE, TopicConfig
from pymq.operations.topic import deletion
from pymq.operations.topic.listing import create_topic, type_attribute, type_text, update_topic

QUEUES_DEFAULT: Final = 8
QUEUES_MAX: Final = 65_536
ANY: Final = "any"
PERMISSIONS: Final = {"RW": PERM_READ_WRITE, "R": PERM_READ, "W": PERM_WRITE}
_CONFIG: Final = (
    Column("broker", "Broker"),
    Column("before", "Before"),
    Column("read_queues", "Read queues", Kind.number),
    Column("write_queues", "Write queues", Kind.number),
    Column("perm", "Permission"),
    Column("type", "Type", why_unknown="of any type"),
)
_CREATED: Final = tuple(column for column in _CONFIG if column.key != "before")
_DELETED: Final = (
    Column("topic", "Topic"),
    Column("messages", "Messages that go", Kind.number),
    Column("brokers", "Brokers", Kind.names),
    Column("readers", "Groups that read it, or are behind", Kind.names),
    Column("with", "With it", Kind.names),
)


async def create_form(visit: Visit) -> Page:
    """Return the form of a new topic."""
    fields = [
        Field("topic", "Topic", is_required=True),
        CLUSTER,
        Field("write_queues", "Write queues", Input.number, str(QUEUES_DEFAULT)),
        Field("read_queues", "Read queues", Input.number, hint="as many"),
        Field("perm", "Permission", Input.choice, "RW", choices=tuple(PERMISSIONS)),
        Field("type", "Type", Input.choice, ANY, choices=(ANY, *(each.lower() for each in TYPES))),
    ]
    return form_page("New topic", fields, ("topic", "create", "NAME"), "Queues are of each broker.")


def create(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a new topic. Raises BadRequest."""
    name = given.text("topic", length_max=TEXT_LENGTH_MAX)
    where = where_of(given)
    write = given.number("write_queues", QUEUES_DEFAULT, minimum=1, maximum=QUEUES_MAX)
    read = _queues(given, "read_queues") or write
    perm = given.choice("perm", "RW", PERMISSIONS)
    kind = given.choice("type", ANY, (ANY, *(each.lower() for each in TYPES)))
    try:
        config = TopicConfig(
            topic_name=check_topic(name),
            write_queue_nums=write,
            read_queue_nums=read,
            perm=PERMISSIONS[perm],
            attributes=type_attribute(None if kind == ANY else kind),
        )
    except UsageError as error:
        raise BadRequest("topic", str(error)) from None

    async def run(admin: Admin, is_dry: bool) -> Records:
        return _typed(await create_topic(admin, config, [*where.clusters], [*where.brokers], is_dry=is_dry))

    options = [*options_of(where), *(["--type", kind] if kind != ANY else [])]
    command = ("topic", "create", name, "--wq", str(write), "--rq", str(read), "--perm", perm, *options)
    return replanned(f"New topic {name}", f"topic {name}", command, _CREATED, run)


async def update_form(visit: Visit) -> Page:
    """Return the form that changes a topic."""
    fields = [
        Field("write_queues", "Write queues", Input.number, hint=SAME),
        Field("read_queues", "Read queues", Input.number, hint=SAME),
        Field("perm", "Permission", Input.choice, SAME, choices=(SAME, *PERMISSIONS)),
    ]
    name = visit.path["topic"]
    note = "Fewer read queues hide what groups have not read: shrinking does it step by step."
    return form_page(f"Change {name}", fields, ("topic", "update", name), note)


def update(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a change of a topic on all brokers that have it. Raises BadRequest."""
    name = visit.path["topic"]
    write, read = _queues(given, "write_queues"), _queues(given, "read_queues")
    perm = given.choice("perm", SAME, (SAME, *PERMISSIONS))
    options: list[str] = []
    for option, number in (("--wq", write), ("--rq", read)):
        options += [option, str(number)] if number is not None else []
    options += ["--perm", perm] if perm != SAME else []
    if not options:
        raise BadRequest("form", "nothing is to change: fill in a field")
    changes: dict[str, Any] = {"write_queues": write, "read_queues": read}
    changes |= {"perm": PERMISSIONS.get(perm), "attributes": None}

    async def run(admin: Admin, is_dry: bool) -> Records:
        return _typed(await update_topic(admin, name, [], [], changes, force=False, is_dry=is_dry))

    return replanned(f"Change {name}", f"topic {name}", ("topic", "update", name, *options), _CONFIG, run)


async def delete_form(visit: Visit) -> Page:
    """Return the form that deletes a topic."""
    name = visit.path["topic"]
    fields = [Field("retries", "With retry and dead-letter topics of groups that read it alone", Input.box)]
    return form_page(f"Delete {name}", fields, ("topic", "delete", name))


def delete(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the end of a topic and its messages. Raises BadRequest."""
    name, with_retries = visit.path["topic"], given.flag("retries")

    async def run(admin: Admin, is_dry: bool) -> Records:
        plan = await deletion.plan(admin, name, [], [], with_retries=with_retries)
        if not is_dry:
            await deletion.delete(admin, plan)
        record = plan.record(applied=not is_dry)
        readers = [f"{each['group']} ({each['mode']}, {each['unread']:,} unread)" for each in record["groups"]]
        return [record | {"readers": readers, "deleted_below": plan.deleted_below}]

    command = ("topic", "delete", name, *(["--with-retries"] if with_retries else []))
    varying = frozenset({"messages", "groups", "readers"})
    return replanned(f"Delete {name}", f"topic {name}", command, _DELETED, run, confirm=name, varying=varying)


def _typed(records: Records) -> Records:
    return [record | {"type": type_text(record["attributes"]) or None} for record in records]


def _queues(given: Parameters, name: str) -> int | None:
    """Return a number of queues, None for an empty field."""
    return given.number(name, minimum=1, maximum=QUEUES_MAX) if given.text(name, "").strip() else None
