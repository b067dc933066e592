"""A slave and its master over a network in memory: finding, joining, following, and every way that ends."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from pymq.broker.replication import dispatch_pace
from pymq.broker.replication.dispatch_pace import (
    DISPATCH_BYTES,
    DISPATCH_INTERVAL_MS,
    FAST_DISPATCH_INTERVAL_MS,
    RATE_PERIOD_MS,
)
from pymq.broker.replication.history.epoch_body import history_to_body
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.master_role import SeenMasterRole
from pymq.broker.replication.slave.ha_client import (
    REFUSED_RETRY_MS,
    RETRY_MAX_MS,
    RETRY_MIN_MS,
    STEADY_MS,
)
from pymq.clock import ManualClock
from pymq.config.broker import TRUNCATION_MAX_BYTES
from pymq.wire.bodies_replication import JoinAnswer
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.ha import encode_head, encode_report
from pymq.wire.streams import Stream
from tests.broker.replication.cable import Cable
from tests.broker.replication.group import MASTER, MASTER_HA, SEGMENT, STEP_MS, Master, Slave, following
from tests.store.support import everything


def settle(slave: Slave) -> None:
    slave.cable.settle()
    slave.run(20)


def test_a_slave_without_a_master_waits(cable: Cable, clock: ManualClock) -> None:
    slave = Slave(cable, clock)
    slave.run(1000)
    state = slave.ha_client.state()
    assert (state.state, state.lag_bytes, cable.asked) == ("waiting", -1, [])
    assert "no master is known" in state.problem


@pytest.mark.parametrize("piece_bytes", [None, 1, 7, 1000])
def test_a_log_arrives_byte_for_byte(cable: Cable, clock: ManualClock, piece_bytes: int | None) -> None:
    master = Master(cable, clock)
    master.put(*(b"before %d" % n for n in range(50)))
    cable.piece_bytes = piece_bytes
    slave = following(cable, clock, master)
    master.put(*(b"after %d" % n for n in range(50)))
    settle(slave)
    assert slave.log == master.log
    assert everything(slave.store) == everything(master.store)
    state = slave.ha_client.state()
    assert (state.state, state.problem, state.lag_bytes, state.lag_ms) == ("following", "", 0, 0)
    assert state.master_log_end == master.store.physical_max_offset
    (seen,) = master.ha_service.states()
    assert (seen.ack_offset, seen.lag_bytes, seen.in_sync) == (master.store.physical_max_offset, 0, True)


def test_segments_follow_each_other(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    for n in range(5):
        master.put(*(b"%d" % n * 9000 for _ in range(4)))
        cable.settle()
    settle(slave)
    assert master.store.physical_max_offset > 2 * SEGMENT
    assert slave.log == master.log
    assert everything(slave.store) == everything(master.store)


def test_a_new_slave_gets_the_last_segment(cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="pymq.broker.replication.slave.ha_client")
    master = Master(cable, clock)
    master.put(*(b"x" * 30_000 for _ in range(5)))
    slave = following(cable, clock, master)
    settle(slave)
    assert f"following the master at {MASTER_HA} from offset {2 * SEGMENT} on" in caplog.text
    assert slave.store.physical_min_offset == 2 * SEGMENT
    assert slave.log == master.log[2 * SEGMENT :]


def test_a_new_slave_gets_everything_when_it_wants(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(*(b"x" * 30_000 for _ in range(5)))
    slave = following(cable, clock, master, haFullSync="true")
    settle(slave)
    assert slave.log == master.log


def test_a_masters_restart_is_survived(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    master.put(b"one")
    settle(slave)
    master.stop()
    slave.run(300)
    assert slave.ha_client.state().state == "waiting"
    assert "no connection" in slave.ha_client.state().problem
    again = Master(cable, clock, master.files)
    again.put(b"two")
    slave.run(RETRY_MAX_MS)
    assert slave.ha_client.state().state == "following"
    assert slave.log == again.log
    assert slave.epoch_file.history == again.epoch_file.history == master.epoch_file.history


def test_a_slave_hears_what_kind_of_master_it_joins(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    heard: list[str] = []
    slave.ha_client._master_role = SeenMasterRole("", heard.append)
    master.stop()
    slave.run(300)
    Master(cable, clock, master.files)
    slave.run(RETRY_MAX_MS)
    assert heard == ["ASYNC_MASTER"]


def test_a_slaves_restart_is_survived(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    master.put(b"one")
    settle(slave)
    slave.ha_client.close()
    slave.store.close()
    master.put(b"two")
    again = following(cable, clock, master, files=slave.files)
    settle(again)
    assert again.log == master.log
    assert everything(again.store) == everything(master.store)
    assert len(master.ha_service.states()) == 1


def test_a_slave_has_caught_up_once_it_has_what_the_master_had_when_it_joined(
    cable: Cable, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = Master(cable, clock)
    master.put(*(b"%d" % n for n in range(50)))
    end = master.store.physical_max_offset
    slave = Slave(cable, clock)
    cable.piece_bytes = 1000
    append = slave.follower.append
    seen: list[tuple[int, bool]] = []  # after each piece: the log's end, whether the slave has caught up

    def append_and_look(position: int, data: bytes | memoryview) -> None:
        append(position, data)
        slave.ha_client.tick()
        assert slave.ha_client.state().master_log_end == end
        seen.append((slave.follower.end, slave.ha_client.has_caught_up))

    monkeypatch.setattr(slave.follower, "append", append_and_look)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(20)
    assert len(seen) > 3
    assert not any(has_caught_up for _, has_caught_up in seen[:-1])
    assert (slave.follower.end, slave.ha_client.has_caught_up) == (end, True)


def asked_after_ms(cable: Cable, slave: Slave) -> int:
    """Return the ms until the slave asks for its master again."""
    before, start_ms = len(cable.asked), slave.clock.monotonic_ms()
    while len(cable.asked) == before:
        slave.run(STEP_MS)
    return slave.clock.monotonic_ms() - start_ms


def test_each_pause_is_twice_the_last_one_up_to_the_longest(cable: Cable, clock: ManualClock) -> None:
    slave = Slave(cable, clock)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(STEP_MS)
    pause_ms = RETRY_MIN_MS
    for _ in range(12):
        assert pause_ms // 2 <= asked_after_ms(cable, slave) <= pause_ms + STEP_MS
        pause_ms = min(2 * pause_ms, RETRY_MAX_MS)


def test_retry_pauses_grow(cable: Cable, clock: ManualClock) -> None:
    slave = Slave(cable, clock)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(60_000)
    assert 12 <= len(cable.asked) <= 30
    first = len(cable.asked)
    slave.ha_client.note_master("127.0.0.1:9", "127.0.0.1:10")
    slave.run(50)
    assert len(cable.asked) == first + 1, "another master is tried at once"


@pytest.mark.parametrize(("followed_ms", "is_soon"), [(STEADY_MS - 2 * STEP_MS, False), (STEADY_MS + STEP_MS, True)])
def test_a_slave_that_followed_for_a_while_begins_with_short_pauses(
    cable: Cable, clock: ManualClock, followed_ms: int, is_soon: bool
) -> None:
    slave = Slave(cable, clock)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(10 * RETRY_MAX_MS)
    master = Master(cable, clock)
    asked_after_ms(cable, slave)
    assert slave.ha_client.is_following
    slave.run(followed_ms)
    master.stop()
    cable.settle()
    pause_ms = asked_after_ms(cable, slave)
    assert (pause_ms <= RETRY_MIN_MS + STEP_MS) if is_soon else (pause_ms >= RETRY_MAX_MS // 2)


def test_a_refusal_is_shown_and_tried_again_slowly(cable: Cable, clock: ManualClock) -> None:
    Master(cable, clock)
    slave = Slave(cable, clock, brokerClusterName="other")
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(20)
    state = slave.ha_client.state()
    assert state.state == "refused"
    assert "refused: brokerClusterName is other on the slave and DefaultCluster on this master" in state.problem
    slave.run(4 * REFUSED_RETRY_MS)
    assert 4 <= len(cable.asked) <= 9


def test_another_segment_size_is_refused(cable: Cable, clock: ManualClock) -> None:
    Master(cable, clock)
    slave = Slave(cable, clock, mappedFileSizeCommitLog=2 * SEGMENT)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(20)
    assert f"mappedFileSizeCommitLog is {2 * SEGMENT} on the slave and {SEGMENT}" in slave.ha_client.state().problem


def test_one_id_is_one_slave_while_it_lives(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    first = following(cable, clock, master)
    second = Slave(cable, clock, listenPort=20999)
    second.ha_client.note_master(MASTER, MASTER_HA)
    second.run(20)
    assert "brokerId 1 belongs to the slave at 127.0.0.1:20911" in second.ha_client.state().problem
    first.ha_client.close()
    second.run(2 * REFUSED_RETRY_MS)
    assert second.ha_client.is_following


def test_a_log_ahead_in_the_same_epoch_is_truncated(cable: Cable, clock: ManualClock) -> None:
    """The master lost the end of its log with the power, and began another epoch."""
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    other = Master(Cable(), clock)
    master.put(b"kept")
    other.put(b"kept")  # the same bytes: at the same time
    end = master.store.physical_max_offset
    master.put(b"lost")
    settle(slave)
    master.leave("it died")
    other.take_over(cable)
    assert other.store.physical_max_offset == end
    other.epoch_file.history = master.epoch_file.history.renew(end, "again")
    other.put(b"another")
    slave.run(RETRY_MAX_MS)
    (change, *_) = slave.role_changes
    assert (change.truncate_to, change.role.broker_id) == (end, 1)
    assert f"the log from {end} to" in change.why
    assert slave.ha_client.state().state == "refused"


def after_other_bytes(cable: Cable, clock: ManualClock, kept: bytes, lost: bytes, **settings: Any) -> tuple[Slave, int]:
    """Return a slave with ``lost`` behind what it shares with its new master, and where the new one's log ends."""
    master = Master(cable, clock)
    slave = following(cable, clock, master, **settings)
    other = Master(Cable(), clock)
    if kept:
        master.put(kept)
        other.put(kept)  # the same bytes: at the same time
    end = master.store.physical_max_offset
    master.put(lost)
    settle(slave)
    master.leave("it died")
    other.take_over(cable)
    other.epoch_file.history = master.epoch_file.history.renew(end, "again")
    other.put(b"another")
    slave.run(RETRY_MAX_MS)
    return slave, end


