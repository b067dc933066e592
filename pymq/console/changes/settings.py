"""Settings of a broker or of all name servers, changed until they stop or kept, or taken back."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import TEXT_LENGTH_MAX, Field, Input, form_page
from pymq.console.changes.plan import Outcome, Plan, Prepare
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Table
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.operations.broker.registered import address_of
from pymq.operations.settings import changes
from pymq.operations.settings.servers import Targets

VALUE_LENGTH_MAX: Final = 4_096
_NAME_SERVERS: Final = ("--namesrv-server",)
_CHANGED: Final = (
    Column("server", "Server"),
    Column("key", "Key"),
    Column("before", "Before"),
    Column("value", "New", why_unknown="the value that it has without changes"),
)


async def form(visit: Visit) -> Page:
    """Return the form that changes a setting of the broker that the address names, else of the name servers."""
    key = visit.parameters.text("key", "", length_max=TEXT_LENGTH_MAX)
    fields = [
        Field("key", "Key", value=key, is_required=True),
        Field("value", "Value"),
        Field("kept", "Kept for the next start", Input.box),
        Field("back", "Take a change at run time back, in place of a value", Input.box),
    ]
    whose, options = _servers(visit)
    return form_page(f"Change a setting of {whose}", fields, ("config", "set", "KEY=VALUE", *options))


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the change of a setting. Raises BadRequest."""
    whose, options = _servers(visit)
    key = given.text("key", length_max=TEXT_LENGTH_MAX).strip()
    value = given.text("value", "", length_max=VALUE_LENGTH_MAX)
    is_kept, is_back = given.flag("kept"), given.flag("back")
    if not key:
        raise BadRequest("key", "it is missing")
    wanted = changes.Wanted({}, (key,)) if is_back else changes.Wanted({key: value}, is_kept=is_kept)
    words = ["unset", key] if is_back else ["set", f"{key}={value}", *(["--persist"] if is_kept else [])]
    command = ("config", *words, *options)

    async def plan(admin: Admin) -> Plan:
        targets = await _targets(admin, visit)
        planned = await changes.preview(admin, targets, wanted)
        goes = await changes.what_goes(admin, targets, wanted)

        async def apply(admin: Admin) -> Outcome:
            values = {record["before"] for record in planned}
            only_if = values.pop() if len(values) == 1 and not is_back else None
            again = changes.Wanted(wanted.values, wanted.forget, is_kept=wanted.is_kept, only_if=only_if)
            found = await changes.change(admin, targets, again)
            found.raise_if_all_failed()
            failed = {server: str(error) for server, error in found.failed.items()}
            table = Table("Changed", _CHANGED, found.records, "Nothing changed.")
            return Outcome([table], {"records": found.records, "notes": found.notes}, failed)

        record: dict[str, Any] = {"records": planned, "goes": goes}
        return Plan(
            f"Change {key} of {whose}",
            "config set",
            whose if options == _NAME_SERVERS else f"broker {whose}",
            [Table("Change", _CHANGED, planned, "Nothing would change.")],
            record,
            command,
            apply,
            (goes,) if goes else (),
            confirm=whose if goes else "",
        )

    return plan


def _servers(visit: Visit) -> tuple[str, tuple[str, ...]]:
    """Return whose setting the address means, for people and as options of a command."""
    if "broker" not in visit.path:
        return "the name servers", _NAME_SERVERS
    label = f"{visit.path['broker']}:{visit.path['id']}"
    return label, ("-b", label)


async def _targets(admin: Admin, visit: Visit) -> Targets:
    """Return the servers. Raises NotFoundError for a broker that is not registered: no other address is asked."""
    if "broker" not in visit.path:
        return Targets(is_namesrv=True)
    return Targets((await address_of(admin, visit.path["broker"], visit.path["id"]),))
