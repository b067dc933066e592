"""A slave that becomes the master."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.client.admin.promotion_plan import PromotionPlan
from pymq.console.changes.fields import Field, Input, form_page
from pymq.console.changes.plan import Outcome, Plan, Prepare, show_nothing
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.console.web.parameters import Parameters
from pymq.errors import ConflictError
from pymq.operations.broker import promotion
from pymq.operations.broker.registered import address_of

# With the wait for the name servers after it, a promotion ends before its page does.
CATCH_UP_TIMEOUT_S: Final = 3.0
_SUMMARY: Final = (
    Column("broker", "Broker"),
    Column("target", "New master"),
    Column("master", "Master now", why_unknown="none answers"),
    Column("steps", "Steps", Kind.names),
    Column("risks", "Risks", Kind.names),
)
_MEMBERS: Final = (
    Column("broker_id", "Id", Kind.number),
    Column("address", "Address"),
    Column("role", "Role", why_unknown="it does not answer"),
    Column("lag_messages", "Messages it lacks", Kind.number, "it does not say it"),
    Column("lag_bytes", "Bytes it lacks", Kind.size, "it does not say it"),
    Column("becomes", "Becomes"),
    Column("problem", "Problem"),
)
_DONE: Final = (
    Column("target", "New master"),
    Column("role", "Role"),
    Column("epoch", "Epoch", Kind.number),
    Column("start", "Begins at", Kind.number),
    Column("notes", "Notes", Kind.names),
)


async def form(visit: Visit) -> Page:
    """Return the form that makes the broker that the address names the master."""
    label = f"{visit.path['broker']}:{visit.path['id']}"
    field = Field("force", "Also with a risk that messages are lost", Input.box)
    note = "The master refuses writes until the slave has everything, for 3 s at most; then they change places."
    return form_page(f"Promote {label}", [field], ("broker", "promote", "HOST:PORT"), note)


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the change of places. Raises BadRequest."""
    name, number, is_forced = visit.path["broker"], visit.path["id"], given.flag("force")
    clock = visit.clock

    async def look(admin: Admin) -> PromotionPlan:
        plan = await promotion.make_plan(admin, await address_of(admin, name, number))
        plan.check(force=is_forced)
        return plan

    async def plan(admin: Admin) -> Plan:
        found = promotion.plan_record(await look(admin))

        async def apply(admin: Admin) -> Outcome:
            now = await look(admin)
            if _fixed(promotion.plan_record(now)) != _fixed(found):
                raise ConflictError(f"{name} has changed since the plan was made: nothing is changed")
            done = await promotion.carry_out(
                admin, now, clock, force=is_forced, timeout_s=CATCH_UP_TIMEOUT_S, tell=show_nothing
            )
            record = {"target": now.target.address, **done}
            return Outcome([Values("Promoted", _DONE, record)], record)

        command = ("broker", "promote", found["target"], "--yes", *(["--force"] if is_forced else []))
        return Plan(
            f"Promote {name}:{number}",
            "broker promote",
            f"broker {name}",
            [Values("Change", _SUMMARY, found), Table("Members", _MEMBERS, found["members"], "")],
            found,
            command,
            apply,
            tuple(found["risks"]),
            confirm=name,
        )

    return plan


def _fixed(record: dict[str, Any]) -> dict[str, Any]:
    """Return what does not move by itself: ends of logs do."""
    members = [(each["address"], each["role"], each["epoch"], each["becomes"]) for each in record["members"]]
    return {key: value for key, value in record.items() if key != "risks"} | {"members": members}
