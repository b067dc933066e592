"""The fields of a form, as the page shows them and as the change reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pymq.console.pages.page import Page

TEXT_LENGTH_MAX: Final = 255


class Input(StrEnum):
    """What a person fills in."""

    text = "text"
    number = "number"
    choice = "choice"
    box = "checkbox"
    masked = "password"  # nobody sees it, and no page has it


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``value``: what stands in it at first; ``hint``: an example, or what an empty one means."""

    name: str
    label: str
    kind: Input = Input.text
    value: str = ""
    hint: str = ""
    choices: Sequence[str] = ()
    is_required: bool = False


def form_page(title: str, fields: Sequence[Field], command: tuple[str, ...], note: str = "") -> Page:
    """Return the page of a form that leads to a plan."""
    shown: dict[str, Any] = {"fields": fields, "note": note, "length_max": TEXT_LENGTH_MAX}
    return Page(title, "form.html", {"fields": [field.name for field in fields]}, command, shown)
