"""MemoryBudget: what is counted, who is closed above the limit, and when answers wait."""

from __future__ import annotations

import pytest

from pymq.errors import Refusal
from pymq.net.buffer_account import LOOK_MS_MAX, READ_BYTES_MIN, BufferAccount
from pymq.net.limits import make_budget
from pymq.net.machine import memory_bytes
from pymq.net.memory_budget import (
    CLIENT_TABLES,
    MIB,
    PARKED_REQUESTS,
    REGISTRATIONS,
    UNFINISHED_FRAMES,
    UNREAD_ANSWERS,
    MemoryBudget,
)

LIMIT_BYTES = 800


class Peer:
    """A connection that holds what a test says."""

    def __init__(self, table: Table, host: str, size_bytes: int) -> None:
        self.host = host
        self.buffers = BufferAccount(table.budget)
        self.is_aborted = False
        self._table = table
        table.peers.append(self)
        self.buffers.note_unfinished(size_bytes)

    def held_bytes(self) -> int:
        return 0 if self.is_aborted else self.buffers.size_bytes + self._table.budget.held_for(self)

    def abort(self, reason: str) -> None:
        assert reason == "memory-budget" and not self.is_aborted
        self.is_aborted = True
        self._table.budget.begin_close(self, self.buffers.unread)
        self.buffers.release()


