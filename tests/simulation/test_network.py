"""The simulated network keeps TCP's promise, and breaks it no further than a real one does."""

from __future__ import annotations

import random

import pytest

from pymq.wire.streams import Stream
from tests.simulation.network import LOW_WATER_BYTES, WINDOW_BYTES, Link, SimNetwork
from tests.simulation.timeline import SECOND, Process, Timeline

ADDRESS = "10.0.0.2:80"


class End:
    """Records its calls."""

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.got = b""
        self.pieces = 0
        self.ends: list[str] = []
        self.writable_count = 0

    def opened(self, stream: Stream) -> None:
        self.stream = stream

    def received(self, data: bytes) -> None:
        self.got += data
        self.pieces += 1

    def writable(self) -> None:
        self.writable_count += 1

    def closed(self, why: str) -> None:
        self.ends.append(why)


class Pair:
    """Two processes with a connection."""

    def __init__(self, link: Link | None = None, *, is_connected: bool = True) -> None:
        self.timeline = Timeline()
        self.network = SimNetwork(self.timeline, random.Random(5))
        self.network.link = link or Link()
        self.near_process = Process(self.timeline, "near", "10.0.0.1")
        self.far_process = Process(self.timeline, "far", "10.0.0.2")
        self.near, self.far = End(), End()
        self.network.listen(self.far_process, ADDRESS, lambda address: self.far)
        if is_connected:
            self.network.connect(self.near_process, ADDRESS, self.near)
            self.wait()

    def wait(self, duration_us: int = SECOND) -> None:
        self.timeline.run_until(self.timeline.now_us + duration_us)

    def write(self, data: bytes) -> None:
        assert self.near.stream is not None
        self.near.stream.write(data)

    def answer(self, data: bytes) -> None:
        assert self.far.stream is not None
        self.far.stream.write(data)

    def cut(self, *directions: tuple[str, str]) -> set[tuple[str, str]]:
        self.network.cuts |= set(directions)
        return set(directions)


HERE_TO_THERE, THERE_TO_HERE = ("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")


def test_bytes_arrive_in_order_and_once_for_any_chunking() -> None:
    pair = Pair(Link(100, 5000, 0.9))
    data = random.Random(1).randbytes(50_000)
    for at in range(0, len(data), 777):
        pair.write(data[at : at + 777])
        pair.wait(500)
    pair.wait(100 * SECOND)
    assert pair.far.got == data
    assert pair.far.pieces > 5


def test_a_window_bounds_unsent_bytes_and_reports_room() -> None:
    pair = Pair()
    pair.far_process.pause()
    pair.write(bytes(3 * WINDOW_BYTES))
    assert pair.near.stream is not None
    pair.near.stream.want_writable()
    pair.wait()
    assert pair.near.stream.unsent_bytes == 2 * WINDOW_BYTES > LOW_WATER_BYTES
    assert (pair.far.got, pair.near.writable_count) == (b"", 0)
    pair.far_process.resume()
    pair.wait()
    assert len(pair.far.got) == 3 * WINDOW_BYTES
    assert (pair.near.stream.unsent_bytes, pair.near.writable_count) == (0, 1)


def test_want_writable_with_nothing_unsent_comes_later_and_once() -> None:
    pair = Pair()
    assert pair.near.stream is not None
    pair.near.stream.want_writable()
    assert pair.near.writable_count == 0
    pair.wait()
    assert pair.near.writable_count == 1


def test_a_connection_without_a_listener_is_refused() -> None:
    pair = Pair(is_connected=False)
    pair.network.stop_listening(ADDRESS)
    pair.network.connect(pair.near_process, ADDRESS, pair.near)
    pair.wait()
    assert pair.near.ends == [f"no connection to {ADDRESS}: refused"]


def test_a_machine_without_power_does_not_even_refuse() -> None:
    pair = Pair(is_connected=False)
    pair.network.hosts_down.add("10.0.0.2")
    pair.network.connect(pair.near_process, ADDRESS, pair.near)
    pair.wait()
    assert pair.near.ends == []
    pair.wait(3 * SECOND)
    assert pair.near.ends == [f"no connection to {ADDRESS}: timed out"]


