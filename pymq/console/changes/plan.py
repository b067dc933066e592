"""What a change would do, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pymq.client.admin import Admin
from pymq.console.asking.cluster import Cluster
from pymq.console.pages.sections import Table, Values


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change did. ``record``: as plain values; ``failed``: why some parts were not changed.

    ``undo``: makes the plan that takes the change back, None where nothing can. ``following``: the address of the form
    that goes on where this change ended, "" at the end of the work.
    """

    sections: Sequence[Table | Values]
    record: dict[str, Any]
    failed: dict[str, str] = field(default_factory=dict)
    undo: Prepare | None = None
    following: str = ""


Apply = Callable[[Admin], Coroutine[Any, Any, Outcome]]


@dataclass(frozen=True, slots=True)
class WithMessages:
    """Carries out a plan that reads or sends messages, by the cluster as the person asks it then."""

    work: Callable[[Cluster, Admin], Coroutine[Any, Any, Outcome]]


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
    apply: Apply | WithMessages
    notes: tuple[str, ...] = ()
    confirm: str = ""

    def question(self, cluster: Cluster) -> Apply:
        """Return what carries the plan out, as a question to the person's cluster of now."""
        apply = self.apply
        return partial(apply.work, cluster) if isinstance(apply, WithMessages) else apply

    def is_confirmed_by(self, typed: str) -> bool:
        """Return whether a person has typed the name that stands for the loss."""
        return not self.confirm or typed == self.confirm


def show_nothing(text: str) -> None:
    """Stand in for what shows the progress of a command: a page does not wait."""


# Looks at the cluster now, and plans. Raises PymqError.
Prepare = Callable[[Admin], Coroutine[Any, Any, Plan]]
