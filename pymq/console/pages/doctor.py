"""All checks of the doctor, made as the person who looks."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final, NamedTuple

from pymq.console.history.rings import CLUSTER
from pymq.console.history.sight import runtime_of_each_cluster
from pymq.console.pages.lists import cut
from pymq.console.pages.page import PAGE_TIMEOUT_S, Examine, Page, Visit
from pymq.console.pages.sections import Column
from pymq.console.web.parameters import Parameters
from pymq.errors import NotFoundError, UnreachableError
from pymq.operations.doctor.finding import ORDER, Check
from pymq.operations.doctor.registry import all_checks, report_record, run_checks

DEADLINE_S: Final = PAGE_TIMEOUT_S - 1
REPORT_KEPT_MS: Final = 60_000  # the checks ask brokers for much
AGAIN_MS: Final = 5_000  # from a report to one that is asked for
OBSERVE_MAX_S: Final = 6  # Java's consumers commit every 5 s
FINDINGS_OF_PAGE: Final = 25

_SEARCHED: Final = (Column("subject", "About"),)


class _Report(NamedTuple):
    """What the checks found, without all that they looked at. ``silent``: brokers that did not answer, and why."""

    record: dict[str, Any]
    silent: dict[str, str]


async def doctor(visit: Visit) -> Page:
    """Return what the checks find, or have found within a minute.

    ``observe``: check now, and watch groups that are behind for so many seconds.
    """
    observe_s = visit.parameters.number("observe", 0, minimum=0, maximum=OBSERVE_MAX_S)
    is_asked_for = visit.parameters.has("observe")
    examine = visit.examine
    if examine is None:
        raise NotFoundError("this console has no doctor")
    try:
        async with asyncio.timeout(DEADLINE_S):
            await _refuse_strangers(visit)
            report = await visit.cluster.ask(
                ("doctor", observe_s),
                lambda admin: _report(examine, observe_s),
                kept_ms=AGAIN_MS if is_asked_for else None,
                kept_at_least_ms=lambda report: REPORT_KEPT_MS,
                is_small=True,
            )
    except TimeoutError:
        return _late(observe_s)
    return _page(visit, report, observe_s)


async def _refuse_strangers(visit: Visit) -> None:
    """Raise RefusedError for a person who may not see the cluster. A cluster that does not answer is examined."""
    try:
        await visit.cluster.ask(("may see", CLUSTER), runtime_of_each_cluster)
    except UnreachableError:
        pass


@cache
def _every_check() -> tuple[Check, ...]:
    return tuple(all_checks())


async def _report(examine: Examine, observe_s: int) -> _Report:
    state = await examine(observe_s * 1000)
    checks = _every_check()
    silent = {broker.label: broker.view.error for broker in state.brokers if not broker.answers}
    return _Report(report_record(state, checks, run_checks(checks, state)), silent)


def _page(visit: Visit, report: _Report, observe_s: int) -> Page:
    checks, record = _every_check(), report.record
    questions = {check.name: check.question for check in checks}
    findings = record["findings"]
    rows = cut(findings, visit.parameters, "subject", {}, size=FINDINGS_OF_PAGE)
    return Page(
        "Doctor",
        "doctor.html",
        record | {"findings": rows.rows, **rows.as_record()},
        _command(observe_s),
        {
            "findings": rows.rows,
            "cut": rows,
            "columns": _SEARCHED,
            "counts": _counts(findings),
            "questions": questions,
            "report": record,
            "note": "",
            "observe_s": observe_s,
            "observe_max_s": OBSERVE_MAX_S,
        },
        report.silent,
    )


def _late(observe_s: int) -> Page:
    """Return a page without results, which says so: it must not look as if all were well."""
    note = f"The checks did not end within {DEADLINE_S:g} s, so nothing is known. The command waits longer."
    checks = [
        {"name": each.name, "question": each.question, "checked": False, "findings": 0} for each in _every_check()
    ]
    record: dict[str, Any] = {"worst": None, "findings": [], "checks": checks}
    return Page(
        "Doctor",
        "doctor.html",
        record,
        _command(observe_s),
        {
            "findings": [],
            "cut": cut([], Parameters([]), "subject", {}),
            "columns": _SEARCHED,
            "counts": {},
            "questions": {},
            "report": record,
            "note": note,
            "observe_s": observe_s,
            "observe_max_s": OBSERVE_MAX_S,
        },
        {"all checks": note},
    )


def _command(observe_s: int) -> tuple[str, ...]:
    return "doctor", "--observe", str(observe_s)


def _counts(findings: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of findings by severity, the worst first. A severity without findings is left out."""
    found = {severity.value: sum(one["severity"] == severity.value for one in findings) for severity in ORDER}
    return {severity: count for severity, count in found.items() if count}