def test_what_was_written_before_a_close_arrives_before_it() -> None:
    pair = Pair()
    pair.write(b"last words")
    assert pair.near.stream is not None
    pair.near.stream.close()
    pair.wait()
    assert (pair.far.got, pair.far.ends, pair.near.ends) == (b"last words", ["closed by the peer"], ["closed here"])


def test_a_partition_holds_bytes_until_it_heals() -> None:
    pair = Pair()
    cut = pair.cut(HERE_TO_THERE, THERE_TO_HERE)
    pair.write(b"late")
    pair.wait(30 * SECOND)
    assert (pair.far.got, pair.far.ends) == (b"", [])
    pair.network.heal(cut)
    pair.wait()
    assert pair.far.got == b"late"


def test_a_one_way_partition_holds_one_direction() -> None:
    pair = Pair()
    pair.cut(HERE_TO_THERE)
    pair.write(b"held")
    pair.answer(b"comes")
    pair.wait()
    assert (pair.far.got, pair.near.got) == (b"", b"comes")


def test_what_is_under_way_when_a_connection_breaks_never_arrives() -> None:
    pair = Pair(Link(1000, 0, 0.0))
    pair.write(b"lost")
    for stream in list(pair.network.streams):
        stream.break_now("broken")
    pair.wait()
    assert (pair.far.got, pair.near.ends, pair.far.ends) == (b"", ["broken"], ["broken"])


def test_nothing_of_a_dead_connection_arrives_after_a_partition() -> None:
    pair = Pair()
    cut = pair.cut(HERE_TO_THERE, THERE_TO_HERE)
    pair.write(b"lost")
    pair.wait()
    for stream in list(pair.network.streams):
        stream.break_now("broken")
    pair.wait()
    pair.network.heal(cut)
    pair.wait()
    assert pair.far.got == b""


def test_the_kernel_of_a_killed_process_tells_its_peers() -> None:
    pair = Pair()
    pair.write(b"said before")
    pair.network.process_died(pair.near_process, with_power=False)
    pair.near_process.die()
    pair.wait()
    assert (pair.far.got, pair.far.ends) == (b"said before", ["closed by the peer"])


def test_a_machine_without_power_is_silent_until_it_is_back() -> None:
    pair = Pair()
    pair.network.hosts_down.add("10.0.0.2")
    pair.network.process_died(pair.far_process, with_power=True)
    pair.far_process.die()
    pair.write(b"?")
    pair.wait(60 * SECOND)
    assert pair.near.ends == []
    pair.network.hosts_down.clear()
    pair.write(b"?")
    pair.wait()
    assert pair.near.ends == ["reset by the peer"]


def test_half_open_connections_swallow_everything() -> None:
    pair = Pair()
    for stream in pair.network.streams:
        stream.is_half_open = True
    pair.write(b"?")
    pair.answer(b"!")
    pair.wait(60 * SECOND)
    assert (pair.far.got, pair.near.got, pair.near.ends, pair.far.ends) == (b"", b"", [], [])


def test_a_paused_process_gets_everything_when_it_goes_on() -> None:
    pair = Pair()
    pair.far_process.pause()
    pair.write(b"a")
    pair.wait()
    pair.write(b"b")
    pair.wait()
    assert pair.far.got == b""
    pair.far_process.resume()
    pair.wait()
    assert pair.far.got == b"ab"


@pytest.mark.parametrize("is_far", [False, True])
def test_a_dead_process_gets_nothing(is_far: bool) -> None:
    pair = Pair()
    process, end = (pair.far_process, pair.far) if is_far else (pair.near_process, pair.near)
    pair.write(b"x")
    pair.answer(b"y")
    pair.network.process_died(process, with_power=False)
    process.die()
    pair.wait()
    assert (end.got, end.ends) == (b"", [])
