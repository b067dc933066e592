"""Writer: no answer before its commit, all or nothing in a turn, refusals in the answers' place."""

from __future__ import annotations

import errno

import pytest

from pymq.errors import StoreUnavailableError
from pymq.model.properties import encode_properties
from pymq.model.tables import TopicConfig
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_RESPONSE, SERIALIZE_ROCKETMQ, Command, encode_command
from tests.broker.disk import Threads, failing
from tests.broker.world import BORN_HOST, FakePeer, World

LOG = "/commitlog/"


@pytest.fixture
def world() -> World:
    return opened()


def opened(**settings: str) -> World:
    world = World(**settings)
    world.parts.topics.put([TopicConfig(topic_name="T")])
    return world


def stage(world: World, body: bytes = b"x", **properties: str) -> int:
    """Stages a message in queue 0 of T; its queue offset."""
    raw = encode_properties(properties)
    return world.parts.writer.put("T", 0, body, raw, born_timestamp_ms=1, born_host=BORN_HOST).queue_offset


def answer(opaque: int, serialize: int = 0) -> bytes:
    return encode_command(Command(0, opaque=opaque, flag=FLAG_RESPONSE, ext={"msgId": "A"}, serialize=serialize))


def bodies(world: World) -> list[bytes]:
    return [message.body for message in world.messages("T")]


# -- the turn ----------------------------------------------------------------------------------------------------


def test_answers_leave_with_the_commit_in_their_order(world: World) -> None:
    first, second = FakePeer(), FakePeer()
    for opaque, peer in ((1, first), (2, second), (3, first)):
        stage(world, b"%d" % opaque)
        world.parts.writer.hold(peer, answer(opaque))
    assert bodies(world) == [] and first.frames == second.frames == []
    world.parts.writer.commit()
    assert bodies(world) == [b"1", b"2", b"3"]
    assert [frame.opaque for frame in first.frames] == [1, 3]
    assert [frame.opaque for frame in second.frames] == [2]


def test_records_are_in_the_file_when_answers_leave(world: World) -> None:
    log = "/data/commitlog/00000000000000000000"

    class Watcher(FakePeer):
        def write_all(self, frames: list[bytes]) -> None:
            assert b"a body to look for" in world.files.nodes[log].data
            super().write_all(frames)

    peer = Watcher()
    stage(world, b"a body to look for")
    world.parts.writer.hold(peer, answer(1))
    assert log not in world.files.nodes
    world.parts.writer.commit()
    assert len(peer.frames) == 1


def test_a_turn_without_messages_writes_nothing(world: World) -> None:
    with failing(world, "pwrite", "/"):
        world.parts.writer.commit()
    stage(world)
    world.parts.writer.commit()
    with failing(world, "pwrite", "/"):
        world.parts.writer.commit()
    assert world.parts.writer.failed_commit_count == 0


def test_a_batch_has_consecutive_offsets(world: World) -> None:
    entries = [(n, b"%d" % n, b"") for n in range(5)]
    stage(world, b"before")
    placed = world.parts.writer.put_batch("T", 0, entries, sys_flag=0, born_timestamp_ms=1, born_host=BORN_HOST)
    assert [place.queue_offset for place in placed] == [1, 2, 3, 4, 5]
    ends = [place.physical_offset + place.size_bytes for place in placed]
    assert [place.physical_offset for place in placed[1:]] == ends[:-1]
    world.parts.writer.commit()
    assert [message.flag for message in world.messages("T")][1:] == [0, 1, 2, 3, 4]