def test_a_divergent_tail_up_to_the_limit_is_truncated_and_a_longer_one_is_the_operators_decision(
    cable: Cable, clock: ManualClock
) -> None:
    slave, end = after_other_bytes(cable, clock, b"kept", b"lost" * 1000)
    size = slave.follower.end - end
    assert 4000 < size < TRUNCATION_MAX_BYTES and slave.role_changes[0].truncate_to == end
    within, _ = after_other_bytes(Cable(), clock, b"kept", b"lost" * 1000, haTruncationMax=size)
    assert within.role_changes[0].truncate_to == end and within.ha_client.state().truncate_to == -1
    beyond, _ = after_other_bytes(Cable(), clock, b"kept", b"lost" * 1000, haTruncationMax=size - 1)
    state = beyond.ha_client.state()
    assert not beyond.role_changes and (state.state, state.truncate_to) == ("refused", end)
    next_step = f"pymq broker rejoin 127.0.0.1:20911 --truncate-to {end}"
    for word in (f"haTruncationMax={size - 1}", next_step, f"{size} bytes"):
        assert word in state.problem


def test_a_whole_log_is_never_truncated_without_the_operator(cable: Cable, clock: ManualClock) -> None:
    slave, _ = after_other_bytes(cable, clock, b"", b"lost")
    state = slave.ha_client.state()
    assert not slave.role_changes and state.truncate_to == 0 and "all of it from 0 on" in state.problem


