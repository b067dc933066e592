"""A slave keeps following a master's log that has damaged places, or records with unexpected queue offsets."""

from __future__ import annotations

import random

import pytest

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, NotFoundError
from pymq.model.draft import Draft
from pymq.model.layout import PLACEHOLDER_CODE
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica import follower as following
from pymq.store.replica.follower import UNCHECKED_AGE_MS_MAX, Follower
from pymq.store.scan.scanner import find_later_record
from pymq.store.store import MessageStore, Placed
from tests.store.support import BORN, bodies, die, everything, found_by_key, make_store, put, read_all

COUNT = 60


@pytest.fixture(params=[0, 1 << 30], ids=["bulk", "plain"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "BULK_BYTES_MIN", request.param)


def opened(files: MemoryFiles | None = None) -> MessageStore:
    store = make_store(files or MemoryFiles())
    store.open()
    return store


def log_of(count: int) -> tuple[bytearray, list[Placed]]:
    """Return a master's log of two queues, and the places of its messages."""
    master = opened()
    places = [put(master, "T", number % 2, body, keys=f"k{number}") for number, body in enumerate(bodies(count))]
    log = bytearray()
    while len(log) < master.physical_max_offset:
        log += master.read_log(len(log), 1 << 20)
    return log, places


def grow(follower: Follower, log: bytearray, size: int = 1000) -> None:
    while follower.end < len(log):
        follower.append(follower.end, bytes(log[follower.end : follower.end + size]))
        follower.dispatch()


def served(store: MessageStore) -> list[bytes]:
    return sorted(message.body for q in (0, 1) for message in read_all(store, "T", q))


def without(*numbers: int, count: int = COUNT) -> list[bytes]:
    return sorted(body for number, body in enumerate(bodies(count)) if number not in numbers)


@pytest.mark.parametrize("at", [0, 3, 4, 31, 84, 87])
def test_one_flipped_bit_costs_one_message(at: int) -> None:
    """The bit is in the size, magic, physical offset or body length."""
    log, places = log_of(COUNT)
    place = places[20]
    log[place.physical_offset + at] ^= 0x10
    slave = opened()
    follower = slave.follow()
    grow(follower, log, 77)
    assert follower.dispatched_end == len(log)
    assert served(slave) == without(20)
    assert list(follower.damaged) == [(place.physical_offset, place.physical_offset + place.size_bytes)]
    assert any(f"{place.physical_offset}" in problem for problem in slave.problems)
    assert slave.max_offset("T", 0) == COUNT // 2  # its offset stays taken
    assert found_by_key(slave, "T", "k21") == [b"body-21"]
    slave.close()
    again = make_store(slave._files)
    assert again.open().clean
    assert served(again) == without(20)


def test_a_damaged_size_that_the_lengths_disprove_delays_nothing() -> None:
    """A record with a size of thousands of bytes is found to be damaged as soon as the bytes behind it are there."""
    log, places = log_of(COUNT)
    log[places[20].physical_offset + 2] ^= 0x08  # 2048 bytes more
    slave = opened()
    follower = slave.follow()
    grow(follower, log[: places[22].physical_offset], 50)
    assert served(slave) == without(20, count=22)


@pytest.mark.parametrize(
    "age_ms", [UNCHECKED_AGE_MS_MAX - 1, UNCHECKED_AGE_MS_MAX, 1 - UNCHECKED_AGE_MS_MAX, -UNCHECKED_AGE_MS_MAX]
)
def test_the_body_of_an_old_record_is_compared_with_its_checksum(age_ms: int) -> None:
    """So is the body of a record from the future: when a clock is wrong, the age is unknown."""
    log, places = log_of(COUNT)
    log[places[20].physical_offset + 90] ^= 1
    clock = ManualClock()
    slave = make_store(MemoryFiles(), clock)
    slave.open()
    follower = slave.follow()
    grow(follower, log[: places[2].physical_offset])
    clock.set_wall(clock.now_ms() + age_ms)
    grow(follower, log)
    assert (served(slave) == without(20)) == (abs(age_ms) == UNCHECKED_AGE_MS_MAX)
    assert slave.max_offset("T", 0) == COUNT // 2


def test_damage_at_the_end_waits_for_a_record_behind_it() -> None:
    log, places = log_of(COUNT)
    end = places[20].physical_offset
    log[end + 4] ^= 1
    slave = opened()
    follower = slave.follow()
    grow(follower, log[: places[21].physical_offset + 40], 10)
    assert follower.dispatched_end == end
    assert any(f"no record at offset {end}" in problem for problem in slave.problems)
    grow(follower, log, 10)
    assert served(slave) == without(20)
    assert not any("no record at" in problem for problem in slave.problems)


def test_a_long_damaged_place_is_not_searched_with_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_SEARCH_BYTES", 100)
    searched: list[int] = []
    real = find_later_record
    monkeypatch.setattr(following, "find_later_record", lambda log, at, ms: searched.append(at) or real(log, at, ms))
    slave = opened()
    follower = slave.follow()
    grow(follower, bytearray(b"garbage." * 400), 8)
    assert follower.dispatched_end == 0
    assert 10 < len(searched) < 60  # instead of 400


def test_a_segment_of_garbage_is_passed() -> None:
    log, places = log_of(150)
    lost = [number for number, place in enumerate(places) if 4096 <= place.physical_offset < 8192]
    log[4096:8192] = random.Random(1).randbytes(4096)
    slave = opened()
    follower = slave.follow()
    grow(follower, log, 333)
    assert served(slave) == without(*lost, count=150)
    assert list(follower.damaged) == [(4096, 8192)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_behind_damage_continues(clean: bool) -> None:
    log, places = log_of(COUNT)
    log[places[20].physical_offset + 4] ^= 1
    files = MemoryFiles()
    for end in (places[20].physical_offset + 30, places[21].physical_offset + 9, places[40].physical_offset, len(log)):
        slave = opened(files)
        grow(slave.follow(), log[:end], 50)
        slave.tick()
        slave.close() if clean else die(slave)
    slave = opened(files)
    grow(slave.follow(), log)
    assert served(slave) == without(20)
    assert slave.physical_max_offset == len(log)


def test_blocks_with_damage_have_no_digest_and_good_records_in_them_are_served() -> None:
    log, places = log_of(COUNT)
    place = places[20]
    log[place.physical_offset + 4] ^= 1
    slave = opened()
    follower = slave.follow()
    grow(follower, log)
    slave.tick()
    with pytest.raises(CorruptRecordError):
        slave.record_at(place.physical_offset)
    assert served(slave) == without(20)
    with pytest.raises(NotFoundError):
        slave.record_at(len(log))


# -- records with unexpected queue offsets --------------------------------------------------------------------------


def test_a_queue_that_restarts_on_the_master_restarts_on_the_slave() -> None:
    """The master's topic was deleted and created again, and the slave did not hear of it."""
    master = opened()
    for body in bodies(30):
        put(master, "T", 0, body)
        put(master, "Other", 0, body)
    master.delete_topics("T")
    put(master, "T", 0, b"first")
    slave = opened()
    follower = slave.follow()
    heard: list[tuple[str, int, int]] = []
    slave.add_arrival_listener(lambda queue, units: heard.append((queue.topic, queue.max_offset, len(units) // 20)))
    copy(follower, master)
    assert slave.max_offset("T", 0) == 30  # it may be damage
    heard.clear()
    put(master, "T", 0, b"second")
    copy(follower, master)
    assert everything(slave) == everything(master)
    assert heard == [("T", 2, 2)]
    assert not slave.problems


def test_a_queue_that_restarted_before_a_broker_restart_is_found_by_any_two_messages() -> None:
    master = opened()
    for body in bodies(30):
        put(master, "T", 0, body)
    master.delete_topics("T")
    put(master, "T", 0, b"first")
    files = MemoryFiles()
    slave = opened(files)
    copy(slave.follow(), master)
    slave.close()
    slave = opened(files)
    follower = slave.follow()
    for body in (b"second", b"third", b"fourth"):
        put(master, "T", 0, body)
        copy(follower, master)
    assert slave.max_offset("T", 0) == 4
    assert [message.body for message in read_all(slave, "T", 0)] == [b"second", b"third", b"fourth"]


def test_an_offset_jump_is_believed_when_the_next_record_follows_it() -> None:
    slave = opened()
    follower = slave.follow()
    copy(follower, with_offsets([0, 1, 7]))
    assert slave.max_offset("T", 0) == 2
    copy(follower, with_offsets([0, 1, 7, 8]))
    assert slave.max_offset("T", 0) == 9
    assert [message.queue_offset for message in read_all(slave, "T", 0)] == [0, 1, 7, 8]
    queue = slave._queues.get("T", 0)
    assert queue is not None
    assert [queue.unit(n)[2] for n in range(2, 7)] == [PLACEHOLDER_CODE] * 5


def test_one_odd_offset_is_skipped() -> None:
    slave = opened()
    follower = slave.follow()
    copy(follower, with_offsets([0, 1, 900, 2, 3, 0, 4]))
    assert slave.max_offset("T", 0) == 5
    assert [message.queue_offset for message in read_all(slave, "T", 0)] == [0, 1, 2, 3, 4]


def with_offsets(queue_offsets: list[int]) -> MessageStore:
    """Return a master's log whose records have these queue offsets."""
    master = opened()
    master.stage("T", 0, Draft(b"", b"", 1, BORN))
    master._appender.drop_staged()
    queue = master._queues.get("T", 0)
    assert queue is not None
    for queue_offset in queue_offsets:
        queue.next_offset = queue_offset
        put(master, "T", 0, b"x")
    return master


def copy(follower: Follower, master: MessageStore) -> None:
    while follower.end < master.physical_max_offset:
        follower.append(follower.end, master.read_log(follower.end, 1 << 20))
    follower.dispatch()
