"""One stored message that one member of a group handles now."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import Field, form_page
from pymq.console.changes.plan import Outcome, Plan, Prepare
from pymq.console.messages.rows import shortened
from pymq.console.pages.links import group_path, member_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Values
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import UsageError
from pymq.model.names import GROUP_LENGTH_MAX, check_group
from pymq.operations.group import members
from pymq.operations.message.lookup import find_at, parse_place

CLIENT_LENGTH_MAX: Final = 255
_NOTE: Final = "The member handles the message now, besides its others. The group's place stays, whatever comes of it."
_PLANNED: Final = (
    Column("group", "Group", Kind.link, path=lambda record: group_path(record["group"])),
    Column("client_id", "Member", Kind.link, path=lambda record: member_path(record["group"], record["client_id"])),
    Column("topic", "Topic"),
    Column("message_id", "Message"),
)
_HANDLED: Final = (
    *_PLANNED,
    Column("result", "Result"),
    Column("spent_ms", "Took", Kind.span),
    Column("remark", "Remark", why_unknown="the member said none"),
)


async def form(visit: Visit) -> Page:
    """Return the form that asks for the member."""
    group = visit.parameters.text("group", "", length_max=GROUP_LENGTH_MAX)
    client = visit.parameters.text("member", "", length_max=CLIENT_LENGTH_MAX)
    fields = [
        Field("group", "Group", value=group, is_required=True, length_max=GROUP_LENGTH_MAX),
        Field("member", "Member", value=client, hint="10.0.0.7@4711", is_required=True, length_max=CLIENT_LENGTH_MAX),
    ]
    command = ("group", "consume", "GROUP", "MEMBER", visit.path["id"], "--topic", visit.path["topic"])
    return form_page(f"Let one member handle {shortened(visit.path['id'])}", fields, command, _NOTE)


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans that a member handles the message. Raises BadRequest."""
    group = given.text("group", length_max=GROUP_LENGTH_MAX).strip()
    client = given.text("member", length_max=CLIENT_LENGTH_MAX).strip()
    named = parse_place(visit.path["topic"], visit.path["id"])
    if named is None:
        raise BadRequest("id", "it is no place of a message: open the form from the message's page")
    try:
        check_group(group)
    except UsageError as error:
        raise BadRequest("group", str(error)) from None

    async def plan(admin: Admin) -> Plan:
        # The broker's id names bytes of the log, which never become another message.
        message_id = (await find_at(visit.cluster.reader.pull, *named)).offset_message_id
        record = _short(await members.consume(admin, group, client, message_id, None, is_dry=True))

        async def apply(admin: Admin) -> Outcome:
            return _outcome(_short(await members.consume(admin, group, client, message_id, None, is_dry=False)))

        return Plan(
            f"Let {client} handle {record['message_id']}",
            "group consume",
            f"group {group}",
            [Values("Change", _PLANNED, record)],
            {name: value for name, value in record.items() if value is not None},
            ("group", "consume", group, client, message_id),
            apply,
            (_NOTE,),
        )

    return plan


def _outcome(done: dict[str, Any]) -> Outcome:
    failed = {} if done["succeeded"] else {done["client_id"]: done["result"]}
    # The remark may hold what is in the message, and the audit does not.
    kept = {name: value for name, value in done.items() if name != "remark"}
    return Outcome([Values("Handled", _HANDLED, done)], kept, failed)


def _short(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"message_id": shortened(record["message_id"]), "remark": shortened(record["remark"] or "") or None}
