"""Families: state sets, and the series omitted over a limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pymq.metrics.family import MetricKind, Reading, bounded, counter, gauge, single, state_set


def test_kinds() -> None:
    assert gauge("a", "").kind is MetricKind.GAUGE
    assert counter("a", "", "x", unit="bytes").labels == ("x",)


def test_a_single_reading_has_no_label() -> None:
    assert list(single(gauge("a", ""), 3).readings) == [Reading((), 3)]


def test_a_state_set_is_one_for_the_current_state_only() -> None:
    metric = gauge("a", "", "state")
    assert [tuple(each or ())[:2] for each in state_set(metric, ("up", "down"), "down").readings] == [
        (("up",), 0.0),
        (("down",), 1.0),
    ]


def test_an_unknown_state_is_exposed_too() -> None:
    readings = state_set(gauge("a", "", "state"), ("up",), "odd").readings
    assert [each.labels for each in readings if each is not None and each.value] == [("odd",)]


@pytest.mark.parametrize(("count", "expected"), [(2, ([0, 1], 0)), (3, ([0, 1, 2], 0)), (4, ([0, 1, 2], 1))])
def test_the_first_items_within_the_limit_stay(count: int, expected: tuple[list[int], int]) -> None:
    assert bounded(range(count), 3) == expected


def test_items_over_the_limit_are_not_read() -> None:
    class Reluctant(dict[int, int]):
        """Fails when more than three of its keys are asked for."""

        def __iter__(self) -> Iterator[int]:
            for key in super().__iter__():
                assert key < 3
                yield key

    assert bounded(Reluctant({number: number for number in range(10_000)}), 3) == ([0, 1, 2], 9997)
