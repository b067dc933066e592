"""Values that name servers keep for everyone, set and deleted."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import TEXT_LENGTH_MAX, Field, Input, form_page
from pymq.console.changes.plan import Prepare
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import NotFoundError
from pymq.operations.topic.order import ORDER_NAMESPACE

VALUE_LENGTH_MAX: Final = 4_096
_CHANGED: Final = (
    Column("namespace", "Namespace"),
    Column("key", "Key"),
    Column("before", "Before", why_unknown="it is not set"),
    Column("value", "New", why_unknown="it is deleted"),
)


async def form(visit: Visit) -> Page:
    """Return the form of a value."""
    namespace = visit.parameters.text("namespace", ORDER_NAMESPACE, length_max=TEXT_LENGTH_MAX)
    fields = [
        Field("namespace", "Namespace", value=namespace, is_required=True),
        Field("key", "Key", is_required=True),
        Field("value", "Value"),
        Field("delete", "Delete it", Input.box),
    ]
    note = "Every name server gets it, and loses all values when it stops."
    return form_page("Set a value", fields, ("namesrv", "kv", "set", "NAMESPACE", "KEY", "VALUE"), note)


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a value, or its end. Raises BadRequest."""
    namespace = given.text("namespace", length_max=TEXT_LENGTH_MAX).strip()
    key = given.text("key", length_max=TEXT_LENGTH_MAX).strip()
    value = given.text("value", "", length_max=VALUE_LENGTH_MAX)
    is_deleted = given.flag("delete")
    for name, text in (("namespace", namespace), ("key", key), ("value", "-" if is_deleted else value)):
        if not text:
            raise BadRequest(name, "it is missing")
    if is_deleted and value:
        raise BadRequest("value", "a value that is deleted has none: leave the field empty, or the box")

    async def run(admin: Admin, is_dry: bool) -> Records:
        before = await admin.namesrv.value(namespace, key)
        if is_deleted and before is None:
            raise NotFoundError(f"no value {key!r} in namespace {namespace!r}")
        if not is_dry and is_deleted:
            await admin.namesrv.delete_value(namespace, key)
        elif not is_dry:
            await admin.namesrv.put_value(namespace, key, value)
        record: dict[str, Any] = {"namespace": namespace, "key": key, "before": before}
        return [record | {"value": None if is_deleted else value}]

    word = "delete" if is_deleted else "set"
    command = ("namesrv", "kv", word, namespace, key, *([] if is_deleted else [value]))
    return replanned(
        f"{'Delete' if is_deleted else 'Set'} a value",
        f"value {namespace} {key}",
        command,
        _CHANGED,
        run,
        confirm=key if is_deleted else "",
        action=f"namesrv kv {word}",
    )
