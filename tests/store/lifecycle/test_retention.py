"""Retention policy: what is deleted by age, hour and disk space; oldest first, never the last, no more than needed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.store.lifecycle.retention import HOUR_MS, Decision, DiskFacts, Reason, RetentionSettings, SegmentFacts, decide

NOW_MS = 1_700_000_000_000
SIZE = 100
OFF = RetentionSettings(reserved_hours=72, used_percent=0, forced_percent=0, refused_percent=0)
ROOMY = DiskFacts("/data", 10_000, 9_000)
WIDE = DiskFacts("/data", 20_000, 9_000)


def segments(*ages_hours: float) -> list[SegmentFacts]:
    """Return a segment of SIZE bytes for each age."""
    return [SegmentFacts(i * SIZE, SIZE, NOW_MS - round(age * HOUR_MS)) for i, age in enumerate(ages_hours)]


def run(
    facts: list[SegmentFacts],
    settings: RetentionSettings = OFF,
    *,
    hour: int = 4,
    disk: DiskFacts = ROOMY,
    is_manual: bool = False,
) -> Decision:
    log_bytes = sum(segment.size_bytes for segment in facts)
    return decide(facts, log_bytes, [disk, disk], NOW_MS, hour, settings, is_manual=is_manual)


def count(decision: Decision) -> int:
    return len(decision.doomed)


@pytest.mark.parametrize(
    ("ages", "hour", "expected"),
    [
        ((), 4, 0),
        ((100,), 4, 0),  # the last one stays at any age
        ((100, 100), 4, 1),
        ((72, 0), 4, 1),  # exactly old enough
        ((72 - 1 / HOUR_MS, 0), 4, 0),  # a millisecond too young
        ((100, 80, 71, 100, 0), 4, 2),  # stops at the first younger one
        ((100, 100), 3, 0),  # not the hour
        ((-5, 0), 4, 0),  # the clock was set back
    ],
)
def test_age_at_the_hour(ages: tuple[float, ...], hour: int, expected: int) -> None:
    decision = run(segments(*ages), hour=hour)
    assert [doomed.start for doomed in decision.doomed] == [i * SIZE for i in range(expected)]
    assert all(doomed.reason is Reason.AGE for doomed in decision.doomed)


def test_several_hours_of_the_day() -> None:
    settings = dataclasses.replace(OFF, delete_hours=frozenset({4, 16}))
    assert [hour for hour in range(24) if count(run(segments(100, 0), settings, hour=hour))] == [4, 16]


def test_a_manual_pass_ignores_the_hour_but_not_the_age() -> None:
    assert count(run(segments(100, 0), hour=9, is_manual=True)) == 1
    assert count(run(segments(50, 0), hour=9, is_manual=True)) == 0


@pytest.mark.parametrize(("free", "expected"), [(251, 0), (250, 0), (249, 1)])
def test_a_full_disk_ignores_the_hour(free: int, expected: int) -> None:
    settings = dataclasses.replace(OFF, used_percent=75)
    assert count(run(segments(100, 50, 0), settings, hour=9, disk=DiskFacts("/data", 1000, free))) == expected


@pytest.mark.parametrize(
    ("free", "expected"),
    [(1500, 0), (1499, 1), (1400, 1), (1399, 2), (0, 4)],  # 85 % of 10,000 leave 1,500; a segment gives 100 back
)
def test_a_full_disk_deletes_young_segments_but_no_more_than_needed(free: int, expected: int) -> None:
    settings = dataclasses.replace(OFF, forced_percent=85)
    decision = run(segments(*[1] * 5), settings, hour=9, disk=DiskFacts("/data", 10_000, free))
    assert [doomed.reason for doomed in decision.doomed] == [Reason.DISK_USED] * expected
    unforced = dataclasses.replace(settings, may_force=False)
    assert count(run(segments(*[1] * 5), unforced, hour=9, disk=DiskFacts("/data", 10_000, free))) == 0


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (500, 0), (499, 1), (400, 1), (399, 2), (1, 4)])
def test_a_log_larger_than_its_limit(limit: int, expected: int) -> None:
    settings = dataclasses.replace(OFF, log_bytes_max=limit)
    decision = run(segments(*[0] * 5), settings, hour=9)
    assert [doomed.reason for doomed in decision.doomed] == [Reason.LOG_SIZE] * expected


@pytest.mark.parametrize(("floor", "expected"), [(0, 0), (9000, 0), (9001, 1), (9100, 1), (9101, 2), (99_999, 4)])
def test_a_floor_of_free_bytes(floor: int, expected: int) -> None:
    decision = run(segments(*[0] * 5), dataclasses.replace(OFF, free_bytes_min=floor), hour=9, disk=WIDE)
    assert [doomed.reason for doomed in decision.doomed] == [Reason.FREE_BYTES] * expected
    assert decision.refusal is None  # deleting makes room


def test_space_freed_by_age_counts() -> None:
    settings = dataclasses.replace(OFF, free_bytes_min=9150)
    decision = run(segments(100, 1, 1, 1), settings, disk=WIDE)
    assert [doomed.reason for doomed in decision.doomed] == [Reason.AGE, Reason.FREE_BYTES]


@pytest.mark.parametrize(("batch", "expected"), [(1, 1), (3, 3), (5, 4)])
def test_a_pass_deletes_a_batch_at_most(batch: int, expected: int) -> None:
    assert count(run(segments(*[100] * 5), dataclasses.replace(OFF, batch_count=batch))) == expected


@pytest.mark.parametrize(("free", "refused"), [(101, False), (100, False), (99, True), (0, True)])
def test_writes_are_refused_on_a_disk_over_the_warning_level(free: int, refused: bool) -> None:
    settings = dataclasses.replace(OFF, refused_percent=90)
    decision = run(segments(0), settings, disk=DiskFacts("/data", 1000, free))
    assert (decision.refusal is not None) is refused
    if decision.refusal is not None:
        for part in ("/data", f"{(1000 - free) / 10} % full", f"{free} B free of 1000 B", "=90", "make room"):
            assert part in decision.refusal


def test_the_other_disk_counts_too() -> None:
    settings = dataclasses.replace(OFF, refused_percent=90)
    decision = decide([], 0, [ROOMY, DiskFacts("/queues", 100, 5)], NOW_MS, 0, settings)
    assert decision.refusal is not None and "/queues" in decision.refusal


def test_below_the_floor_with_nothing_left_to_delete_writes_are_refused() -> None:
    settings = dataclasses.replace(OFF, free_bytes_min=9001)
    assert run(segments(0, 0), settings, disk=WIDE).refusal is None
    refusal = run(segments(0), settings, disk=WIDE).refusal
    assert refusal is not None and "diskFreeBytesMin=9001" in refusal and "8.8 KB free" in refusal


@pytest.mark.parametrize(
    ("given", "kept"),
    [((1, 1, 1), (10, 30, 35)), ((100, 100, 100), (95, 85, 90)), ((0, 0, 0), (0, 0, 0)), ((75, 85, 90), (75, 85, 90))],
)
def test_levels_stay_within_the_bounds_of_rocketmq(given: tuple[int, int, int], kept: tuple[int, int, int]) -> None:
    used, forced, refused = given
    settings = RetentionSettings(used_percent=used, forced_percent=forced, refused_percent=refused)
    assert (settings.used_percent, settings.forced_percent, settings.refused_percent) == kept


def test_a_disk_of_unknown_size_limits_nothing() -> None:
    settings = RetentionSettings()
    decision = run(segments(0, 0), settings, hour=9, disk=DiskFacts("/data", 0, 0))
    assert decision == Decision((), None)


percents = st.integers(0, 100)


@given(
    ages=st.lists(st.floats(-10, 200), max_size=14),
    sizes=st.lists(st.integers(0, 1000), min_size=14, max_size=14),
    total=st.integers(0, 20_000),
    free_share=st.floats(0, 1),
    hour=st.integers(0, 23),
    is_manual=st.booleans(),
    settings=st.builds(
        RetentionSettings,
        reserved_hours=st.integers(0, 150),
        delete_hours=st.frozensets(st.integers(0, 23)),
        used_percent=percents,
        forced_percent=percents,
        refused_percent=percents,
        may_force=st.booleans(),
        batch_count=st.integers(1, 12),
        log_bytes_max=st.integers(0, 10_000),
        free_bytes_min=st.integers(0, 20_000),
    ),
)
def test_decisions_hold_their_rules_for_any_facts(
    ages: list[float],
    sizes: list[int],
    total: int,
    free_share: float,
    hour: int,
    is_manual: bool,
    settings: RetentionSettings,
) -> None:
    facts = [
        SegmentFacts(i * 1000, size, NOW_MS - round(age * HOUR_MS))
        for i, (age, size) in enumerate(zip(ages, sizes, strict=False))
    ]
    disk = DiskFacts("/data", total, round(total * free_share))
    log_bytes = sum(segment.size_bytes for segment in facts)
    doomed = decide(facts, log_bytes, [disk], NOW_MS, hour, settings, is_manual=is_manual).doomed
    # The oldest ones without a hole, never the last, never more than a batch.
    assert [one.start for one in doomed] == [segment.start for segment in facts[: len(doomed)]]
    assert len(doomed) <= min(settings.batch_count, max(0, len(facts) - 1))
    freed = 0
    for one, segment in zip(doomed, facts, strict=False):
        now = disk._replace(free_bytes=disk.free_bytes + freed)
        is_young = NOW_MS - segment.modified_ms < settings.reserved_hours * HOUR_MS
        allowed = {
            Reason.AGE: not is_young
            and (is_manual or hour in settings.delete_hours or disk.is_over(settings.used_percent)),
            Reason.LOG_SIZE: 0 < settings.log_bytes_max < log_bytes - freed,
            Reason.FREE_BYTES: now.free_bytes < settings.free_bytes_min,
            Reason.DISK_USED: settings.may_force and now.is_over(settings.forced_percent),
        }
        assert allowed[one.reason]
        freed += segment.size_bytes


def test_free_bytes_count_up_to_half_of_the_disk() -> None:
    settings = dataclasses.replace(OFF, free_bytes_min=10**15)
    half = DiskFacts("/data", 10_000, 5_000)
    assert count(run(segments(1, 1, 1), settings, disk=half)) == 0
    assert count(run(segments(1, 1, 1), settings, disk=half._replace(free_bytes=4_999))) == 1
    assert run(segments(1), settings, disk=half).refusal is None
