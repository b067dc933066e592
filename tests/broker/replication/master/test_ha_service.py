"""HaService: the bytes that slaves get, the bytes that count as confirmed, and the refusal of bad peers."""

from __future__ import annotations

import logging
import struct

import pytest

from pymq.broker.replication.master.ha_connection import PROOF_MS_MAX, TURN_BYTES_MAX, UNSENT_BYTES_MAX
from pymq.broker.replication.master.ha_service import (
    CONNECTIONS_MAX,
    GONE_MAX,
    UNPROVEN_PER_HOST_MAX,
    UNPROVEN_STRANGERS_MAX,
)
from pymq.broker.replication.master.rejected_peers import REJECTED_PEERS_MAX, SHOWN_MS
from pymq.broker.replication.roles.group_probe import Member
from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError
from pymq.rate_limited_log import LINES_MAX, REPEAT_MS
from pymq.wire.ha import encode_report
from pymq.wire.streams import Stream
from tests.broker.replication.cable import Cable, End
from tests.broker.replication.group import MASTER, MASTER_HA, SEGMENT, Master, Slave, following
from tests.store.support import put

MIB = 1024 * 1024


class Peer:
    """A slave written by hand: keeps what it is sent."""

    def __init__(self, cable: Cable, *first: int) -> None:
        self.data = b""
        self.why = ""
        self.first = first
        self.stream: End
        self.cable = cable
        cable.connect(MASTER_HA, self)
        cable.settle()

    def opened(self, stream: Stream) -> None:
        assert isinstance(stream, End)
        self.stream = stream
        if self.first:
            stream.write(b"".join(map(encode_report, self.first)))

    def received(self, data: bytes) -> None:
        self.data += data

    def writable(self) -> None: ...

    def closed(self, why: str) -> None:
        self.why = why

    def report(self, *offsets: int) -> None:
        self.stream.write(b"".join(map(encode_report, offsets)))
        self.cable.settle()

    @property
    def masters_end(self) -> End:
        return self.stream.other

    def frames(self) -> list[tuple[int, bytes]]:
        found, at = [], 0
        while at < len(self.data):
            start, size = struct.unpack_from(">qi", self.data, at)
            found.append((start, self.data[at + 12 : at + 12 + size]))
            at += 12 + size
        return found


def bodies(peer: Peer) -> bytes:
    return b"".join(data for _, data in peer.frames())


