"""SYNC_MASTER: a message is neither answered nor seen before enough slaves have it; the refusals when they lack it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pymq.broker.replication import sync_mode
from pymq.model.draft import Draft
from pymq.model.properties import encode_properties
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.disk import Threads, failing
from tests.broker.messages.test_writer import all_messages, answer, bodies
from tests.broker.replication.fake_slaves import FakeSlaves
from tests.broker.world import BORN_HOST, Caller, FakePeer, World

SLAVE_TIMEOUT_MS = 3000
SEND = {
    "producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0,
    "sysFlag": 0, "bornTimestamp": 1, "flag": 0,
}  # fmt: skip


def opened(slaves: int = 1, **settings: Any) -> tuple[World, FakeSlaves]:
    world = World(brokerRole="SYNC_MASTER", **settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    return world, FakeSlaves(world, slaves)


def commit_one(world: World, opaque: int, peer: FakePeer | None = None, **properties: str) -> FakePeer:
    """Commit one send, and return the peer that gets its answer."""
    peer = peer or FakePeer()
    writer, raw = world.parts.messages.writer, encode_properties(properties)
    writer.put("T", 0, Draft(b"%d" % opaque, raw, 1, BORN_HOST))
    writer.hold(peer, answer(opaque), raw)
    writer.commit()
    return peer


def change(world: World, **values: str) -> None:
    Caller(world).ok(RequestCode.UPDATE_BROKER_CONFIG, "".join(f"{k}={v}\n" for k, v in values.items()).encode())


def codes(*peers: FakePeer) -> list[list[int]]:
    return [[frame.code for frame in peer.frames] for peer in peers]


def send_refusal(world: World, **changes: object) -> tuple[int, str]:
    return Caller(world).refused(RequestCode.SEND_MESSAGE, b"x", **{**SEND, **changes})


# -- waiting -----------------------------------------------------------------------------------------------------


def test_an_answer_leaves_when_a_slave_has_its_message_and_not_before() -> None:
    world, slaves = opened()
    first, second = commit_one(world, 1), commit_one(world, 2)
    end = world.parts.store.physical_max_offset
    slaves.ack(offset=end - 1)
    assert codes(first, second) == [[0], []] and bodies(world) == [b"1"]
    slaves.ack()
    assert codes(first, second) == [[0], [0]] and bodies(world) == [b"1", b"2"]
    assert not world.parts.messages.waiting_answers.is_awaiting_slaves and not world.parts.store._appender.unconfirmed


@pytest.mark.parametrize(("copies", "acks"), [(1, 0), (2, 1), (3, 2)])
def test_as_many_slaves_as_in_sync_replicas_says(copies: int, acks: int) -> None:
    world, slaves = opened(slaves=3, inSyncReplicas=str(copies))
    peer = commit_one(world, 1)
    for place in range(acks):
        assert codes(peer) == [[]]
        slaves.ack(place)
    assert codes(peer) == [[0]] and bodies(world) == [b"1"]


@pytest.mark.parametrize("value", ["false", "no"])
def test_a_no_wait_send_is_answered_at_once_and_seen_later(value: str) -> None:
    world, slaves = opened()
    peer = commit_one(world, 1, WAIT=value)
    assert codes(peer) == [[0]] and bodies(world) == []
    slaves.ack()
    assert bodies(world) == [b"1"]


def test_one_way_and_no_wait_messages_are_seen_once_confirmed() -> None:
    world, slaves = opened()
    assert world.put("T", b"1").queue_offset == 0
    assert bodies(world) == []
    slaves.ack()
    assert bodies(world) == [b"1"]


@pytest.mark.parametrize("first", ["disk", "slave"])
def test_under_sync_flush_disk_and_slave_are_waited_for(first: str) -> None:
    world, slaves = opened(flushDiskType="SYNC_FLUSH")
    threads = Threads.of(world)
    peer = commit_one(world, 1)
    steps: list[Callable[[], object]] = [threads.run_one, slaves.ack]
    for step in steps if first == "disk" else reversed(steps):
        assert codes(peer) == [[]] and bodies(world) == []
        step()
    assert codes(peer) == [[0]] and bodies(world) == [b"1"]


def test_slow_slaves_cause_no_extra_flushes() -> None:
    """An fsync that is done is not begun again because its answers wait for slaves."""
    world, _ = opened(flushDiskType="SYNC_FLUSH")
    threads = Threads.of(world)
    commit_one(world, 1)
    threads.run_one()
    assert (
        threads.waiting == []
        and not world.parts.messages.waiting_answers.is_awaiting_sync
        and world.parts.messages.waiting_answers.is_awaiting_slaves
    )


def test_a_parked_pull_is_woken_by_the_slave_s_ack() -> None:
    world, slaves = opened()
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
    commit_one(world, 1)
    world.parts.requests.long_polls.wake()
    assert caller.peer.answers == []
    slaves.ack()
    world.parts.requests.long_polls.wake()
    assert [reply.code for reply in caller.peer.answers] == [0]


def test_a_delayed_message_is_neither_due_nor_delivered_before_slaves_have_it() -> None:
    world, slaves = opened()
    commit_one(world, 1, DELAY="1")
    assert world.parts.messages.delays.next_due_ms() is None
    slaves.ack()
    world.clock.advance(1000)
    assert world.parts.messages.delays.tick() and bodies(world) == []
    slaves.ack()
    assert bodies(world) == [b"1"]


# -- too few -----------------------------------------------------------------------------------------------------


def test_nothing_is_stored_while_too_few_slaves_are_in_sync() -> None:
    world, slaves = opened(slaves=0)
    end = world.parts.store.physical_max_offset
    code, remark = send_refusal(world)
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE, "11 would tell every client that the message is stored"
    for part in ("needs 1 slave in sync", "inSyncReplicas 2", "has 0", "nothing is stored", "brokerRole=ASYNC_MASTER"):
        assert part in remark
    assert world.parts.store.physical_max_offset == end
    assert any("SYNC_MASTER" in problem for problem in world.parts.store.problems)
    slaves.come()
    assert world.parts.store.problems == [] and codes(commit_one(world, 1)) == [[]]


def test_a_broker_that_starts_refuses_until_its_first_slave_comes() -> None:
    world = World(brokerRole="SYNC_MASTER")
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    assert send_refusal(world)[0] == ResponseCode.SERVICE_NOT_AVAILABLE


def test_every_way_in_is_closed() -> None:
    world, slaves = opened()
    placed = world.put("T", b"1")
    world.put("T", b"later", DELAY="1")
    slaves.ack()
    slaves.leave()
    caller = Caller(world)
    world.clock.advance(5000)
    assert not world.parts.messages.delays.tick(), "delays rest"
    back: dict[str, Any] = {"offset": placed.physical_offset, "group": "g", "delayLevel": 0}
    assert caller.refused(RequestCode.CONSUMER_SEND_MSG_BACK, **back)[0] == ResponseCode.SERVICE_NOT_AVAILABLE
    assert send_refusal(world, batch="true")[0] != 0
    slaves.come()
    assert world.parts.messages.delays.tick()


def test_a_slave_far_behind_counts_as_none() -> None:
    world, slaves = opened()
    slaves.is_lagging = True
    world.parts.messages.waiting_answers.tick()
    assert "has 0" in send_refusal(world)[1]


def test_a_slave_that_leaves_refuses_new_sends_and_lets_the_others_wait() -> None:
    world, slaves = opened()
    peer = commit_one(world, 1)
    slaves.leave()
    assert send_refusal(world)[0] == ResponseCode.SERVICE_NOT_AVAILABLE and codes(peer) == [[]]
    slaves.come()
    slaves.ack()
    assert codes(peer) == [[0]]


def test_unconfirmed_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world, slaves = opened()
    size = world.put("T", b"1").size_bytes
    monkeypatch.setattr(sync_mode, "UNCONFIRMED_BYTES_MAX", 2 * size)
    world.parts.messages.waiting_answers.tick()
    assert codes(commit_one(world, 1)) == [[]], "one byte below the limit is taken"
    code, remark = send_refusal(world)
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE and f"the limit is {2 * size}" in remark
    slaves.ack()
    assert world.parts.store.is_writable


# -- too slow ----------------------------------------------------------------------------------------------------


def test_a_slave_that_is_too_slow() -> None:
    world, slaves = opened()
    peer = commit_one(world, 1)
    world.clock.advance(SLAVE_TIMEOUT_MS - 1)
    world.parts.messages.waiting_answers.tick()
    assert codes(peer) == [[]]
    world.clock.advance(1)
    world.parts.messages.waiting_answers.tick()
    (frame,) = peer.frames
    assert frame.code == ResponseCode.FLUSH_SLAVE_TIMEOUT and frame.ext == {"msgId": "A"}, "the message is stored"
    assert "within 3000 ms (slaveTimeout)" in (frame.remark or "") and bodies(world) == []
    slaves.ack()
    assert bodies(world) == [b"1"] and len(peer.frames) == 1


def test_a_slave_that_left_meanwhile() -> None:
    world, slaves = opened()
    peer = commit_one(world, 1)
    slaves.leave()
    world.clock.advance(SLAVE_TIMEOUT_MS)
    world.parts.messages.waiting_answers.tick()
    (frame,) = peer.frames
    assert frame.code == ResponseCode.SLAVE_NOT_AVAILABLE and frame.ext == {"msgId": "A"}, "the message is stored"
    assert "0 of 1 slaves are in sync (inSyncReplicas 2)" in (frame.remark or "")


def test_the_answer_names_the_disk_when_both_are_late() -> None:
    world, _ = opened(flushDiskType="SYNC_FLUSH", syncFlushTimeout="3000")
    Threads.of(world)
    peer = commit_one(world, 1)
    world.clock.advance(SLAVE_TIMEOUT_MS)
    world.parts.messages.waiting_answers.tick()
    assert codes(peer) == [[ResponseCode.FLUSH_DISK_TIMEOUT]]


def test_a_failing_disk_leaves_alone_what_waits_for_slaves_only() -> None:
    world, slaves = opened(flushDiskType="SYNC_FLUSH")
    threads = Threads.of(world)
    first = commit_one(world, 1)
    threads.run_one()
    second = commit_one(world, 2)
    with failing(world, "sync", "/commitlog/"):
        threads.run_one()
    assert codes(first, second) == [[], [ResponseCode.FLUSH_DISK_TIMEOUT]]
    slaves.ack()
    assert codes(first) == [[0]] and bodies(world) == [b"1"]


def test_a_stop_answers_waiting_sends() -> None:
    world, _ = opened()
    peer = commit_one(world, 1)
    world.parts.messages.waiting_answers.give_up("the broker stops", keeps_log=True)
    (frame,) = peer.frames
    assert frame.code == ResponseCode.FLUSH_SLAVE_TIMEOUT and frame.ext and "the broker stops" in (frame.remark or "")
    world.parts.close()
    again = World(world.files, world.clock)
    assert bodies(again) == [b"1"]


# -- less is enough ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slaves", "least", "needed"), [(0, 1, 0), (1, 1, 1), (2, 1, 2), (3, 1, 2), (0, 2, 1), (1, 2, 1), (0, 3, 2)]
)
def test_fewer_slaves_are_enough_where_the_operator_allows_it(slaves: int, least: int, needed: int) -> None:
    world, fake = opened(slaves, inSyncReplicas="3", enableAutoInSyncReplicas="true", minInSyncReplicas=str(least))
    mode = world.parts.replication.sync_mode
    assert (mode.needed_slaves, mode.required_slaves, mode.is_degraded) == (needed, 2, needed < 2)
    assert world.parts.store.is_writable is (slaves >= needed)
    if slaves >= needed:
        peer = commit_one(world, 1)
        for place in range(needed):
            assert codes(peer) == [[]]
            fake.ack(place)
        assert codes(peer) == [[0]] and bodies(world) == [b"1"]


def test_never_more_than_in_sync_replicas_says() -> None:
    world, _ = opened(2, inSyncReplicas="3", enableAutoInSyncReplicas="true", minInSyncReplicas="3")
    code, remark = Caller(world).refused(RequestCode.UPDATE_BROKER_CONFIG, b"inSyncReplicas=2\n")
    assert code == 16 and "minInSyncReplicas=3 is more than inSyncReplicas=2" in remark
    change(world, inSyncReplicas="2", minInSyncReplicas="2")
    assert world.parts.replication.sync_mode.needed_slaves == 1


def test_when_the_last_slave_leaves_waiting_sends_are_released_if_allowed() -> None:
    world, slaves = opened(enableAutoInSyncReplicas="true")
    peer = commit_one(world, 1)
    slaves.leave()
    assert codes(peer) == [[0]] and bodies(world) == [b"1"] and world.parts.replication.sync_mode.is_degraded


def test_degraded_mode_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    world, slaves = opened(enableAutoInSyncReplicas="true")
    caplog.set_level("INFO", logger="pymq.broker.replication.sync_mode")
    commit_one(world, 1)
    caplog.clear()
    slaves.leave()
    world.parts.replication.sync_mode.check()
    assert caplog.text.count("degraded: sends wait for 0 of the 1 slaves that inSyncReplicas requires") == 1
    slaves.come()
    world.parts.replication.sync_mode.check()
    assert caplog.text.count("no longer degraded, sends wait for 1 slaves") == 1
    slaves.leave()
    world.parts.replication.sync_mode.check()
    change(world, brokerRole="ASYNC_MASTER")
    world.parts.replication.sync_mode.check()
    assert caplog.text.count("no longer degraded") == 2
    assert caplog.text.count("degraded:") == 2


# -- switching -----------------------------------------------------------------------------------------------------


def test_switched_at_run_time() -> None:
    world, slaves = opened(slaves=0, brokerName="broker-a")
    assert not world.parts.store.is_writable
    change(world, brokerRole="ASYNC_MASTER")
    assert codes(commit_one(world, 1)) == [[0]] and bodies(world) == [b"1"]
    change(world, brokerRole="SYNC_MASTER")
    assert send_refusal(world)[0] == ResponseCode.SERVICE_NOT_AVAILABLE
    slaves.come()
    waiting = commit_one(world, 2)
    change(world, inSyncReplicas="1")
    assert codes(waiting) == [[0]] and bodies(world) == [b"1", b"2"]


def test_a_switch_to_async_releases_sends_that_wait_for_slaves() -> None:
    world, slaves = opened()
    peer = commit_one(world, 1)
    slaves.leave()
    change(world, brokerRole="ASYNC_MASTER")
    assert codes(peer) == [[0]] and bodies(world) == [b"1"]


@pytest.mark.parametrize("role", ["SLAVE", "MASTER"])
def test_no_other_role_is_taken_by_a_setting(role: str) -> None:
    world, _ = opened()
    code, remark = Caller(world).refused(RequestCode.UPDATE_BROKER_CONFIG, f"brokerRole={role}\n".encode())
    assert code == ResponseCode.NO_PERMISSION and "ASYNC_MASTER" in remark
    assert world.config.broker_role == "SYNC_MASTER"


def test_a_slave_has_no_mode() -> None:
    world = World(brokerId="1", brokerRole="SYNC_MASTER")
    world.parts.messages.waiting_answers.tick()
    assert not world.parts.replication.sync_mode.is_on and world.parts.store.problems == []


# -- everything at once ----------------------------------------------------------------------------------------------


class Promise(NamedTuple):
    """The end of a message in the log, and what its mode asked for when it was committed."""

    end: int
    needs_disk: bool
    needs_slaves: bool


class Course:
    """One run: it records sends and their promises, and checks that answers and reads keep these."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world, self.slaves = opened(slaves=rng.randrange(3))
        self.threads = Threads.of(self.world)
        self.peer = FakePeer()
        self.bodies: list[bytes] = []
        self.promises: dict[int, Promise] = {}
        self.hasty: set[int] = set()  # want no more than the commit
        self._staged: list[int] = []
        self._answered = self._seen = 0

    def send(self, number: int) -> None:
        writer, waits = self.world.parts.messages.writer, self.rng.random() < 0.8
        properties = encode_properties({} if waits else {"WAIT": "false"})
        writer.put("T", 0, Draft(b"%d" % number, properties, 1, BORN_HOST))
        writer.hold(self.peer, answer(number), properties)
        self.bodies.append(b"%d" % number)
        self._staged.append(number)
        if not waits:
            self.hasty.add(number)

    def commit(self) -> None:
        needs_slaves = self.world.parts.replication.sync_mode.is_on
        needs_disk = self.world.config.flush_disk_type == "SYNC_FLUSH"
        self.world.parts.messages.writer.commit()
        for number in self._staged:
            self.promises[number] = Promise(self.world.parts.store.physical_max_offset, needs_disk, needs_slaves)
        self._staged = []

    def step(self, number: int) -> None:
        rng, world, slaves = self.rng, self.world, self.slaves
        action = rng.random()
        if action < 0.45 and world.parts.store.is_writable:
            self.send(number)
            if rng.random() < 0.7:
                self.commit()
            return
        self.commit()
        self.check()
        if action < 0.6 and slaves.acks:
            place = rng.randrange(len(slaves.acks))
            slaves.ack(place, rng.randrange(slaves.acks[place], world.parts.store.physical_max_offset + 1))
        elif action < 0.7 and self.threads.waiting:
            self.threads.run_one()
        elif action < 0.8:
            world.clock.advance(rng.choice([10, 1000, 6000]))
            world.parts.messages.waiting_answers.tick()
        elif action < 0.9:
            rng.choice([slaves.come, slaves.leave if slaves.acks else slaves.come])()
        else:
            name, values = rng.choice(list(SWITCHES.items()))
            change(world, **{name: rng.choice(values)})

    def check(self) -> None:
        """Check that disk and slaves have what was answered or seen since the last call."""
        store, needed = self.world.parts.store, self.world.parts.replication.sync_mode.needed_slaves
        confirm_offset = self.slaves.offset_acked_by(needed) if needed else store.physical_max_offset
        answered = [frame.opaque for frame in self.peer.frames[self._answered :] if frame.code == ResponseCode.SUCCESS]
        end = store.max_offset("T", 0)
        for number in [n for n in answered if n not in self.hasty] + list(map(int, self.bodies[self._seen : end])):
            promise = self.promises[number]
            assert not promise.needs_slaves or promise.end <= confirm_offset, f"{number}: enough slaves have it"
            assert not promise.needs_disk or promise.end <= store.synced_offset, f"{number}: the disk has it"
        self._answered, self._seen = len(self.peer.frames), end


