"""All seeded bugs of all kinds of cluster; ``scripts/simulate --mutations`` looks for them in more seeds, too."""

from __future__ import annotations

import pytest

from tests.planting import Bug
from tests.simulation.master_slave import plan as master_slave
from tests.simulation.master_slave.seeded_bugs import BUGS
from tests.simulation.mutations import HuntingPlan, caught_by
from tests.simulation.raft import plan as raft
from tests.simulation.raft.seeded_bugs import BUGS as RAFT_BUGS
from tests.simulation.workers import plan as workers
from tests.simulation.workers.seeded_bugs import BUGS as WORKERS_BUGS

HUNTS = [
    *(pytest.param(bug, master_slave.hunting_plan, 20, id=bug.name) for bug in BUGS),
    *(pytest.param(bug, raft.hunting_plan, 0, id=f"raft, {bug.name}") for bug in RAFT_BUGS),
    *(pytest.param(bug, workers.hunting_plan, 0, id=f"workers, {bug.name}") for bug in WORKERS_BUGS),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "hunting_plan", "searched_seeds"), HUNTS)
def test_a_seeded_bug_is_caught(bug: Bug, hunting_plan: HuntingPlan, searched_seeds: int) -> None:
    """By a suite that the bug names, or by one of the seeds that are tried after these."""
    found = caught_by(bug, hunting_plan, searched_seeds)
    assert found is not None, f"{bug} passed {bug.suites} and {searched_seeds} seeds"


@pytest.mark.parametrize("bug", [*BUGS, *RAFT_BUGS, *WORKERS_BUGS], ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug: Bug) -> None:
    """A fast check, which fails first when the product changes and a seeded bug does not follow."""
    with bug.planted():
        pass


@pytest.mark.parametrize(("bugs", "count_min"), [(BUGS, 22), (RAFT_BUGS, 8), (WORKERS_BUGS, 4)])
def test_there_are_many_seeded_bugs(bugs: tuple[Bug, ...], count_min: int) -> None:
    assert len({bug.name for bug in bugs}) == len(bugs) >= count_min