# -- failing commits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "number", "text"),
    [
        ("pwrite", errno.ENOSPC, "No space left on device (errno 28)"),
        ("pwrite", errno.EFBIG, "File too large (errno 27)"),
        ("open", errno.EMFILE, "Too many open files (errno 24)"),
    ],
)
def test_a_failed_commit_refuses_every_held_answer_and_stores_nothing(
    world: World, call: str, number: int, text: str
) -> None:
    peers = [FakePeer(), FakePeer()]
    writer = world.parts.writer
    for opaque, peer, serialize in ((1, peers[0], 0), (-2, peers[0], SERIALIZE_ROCKETMQ), (3, peers[1], 0)):
        assert stage(world, KEYS="k") == len(writer.held.get(peers[0], [])) + len(writer.held.get(peers[1], []))
        writer.hold(peer, answer(opaque, serialize))
    with failing(world, call, LOG, number):
        writer.commit()
    told = peers[0].frames + peers[1].frames
    assert [(frame.opaque, frame.serialize, frame.code) for frame in told] == [
        (1, 0, ResponseCode.SERVICE_NOT_AVAILABLE),
        (-2, SERIALIZE_ROCKETMQ, ResponseCode.SERVICE_NOT_AVAILABLE),
        (3, 0, ResponseCode.SERVICE_NOT_AVAILABLE),
    ]
    for frame in told:
        assert frame.is_response and not frame.ext
        remark = frame.remark or ""
        assert "/data/commitlog" in remark and text in remark and "free there" in remark and "next send" in remark
    assert writer.failed_commit_count == 1
    assert bodies(world) == [] and world.parts.store.max_offset("T", 0) == 0
    assert world.parts.store.physical_max_offset == 0


def test_the_next_commit_works_and_offsets_are_given_again(world: World) -> None:
    writer = world.parts.writer
    stage(world, b"kept", KEYS="kept")
    writer.commit()
    end = world.parts.store.physical_max_offset
    with failing(world, "pwrite", LOG):
        for _ in range(2):
            assert stage(world, b"lost", KEYS="lost") == 1
            writer.commit()
    peer = FakePeer()
    assert stage(world, b"next", KEYS="next") == 1
    writer.hold(peer, answer(9))
    writer.commit()
    assert [(frame.opaque, frame.code) for frame in peer.frames] == [(9, 0)]
    assert bodies(world) == [b"kept", b"next"]
    assert world.messages("T")[1].physical_offset == end
    world.parts.store.tick()
    found = {key: len(world.parts.store.find_by_key("T", key, 10)) for key in ("kept", "lost", "next")}
    assert found == {"kept": 1, "lost": 0, "next": 1}
    assert bodies(world.reopened()) == [b"kept", b"next"]


def test_a_failure_in_the_middle_of_a_write_leaves_no_remains(world: World) -> None:
    """The disk takes a part of the turn before it is full: a power loss later must not bring that part back."""
    writer = world.parts.writer
    for number in range(3):
        stage(world, b"old-%d" % number)
    writer.commit()
    log = world.files.nodes["/data/commitlog/00000000000000000000"]
    end = world.parts.store.physical_max_offset

    def partial(call: str, path: str) -> None:
        if call == "pwrite" and LOG in path:
            log.data[end : end + 50] = b"\x01" * 50
            raise OSError(errno.ENOSPC, "No space left on device", path)

    world.files.fault = partial
    stage(world, b"lost")
    writer.commit()
    world.files.fault = None
    assert not any(log.data[end:])
    stage(world, b"new")
    writer.commit()
    assert bodies(World(world.files.after_kill(), world.clock)) == [b"old-0", b"old-1", b"old-2", b"new"]


def test_a_full_disk_wakes_nobody(world: World) -> None:
    arrivals: list[int] = []
    world.parts.store.add_arrival_listener(lambda topic, queue_id, end, units: arrivals.append(end))
    with failing(world, "pwrite", LOG):
        stage(world)
        world.parts.writer.commit()
    assert arrivals == []
    stage(world)
    world.parts.writer.commit()
    assert arrivals == [1]


# -- SYNC_FLUSH --------------------------------------------------------------------------------------------------


@pytest.fixture
def synced() -> tuple[World, Threads]:
    world = opened(flushDiskType="SYNC_FLUSH")
    return world, Threads.of(world)


def commit_one(world: World, opaque: int) -> FakePeer:
    peer = FakePeer()
    stage(world, b"%d" % opaque)
    world.parts.writer.hold(peer, answer(opaque))
    world.parts.writer.commit()
    return peer


