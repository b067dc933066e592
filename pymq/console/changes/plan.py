"""What a change would do, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymq.client.admin import Admin
from pymq.console.pages.sections import Table, Values


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change did. ``record``: as plain values; ``failed``: why some parts were not changed.

    ``undo``: makes the plan that takes the change back, None where nothing can.
    """

    sections: Sequence[Table | Values]
    record: dict[str, Any]
    failed: dict[str, str] = field(default_factory=dict)
    undo: Prepare | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A change that is prepared.

    ``action`` and ``subject`` name it in the audit: "offset reset" of "group billing". ``sections``: before and after,
    in the words of the command; ``notes``: what else a person should know. ``confirm``: a name to type where the
    change destroys something. ``apply`` raises ConflictError when the subject has changed meanwhile.
    """

    title: str
    action: str
    subject: str
    sections: Sequence[Table | Values]
    record: dict[str, Any]
    command: tuple[str, ...]
    apply: Callable[[Admin], Coroutine[Any, Any, Outcome]]
    notes: tuple[str, ...] = ()
    confirm: str = ""

    def is_confirmed_by(self, typed: str) -> bool:
        """Return whether a person has typed the name that stands for the loss."""
        return not self.confirm or typed == self.confirm


# Looks at the cluster now, and plans. Raises PymqError.
Prepare = Callable[[Admin], Coroutine[Any, Any, Plan]]
