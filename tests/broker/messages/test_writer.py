"""Writer: no answer leaves before its commit, a turn stores all or nothing, and a failed commit refuses its sends."""

from __future__ import annotations

import errno
import random
import threading
from typing import Any

import pytest

from pymq.broker.messages.writer import NOT_WAITING
from pymq.errors import StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage, decode_records
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import FLAG_RESPONSE, SERIALIZE_ROCKETMQ, Command, encode_command
from tests.broker.disk import Threads, failing
from tests.broker.world import BORN_HOST, Caller, FakePeer, World

LOG = "/commitlog/"
OTHER_HOST = BORN_HOST[:3] + b"\x09" + BORN_HOST[4:]


@pytest.fixture
def world() -> World:
    return opened()


def opened(**settings: Any) -> World:
    world = World(**settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    return world


def stage(world: World, body: bytes = b"x", **properties: str) -> int:
    """Stage a message in queue 0 of T, and return its queue offset."""
    raw = encode_properties(properties)
    return world.parts.messages.writer.put("T", 0, Draft(body, raw, 1, BORN_HOST)).queue_offset


def answer(opaque: int, serialize: int = 0) -> bytes:
    return encode_command(Command(0, opaque=opaque, flag=FLAG_RESPONSE, ext={"msgId": "A"}, serialize=serialize))


def bodies(world: World) -> list[bytes]:
    return [message.body for message in world.messages("T")]


def test_a_message_that_is_put_again_keeps_what_is_not_given(world: World) -> None:
    writer = world.parts.messages.writer
    writer.put("T", 0, Draft(b"x", b"", 1, BORN_HOST, flag=3, sys_flag=2, reconsume_times=5))
    writer.commit()
    first = world.messages("T")[0]
    properties = encode_properties({"DELAY": "2", "KEYS": "k"})
    writer.put_again(first, "T", 0, properties)
    writer.put_again(first, "T", 0, b"", sys_flag=0, born_host=OTHER_HOST, reconsume_times=6)
    writer.commit()
    _, again, changed = world.messages("T")
    assert (again.flag, again.sys_flag, again.born_timestamp_ms, again.born_host, again.reconsume_times) == (
        3, 2, 1, BORN_HOST, 5,
    )  # fmt: skip
    assert again.properties == {"DELAY": "2", "KEYS": "k"}
    assert (changed.flag, changed.sys_flag, changed.born_host, changed.reconsume_times) == (3, 0, OTHER_HOST, 6)


# -- the turn ----------------------------------------------------------------------------------------------------


def test_answers_leave_with_the_commit_in_their_order(world: World) -> None:
    first, second = FakePeer(), FakePeer()
    for opaque, peer in ((1, first), (2, second), (3, first)):
        stage(world, b"%d" % opaque)
        world.parts.messages.writer.hold(peer, answer(opaque))
    assert bodies(world) == [] and first.frames == second.frames == []
    world.parts.messages.writer.commit()
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
    world.parts.messages.writer.hold(peer, answer(1))
    assert log not in world.files.nodes
    world.parts.messages.writer.commit()
    assert len(peer.frames) == 1


def test_a_turn_without_messages_writes_nothing(world: World) -> None:
    with failing(world, "pwrite", "/"):
        world.parts.messages.writer.commit()
    stage(world)
    world.parts.messages.writer.commit()
    with failing(world, "pwrite", "/"):
        world.parts.messages.writer.commit()
    assert world.parts.messages.writer.failed_commit_count == 0


def test_a_batch_has_consecutive_offsets(world: World) -> None:
    drafts = [Draft(b"%d" % n, b"", 1, BORN_HOST, flag=n) for n in range(5)]
    stage(world, b"before")
    placed = world.parts.messages.writer.put_batch("T", 0, drafts)
    assert [place.queue_offset for place in placed] == [1, 2, 3, 4, 5]
    ends = [place.physical_offset + place.size_bytes for place in placed]
    assert [place.physical_offset for place in placed[1:]] == ends[:-1]
    world.parts.messages.writer.commit()
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
    writer = world.parts.messages.writer
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
    assert (writer.failed_commit_count, writer.failed_put_count) == (1, 3)
    assert bodies(world) == [] and world.parts.store.max_offset("T", 0) == 0
    assert world.parts.store.physical_max_offset == 0


def test_after_a_bug_past_the_write_sends_are_answered_and_messages_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(records: object) -> None:
        raise RuntimeError("a bug")

    index, writer, peer = world.parts.store._index, world.parts.messages.writer, FakePeer()
    assert index is not None
    monkeypatch.setattr(index, "extend", broken)
    for opaque in (1, 2):
        stage(world, b"%d" % opaque, KEYS="k")
        writer.hold(peer, answer(opaque))
        with pytest.raises(RuntimeError):
            writer.commit()
    assert [(frame.opaque, frame.code) for frame in peer.frames] == [(n, ResponseCode.SYSTEM_ERROR) for n in (1, 2)]
    assert "may be stored: RuntimeError: a bug" in (peer.frames[0].remark or "")
    assert bodies(world) == [b"1", b"2"]
    monkeypatch.undo()
    stage(world, b"3")
    writer.hold(peer, answer(3))
    writer.commit()
    assert (peer.frames[-1].opaque, peer.frames[-1].code) == (3, 0)
    assert bodies(world) == [b"1", b"2", b"3"]


def test_the_next_commit_works_and_offsets_are_given_again(world: World) -> None:
    writer = world.parts.messages.writer
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
    writer = world.parts.messages.writer
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


def test_a_full_disk_wakes_no_parked_pull(world: World) -> None:
    arrivals: list[int] = []
    world.parts.store.add_arrival_listener(lambda queue, units: arrivals.append(queue.max_offset))
    with failing(world, "pwrite", LOG):
        stage(world)
        world.parts.messages.writer.commit()
    assert arrivals == []
    stage(world)
    world.parts.messages.writer.commit()
    assert arrivals == [1]


# -- SYNC_FLUSH --------------------------------------------------------------------------------------------------


@pytest.fixture
def synced() -> tuple[World, Threads]:
    world = opened(flushDiskType="SYNC_FLUSH")
    return world, Threads.of(world)


def commit_one(world: World, opaque: int) -> FakePeer:
    peer = FakePeer()
    stage(world, b"%d" % opaque)
    world.parts.messages.writer.hold(peer, answer(opaque))
    world.parts.messages.writer.commit()
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


def test_a_commit_during_a_sync_waits_for_the_next_sync(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    first = commit_one(world, 1)
    late: list[FakePeer] = []
    threads.run_one(between=lambda: late.append(commit_one(world, 2)))
    assert [frame.code for frame in first.frames] == [0] and late[0].frames == []
    assert world.parts.messages.waiting_answers.is_awaiting_sync and len(threads.waiting) == 1
    threads.run_one()
    assert [frame.code for frame in late[0].frames] == [0]
    assert threads.waiting == [] and not world.parts.messages.waiting_answers.is_awaiting_sync


def test_a_failed_sync_refuses_waiting_sends_and_makes_the_store_read_only(synced: tuple[World, Threads]) -> None:
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
    world.parts.messages.writer.hold(peer, answer(2))
    with failing(world, "sync", LOG, errno.EIO):
        threads.run_one()
    world.parts.messages.writer.commit()
    assert [frame.code for frame in peer.frames] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert bodies(world) == [], "what was not synced is never seen"


def test_a_message_is_seen_when_it_is_on_the_disk(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    store = world.parts.store
    arrivals: list[int] = []
    store.add_arrival_listener(lambda queue, units: arrivals.append(queue.max_offset))
    stage(world, b"1", KEYS="k")
    world.parts.messages.writer.commit()
    stage(world, b"2", DELAY="1")
    world.parts.messages.writer.commit()
    assert bodies(world) == [] and store.max_offset("T", 0) == 0 and arrivals == []
    assert store.find_by_key("T", "k", 10) == [] and world.parts.messages.delays.next_due_ms() is None
    threads.run_one()
    assert bodies(world) == [b"1"] and store.max_offset("T", 0) == 1
    threads.run_one()
    assert len(store.find_by_key("T", "k", 10)) == 1
    assert arrivals == [1, 1] and world.parts.messages.delays.next_due_ms() == world.clock.now_ms() + 1000
    assert threads.waiting == []


def test_a_parked_pull_is_answered_after_the_sync(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    caller = Caller(world)
    fields: dict[str, Any] = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 6,
    }
    more: dict[str, Any] = {"commitOffset": 0, "suspendTimeoutMillis": 15000, "subscription": "*", "subVersion": 0}
    assert caller.ask(RequestCode.PULL_MESSAGE, **fields, **more) is None
    stage(world, b"1")
    world.parts.messages.writer.commit()
    world.parts.requests.long_polls.wake()
    assert caller.peer.answers == []
    threads.run_one()
    world.parts.requests.long_polls.wake()
    assert [reply.code for reply in caller.peer.answers] == [0]


def test_one_way_messages_are_seen_after_their_sync(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    stage(world)
    world.parts.messages.writer.commit()
    assert len(threads.waiting) == 1 and bodies(world) == []
    threads.run_one()
    assert threads.waiting == [] and bodies(world) == [b"x"]


@pytest.mark.parametrize("value", ["false", "FALSE", "no"])
def test_a_no_wait_send_is_answered_after_the_write(synced: tuple[World, Threads], value: str) -> None:
    world, threads = synced
    patient, hasty = FakePeer(), FakePeer()
    for opaque, peer, wait in ((1, patient, "true"), (2, hasty, value), (3, patient, "TRUE")):
        raw = encode_properties({"WAIT": wait})
        world.parts.messages.writer.put("T", 0, Draft(b"%d" % opaque, raw, 1, BORN_HOST))
        world.parts.messages.writer.hold(peer, answer(opaque), raw)
    world.parts.messages.writer.commit()
    assert [(frame.opaque, frame.code) for frame in hasty.frames] == [(2, 0)] and patient.frames == []
    assert bodies(world) == [], "it is seen when it is on the disk, as any other"
    threads.run_one()
    assert [frame.opaque for frame in patient.frames] == [1, 3] and len(hasty.frames) == 1
    assert bodies(world) == [b"1", b"2", b"3"]


def test_a_no_wait_send_is_refused_when_the_write_fails(synced: tuple[World, Threads]) -> None:
    world, _ = synced
    peer = FakePeer()
    stage(world)
    world.parts.messages.writer.hold(peer, answer(1), NOT_WAITING)
    with failing(world, "pwrite", LOG):
        world.parts.messages.writer.commit()
    assert [frame.code for frame in peer.frames] == [ResponseCode.SERVICE_NOT_AVAILABLE]


# -- a slow disk -------------------------------------------------------------------------------------------------


def test_a_late_sync_is_a_timeout_and_the_message_appears_later(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    limit = world.config.sync_flush_timeout_ms
    first = commit_one(world, 1)
    world.clock.advance(1)
    second = commit_one(world, 2)
    world.clock.advance(limit - 2)
    world.parts.messages.waiting_answers.tick()
    assert first.frames == second.frames == []
    world.clock.advance(1)
    world.parts.messages.waiting_answers.tick()
    (frame,) = first.frames
    assert frame.code == ResponseCode.FLUSH_DISK_TIMEOUT == 10 and f"within {limit} ms" in (frame.remark or "")
    assert frame.ext == {"msgId": "A"}, "the client reads the message's place from it"
    assert second.frames == [] and bodies(world) == []
    threads.run_one()
    assert len(first.frames) == 1 and [frame.code for frame in second.frames] == [0]
    assert bodies(world) == [b"1", b"2"]


def test_while_the_disk_hangs_the_broker_serves_everything_else(synced: tuple[World, Threads]) -> None:
    """The only call that hangs stands in a worker thread; what a client can ask needs none of its locks."""
    world, threads = synced
    world.put("T", b"old")
    threads.run_one()
    hanging, may_end = threading.Event(), threading.Event()

    def hang(call: str, path: str) -> None:
        if call == "sync" and threading.current_thread() is not threading.main_thread():
            hanging.set()
            assert may_end.wait(60)

    for part in (LOG, "/consumequeue/", "/index/", "/checkpoint"):
        world.clock.advance(world.parts.store.settings.checkpoint_interval_ms)
        world.put("T", b"more", KEYS="k")
        world.parts.messages.waiting_answers.synced(world.parts.store.sync(log_only=True))
        world.put("T", b"not synced", KEYS="k")
        world.parts.store.tick()  # now there is something to sync in each place
        hanging.clear()
        may_end.clear()
        world.files.fault = lambda call, path, part=part: hang(call, path) if part in path else None
        worker = threading.Thread(target=world.parts.store.sync)
        worker.start()
        try:
            assert hanging.wait(60), part
            _ask_everything(world)
        finally:
            may_end.set()
            worker.join(60)


def _ask_everything(world: World) -> None:
    """Send requests of many kinds. This never returns if one of them waits for the disk."""
    caller = Caller(world)
    heartbeat = b'{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[]}'
    caller.ok(RequestCode.HEART_BEAT, heartbeat)
    caller.ok(RequestCode.GET_BROKER_RUNTIME_INFO)
    caller.ok(RequestCode.GET_BROKER_CONFIG)
    caller.ok(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0)
    assert bodies(world)[0] == b"old"
    world.parts.messages.waiting_answers.tick()
    world.parts.messages.flusher.tick()
    world.put("T", b"meanwhile", KEYS="k")
    world.parts.store.find_by_key("T", "k", 10)
    for _ in range(3):
        world.clock.advance(world.parts.store.settings.queue_write_interval_ms())
        world.parts.store.tick()


# -- switching at run time ---------------------------------------------------------------------------------------


def switch(world: World, mode: str) -> None:
    Caller(world).ok(RequestCode.UPDATE_BROKER_CONFIG, f"flushDiskType={mode}\n".encode())


def test_after_a_switch_to_async_waiting_answers_keep_promise_and_order(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    first = commit_one(world, 1)
    late: list[FakePeer] = []
    threads.run_one(between=lambda: late.append(commit_one(world, 2)))
    switch(world, "ASYNC_FLUSH")
    third = commit_one(world, 3)
    assert [frame.code for frame in first.frames] == [0] == [frame.code for frame in third.frames]
    assert late[0].frames == [] and bodies(world) == [b"1"], "the third can't be seen before the second"
    threads.run_one()
    assert [frame.code for frame in late[0].frames] == [0] and bodies(world) == [b"1", b"2", b"3"]
    assert [frame.code for frame in commit_one(world, 4).frames] == [0]
    assert bodies(world)[-1] == b"4" and threads.waiting == []


def test_from_async_to_sync_the_next_commit_waits(synced: tuple[World, Threads]) -> None:
    world, threads = synced
    switch(world, "ASYNC_FLUSH")
    commit_one(world, 1)
    assert bodies(world) == [b"1"] and threads.waiting == []
    switch(world, "SYNC_FLUSH")
    second = commit_one(world, 2)
    assert second.frames == [] and bodies(world) == [b"1"]
    threads.run_one()
    assert [frame.code for frame in second.frames] == [0] and bodies(world) == [b"1", b"2"]
    assert world.parts.store.synced_offset == world.parts.store.physical_max_offset


@pytest.mark.parametrize("seed", range(20))
def test_switching_under_load_keeps_order_and_promises(seed: int) -> None:
    """Any interleaving: queue order is send order, no SYNC answer before its bytes are on the disk, none is lost."""
    rng = random.Random(seed)
    world = opened()
    threads = Threads.of(world)
    peers: list[tuple[FakePeer, int]] = []  # and the log end that must be synced when it is answered

    for number in range(200):
        action = rng.random()
        if action < 0.1:
            switch(world, rng.choice(["SYNC_FLUSH", "ASYNC_FLUSH"]))
        elif action < 0.4 and threads.waiting:
            threads.run_one()
        else:
            is_sync = world.config.flush_disk_type == "SYNC_FLUSH"
            peer = commit_one(world, number)
            peers.append((peer, world.parts.store.physical_max_offset if is_sync else 0))
        seen = world.parts.store.max_offset("T", 0)
        for place, (peer, needed) in enumerate(peers):
            if peer.frames:
                assert needed <= world.parts.store.synced_offset
            if place < seen:
                assert needed <= world.parts.store.synced_offset
    while threads.waiting:
        threads.run_one()
    assert [len(peer.frames) for peer, _ in peers] == [1] * len(peers)
    stored = [message.body for message in all_messages(world)]
    assert stored == [b"%d" % frame.frames[0].opaque for frame, _ in peers]


def all_messages(world: World) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while len(found) < world.parts.store.max_offset("T", 0):
        result = world.parts.store.get("T", 0, len(found), 32, 1 << 20)
        found += decode_records(b"".join(result.chunks))
    return found


# -- levels and queues -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "level"), [("3", 3), ("18", 18), ("19", 18), ("999999999", 18), ("0", 0), ("", 0), ("x", 0), ("1" * 10, 0)]
)
def test_delay_levels_are_clamped(world: World, text: str, level: int) -> None:
    assert world.parts.messages.writer.delay_level(f"DELAY\x01{text}\x02".encode()) == level


def test_a_delayed_message_s_unit_carries_its_due_time(world: World) -> None:
    world.put("T", b"m", queue_id=0, DELAY="2", TAGS="A")
    queue = world.parts.store.queue_view("SCHEDULE_TOPIC_XXXX", 1)
    assert queue is not None and queue.unit(0)[2] == world.clock.now_ms() + 5000 == world.clock.now_ms() + (
        world.parts.messages.writer.delay_ms(2)
    )


def test_picked_queues_are_spread(world: World) -> None:
    picked = [world.parts.messages.writer.pick_queue(4) for _ in range(100)]
    assert set(picked) == {0, 1, 2, 3}
    assert {world.parts.messages.writer.pick_queue(1), world.parts.messages.writer.pick_queue(0)} == {0}