@pytest.mark.parametrize("start", [0, 1, 4])
def test_a_truncation_that_the_histories_do_not_prove_is_refused(cable: Cable, clock: ManualClock, start: int) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    master.put(b"kept")
    settle(slave)
    master.leave("it died")
    history = history_to_body(master.epoch_file.history)
    answer = JoinAnswer(token=0, ha_address=MASTER_HA, start=start, epoch_history=history, log_end=1 << 40)
    cable.answerers[MASTER] = lambda command: Command(0, body=msgspec.json.encode(answer))
    slave.run(RETRY_MAX_MS)
    state = slave.ha_client.state()
    assert not slave.role_changes and state.truncate_to == -1
    assert f"truncated from {slave.follower.end} to {start}" in state.problem and "epoch histories" in state.problem


def test_other_bytes_are_refused(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    master.put(b"one")
    settle(slave)
    master.leave("it died")
    other = Master(cable, clock)
    other.put(b"two", b"three")
    other.epoch_file.history = master.epoch_file.history
    slave.run(RETRY_MAX_MS)
    assert "differ: digest" in slave.ha_client.state().problem
    assert not slave.role_changes


def test_a_slave_claims_epochs_as_its_log_reaches_them(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(b"x" * 3000)
    border = master.store.physical_max_offset
    master.epoch_file.history = master.epoch_file.history.begin(border, "second")
    master.put(b"y" * 3000)
    slave = Slave(cable, clock)
    claims = []
    append = slave.follower.append

    def noting_append(position: int, data: bytes | memoryview) -> None:
        claims.append((position, position + len(data), len(slave.epoch_file.history.entries)))
        append(position, data)

    slave.follower.append = noting_append  # type: ignore[method-assign]
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(50)
    assert slave.log == master.log
    assert slave.epoch_file.history == master.epoch_file.history
    assert claims and all(end <= border if count == 1 else start >= border for start, end, count in claims)


def test_a_slave_with_sync_flush_reports_what_is_on_its_disk(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master, flushDiskType="SYNC_FLUSH")
    master.put(b"one")
    cable.settle()
    assert slave.log == master.log
    assert master.ha_service.offset_acked_by(1) == 0
    assert slave.sync_requests
    slave.store.sync()
    slave.ha_client.end_turn()
    cable.settle()
    assert master.ha_service.offset_acked_by(1) == master.store.physical_max_offset


def test_a_slave_with_sync_flush_joins_with_a_synced_log(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master, flushDiskType="SYNC_FLUSH")
    master.put(b"one")
    cable.settle()
    cable.ends[-1][0].cut()
    slave.run(5000)
    assert not slave.ha_client.is_following
    slave.store.sync()
    slave.run(5000)
    assert slave.ha_client.is_following
    assert master.ha_service.offset_acked_by(1) == master.store.physical_max_offset


def test_a_silent_master_is_disconnected(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    slave.run(19_900)
    assert slave.ha_client.is_following
    while slave.ha_client.is_following:
        slave.run()
    assert "the master sent nothing for 20000 ms (haHousekeepingInterval)" in slave.ha_client.state().problem
    slave.run(RETRY_MAX_MS)
    assert slave.ha_client.is_following


def test_heartbeats_keep_both_sides_together(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    for _ in range(600):
        slave.run(100)
        master.ha_service.tick()
        cable.settle()
    assert slave.ha_client.is_following
    assert len(cable.ends) == 1
    assert slave.ha_client.state().last_heard_ms > clock.now_ms() - 6000


def test_a_full_disk_is_shown_and_nothing_is_lost(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)

    def full(call: str, path: str) -> None:
        if call == "pwrite" and "commitlog" in path:
            raise OSError(28, "No space left on device", path)

    slave.files.fault = full
    master.put(b"one")
    cable.settle()
    assert "can't be stored" in slave.ha_client.state().problem
    assert "No space left" in slave.ha_client.state().problem
    slave.files.fault = None
    slave.run(RETRY_MAX_MS)
    assert slave.log == master.log
    assert slave.ha_client.state().problem == ""


def test_frames_that_do_not_fit_end_the_connection(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    cable.ends[-1][1].write(encode_head(5, 3) + b"abc")
    cable.settle()
    assert "the master sends from offset 5, our log ends at 0" in slave.ha_client.state().problem
    assert slave.log == b""


def test_another_master_is_followed_when_name_servers_say_so(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    slave.ha_client.note_master("", "")
    slave.run(20)
    assert slave.ha_client.is_following, "no master at the name servers changes nothing"
    slave.ha_client.note_master("127.0.0.1:77", "127.0.0.1:78")
    assert "the master is now at 127.0.0.1:77" in slave.ha_client.state().problem
    slave.run(100)
    assert cable.asked[-1][0] == "127.0.0.1:77"


def test_a_new_ha_address_that_the_slave_uses_already_changes_nothing(cable: Cable, clock: ManualClock) -> None:
    """A restarted master answers the joining with its new HA address before the name server lists it."""
    slave = Slave(cable, clock)
    slave.ha_client.note_master(MASTER, "127.0.0.1:10")
    master = Master(cable, clock)
    slave.run(100)
    assert slave.ha_client.is_following and slave.ha_client.state().ha_address == MASTER_HA
    slave.ha_client.note_master(MASTER, MASTER_HA)
    assert slave.ha_client.is_following
    assert [state.is_connected for state in master.ha_service.states()] == [True]


def test_another_ha_address_of_the_same_master_is_taken(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    slave.ha_client.note_master(MASTER, "127.0.0.1:10")
    assert not slave.ha_client.is_following


def test_a_broker_does_not_follow_itself(cable: Cable, clock: ManualClock) -> None:
    slave = Slave(cable, clock)
    slave.ha_client.note_master("127.0.0.1:20911", "127.0.0.1:20912")
    slave.run(1000)
    assert cable.asked == []


def test_a_closed_link_is_silent(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    slave.ha_client.close()
    cable.settle()
    asked = len(cable.asked)
    slave.run(10_000)
    assert len(cable.asked) == asked
    assert master.ha_service.states()[0].state == "gone"


class Apache:
    """A RocketMQ master: it answers requests, and a test writes the frames of its stream by hand."""

    def __init__(self, cable: Cable, **config: str) -> None:
        self.reports = b""
        self.streams: list[Stream] = []
        self.config = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "mappedFileSizeCommitLog": str(SEGMENT),
            "brokerRole": "ASYNC_MASTER",
            **config,
        }
        self.table = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(3 * SEGMENT)}
        cable.answerers[MASTER] = self.answer
        cable.listeners[MASTER_HA] = lambda: self

    def answer(self, command: Command) -> Command:
        if command.code == RequestCode.GET_BROKER_CONFIG:
            return Command(0, body="".join(f"{key}={value}\n" for key, value in self.config.items()).encode())
        if command.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            return Command(0, body=json.dumps({"table": self.table}).encode())
        return Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="not supported")

    def opened(self, stream: Stream) -> None:
        self.streams.append(stream)

    def received(self, data: bytes) -> None:
        self.reports += data

    def writable(self) -> None: ...

    def closed(self, why: str) -> None: ...


def joined(cable: Cable, clock: ManualClock, **settings: Any) -> Slave:
    slave = Slave(cable, clock, **settings)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(20)
    return slave


def test_a_rocketmq_master_gets_a_bare_report(cable: Cable, clock: ManualClock) -> None:
    apache = Apache(cable)
    joined(cable, clock)
    assert apache.reports == encode_report(0)


def test_an_empty_log_begins_where_a_rocketmq_master_does(cable: Cable, clock: ManualClock) -> None:
    apache = Apache(cable)
    slave = joined(cable, clock)
    apache.streams[0].write(encode_head(2 * SEGMENT, 0))
    apache.streams[0].write(encode_head(2 * SEGMENT, 5) + b"bytes")
    settle(slave)
    assert slave.ha_client.is_following
    assert (slave.store.physical_min_offset, slave.log) == (2 * SEGMENT, b"bytes")
    assert apache.reports == b"".join(map(encode_report, (0, 2 * SEGMENT, 2 * SEGMENT + 5)))
    assert slave.epoch_file.history == EpochHistory()


def test_a_rocketmq_master_that_begins_within_a_segment_is_not_followed(cable: Cable, clock: ManualClock) -> None:
    apache = Apache(cable)
    slave = joined(cable, clock)
    apache.streams[0].write(encode_head(100, 5) + b"bytes")
    settle(slave)
    assert "begins at offset 100, which is no multiple of the segment size" in slave.ha_client.state().problem


@pytest.mark.parametrize(
    ("key", "value"),
    [("brokerClusterName", "x"), ("brokerName", "x"), ("mappedFileSizeCommitLog", "7"), ("brokerRole", "SLAVE")],
)
def test_a_rocketmq_master_is_compared(cable: Cable, clock: ManualClock, key: str, value: str) -> None:
    apache = Apache(cable, **{key: value})
    slave = joined(cable, clock)
    assert slave.ha_client.state().state == "refused"
    assert f"{key} is {value}" in slave.ha_client.state().problem
    assert not apache.streams


@pytest.mark.parametrize(("start", "end"), [(SEGMENT, 2 * SEGMENT), (0, 5)])
def test_a_log_that_is_not_within_a_rocketmq_masters_is_refused(
    cable: Cable, clock: ManualClock, start: int, end: int
) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    master.put(b"one")
    settle(slave)
    master.leave("another takes over")
    apache = Apache(cable)
    apache.table = {"commitLogMinOffset": str(start), "commitLogMaxOffset": str(end)}
    slave.run(RETRY_MAX_MS)
    assert f"goes from {start} to {end}: they can't be equal" in slave.ha_client.state().problem


def test_a_rocketmq_master_gives_all_to_a_slave_with_the_first_byte(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(*(b"x" * 30_000 for _ in range(5)))
    end = master.store.physical_max_offset
    apache = Apache(cable)
    apache.table = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(end)}
    slave = joined(cable, clock, haFullSync="true")
    assert apache.reports == encode_report(1)
    for start in range(0, end, SEGMENT):
        part = master.log[max(start, 1) : start + SEGMENT]
        apache.streams[0].write(encode_head(max(start, 1), len(part)) + part)
    settle(slave)
    assert slave.log == master.log
    assert everything(slave.store) == everything(master.store)


@pytest.mark.parametrize(("log_start", "log_end", "report"), [(SEGMENT, 3 * SEGMENT, SEGMENT), (0, SEGMENT - 1, 0)])
def test_a_rocketmq_master_is_asked_for_its_oldest_segment(
    cable: Cable, clock: ManualClock, log_start: int, log_end: int, report: int
) -> None:
    apache = Apache(cable)
    apache.table = {"commitLogMinOffset": str(log_start), "commitLogMaxOffset": str(log_end)}
    slave = joined(cable, clock, haFullSync="true")
    assert apache.reports == encode_report(report)
    assert slave.store.physical_min_offset == report


def test_without_name_servers_a_set_ha_address_is_followed_uncompared(cable: Cable, clock: ManualClock) -> None:
    apache = Apache(cable)
    slave = Slave(cable, clock, haMasterAddress=MASTER_HA)
    slave.run(20)
    apache.streams[0].write(encode_head(0, 0))
    settle(slave)
    assert slave.ha_client.is_following
    assert cable.asked == []
    assert slave.ha_client.state().ha_address == MASTER_HA


def test_few_bytes_are_dispatched_soon(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    delays_ms: list[int] = []
    slave.ha_client._wake_in = delays_ms.append
    clock.advance(DISPATCH_INTERVAL_MS)
    for _ in range(2):
        master.put(b"x")
        cable.settle()
    assert slave.store.max_offset("T", 0) == 1
    assert delays_ms == [DISPATCH_INTERVAL_MS]
    clock.advance(DISPATCH_INTERVAL_MS - 1)
    slave.ha_client.tick()
    assert (slave.store.max_offset("T", 0), delays_ms[-1]) == (1, 1)
    clock.advance(1)
    slave.ha_client.tick()
    assert slave.store.max_offset("T", 0) == 2
    assert len(delays_ms) == 2


@pytest.mark.parametrize(
    ("bytes_per_second", "interval_ms"), [(500_000, DISPATCH_INTERVAL_MS), (2_000_000, FAST_DISPATCH_INTERVAL_MS)]
)
def test_many_bytes_are_dispatched_in_larger_pieces(
    bytes_per_second: int, interval_ms: int, cable: Cable, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_pace, "FAST_BYTES_PER_SECOND", 1_000_000)
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    gaps_ms: list[int] = []
    seen, seen_ms, start_ms = 0, clock.monotonic_ms(), clock.monotonic_ms()
    while clock.monotonic_ms() < start_ms + 3 * RATE_PERIOD_MS:
        clock.advance(1)
        master.put(bytes(bytes_per_second // 1000))
        cable.settle()
        if slave.store.max_offset("T", 0) > seen:
            now_ms = clock.monotonic_ms()
            gaps_ms.append(now_ms - seen_ms)
            seen, seen_ms = slave.store.max_offset("T", 0), now_ms
    assert gaps_ms[-5:] == [interval_ms] * 5


def test_a_full_dispatch_size_is_dispatched_at_once(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    clock.advance(DISPATCH_INTERVAL_MS)
    master.put(b"handed on at once")
    cable.settle()
    start = slave.follower.end
    while slave.follower.end - start < DISPATCH_BYTES:
        assert slave.store.max_offset("T", 0) == 1
        master.put(bytes(30_000))
        cable.settle()
    assert slave.store.max_offset("T", 0) >= master.store.max_offset("T", 0) - 1  # the newest may have come in part
