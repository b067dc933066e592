"""What counts as growth of a process, and from when on."""

from __future__ import annotations

import pytest

from tests.soak.growth import (
    DESCRIPTORS_MORE_MAX,
    FILLED_S,
    HOUR_S,
    OBJECTS_MORE_MAX,
    RSS_MORE_MAX_BYTES,
    TASKS_MORE_MAX,
    Growth,
    Held,
)

STEADY = Held(0.0, 60e6, 50, 80, 100_000)


def run_of(hours: float, *, end: Held = STEADY) -> list[Held]:
    """Return a sample a minute: growth in the first hour, then steady, and ``end`` in the last tenth."""
    samples = []
    for minute in range(int(60 * hours)):
        at_s = 60.0 * minute
        share = min(1.0, at_s / HOUR_S)
        held = end if minute >= 54 * hours else STEADY
        samples.append(Held(at_s, held.rss_bytes * share, held.descriptors, held.tasks, held.objects * share))
    return samples


def test_what_fills_in_the_first_hour_is_no_growth() -> None:
    growth = Growth.of(run_of(4))
    assert not growth.faults()
    assert growth.first.at_s >= FILLED_S and growth.last.at_s > 3 * HOUR_S
    assert "57.2 MiB, 50 descriptors, 80 tasks, 100,000 objects" in growth.lines()[0]


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("rss_bytes", STEADY.rss_bytes + RSS_MORE_MAX_BYTES),
        ("descriptors", STEADY.descriptors + DESCRIPTORS_MORE_MAX),
        ("tasks", STEADY.tasks + TASKS_MORE_MAX),
        ("objects", STEADY.objects * (1 + OBJECTS_MORE_MAX)),
    ],
)
def test_more_than_a_limit_at_the_end_is_growth(name: str, most: float) -> None:
    assert not Growth.of(run_of(4, end=STEADY._replace(**{name: most}))).faults()
    (fault,) = Growth.of(run_of(4, end=STEADY._replace(**{name: most * 1.001}))).faults()
    assert "grew from" in fault


def test_a_run_of_less_than_the_first_hour_compares_its_last_third() -> None:
    assert Growth.of(run_of(0.5)).first.at_s > 0.6 * 1800
    with pytest.raises(ValueError, match="4 samples are too few"):
        Growth.of(run_of(4)[:4])
