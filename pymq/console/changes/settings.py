"""Settings of a broker, changed until it stops or kept, or taken back."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import TEXT_LENGTH_MAX, Field, Input, form_page
from pymq.console.changes.plan import Outcome, Plan, Prepare
from pymq.console.pages.broker import registered
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Table
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.operations.broker.listing import list_brokers
from pymq.operations.settings import changes
from pymq.operations.settings.servers import Targets

VALUE_LENGTH_MAX: Final = 4_096
_CHANGED: Final = (
    Column("server", "Server"),
    Column("key", "Key"),
    Column("before", "Before"),
    Column("value", "New", why_unknown="the value that it has without changes"),
)


async def form(visit: Visit) -> Page:
    """Return the form that changes a setting of the broker that the address names."""
    key = visit.parameters.text("key", "", length_max=TEXT_LENGTH_MAX)
    fields = [
        Field("key", "Key", value=key, is_required=True),
        Field("value", "Value"),
        Field("kept", "Kept for the next start", Input.box),
        Field("back", "Take a change at run time back, in place of a value", Input.box),
    ]
    label = f"{visit.path['broker']}:{visit.path['id']}"
    return form_page(f"Change a setting of {label}", fields, ("config", "set", "KEY=VALUE", "-b", label))


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the change of a setting. Raises BadRequest."""
    label = f"{visit.path['broker']}:{visit.path['id']}"
    key = given.text("key", length_max=TEXT_LENGTH_MAX).strip()
    value = given.text("value", "", length_max=VALUE_LENGTH_MAX)
    is_kept, is_back = given.flag("kept"), given.flag("back")
    if not key:
        raise BadRequest("key", "it is missing")
    wanted = changes.Wanted({}, (key,)) if is_back else changes.Wanted({key: value}, is_kept=is_kept)
    words = ["unset", key] if is_back else ["set", f"{key}={value}", *(["--persist"] if is_kept else [])]
    command = ("config", *words, "-b", label)

    async def plan(admin: Admin) -> Plan:
        known, _ = await list_brokers(admin, None)
        targets = Targets((registered(known, visit.path["broker"], visit.path["id"])["address"],))
        planned = await changes.preview(admin, targets, wanted)
        goes = await changes.what_goes(admin, targets, wanted)

        async def apply(admin: Admin) -> Outcome:
            only_if = None if is_back else planned[0]["before"]
            again = changes.Wanted(wanted.values, wanted.forget, is_kept=wanted.is_kept, only_if=only_if)
            found = await changes.change(admin, targets, again)
            found.raise_if_all_failed()
            failed = {server: str(error) for server, error in found.failed.items()}
            table = Table("Changed", _CHANGED, found.records, "Nothing changed.")
            return Outcome([table], {"records": found.records, "notes": found.notes}, failed)

        record: dict[str, Any] = {"records": planned, "goes": goes}
        return Plan(
            f"Change {key} of {label}",
            "config set",
            f"broker {label}",
            [Table("Change", _CHANGED, planned, "Nothing would change.")],
            record,
            command,
            apply,
            (goes,) if goes else (),
            confirm=label if goes else "",
        )

    return plan