def test_a_rocketmq_slave_that_reports_0_gets_the_last_segment(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(*(b"x" * 30_000 for _ in range(5)))
    peer = Peer(cable, 0)
    assert peer.frames()[0] == (2 * SEGMENT, b"")
    assert bodies(peer) == master.log[2 * SEGMENT :]


def test_frames_are_bounded_and_end_with_their_segment(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(*(b"x" * 30_000 for _ in range(5)))
    peer = Peer(cable, 10)
    at = 10
    for start, data in peer.frames():
        assert start == at and len(data) <= 4096
        assert not data or start // SEGMENT == (start + len(data) - 1) // SEGMENT
        at += len(data)
    assert bodies(peer) == master.log[10:]


def test_a_slave_that_has_caught_up_gets_a_turn_in_one_write(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    peer = Peer(cable, 0)
    before = len(peer.masters_end.sent)
    master.put(b"one")
    (write,) = peer.masters_end.unsent
    assert write == peer.masters_end.sent[before:]


def test_unsent_bytes_of_a_stalled_slave_are_bounded(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock, mappedFileSizeCommitLog=8 * MIB, haTransferBatchSize=256 * 1024)
    slow, quick = Peer(cable, 0), Peer(cable, 0)
    slow.masters_end.holds = True
    for _ in range(40):
        master.put(b"x" * 100_000)
        cable.settle()
    assert UNSENT_BYTES_MAX <= slow.masters_end.unsent_bytes <= UNSENT_BYTES_MAX + 256 * 1024
    assert bodies(quick) == master.log
    assert [state.state for state in master.ha_service.states()] == ["catching-up", "following"]
    slow.masters_end.release()
    cable.settle()
    assert bodies(slow) == master.log


def test_catching_up_is_done_in_pieces(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock, mappedFileSizeCommitLog=8 * MIB, haTransferBatchSize=256 * 1024)
    master.put(*(b"x" * 100_000 for _ in range(40)))
    peer = Peer(cable)
    peer.masters_end.handler.received(encode_report(0))
    assert peer.masters_end.unsent_bytes <= TURN_BYTES_MAX + 100
    cable.settle()
    assert bodies(peer) == master.log


def test_the_confirm_offset_is_what_enough_slaves_have(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(b"one", b"two", b"three")
    end = master.store.physical_max_offset
    reported: list[int] = []
    master.ha_service.add_ack_listener(lambda: reported.append(master.ha_service.offset_acked_by(1)))
    one, two = Peer(cable, 0), Peer(cable, 0)
    one.report(100)
    two.report(end)
    assert [master.ha_service.offset_acked_by(copies) for copies in (0, 1, 2, 3)] == [end, end, 100, 0]
    assert reported[-1] == end
    two.stream.close()
    cable.settle()
    assert master.ha_service.offset_acked_by(1) == 100
    assert master.ha_service.offset_acked_by(2) == 0


def test_a_slave_far_behind_is_not_in_sync(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock, haMaxGapNotInSync=1000)
    master.put(b"x" * 5000)
    end = master.store.physical_max_offset
    peer = Peer(cable, 0)
    assert master.ha_service.in_sync_count == 0
    peer.report(end - 1000)
    assert master.ha_service.in_sync_count == 0
    peer.report(end - 999)
    assert master.ha_service.in_sync_count == 1


def test_a_slave_ahead_gets_heartbeats_alone_and_counts_for_nothing(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    peer = Peer(cable, 1000)
    for _ in range(30):
        master.put(b"x" * 100)
    clock.advance(5000)
    master.ha_service.tick()
    cable.settle()
    assert peer.frames() == [(1000, b"")] * 2
    (state,) = master.ha_service.states()
    assert state.state == "ahead"
    assert "its log ends at 1000, this master's at 0: these are not the same log" in state.problem
    assert (master.ha_service.offset_acked_by(1), master.ha_service.in_sync_count) == (0, 0)


def test_a_slave_behind_the_oldest_byte_has_to_start_empty(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(*(b"x" * 30_000 for _ in range(5)))
    master.store.sync()
    master.store._log.drop_oldest()
    peer = Peer(cable, 500)
    assert peer.why == "the peer closed it"
    (state,) = master.ha_service.states()
    assert (state.state, state.in_sync) == ("refused", False)
    assert f"its log ends at 500, before this master's oldest byte {SEGMENT}" in state.problem


def test_a_segment_that_is_deleted_under_a_slave(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock, haTransferBatchSize=1024)
    master.put(b"x" * 5000)
    peer = Peer(cable, 0)
    peer.report(1000)
    peer.masters_end.holds = True
    master.ha_service._connections[0]._is_waiting = True  # as after UNSENT_BYTES_MAX
    master.put(*(b"x" * 30_000 for _ in range(5)))
    master.store.sync()
    master.store._log.drop_oldest()
    peer.masters_end.handler.writable()
    cable.settle()
    (state,) = master.ha_service.states()
    assert "was deleted, the log begins at" in state.problem
    assert state.state == "gone"


def test_a_slave_is_announced_with_the_first_part_of_the_log_that_it_confirms(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    announced: list[int] = []
    master.ha_service.on_member = lambda: announced.append(master.ha_service.offset_acked_by(1))
    peer = Peer(cable, 0)
    assert not announced, "it has joined an empty log"
    master.put(b"one")
    end = master.store.physical_max_offset
    peer.report(end)
    master.put(b"two")
    peer.report(master.store.physical_max_offset)
    assert announced == [end]
    Peer(cable, end)
    assert len(announced) == 2, "it has joined with a part of the log"


def test_reports_that_go_back_are_a_problem(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(b"one", b"two")
    end = master.store.physical_max_offset
    peer = Peer(cable, 0)
    peer.report(end)
    peer.report(50)
    (state,) = master.ha_service.states()
    assert state.ack_offset == 50
    assert "its reports went back, now to 50" in state.problem
    assert master.ha_service.offset_acked_by(1) == 50


def test_a_report_past_the_sent_bytes_ends_the_connection(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    peer = Peer(cable, 0)
    peer.report(77)
    assert peer.why
    assert "reported offset 77, but was sent no more than 0" in master.ha_service.states()[0].problem


def test_garbage_is_closed_and_logged_once(cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    master = Master(cable, clock)
    for _ in range(3):
        peer = Peer(cable)
        peer.stream.write(b"GET / HTTP/1.1\r\n\r\n")
        cable.settle()
        assert peer.why
    (line,) = [record.message for record in caplog.records]
    assert line.endswith("it began with the bytes '47 45 54 20 2f 20 48 54' ('GET / HT'), and no slave does that")
    assert line.startswith("a connection from 127.0.0.1:")
    assert [state.state for state in master.ha_service.states()] == ["refused"]


def test_an_unknown_token_is_refused(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    Peer(cable, -5, 0)
    assert "its token is unknown or too old" in master.ha_service.states()[0].problem


def test_a_token_works_once_and_for_a_while(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    token = master.ha_service.joined_slave(3, "h:1", 0)
    assert token < 0
    Peer(cable, token, 0)
    assert master.ha_service.live_address(3) == "h:1"
    Peer(cable, token, 0)
    assert "its token is unknown or too old" in master.ha_service.states()[-1].problem
    late = master.ha_service.joined_slave(4, "h:2", 0)
    clock.advance(20_000)
    Peer(cable, late, 0)
    assert master.ha_service.live_address(4) == ""


def test_a_token_is_good_for_the_offset_it_was_given_for(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(b"x" * 100)
    peer = Peer(cable, master.ha_service.joined_slave(3, "h:1", 50), 60)
    assert peer.why
    assert "it joined to continue at 50, but reports 60" in master.ha_service.states()[0].problem


def test_the_same_slave_again_replaces_its_older_connection(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    first = Peer(cable, master.ha_service.joined_slave(3, "h:1", 0), 0)
    Peer(cable, master.ha_service.joined_slave(3, "h:1", 0), 0)
    assert first.why == "the peer closed it"
    assert [state.state for state in master.ha_service.states()] == ["following"]


def test_a_silent_peer_is_disconnected(cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    master = Master(cable, clock)
    master.put(b"one")
    mute, slave = Peer(cable, 0), Peer(cable, 0)
    for _ in range(4):
        clock.advance(5000)
        slave.report(1)
        master.ha_service.tick()
        cable.settle()
    assert mute.why and not slave.why
    assert "it sent nothing for 20000 ms (haHousekeepingInterval)" in caplog.text


def test_the_number_of_connections_is_bounded(
    cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    Master(cable, clock)
    peers = [Peer(cable, 0) for _ in range(CONNECTIONS_MAX + 2)]
    assert [bool(peer.why) for peer in peers] == [False] * CONNECTIONS_MAX + [True] * 2
    assert len([record for record in caplog.records if f"limit of {CONNECTIONS_MAX} is reached" in record.message]) == 1
    peers[0].stream.close()
    cable.settle()
    assert not Peer(cable, 0).why


def test_an_idle_peer_makes_room_for_a_new_one(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave, ahead = Peer(cable, 0), Peer(cable, 1000)
    others = [Peer(cable, 0) for _ in range(CONNECTIONS_MAX - 2 - UNPROVEN_PER_HOST_MAX)]
    mute = [Peer(cable) for _ in range(UNPROVEN_PER_HOST_MAX)]
    late = Peer(cable, 0)
    assert [bool(peer.why) for peer in mute] == [True] + [False] * (UNPROVEN_PER_HOST_MAX - 1), "the oldest one"
    others += [Peer(cable, 0) for _ in range(UNPROVEN_PER_HOST_MAX - 1)]
    assert all(peer.why for peer in mute) and not ahead.why
    assert not Peer(cable, 0).why and ahead.why, "who gets nothing anyway goes last"
    assert Peer(cable, 0).why, "now all of them are slaves"
    assert not any(peer.why for peer in (slave, late, *others))
    assert master.ha_service.in_sync_count == CONNECTIONS_MAX


def test_a_storm_of_connections_does_not_push_out_the_slave(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    slave = following(cable, clock, master)
    for _ in range(20 * CONNECTIONS_MAX):
        Peer(cable)
    assert slave.ha_client.is_following and master.ha_service.in_sync_count == 1
    assert len(master.ha_service._connections) == 1 + UNPROVEN_PER_HOST_MAX
    slave.ha_client.close()
    cable.settle()
    assert following(cable, clock, master, broker_id=2).ha_client.is_following, "and another one finds its place"


def test_rejected_peers_do_not_push_out_absent_slaves(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    Peer(cable, master.ha_service.joined_slave(3, "h:1", 0), 0).stream.cut("reset")
    cable.settle()
    for number in range(GONE_MAX + 1):
        peer = Peer(cable)
        peer.masters_end.peer_address = f"10.0.0.{number}:1"
        peer.stream.write(b"rubbish!")
        cable.settle()
    states = [(state.broker_id, state.state) for state in master.ha_service.states()]
    assert states == [(3, "gone")] + [(-1, "refused")] * REJECTED_PEERS_MAX
    assert not master.ha_service.are_all_there
    clock.advance(SHOWN_MS)
    assert [(state.broker_id, state.state) for state in master.ha_service.states()] == [(3, "gone")]


def test_eight_bytes_of_zero_make_no_slave(cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    master = Master(cable, clock)
    master.put(b"one")
    caplog.set_level(logging.INFO)
    for number in range(2 * LINES_MAX):
        peer = Peer(cable, 0)
        peer.masters_end.peer_address = f"10.0.0.{number}:1"
        peer.stream.cut("reset")
        cable.settle()
    assert master.ha_service.states() == [] and not caplog.records
    slave = Peer(cable, 0)
    slave.report(1)
    slave.stream.cut("reset")
    cable.settle()
    assert [state.state for state in master.ha_service.states()] == ["gone"], "as a slave of RocketMQ does"
    assert [record.message.partition(" ")[2].partition(" ")[2] for record in caplog.records] == [
        f"follows from offset {master.store.physical_max_offset} on",
        "its connection ended: reset",
    ]


def test_a_port_probe_is_not_logged(cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    master = Master(cable, clock)
    peer = Peer(cable)
    peer.stream.close()
    cable.settle()
    assert master.ha_service.states() == [] and not caplog.records


def test_evicted_peers_are_logged_once_a_minute(
    cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    master = Master(cable, clock)
    for number in range(3 * CONNECTIONS_MAX):
        cable.hosts.append(f"10.0.0.{number}")
        Peer(cable)
    (line,) = [record.message for record in caplog.records]
    assert line.endswith(f"another connection took its place: there are {UNPROVEN_STRANGERS_MAX}")
    assert len(master.ha_service._connections) == len(master.ha_service.states()) == UNPROVEN_STRANGERS_MAX


def test_strangers_take_no_place_of_known_brokers(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock, haSlaveHosts="")
    master.known_peers.note_listed({"10.0.9.1:10911": 1, "10.0.9.2:10911": 2})
    cable.hosts += ["10.0.9.1", *(f"10.0.0.{number}" for number in range(2 * CONNECTIONS_MAX)), "10.0.9.2"]
    slave, *strangers, late = [Peer(cable) for _ in range(2 * CONNECTIONS_MAX + 2)]
    assert not slave.why and not late.why
    assert sum(not peer.why for peer in strangers) == UNPROVEN_STRANGERS_MAX
    cable.hosts += ["10.0.9.2"] * UNPROVEN_PER_HOST_MAX
    others = [Peer(cable) for _ in range(UNPROVEN_PER_HOST_MAX)]
    assert not any(peer.why for peer in others)
    assert late.why and not slave.why, "the oldest one of the same host"


def test_eight_bytes_of_a_stranger_are_no_slave_and_get_nothing(
    cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    master = Master(cable, clock, haSlaveHosts="")
    hints = list[int]()
    master.known_peers.on_hint = lambda: hints.append(1)
    master.put(b"one")
    stranger = Peer(cable, master.store.physical_max_offset)
    assert stranger.data == b"" and master.ha_service.in_sync_count == 0 and hints == [1]
    assert master.ha_service.offset_acked_by(1) == 0 and master.ha_service.live_address(-1) == ""
    clock.advance(PROOF_MS_MAX - 1)
    master.ha_service.tick()
    cable.settle()
    assert not stranger.why
    clock.advance(1)
    master.ha_service.tick()
    cable.settle()
    assert stranger.why and stranger.data == b"" and "haSlaveHosts" in caplog.text


def test_a_rocketmq_slave_follows_once_a_name_server_lists_it(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock, haSlaveHosts="")
    master.put(b"one")
    slave = Peer(cable, 0)
    assert slave.data == b""
    master.known_peers.note_members([Member("127.0.0.1:30911", 1, answered=True)])
    master.ha_service.tick()
    cable.settle()
    assert bodies(slave) == master.log
    assert master.ha_service.in_sync_count == 0, "it has confirmed nothing"
    slave.report(master.store.physical_max_offset)
    assert master.ha_service.in_sync_count == 1


def test_a_slave_is_noted_before_it_is_sent_anything(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    master.put(b"one")
    noted = list[tuple[int, str]]()

    def note(broker_id: int, address: str) -> None:
        noted.append((broker_id, address))
        if broker_id == 4:
            raise StoreUnavailableError("the disk is full")

    master.ha_service.on_slave = note
    Peer(cable, master.ha_service.joined_slave(3, "10.0.0.3:1", 0))
    assert noted == [], "a token alone is no slave"
    Peer(cable, master.ha_service.joined_slave(3, "10.0.0.3:1", 0), 1)
    assert noted == [] and not master.known_peers.is_known("10.0.0.3:1"), "nor with another offset than it joined for"
    assert bodies(Peer(cable, master.ha_service.joined_slave(3, "10.0.0.3:1", 0), 0)) == master.log
    refused = Peer(cable, master.ha_service.joined_slave(4, "10.0.0.4:1", 0), 0)
    assert noted == [(3, "10.0.0.3:1"), (4, "10.0.0.4:1")] and refused.why and refused.data == b""
    assert master.known_peers.is_confirmed("10.0.0.3:1") and not master.known_peers.is_known("10.0.0.4:1")


def test_absent_slaves_that_never_joined_are_forgotten_first(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    Peer(cable, master.ha_service.joined_slave(3, "h:3", 0), 0).stream.cut("reset")
    for number in range(GONE_MAX):
        peer = Peer(cable, 0)
        peer.masters_end.peer_address = f"10.0.{number}.1:1"
        peer.stream.cut("reset")
        cable.settle()
    states = master.ha_service.states()
    assert len(states) == GONE_MAX
    assert (states[0].broker_id, states[1].address) == (3, "10.0.1.1:1")


def test_a_slave_s_coming_and_going_is_logged_each_time(
    cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    master = Master(cable, clock)
    for broker_id in (3, 4):
        for _ in range(2):
            Peer(cable, master.ha_service.joined_slave(broker_id, f"h:{broker_id}", 0), 0).stream.cut("reset")
            cable.settle()
            clock.advance(REPEAT_MS)
    assert [record.message for record in caplog.records if record.name.endswith("ha_service")] == [
        "slave 3 at h:3 follows from offset 0 on",
        "slave 3 at h:3: its connection ended: reset",
    ] * 2 + [
        "slave 4 at h:4 follows from offset 0 on",
        "slave 4 at h:4: its connection ended: reset",
    ] * 2


def test_a_refused_join_request_is_logged_and_shown(
    cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    master = Master(cable, clock)
    slave = Slave(cable, clock, brokerClusterName="Other")
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(20)
    (state,) = master.ha_service.states()
    assert (state.broker_id, state.address, state.state) == (1, "127.0.0.1:20911", "refused")
    assert "brokerClusterName is Other on the slave" in state.problem
    assert "slave 1 at 127.0.0.1:20911 was refused: brokerClusterName is Other on the slave" in caplog.text
    assert master.ha_service.are_all_there, "it never was one of them"
    following(cable, clock, master)
    assert [state.state for state in master.ha_service.states()] == ["following"]


def test_a_slave_that_is_refused_when_it_returns_stays_gone(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    Peer(cable, master.ha_service.joined_slave(3, "h:1", 0), 0).stream.cut("reset")
    cable.settle()
    master.ha_service.refused(3, "h:1", "digests differ")
    assert [(state.state, state.problem) for state in master.ha_service.states()] == [("gone", "digests differ")]


def test_an_unreadable_join_request_is_logged(
    cable: Cable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    master = Master(cable, clock)
    master.ha_service.refused(-1, "10.0.0.1:5", "it can't be read")
    assert "a join request from 10.0.0.1:5 was refused: it can't be read" in caplog.text
    assert [(state.address, state.state) for state in master.ha_service.states()] == [("10.0.0.1:5", "refused")]


def test_a_slave_that_moved_to_another_machine_is_back(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    Peer(cable, master.ha_service.joined_slave(3, "10.0.0.1:1", 0), 0).stream.cut("reset")
    cable.settle()
    assert not master.ha_service.are_all_there
    Peer(cable, master.ha_service.joined_slave(3, "10.0.0.2:1", 0), 0)
    assert [(state.address, state.state) for state in master.ha_service.states()] == [("10.0.0.2:1", "following")]
    assert master.ha_service.are_all_there


def test_slaves_without_an_id_are_distinguished_by_their_hosts(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock, haSlaveHosts="10.0.0.1;10.0.0.2")
    for number in (1, 2):
        peer = Peer(cable)
        peer.masters_end.peer_address = f"10.0.0.{number}:5"
        peer.stream.write(encode_report(0))
        cable.settle()
        peer.stream.cut("reset")
        cable.settle()
    assert [state.address for state in master.ha_service.states()] == ["10.0.0.1:5", "10.0.0.2:5"]


def test_all_slaves_may_leave_at_once(cable: Cable, clock: ManualClock) -> None:
    """After a power loss a master asks the slaves it has sent bytes to: none may be forgotten meanwhile."""
    master = Master(cable, clock)
    master.put(b"one")
    peers = [
        Peer(cable, master.ha_service.joined_slave(number, f"h:{number}", 0), 0)
        for number in range(1, CONNECTIONS_MAX + 1)
    ]
    for peer in peers:
        peer.stream.cut("reset")
    cable.settle()
    sent = {state.broker_id: state.sent_offset for state in master.ha_service.states()}
    assert sent == dict.fromkeys(range(1, CONNECTIONS_MAX + 1), master.store.physical_max_offset)


def test_a_slave_that_left_is_shown_until_its_return_for_a_limited_time(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    for number in range(1, GONE_MAX + 3):
        Peer(cable, master.ha_service.joined_slave(number, f"h:{number}", 0), 0).stream.cut("reset")
        cable.settle()
    states = master.ha_service.states()
    assert [state.broker_id for state in states] == list(range(3, GONE_MAX + 3))
    assert {(state.state, state.problem) for state in states} == {("gone", "reset")}
    Peer(cable, master.ha_service.joined_slave(5, "h:5", 0), 0)
    assert [state.broker_id for state in master.ha_service.states()].count(5) == 1


def test_lag_is_shown_in_bytes_and_time(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    peer = Peer(cable, 0)
    master.put(b"one")
    first = master.store.physical_max_offset
    clock.advance(300)
    master.put(b"two")
    clock.advance(400)
    (state,) = master.ha_service.states()
    assert (state.lag_bytes, state.lag_ms) == (master.store.physical_max_offset, 700)
    cable.settle()
    peer.report(first)
    (state,) = master.ha_service.states()
    assert (state.lag_bytes, state.lag_ms) == (master.store.physical_max_offset - first, 400)
    peer.report(master.store.physical_max_offset)
    (state,) = master.ha_service.states()
    assert (state.lag_bytes, state.lag_ms) == (0, 0)


def test_rates_are_of_the_last_second(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    peer = Peer(cable, 0)
    master.put(b"x" * 4000)
    cable.settle()
    peer.report(4000)
    clock.advance(2000)
    master.ha_service.tick()
    assert master.ha_service.states()[0].bytes_per_second == 2000


def test_a_token_names_the_slave(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    following(cable, clock, master, broker_id=7)
    (state,) = master.ha_service.states()
    assert (state.broker_id, state.address) == (7, "127.0.0.1:20917")


def test_closing_ends_all(cable: Cable, clock: ManualClock) -> None:
    master = Master(cable, clock)
    peers = [Peer(cable, 0), Peer(cable)]
    put(master.store, "T", 0, b"the last one")
    master.ha_service.close("the broker stops")
    cable.settle()
    assert all(peer.why for peer in peers)
    assert bodies(peers[0]) == master.log
