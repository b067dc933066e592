"""Events happen in the order of their times, then of their creation; a paused or dead process holds them back."""

from __future__ import annotations

from tests.simulation.timeline import MS, START_MS, NodeClock, Process, Timeline


def test_order() -> None:
    timeline, seen = Timeline(), list[tuple[str, int]]()

    def see(name: str) -> None:
        seen.append((name, timeline.now_us))

    timeline.after(20, see, "c")
    timeline.after(10, see, "a")
    timeline.after(10, see, "b")
    timeline.after(15, see, "cancelled").cancel()
    timeline.after(31, see, "too late")
    timeline.run_until(30)
    assert seen == [("a", 10), ("b", 10), ("c", 20)]
    assert (timeline.now_us, timeline.event_count) == (30, 3)


def test_what_an_event_plans_happens_in_the_same_run() -> None:
    timeline, seen = Timeline(), list[int]()
    timeline.after(5, lambda: timeline.after(5, lambda: seen.append(timeline.now_us)))
    timeline.run_until(10)
    assert seen == [10]


def test_a_pause_holds_events_back_and_keeps_their_order() -> None:
    timeline, seen = Timeline(), list[str]()
    process = Process(timeline, "p", "h")
    process.after(10, seen.append, "a")
    process.after(20, seen.append, "b")
    process.pause()
    timeline.run_until(30)
    assert seen == []
    process.after(0, seen.append, "c")
    process.resume()
    timeline.run_until(30)
    assert seen == ["a", "b", "c"]


def test_no_event_runs_on_a_dead_machine() -> None:
    timeline, seen = Timeline(), list[str]()
    process = Process(timeline, "p", "h")
    process.after(10, seen.append, "a")
    process.pause()
    timeline.run_until(10)
    process.die()
    process.resume()
    timeline.run_until(20)
    assert seen == []


def test_a_clock_jumps_and_its_monotonic_time_does_not() -> None:
    timeline = Timeline()
    clock = NodeClock(timeline)
    timeline.run_until(7 * MS)
    clock.skew_ms -= 1000
    assert (clock.now_ms(), clock.monotonic_ms()) == (START_MS + 7 - 1000, 7)
    assert clock.local_time().timestamp() * 1000 == START_MS + 7 - 1000


def test_an_outside_event_runs_at_once_or_after_paused_events() -> None:
    timeline, seen = Timeline(), list[str]()
    process = Process(timeline, "p", "h")
    process.now(seen.append, "a")
    assert seen == ["a"]
    process.pause()
    process.now(seen.append, "b")
    process.resume()
    process.now(seen.append, "c")
    assert seen == ["a"]
    timeline.run_until(1)
    assert seen == ["a", "b", "c"]
    process.die()
    process.now(seen.append, "d")
    timeline.run_until(2)
    assert seen == ["a", "b", "c"]


def test_an_event_planned_for_now_runs_after_earlier_planned_ones() -> None:
    timeline, seen = Timeline(), list[str]()

    def first() -> None:
        seen.append("first")
        timeline.after(0, seen.append, "third")

    timeline.after(10, first)
    timeline.after(10, seen.append, "second")
    timeline.run_until(10)
    assert seen == ["first", "second", "third"]
