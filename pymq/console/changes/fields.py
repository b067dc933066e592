"""The fields of a form, as the page shows them and as the change reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from pymq.console.pages.page import Page
from pymq.console.pages.sections import Table, Values
from pymq.console.web.parameters import Parameters
from pymq.operations.where import Where

TEXT_LENGTH_MAX: Final = 255
SAME: Final = "as it is"
YES, NO = "yes", "no"


class Input(StrEnum):
    """What a person fills in."""

    text = "text"
    number = "number"
    choice = "choice"
    box = "checkbox"
    masked = "password"  # nobody sees it, and no page has it
    area = "textarea"
    hidden = "hidden"


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``value``: what stands in it at first; ``hint``: an example, or what an empty one means.

    A hidden field may be there several times.
    """

    name: str
    label: str
    kind: Input = Input.text
    value: str = ""
    hint: str = ""
    choices: Sequence[str] = ()
    is_required: bool = False
    length_max: int = TEXT_LENGTH_MAX


CLUSTER: Final = Field("cluster", "Cluster", hint="the only one")


def form_page(
    title: str,
    fields: Sequence[Field],
    command: tuple[str, ...],
    note: str = "",
    *,
    sections: Sequence[Table | Values] = (),
    data: Mapping[str, Any] = MappingProxyType({}),
    missing: Mapping[str, str] = MappingProxyType({}),
    is_question: bool = False,
) -> Page:
    """Return the page of a form that leads to a plan. ``sections``: what stands above it, as plain values ``data``.

    ``is_question``: the form leads to the same page with its fields in the address, and to no plan yet.
    """
    shown: dict[str, Any] = {
        "fields": fields,
        "note": note,
        "sections": sections,
        "is_question": is_question,
    }
    names = {"fields": list(dict.fromkeys(field.name for field in fields))}
    return Page(title, "form.html", {**data, **names}, command, shown, dict(missing))


def where_of(given: Parameters) -> Where:
    """Return the brokers that a form means: those of its cluster, or of the only one. Raises BadRequest."""
    cluster = given.text("cluster", "", length_max=TEXT_LENGTH_MAX).strip()
    return Where([cluster] if cluster else [], [])


def options_of(where: Where) -> list[str]:
    """Return the options of a command that name these brokers."""
    return [word for cluster in where.clusters for word in ("-c", cluster)]
