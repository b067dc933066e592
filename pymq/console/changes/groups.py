"""Consumer groups made, changed and deleted."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import (
    CLUSTER,
    NO,
    SAME,
    TEXT_LENGTH_MAX,
    YES,
    Field,
    Input,
    form_page,
    options_of,
    where_of,
)
from pymq.console.changes.plan import Prepare
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import UsageError
from pymq.model.names import check_group
from pymq.operations.group import changes
from pymq.operations.where import Where

RETRIES_MAX: Final = 1_000
EVERYWHERE: Final = Where((), ())
_CHANGED: Final = (
    Column("broker", "Broker"),
    Column("enabled", "Enabled", Kind.flag),
    Column("retry_max", "Retries", Kind.number),
    Column("ordered", "In order", Kind.flag),
    Column("broadcast_allowed", "May broadcast", Kind.flag),
    Column("changes", "Changes", Kind.names),
)
_DELETED: Final = (
    Column("group", "Group"),
    Column("brokers", "Brokers", Kind.names),
    Column("members_online", "Members on-line", Kind.number),
    Column("lag", "Messages it has not read", Kind.number, "it has no offset"),
    Column("topics", "With it", Kind.names),
)


async def create_form(visit: Visit) -> Page:
    """Return the form of a new group."""
    fields = [
        Field("group", "Group", is_required=True),
        CLUSTER,
        Field("retry_max", "Retries", Input.number, hint="16"),
        Field("ordered", "In order", Input.box),
    ]
    return form_page("New group", fields, ("group", "create", "NAME"))


def create(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a new group. Raises BadRequest."""
    name = given.text("group", length_max=TEXT_LENGTH_MAX)
    where = where_of(given)
    retry_max, ordered = _retries(given), given.flag("ordered")
    settings: dict[str, Any] = {} if retry_max is None else {"retry_max": retry_max}
    settings |= {"ordered": True} if ordered else {}
    try:
        check_group(name)
    except UsageError as error:
        raise BadRequest("group", str(error)) from None

    async def run(admin: Admin, is_dry: bool) -> Records:
        return await changes.create(admin, name, where, settings, dry_run=is_dry)

    options = [] if retry_max is None else ["--retry-max", str(retry_max)]
    options += [*(["--ordered"] if ordered else []), *options_of(where)]
    return replanned(f"New group {name}", f"group {name}", ("group", "create", name, *options), _CHANGED, run)


async def update_form(visit: Visit) -> Page:
    """Return the form that changes a group."""
    name = visit.path["group"]
    fields = [
        Field("enabled", "Enabled", Input.choice, SAME, choices=(SAME, YES, NO)),
        Field("retry_max", "Retries", Input.number, hint=SAME),
        Field("ordered", "In order", Input.choice, SAME, choices=(SAME, YES, NO)),
    ]
    return form_page(f"Change {name}", fields, ("group", "update", name))


def update(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a change of a group on all brokers that have it. Raises BadRequest."""
    name, retry_max = visit.path["group"], _retries(given)
    settings: dict[str, Any] = {} if retry_max is None else {"retry_max": retry_max}
    for setting in ("enabled", "ordered"):
        chosen = given.choice(setting, SAME, (SAME, YES, NO))
        settings |= {} if chosen == SAME else {setting: chosen == YES}
    if not settings:
        raise BadRequest("form", "nothing is to change: fill in a field")

    async def run(admin: Admin, is_dry: bool) -> Records:
        return await changes.update(admin, name, EVERYWHERE, settings, dry_run=is_dry)

    return replanned(f"Change {name}", f"group {name}", ("group", "update", name), _CHANGED, run)


async def delete_form(visit: Visit) -> Page:
    """Return the form that deletes a group."""
    name = visit.path["group"]
    fields = [
        Field("topics", "With its retry and dead-letter topics", Input.box),
        Field("offsets", "With its offsets", Input.box, "on"),
    ]
    return form_page(f"Delete {name}", fields, ("group", "delete", name))


def delete(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the end of a group. Raises BadRequest."""
    name, with_topics, with_offsets = visit.path["group"], given.flag("topics"), given.flag("offsets")

    async def run(admin: Admin, is_dry: bool) -> Records:
        plan = await changes.plan_delete(admin, name, EVERYWHERE, with_topics=with_topics)
        plan.check(is_forced=False)
        if not is_dry:
            await changes.delete(admin, plan, with_offsets=with_offsets)
        return [plan.record(is_applied=not is_dry)]

    varying = frozenset({"lag", "members_online"})
    command = ("group", "delete", name)
    return replanned(f"Delete {name}", f"group {name}", command, _DELETED, run, confirm=name, varying=varying)


def _retries(given: Parameters) -> int | None:
    """Return a number of retries, None for an empty field."""
    return given.number("retry_max", minimum=-1, maximum=RETRIES_MAX) if given.text("retry_max", "").strip() else None