class Table:
    """The connections of a server."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.budget = MemoryBudget(limit_bytes)
        self.peers: list[Peer] = []
        self.budget.add_holders(lambda: self.peers)

    def hold(self, *sizes_bytes: int, host: str = "h") -> list[Peer]:
        return [Peer(self, host, size_bytes) for size_bytes in sizes_bytes]


def test_all_that_fits_into_the_limit_stays() -> None:
    table = Table()
    table.hold(LIMIT_BYTES // 2, LIMIT_BYTES // 2)
    assert table.budget.total_bytes == LIMIT_BYTES
    assert not any(peer.is_aborted for peer in table.peers)


def test_above_the_limit_the_greediest_go_until_an_eighth_is_free() -> None:
    table = Table()
    table.hold(100, 300, 250, 150, 1)
    assert [peer.is_aborted for peer in table.peers] == [False, True, False, False, False]
    assert (table.budget.total_bytes, table.budget.closed_count) == (501, 1)
    table.hold(250, 60)
    assert [peer.is_aborted for peer in table.peers] == [False, True, False, False, False, True, False]
    assert table.budget.total_bytes == 561


def test_many_small_connections_of_one_host_go_before_a_large_one_of_another() -> None:
    table = Table()
    (honest,) = table.hold(300, host="honest")
    table.hold(*[10] * 51, host="greedy")
    assert not honest.is_aborted
    assert sum(peer.is_aborted for peer in table.peers) == 11  # 10 bytes above the limit, and an eighth of it


def test_a_closed_connection_counts_no_more_although_its_parts_do_not_know_yet() -> None:
    table = Table()
    (clerk, small) = table.hold(1, 1)
    table.budget.hold_for(clerk, CLIENT_TABLES, LIMIT_BYTES)
    table.budget.relieve()
    assert clerk.is_aborted and table.budget.is_over
    table.budget.relieve()
    assert not small.is_aborted
    table.budget.forget(clerk)
    table.budget.hold_for(clerk, CLIENT_TABLES, -LIMIT_BYTES)  # too late: it is forgotten
    assert table.budget.total_bytes == 1 and table.budget.held[CLIENT_TABLES] == 0


def test_the_last_write_of_a_closed_connection_counts_until_it_is_freed() -> None:
    table = Table()
    (reader,) = table.hold(0)
    reader.buffers.note_write(0, LIMIT_BYTES + 1)
    assert reader.is_aborted and table.budget.closing_bytes == LIMIT_BYTES + 1
    freed = table.budget.end_close(reader)
    assert table.budget.closing_bytes == LIMIT_BYTES + 1
    freed()
    assert table.budget.closing_bytes == 0
    table.budget.end_close(reader)()
    assert table.budget.closing_bytes == 0


def test_what_needs_more_than_the_limit_leaves_is_refused_as_busy() -> None:
    table = Table()
    table.hold(700)
    table.budget.check_room(100, "a thing")
    with pytest.raises(Refusal, match=r"a thing needs 101 bytes, and .* holds 700 bytes.* limit is 800 ") as caught:
        table.budget.check_room(101, "a thing")
    assert (caught.value.code, table.budget.refused_count) == (2, 1)


def test_there_is_room_for_answers_until_half_of_the_limit_is_held() -> None:
    table = Table()
    table.hold(LIMIT_BYTES // 2)
    assert table.budget.has_room()
    table.hold(1)
    assert not table.budget.has_room()


def test_registrations_leave_room_for_answers_and_close_no_connection() -> None:
    table = Table()
    table.budget.hold(REGISTRATIONS, LIMIT_BYTES // 2)
    assert table.budget.has_room()
    table.budget.check_registration(0)
    with pytest.raises(Refusal, match=r"needs 1 bytes beside 400 of others; the limit is 400 ") as caught:
        table.budget.check_registration(1)
    assert caught.value.code == 2
    clerk, reader = Peer(table, "a", 1), Peer(table, "b", LIMIT_BYTES // 2)
    assert reader.is_aborted and not clerk.is_aborted


def test_kinds_add_up_and_end_at_zero() -> None:
    budget = MemoryBudget()
    peer = object()
    budget.hold(UNFINISHED_FRAMES, 5)
    budget.hold_for(peer, PARKED_REQUESTS, 7)
    budget.hold_for(peer, CLIENT_TABLES, 11)
    assert budget.held_for(peer) == 18 and budget.total_bytes == 23
    budget.hold_for(peer, PARKED_REQUESTS, -7)
    budget.forget(peer)
    assert budget.held_for(peer) == 0 and budget.held == {**dict.fromkeys(budget.held, 0), UNFINISHED_FRAMES: 5}


def test_the_limit_is_a_quarter_of_the_memory_at_most() -> None:
    assert make_budget().limit_bytes == min(256 * MIB, memory_bytes() // 4)
    assert make_budget(memory_bytes() // 4).limit_bytes == memory_bytes() // 4
    assert make_budget(memory_bytes()).limit_bytes == memory_bytes() // 4


class Transport:
    """A transport that has ``left`` bytes to write."""

    def __init__(self) -> None:
        self.left = 0

    def get_write_buffer_size(self) -> int:
        return self.left


def test_a_write_counts_whole_until_the_peer_has_read_all_of_it() -> None:
    budget, transport = MemoryBudget(), Transport()
    account = BufferAccount(budget)
    account.note_write(0, 1000)
    transport.left = 400
    account.measure_unread(transport)  # type: ignore[arg-type]
    assert budget.held[UNREAD_ANSWERS] == 1000
    account.note_write(400, 100)
    assert account.unread == 500
    transport.left = 30
    account.measure_unread(transport)  # type: ignore[arg-type]
    assert account.unread == 500
    transport.left = 0
    account.measure_unread(transport)  # type: ignore[arg-type]
    assert account.unread == budget.total_bytes == 0


def test_a_peer_has_stalled_when_it_reads_nothing_while_there_is_no_room() -> None:
    budget = MemoryBudget(1000)
    account = BufferAccount(budget)
    account.note_write(0, 900_000)
    assert not any(account.has_stalled(900_000, now_ms, 2000) for now_ms in (0, 1000, 1999))
    assert account.has_stalled(900_000, 2000, 2000)
    left_bytes = 900_000 - READ_BYTES_MIN
    assert account.has_stalled(left_bytes + 1, 2100, 2000), "it reads too little"
    assert not any(account.has_stalled(left_bytes, now_ms, 2000) for now_ms in (2200, 3200, 4199))
    account.note_write(left_bytes, 500)
    assert account.has_stalled(left_bytes + 500, 4200, 2000), "what comes later hides nothing"
    budget.hold(UNREAD_ANSWERS, -budget.total_bytes)
    assert not account.has_stalled(left_bytes + 500, 9000, 2000)


def test_a_server_that_looks_late_does_not_take_its_own_pause_for_the_peer_s() -> None:
    account = BufferAccount(MemoryBudget(1000))
    account.note_write(0, 900_000)
    late_ms = range(0, 10 * LOOK_MS_MAX, 5 * LOOK_MS_MAX)
    assert not any(account.has_stalled(900_000, now_ms, 2 * LOOK_MS_MAX) for now_ms in late_ms)
    assert account.has_stalled(900_000, 15 * LOOK_MS_MAX, 2 * LOOK_MS_MAX)


def test_a_peer_that_has_read_everything_begins_anew() -> None:
    account = BufferAccount(MemoryBudget(1000))
    account.note_write(0, 900_000)
    for now_ms, left_bytes in ((0, 900_000), (1000, 0), (2000, 900_000), (2999, 900_000)):
        assert not account.has_stalled(left_bytes, now_ms, 1000)
    assert account.has_stalled(900_000, 3000, 1000)
