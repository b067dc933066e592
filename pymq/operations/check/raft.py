"""Has each Raft group a leader, and how many failures more does it stand?"""

from __future__ import annotations

from pymq.client.admin import Admin
from pymq.errors import NotFoundError
from pymq.operations.check.line import Figure, Level, Limits, Part, Result
from pymq.operations.raft.groups import GroupView, group_record, raft_groups
from pymq.operations.raft.verdicts import verdicts
from pymq.units import format_bytes, format_count


async def check_raft(admin: Admin, name: str | None, *, limits: Limits) -> Result:
    """Critical: no leader, or a node with a problem. Warning: what else :func:`verdicts` finds.

    ``limits``: how many bytes a member may lack. Raises NotFoundError when no broker is in a Raft group.
    """
    groups = await raft_groups(admin, name)
    if not groups:
        raise NotFoundError("no broker is in a Raft group: pymq check replica checks masters with slaves")
    result = Result("raft", format_count(len(groups), "group") + " with a leader and all members")
    for group in groups:
        _check(group, result, limits)
    return result


def _check(group: GroupView, result: Result, limits: Limits) -> None:
    record = group_record(group)
    for verdict in verdicts(group):
        level = Level.CRITICAL if verdict.stops else Level.WARNING
        result.parts.append(Part(verdict.subject, level, verdict.text))
    for member in record["members"]:
        label = f"{group.name} {member['node']}"
        figure = Figure(label, member["lag_bytes"], "B", limits)
        if member["lag_bytes"] is not None and member["lag_bytes"] >= 0:
            result.figures.append(figure)
            if figure.level:
                lacks = format_bytes(member["lag_bytes"])
                result.parts.append(Part(label, figure.level, f"it lacks {lacks} of the leader's log"))
    if not any(part.subject.split(" ")[0] == group.name for part in result.parts):
        result.parts.append(Part(group.name, Level.OK, f"{record['leader']} leads term {record['term']}"))
    result.figures.append(Figure(f"{group.name} term", record["term"]))
    result.figures.append(Figure(f"{group.name} voters", record["heard_voters"], most=record["voters"]))
