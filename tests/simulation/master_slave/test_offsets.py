"""The check of offsets at its limits: which losses it allows, and which it reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.clients import TOPIC
from tests.simulation.history import Commit, History
from tests.simulation.master_slave.following import Span
from tests.simulation.master_slave.offsets import COPIED_US, OFFSETS_OLD_US, Offsets
from tests.simulation.timeline import MS, SECOND

START_US = 100 * SECOND  # the time of the commit
DEATH_US = START_US + OFFSETS_OLD_US + MS  # by then it is on the master's disk
LATER_US = START_US + 60 * SECOND


class Group:
    """A group whose offset 2 was committed to broker0, the master. The master at the end has offset 1."""

    def __init__(self) -> None:
        self.history = History()
        self.brokers: list[Any] = [self._broker(number) for number in range(2)]
        self.spans: list[Span] = []
        self.commit()

    def _broker(self, number: int) -> Any:
        cursors = SimpleNamespace(query=lambda group, topic, queue_id: 1 if queue_id == 0 else -1)
        store = SimpleNamespace(max_offset=lambda topic, queue_id: 9)
        return SimpleNamespace(
            name=f"broker{number}",
            address=f"10.0.0.{number + 1}:10911",
            parts=SimpleNamespace(metadata=SimpleNamespace(cursors=cursors), store=store),
            moving_us=lambda since_us, at_us: at_us - since_us,
            save_us=0,
            had_full_disk=lambda since_us, at_us: False,
        )

    def commit(self, number: int = 0, *, time_us: int = START_US, was_master: bool = True, epoch: int = 1) -> None:
        self.history.commits = [Commit(time_us, "G", 0, 2, self.brokers[number].address, was_master, epoch)]

    def kill(self, number: int, time_us: int) -> None:
        self.history.incident(time_us, "kill", f"broker{number}")

    def promote(self, time_us: int = LATER_US, *, had: int = -1, is_done: bool = True, number: int = 1) -> None:
        offsets = {f"{TOPIC}@G": {"0": had}}
        self.history.incident(time_us, "promote", self.brokers[number].address, "2", offsets, is_done=is_done)

    def follow(self, start_us: int, end_us: int, *, epoch: int = 1) -> None:
        """Add a span in which broker1 follows its master."""
        self.spans.append(Span((1, "", 1), epoch, start_us, end_us))

    def is_missed(self) -> bool:
        followings: Any = SimpleNamespace(of=lambda broker: self.spans if broker is self.brokers[1] else [])
        Offsets(self.brokers, self.history, followings).look(self.brokers[1], {})
        assert all("2 was committed and safe" in text for text in self.history.violations)
        return bool(self.history.violations)


@pytest.fixture
def group() -> Group:
    return Group()


def test_an_offset_lost_without_a_cause_is_a_violation(group: Group) -> None:
    assert group.is_missed()


@pytest.mark.parametrize(("age_us", "is_missed"), [(OFFSETS_OLD_US, False), (OFFSETS_OLD_US + 1, True)])
def test_a_death_costs_what_was_not_saved(group: Group, age_us: int, is_missed: bool) -> None:
    group.kill(0, START_US + age_us)
    assert group.is_missed() is is_missed


def test_a_promotion_costs_what_its_slave_never_could_copy(group: Group) -> None:
    group.kill(0, DEATH_US)
    group.promote()
    assert not group.is_missed()


@pytest.mark.parametrize(("had", "is_missed"), [(1, False), (2, True)])
def test_a_promotion_does_not_cost_what_its_slave_had(group: Group, had: int, is_missed: bool) -> None:
    group.kill(0, START_US + MS)
    group.promote(had=had)
    assert group.is_missed() is is_missed


def test_a_promotion_that_failed_saves_nothing(group: Group) -> None:
    group.kill(0, START_US + MS)
    group.promote(had=2, is_done=False)
    assert not group.is_missed()


@pytest.mark.parametrize(("end_us", "is_missed"), [(COPIED_US, True), (COPIED_US - 1, False)])
@pytest.mark.parametrize("start_us", [-SECOND, 0])
def test_a_promotion_does_not_cost_what_its_slave_could_copy(
    group: Group, start_us: int, end_us: int, is_missed: bool
) -> None:
    group.follow(START_US + start_us, START_US + end_us)
    group.promote()
    assert group.is_missed() is is_missed


def test_spans_are_not_added_up(group: Group) -> None:
    for at_us in (0, 10 * SECOND):
        group.follow(START_US + at_us, START_US + at_us + COPIED_US - 1)
    group.promote()
    assert not group.is_missed()


def test_a_master_from_before_the_commit_lacks_the_offset(group: Group) -> None:
    group.commit(epoch=3)
    group.follow(START_US, START_US + COPIED_US, epoch=2)
    group.promote()
    assert not group.is_missed()


@pytest.mark.parametrize(("age_us", "is_missed"), [(0, False), (1, True)])
def test_a_slave_that_dies_before_its_save_loses_the_copied_offset(group: Group, age_us: int, is_missed: bool) -> None:
    group.follow(START_US, START_US + COPIED_US)
    group.kill(1, START_US + COPIED_US + OFFSETS_OLD_US + age_us)
    group.promote()
    assert group.is_missed() is is_missed


@pytest.mark.parametrize(("number", "is_missed"), [(0, False), (1, True)])
def test_offsets_committed_to_an_outdated_master_do_not_count(group: Group, number: int, is_missed: bool) -> None:
    group.promote()
    group.commit(number, time_us=LATER_US + 10 * SECOND, epoch=1 + number)
    assert group.is_missed() is is_missed
