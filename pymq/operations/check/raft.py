"""Has each Raft group a leader, and how many failures more does it stand?"""

from __future__ import annotations

from pymq.client.admin import Admin
from pymq.errors import NotFoundError
from pymq.operations.check.line import Figure, Level, Limits, Part, Result
from pymq.operations.raft.groups import GroupView, group_record, raft_groups
from pymq.units import format_bytes, format_count


async def check_raft(admin: Admin, name: str | None, *, limits: Limits) -> Result:
    """Critical: no leader, or a node with a problem. Warning: a member that is silent, out of date or no voter yet.

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
    is_led = record["leader"] is not None
    for problem in record["problems"]:
        result.parts.append(Part(group.name, Level.WARNING if is_led else Level.CRITICAL, problem))
    for member in record["members"]:
        label = f"{group.name} {member['node']}"
        figure = Figure(label, member["lag_bytes"], "B", limits)
        if member["lag_bytes"] is not None and member["lag_bytes"] >= 0:
            result.figures.append(figure)
            if figure.level:
                lacks = format_bytes(member["lag_bytes"])
                result.parts.append(Part(label, figure.level, f"it lacks {lacks} of the leader's log"))
        if member["problem"]:
            state = group.answer_of(member["node"])
            is_held = state is not None and state.state is not None and bool(state.state.problems)
            result.parts.append(Part(label, Level.CRITICAL if is_held else Level.WARNING, member["problem"]))
        elif member["kind"] == "learner":
            result.parts.append(Part(label, Level.WARNING, "it copies the log and votes for nobody yet"))
    if not any(part.subject.split(" ")[0] == group.name for part in result.parts):
        result.parts.append(Part(group.name, Level.OK, f"{record['leader']} leads term {record['term']}"))
    result.figures.append(Figure(f"{group.name} term", record["term"]))
    result.figures.append(Figure(f"{group.name} voters", record["heard_voters"], most=record["voters"]))
