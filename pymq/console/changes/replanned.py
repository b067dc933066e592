"""Changes whose plan is a dry run: it is made again before the change, and another result is a conflict."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pymq.client.admin import Admin
from pymq.console.changes.plan import Outcome, Plan, Prepare
from pymq.console.pages.sections import Column, Table
from pymq.errors import ConflictError

Records = list[dict[str, Any]]
Run = Callable[[Admin, bool], Coroutine[Any, Any, Records]]


def replanned(
    title: str,
    subject: str,
    command: tuple[str, ...] | Callable[[Records], tuple[str, ...]],
    columns: Sequence[Column],
    run: Run,
    *,
    notes: tuple[str, ...] = (),
    confirm: str = "",
    varying: frozenset[str] = frozenset(),
    action: str = "",
) -> Prepare:
    """Return what plans a change that ``run(admin, is_dry)`` makes, or with ``is_dry`` only describes.

    ``varying``: fields of its records that move by themselves, such as a number of messages. ``command``: the same in a
    terminal, or what makes it of the records. ``action``: names the change in the audit, by default the command's
    first two words.
    """

    def fixed(records: Records) -> Records:
        return [{name: value for name, value in one.items() if name not in varying} for one in records]

    async def plan(admin: Admin) -> Plan:
        planned = await run(admin, True)
        words = command(planned) if callable(command) else command

        async def apply(admin: Admin) -> Outcome:
            if fixed(await run(admin, True)) != fixed(planned):
                raise ConflictError(f"{subject} has changed since the plan was made: nothing is changed")
            done = await run(admin, False)
            return Outcome([Table("Changed", columns, done, "Nothing changed.")], {"records": done})

        table = Table("Change", columns, planned, "Nothing would change.")
        return Plan(
            title,
            action or " ".join(words[:2]),
            subject,
            [table],
            {"records": planned},
            words,
            apply,
            notes,
            confirm=confirm,
        )

    return plan
