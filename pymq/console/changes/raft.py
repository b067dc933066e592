"""Raft groups: another leader, and other members."""

from __future__ import annotations

from typing import Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import Field, Input, form_page
from pymq.console.changes.plan import Prepare
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.operations.broker.registered import check_registered
from pymq.operations.raft import changes

NODE_LENGTH_MAX: Final = 32
ADD, OBSERVER, REMOVE = "add", "add as observer", "remove"
_CHANGED: Final = (
    Column("broker", "Group"),
    Column("node", "Node"),
    Column("term", "Term", Kind.number),
    Column("before", "Before", Kind.names),
    Column("after", "After", Kind.names),
    Column("warnings", "Warnings", Kind.names),
)
_VARYING: Final = frozenset({"warnings"})  # they name lags


async def transfer_form(visit: Visit) -> Page:
    """Return the form that hands a group over."""
    name = visit.path["broker"]
    fields = [Field("node", "Node that leads then", hint="the preferred, or the most up-to-date one")]
    return form_page(f"Hand {name} over", fields, ("raft", "transfer", name))


def transfer(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans another leader. Raises BadRequest."""
    name, clock = visit.path["broker"], visit.clock
    node = given.text("node", "", length_max=NODE_LENGTH_MAX).strip()

    async def run(admin: Admin, is_dry: bool) -> Records:
        await check_registered(admin, name)
        plan = await changes.plan_transfer(admin, name, node or None)
        return [plan.record() if is_dry else await changes.transfer(admin, plan, clock)]

    def command(records: Records) -> tuple[str, ...]:
        return ("raft", "transfer", name, records[0]["node"])

    return replanned(f"Hand {name} over", f"group {name}", command, _CHANGED, run, varying=_VARYING)


async def members_form(visit: Visit) -> Page:
    """Return the form that changes the members of a group."""
    name = visit.path["broker"]
    fields = [
        Field("action", "Do", Input.choice, ADD, choices=(ADD, OBSERVER, REMOVE)),
        Field("node", "Node", hint="n4", is_required=True),
    ]
    note = "A node that joins is started first; it votes when it has caught up. An observer never votes."
    return form_page(f"Members of {name}", fields, ("raft", "add", name, "NODE"), note)


def members(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a node more or less. Raises BadRequest."""
    name = visit.path["broker"]
    action = given.choice("action", ADD, (ADD, OBSERVER, REMOVE))
    node = given.text("node", length_max=NODE_LENGTH_MAX).strip()
    if not node:
        raise BadRequest("node", "it is missing")

    async def run(admin: Admin, is_dry: bool) -> Records:
        await check_registered(admin, name)
        if action == REMOVE:
            plan = await changes.plan_remove(admin, name, node)
        else:
            plan = await changes.plan_add(admin, name, node, as_observer=action == OBSERVER)
        return [plan.record() if is_dry else await changes.change(admin, plan)]

    command = ("raft", "remove" if action == REMOVE else "add", name, node)
    return replanned(
        f"Members of {name}",
        f"group {name}",
        (*command, "--observer") if action == OBSERVER else command,
        _CHANGED,
        run,
        confirm=node if action == REMOVE else "",
        varying=_VARYING,
    )
