"""What is wrong with a Raft group, and how bad it is: the same for monitoring and for the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pymq.operations.raft.groups import GroupView, group_record


class Verdict(NamedTuple):
    """``subject``: the group, or "group node". ``stops``: messages can't be sent, or a node does not do its part."""

    subject: str
    text: str
    stops: bool


def verdicts(group: GroupView) -> Iterator[Verdict]:
    """Yield what is wrong. A group with a leader works, and stands fewer failures."""
    record = group_record(group)
    is_led = record["leader"] is not None
    for problem in record["problems"]:
        yield Verdict(group.name, problem, not is_led)
    for member in record["members"]:
        label = f"{group.name} {member['node']}"
        if member["problem"]:
            answer = group.answer_of(member["node"])
            is_held = answer is not None and answer.state is not None and bool(answer.state.problems)
            yield Verdict(label, member["problem"], is_held)
        elif member["kind"] == "learner":
            yield Verdict(label, "it copies the log and votes for nobody yet", stops=False)