SWITCHES = {
    "brokerRole": ["SYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"],
    "flushDiskType": ["SYNC_FLUSH", "ASYNC_FLUSH"],
    "inSyncReplicas": ["1", "2", "3"],
    "enableAutoInSyncReplicas": ["true", "false"],
}


@pytest.mark.parametrize("seed", range(100))
def test_any_interleaving_answers_each_send_once_and_never_too_early(seed: int) -> None:
    """Commits, acks, fsyncs, time-outs, slaves that come and go, and every setting changed under way."""
    course = Course(random.Random(seed))
    for number in range(1, 200):
        course.step(number)
        course.check()
    course.commit()
    course.world.parts.messages.waiting_answers.give_up("the test is over", keeps_log=True)
    while course.threads.waiting:
        course.threads.run_one()
    assert sorted(frame.opaque for frame in course.peer.frames) == sorted(course.promises), "each is answered once"
    change(course.world, brokerRole="ASYNC_MASTER")
    assert [message.body for message in all_messages(course.world)] == course.bodies


@pytest.mark.parametrize("seed", range(20))
def test_answers_that_wait_leave_in_the_order_of_the_log(seed: int) -> None:
    rng = random.Random(seed)
    world, slaves = opened(flushDiskType="SYNC_FLUSH")
    threads, peer = Threads.of(world), FakePeer()
    for number in range(100):
        commit_one(world, number, peer)
        if rng.random() < 0.3:
            slaves.ack(0, rng.randrange(slaves.acks[0], world.parts.store.physical_max_offset + 1))
        if rng.random() < 0.3 and threads.waiting:
            threads.run_one()
        if rng.random() < 0.05:
            world.clock.advance(4000)
            world.parts.messages.waiting_answers.tick()
    slaves.ack()
    while threads.waiting:
        threads.run_one()
    assert [frame.opaque for frame in peer.frames] == list(range(100))


def test_a_callback_for_confirmed_messages_runs_once() -> None:
    world, slaves = opened()
    reported: list[int] = []
    world.parts.messages.waiting_answers.when_confirmed(lambda: reported.append(1))
    assert reported == [1], "nothing waits"
    commit_one(world, 1)
    commit_one(world, 2)
    world.parts.messages.waiting_answers.when_confirmed(lambda: reported.append(2))
    slaves.ack(offset=world.parts.store.physical_max_offset - 1)
    assert reported == [1]
    slaves.ack()
    slaves.ack()
    assert reported == [1, 2]