def test_answers_wait_for_the_sync_and_share_one(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    first = commit_one(world, 1)
    assert len(threads.waiting) == 1
    second, third = commit_one(world, 2), commit_one(world, 3)
    assert len(threads.waiting) == 1, "one sync at a time"
    assert first.frames == second.frames == third.frames == []
    threads.run_one()
    assert [len(peer.frames) for peer in (first, second, third)] == [1, 1, 1]
    assert threads.after_count == 1
    log = world.files.nodes["/data/commitlog/00000000000000000000"]
    assert log.synced is not None and log.synced == log.data


def test_what_was_committed_during_a_sync_waits_for_the_next(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    first = commit_one(world, 1)
    late: list[FakePeer] = []
    threads.run_one(between=lambda: late.append(commit_one(world, 2)))
    assert [frame.code for frame in first.frames] == [0] and late[0].frames == []
    assert world.parts.writer.is_awaiting_sync and len(threads.waiting) == 1
    threads.run_one()
    assert [frame.code for frame in late[0].frames] == [0]
    assert threads.waiting == [] and not world.parts.writer.is_awaiting_sync


def test_a_failed_sync_refuses_what_waits_and_makes_the_store_read_only(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    commit_one(world, 1)
    threads.run_one()
    waiting = [commit_one(world, 2), commit_one(world, 3)]
    with failing(world, "sync", LOG, errno.EIO):
        threads.run_one()
    while threads.waiting:
        threads.run_one()
    for peer in waiting:
        (frame,) = peer.frames
        assert frame.code == ResponseCode.FLUSH_DISK_TIMEOUT
        remark = frame.remark or ""
        assert "/data/commitlog" in remark and "errno 5" in remark and "restarted" in remark
    # The disk is well again, but what it dropped is unknown: no write is taken until a restart.
    with pytest.raises(StoreUnavailableError, match="read-only until the broker is restarted"):
        stage(world)
    assert world.parts.store.is_writable is False and len(world.parts.store.problems) == 1
    assert bodies(world)[0] == b"1"


def test_messages_staged_when_a_sync_fails_are_refused_by_their_commit(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    commit_one(world, 1)
    peer = FakePeer()
    stage(world, b"2")
    world.parts.writer.hold(peer, answer(2))
    with failing(world, "sync", LOG, errno.EIO):
        threads.run_one()
    world.parts.writer.commit()
    assert [frame.code for frame in peer.frames] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert bodies(world) == [b"1"]


def test_one_way_messages_ask_for_no_sync_of_their_own(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    stage(world)
    world.parts.writer.commit()
    assert threads.waiting == [] and bodies(world) == [b"x"]


def test_the_way_of_flushing_may_change_while_answers_wait(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    first = commit_one(world, 1)
    world.config.change_at_runtime({"flushDiskType": "ASYNC_FLUSH"})
    assert [frame.code for frame in commit_one(world, 2).frames] == [0]
    assert first.frames == []
    threads.run_one()
    assert [frame.code for frame in first.frames] == [0]


# -- levels and queues -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "level"), [("3", 3), ("18", 18), ("19", 18), ("999999999", 18), ("0", 0), ("", 0), ("x", 0), ("1" * 10, 0)]
)
def test_delay_levels_are_clamped(world: World, text: str, level: int) -> None:
    assert world.parts.writer.delay_level(f"DELAY\x01{text}\x02".encode()) == level


def test_a_delayed_message_s_unit_carries_its_due_time(world: World) -> None:
    world.put("T", b"m", queue_id=0, DELAY="2", TAGS="A")
    queue = world.parts.store.queue_table.get("SCHEDULE_TOPIC_XXXX", 1)
    assert queue is not None and queue.unit(0)[2] == world.clock.now_ms() + 5000 == world.clock.now_ms() + (
        world.parts.writer.delay_ms(2)
    )


def test_picked_queues_are_spread(world: World) -> None:
    picked = [world.parts.writer.pick_queue(4) for _ in range(100)]
    assert set(picked) == {0, 1, 2, 3}
    assert {world.parts.writer.pick_queue(1), world.parts.writer.pick_queue(0)} == {0}
