"""A broker out of service for producers, and back."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import Field, Input, form_page
from pymq.console.changes.plan import Prepare, show_nothing
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.console.web.parameters import Parameters
from pymq.operations.broker import drain as work

_STATE: Final = (
    Column("broker", "Broker"),
    Column("cluster", "Cluster"),
    Column("topics", "Topics", Kind.number),
    Column("writable", "Written here", Kind.number),
    Column("only_here", "Written nowhere else", Kind.names),
)
_ACTIVITY: Final = (
    Column("written", "Messages since its start", Kind.number, "it does not answer"),
    Column("problem", "Problem", why_unknown="none"),
)
_SERVERS: Final = (
    Column("address", "Name server"),
    Column("topics", "Topics", Kind.number, "it does not answer"),
    Column("writable", "With write permission", Kind.number, "it does not answer"),
    Column("problem", "Problem", why_unknown="none"),
)
_GROUPS: Final = (Column("group", "Group"), Column("unread", "Messages to read", Kind.number))
_VARYING: Final = frozenset({"written", "groups", "problem"})
_NOTE: Final = (
    "Producers leave the broker within 30 s. It can be stopped when nothing is written any more and every group has "
    "read everything: load this page again."
)


async def drain_form(visit: Visit) -> Page:
    """Return how the broker stands now, and the form that drains it. Raises NotFoundError."""
    name = visit.path["broker"]
    field = Field("force", "Also when a topic can be written nowhere else then", Input.box)
    return await _form(visit, f"Drain {name}", [field], ("broker", "drain", name), _NOTE)


async def undrain_form(visit: Visit) -> Page:
    """Return how the broker stands now, and the form that takes it back. Raises NotFoundError."""
    name = visit.path["broker"]
    note = "Topics that the broker itself holds read-only stay so."
    return await _form(visit, f"Take {name} back", [], ("broker", "undrain", name), note)


def drain(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans that no producer writes to a broker. Raises BadRequest."""
    name, is_forced = visit.path["broker"], given.flag("force")

    async def run(admin: Admin, is_dry: bool) -> Records:
        draining = work.Draining(admin, name, settle_s=0)
        state = await draining.look()
        work.check(state, is_forced=is_forced)
        if not is_dry:
            state = await draining.drain(show_nothing, is_waited=False, until_read=False)
        return [work.record(state)]

    command = ("broker", "drain", name, "--no-wait", "--yes", *(["--force"] if is_forced else []))
    return replanned(f"Drain {name}", f"broker {name}", command, _STATE, run, confirm=name, varying=_VARYING)


def undrain(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans that producers write to a broker again."""
    name = visit.path["broker"]

    async def run(admin: Admin, is_dry: bool) -> Records:
        draining = work.Draining(admin, name, settle_s=0)
        state = await draining.look() if is_dry else await draining.undrain()
        return [work.record(state)]

    command = ("broker", "undrain", name, "--yes")
    return replanned(f"Take {name} back", f"broker {name}", command, _STATE, run, varying=_VARYING)


async def _form(visit: Visit, title: str, fields: list[Field], command: tuple[str, ...], note: str) -> Page:
    name = visit.path["broker"]

    async def ask(admin: Admin) -> dict[str, Any]:
        return work.record(await work.Draining(admin, name, settle_s=0).look())

    state = await visit.cluster.ask(("drain", name), ask)
    missing = {each["address"]: each["problem"] for each in state["servers"] if each["problem"]}
    unread = "What groups have to read is not known." if state["problem"] else "Every group has read everything."
    sections: list[Table | Values] = [
        Values("Now", (*_STATE, *_ACTIVITY), state),
        Table("At the name servers", _SERVERS, state["servers"], "No name server is given."),
        Table("To read", _GROUPS, state["groups"], unread),
    ]
    return form_page(title, fields, command, note, sections=sections, data=state, missing=missing)
