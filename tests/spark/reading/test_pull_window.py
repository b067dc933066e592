"""Every offset is delivered once and in order, for any sizes and order of the answers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.spark.reading.pull_window import PullWindow


def drain(window: PullWindow, answer: Any) -> list[tuple[int, int]]:
    """Run the window; ``answer(asks)`` picks one of the requests in flight and returns where its answer ends."""
    delivered = []
    flying = []
    while not window.done:
        while (ask := window.next_ask()) is not None:
            flying.append(ask)
        assert flying, "nothing in flight and not done"
        ask, next_offset = answer(flying)
        flying.remove(ask)
        delivered += [(s.start, s.end) for s in window.answered(ask, next_offset, b"x")]
    return delivered


def check_cover(delivered: Any, start: Any, stop: Any) -> None:
    assert delivered[0][0] == start and delivered[-1][1] == stop
    assert all(before[1] == after[0] for before, after in pairwise(delivered))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(1, 300), st.integers(1, 40), st.integers(1, 4), st.data())
def test_every_offset_once_in_order(start: Any, length: Any, count_max: int, depth: Any, data: Any) -> None:
    window = PullWindow(start, start + length, count_max=count_max, depth=depth)

    def answer(flying: Any) -> Any:
        ask = data.draw(st.sampled_from(flying))
        if data.draw(st.booleans()):
            window.give_back(ask)
            flying.remove(ask)
            while (again := window.next_ask()) is not None:
                flying.append(again)
            ask = data.draw(st.sampled_from(flying))
        return ask, data.draw(st.integers(ask.start + 1, ask.stop + 5))

    check_cover(drain(window, answer), start, start + length)


def test_a_server_cap_is_learned_and_two_pulls_overlap() -> None:
    window = PullWindow(0, 10_000, count_max=1024)
    asked = []

    def answer(flying: Any) -> Any:
        asked.append(len(flying))
        return flying[0], min(flying[0].stop, flying[0].start + 32)

    check_cover(drain(window, answer), 0, 10_000)
    assert asked[0] == 1 and asked.count(2) > len(asked) * 0.9
    assert len(asked) < 10_000 / 32 * 1.2


def test_a_lost_connection_asks_again() -> None:
    window = PullWindow(0, 100, count_max=10)
    first = window.next_ask()
    assert first is not None
    assert window.answered(first, 10, b"x") and window.next_ask() and window.next_ask()
    assert window.in_flight_count == 2
    window.give_back_all()
    assert window.in_flight_count == 0
    check_cover([(0, 10), *drain(window, lambda flying: (flying[-1], flying[-1].stop))], 0, 100)


def test_an_empty_range_is_done() -> None:
    window = PullWindow(5, 5)
    assert window.done and window.next_ask() is None
