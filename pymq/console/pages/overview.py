"""The overview of a cluster: problems, the last hour, and what is worst and busiest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from heapq import nlargest
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.history.checkup import Findings
from pymq.console.history.rings import CLUSTER, Kind, Subject
from pymq.console.history.section import charts_of
from pymq.console.history.sight import Sight, runtime_of_each_cluster
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sampled import sparks, trends
from pymq.errors import PymqError, RefusedError
from pymq.model.names import DLQ_PREFIX, is_system_group
from pymq.operations.auth.proof import Proof, proof_of
from pymq.operations.broker.listing import list_brokers
from pymq.operations.doctor.finding import Severity
from pymq.operations.topic.table import APPLICATION, topic_kind

FINDINGS_MAX: Final = 6
REFRESH_S: Final = 2  # until a page whose checks are running looks for their findings
ROWS_MAX: Final = 5
CANDIDATES_MAX: Final = 15  # groups and topics of which this person's right is asked
DEAD_LETTER_GROUPS_MAX: Final = 20  # whose dead letters are counted, the fullest
_SHOWN: Final = (Severity.PROBLEM, Severity.WARNING)
# Checks whose subjects are consumer groups.
_OF_GROUPS: Final = ("subscriptions", "stuck")


async def overview(visit: Visit) -> Page:
    """Return the state of the whole cluster, with what the samples know of it."""
    may_see = await _may_see_cluster(visit)
    sight = visit.sight if may_see else None
    (records, silent), charts, problems, samples = await asyncio.gather(
        visit.cluster.ask(("brokers", "those that refuse are silent"), _brokers),
        charts_of(visit.sight, CLUSTER, visit.clock.now_ms()),
        _problems(visit, sight),
        _samples(visit, sight),
    )
    counts = {"brokers": len(records), "brokers_up": len(records) - len(silent), **samples["counts"]}
    data = {
        **counts,
        "problems": problems["records"],
        "worst_lag": samples["worst"],
        "busiest_topics": samples["busiest"],
        "lastHour": charts.as_record(),
    }
    shown = {"charts": charts, "problems": problems, "samples": samples, "counts": counts}
    return Page("Overview", "overview.html", data, ("top",), shown, silent | visit.cluster.unreached)


async def _brokers(admin: Admin) -> tuple[list[dict[str, Any]], dict[str, str]]:
    return await list_brokers(admin, None)


async def _may_see_cluster(visit: Visit) -> bool:
    """Return whether this person may see the cluster. Raises RefusedError for one who has to log in."""
    try:
        await visit.cluster.ask(("may see", CLUSTER), runtime_of_each_cluster)
    except RefusedError as error:
        if proof_of(error) is Proof.unproven:
            raise
        return False
    except PymqError:
        return False
    if visit.sight is not None:
        visit.sight.allow(CLUSTER)
    return True


# -- problems ----------------------------------------------------------------------------------------------------


async def _problems(visit: Visit, sight: Sight | None) -> dict[str, Any]:
    """Return the findings that are problems or warnings, why there are none, and how old they are."""
    none: dict[str, Any] = {"records": [], "total": 0, "age_ms": None, "note": "", "refresh_s": None}
    if sight is None or visit.checkup is None:
        return none | {"note": "The checks are on the page of the doctor."}
    if sight.problem:
        return none | {"note": f"The checks did not run: {sight.problem}"}
    findings = visit.checkup.newest()
    if findings is None and visit.checkup.problem:
        return none | {"note": visit.checkup.problem}
    if findings is None:
        return none | {"note": "The checks are running.", "refresh_s": REFRESH_S}
    records = await _visible(sight, findings)
    return none | {
        "records": records[:FINDINGS_MAX],
        "total": len(records),
        "age_ms": visit.clock.monotonic_ms() - findings.at_ms,
        "note": f"The checks could not run again: {visit.checkup.problem}" if visit.checkup.problem else "",
    }


async def _visible(sight: Sight, findings: Findings) -> list[dict[str, Any]]:
    """Return the findings of the page as records, without findings about groups that this person may not see."""
    bad = [(check, finding) for check, finding in findings.found if finding.severity in _SHOWN]
    groups = [Subject(Kind.group, finding.subject) for check, finding in bad if check in _OF_GROUPS]
    allowed = await _allowed(sight, groups[:CANDIDATES_MAX])
    return [
        finding.as_record(check)
        for check, finding in bad
        if check not in _OF_GROUPS or Subject(Kind.group, finding.subject) in allowed
    ]


async def _allowed(sight: Sight, subjects: Sequence[Subject]) -> set[Subject]:
    answers = await asyncio.gather(*map(sight.allowed, subjects))
    return {subject for subject, is_allowed in zip(subjects, answers, strict=True) if is_allowed}


# -- samples -----------------------------------------------------------------------------------------------------


async def _samples(visit: Visit, sight: Sight | None) -> dict[str, Any]:
    """Return counts, the groups with the largest lags, and the topics with the highest rates."""
    if sight is None or not sight.topics:
        return {"counts": await _counts_asked(visit), "worst": [], "busiest": [], "is_sampled": False}
    system = sight.system_topics
    topics = {name: one for name, one in sight.topics.items() if topic_kind(name, system) == APPLICATION}
    groups = {name: row for name, row in sight.groups.items() if not is_system_group(name)}
    behind = [name for name, row in groups.items() if row["lag"]]
    busy = [name for name, one in topics.items() if one.per_second]
    worst, busiest, letters = await asyncio.gather(
        _first_allowed(sight, Kind.group, nlargest(CANDIDATES_MAX, behind, key=lambda name: groups[name]["lag"])),
        _first_allowed(
            sight, Kind.topic, nlargest(CANDIDATES_MAX, busy, key=lambda name: topics[name].per_second or 0)
        ),
        _dead_letters(sight),
    )
    lag_rows = [{"group": name, "lag": groups[name]["lag"], "waits_ms": groups[name]["behind_ms"]} for name in worst]
    trend_texts = trends(sight, "group", lag_rows)
    rate_rows = [
        {"topic": name, "in_per_second": topics[name].per_second, "stored": topics[name].stored} for name in busiest
    ]
    return {
        "counts": {"topics": len(topics), "groups": len(groups), "groups_behind": len(behind), **letters},
        "worst": [row | {"trend": trend_texts.get(row["group"])} for row in lag_rows],
        "busiest": rate_rows,
        "sparks": sparks(sight, Kind.topic, "topic", rate_rows),
        "is_sampled": True,
    }


async def _first_allowed(sight: Sight, kind: Kind, names: Sequence[str]) -> list[str]:
    """Return the first :data:`ROWS_MAX` names that this person may see."""
    found: list[str] = []
    for at in range(0, len(names), ROWS_MAX):
        asked = names[at : at + ROWS_MAX]
        allowed = await _allowed(sight, [Subject(kind, name) for name in asked])
        found += [name for name in asked if Subject(kind, name) in allowed]
        if len(found) >= ROWS_MAX:
            break
    return found[:ROWS_MAX]


async def _dead_letters(sight: Sight) -> dict[str, int | None]:
    """Return how many dead letters there are, of how many groups: those that this person may see.

    ``dead_letters_cut``: more groups have some than are counted.
    """
    full = [name for name, one in sight.topics.items() if name.startswith(DLQ_PREFIX) and one.stored]
    fullest = nlargest(DEAD_LETTER_GROUPS_MAX, full, key=lambda name: sight.topics[name].stored)
    allowed = await _allowed(sight, [Subject(Kind.topic, name) for name in fullest])
    return {
        "dead_letters": sum(sight.topics[subject.name].stored for subject in allowed),
        "dead_letter_groups": len(allowed),
        "dead_letters_cut": len(full) > DEAD_LETTER_GROUPS_MAX,
    }


async def _counts_asked(visit: Visit) -> dict[str, int | None]:
    """Return the numbers of topics and groups that brokers know, None for what this person may not see."""

    async def topics(admin: Admin) -> int:
        system = await admin.topics.system_names()
        return sum(topic_kind(name, system) == APPLICATION for name in await admin.topics.names())

    async def groups(admin: Admin) -> int:
        return sum(not is_system_group(name) for name in await admin.groups.all_configs())

    async def count(key: str, question: Any) -> int | None:
        try:
            found: int = await visit.cluster.ask(key, question, is_small=True)
        except PymqError:
            return None
        return found

    topic_count, group_count = await asyncio.gather(count("topic count", topics), count("group count", groups))
    unknown = dict.fromkeys(("groups_behind", "dead_letters", "dead_letter_groups", "dead_letters_cut"))
    return {"topics": topic_count, "groups": group_count, **unknown}
