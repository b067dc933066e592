"""outgoing and incoming: a leader's bytes in parts of whole records, and a follower whose files become the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from pymq.broker.raft.incoming import check_bytes, write_pieces
from pymq.broker.raft.outgoing import HEAD_BYTES, PART_BYTES_MAX, Part, parts, whole_size
from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, ProtocolViolation
from pymq.raft.messages import AppendRequest, Piece
from pymq.raft.state import Kind, Membership, MembershipEntry, Position, Replica
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.divergent_tail import list_truncations, truncate_log
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from tests.store.support import ROOT, SMALL, everything, make_store, put

N0, N1 = Replica("n0", "00aa"), Replica("n1", "11bb")
MEMBERS = Membership(((N0, Kind.VOTER), (N1, Kind.VOTER)))


class Leader:
    """A store with random messages of several epochs; blanks lie at the ends of its small segments."""

    def __init__(self, rng: random.Random, count: int = 60) -> None:
        self.files = MemoryFiles()
        self.store = opened(self.files)
        self.ends = [0]
        for number in range(count):
            placed = put(self.store, "T", number % 3, rng.randbytes(rng.choice([0, 10, 300, 1500])), keys=f"k{number}")
            if placed.physical_offset > self.ends[-1]:
                self.ends.append(placed.physical_offset)  # a blank ends there
            self.ends.append(self.store.physical_max_offset)
        starts = sorted(rng.sample(self.ends[1:-1], 3))
        self.epochs = list(zip((1, 2, 5, 6), (0, *starts), strict=True))

    @property
    def end(self) -> int:
        return self.ends[-1]

    def request(self, begin: int, end: int, memberships: tuple[int, ...] = ()) -> AppendRequest:
        """Return the request for the bytes between two ends of records."""
        starts = [*(start for _, start in self.epochs), self.end]
        pieces = [
            Piece(number, max(start, begin), min(stop, end))
            for (number, start), stop in zip(self.epochs, starts[1:], strict=True)
            if start < end and stop > begin
        ]
        epoch = max((number for number, start in self.epochs if start < begin), default=0)
        entries = tuple(MembershipEntry(at, MEMBERS) for at in memberships)
        return AppendRequest(N0, N1, 6, Position(epoch, begin), tuple(pieces), entries, begin)

    def read(self, begin: int, end: int) -> bytes:
        return read(self.store, begin, end)


def opened(files: MemoryFiles) -> MessageStore:
    store = make_store(files)
    store.open()
    return store


def read(store: MessageStore, begin: int, end: int) -> bytes:
    data = b""
    while begin + len(data) < end:
        data += store.read_log(begin + len(data), end - begin - len(data))
    return data


def log_files(files: MemoryFiles) -> dict[str, bytes]:
    directory = f"{ROOT}/commitlog"
    return {name: files.read_bytes(f"{directory}/{name}") for name in files.listdir(directory)}


def merged(pieces: Iterator[Piece]) -> list[Piece]:
    """Return pieces with neighbors of one epoch as one."""
    found: list[Piece] = []
    for piece in pieces:
        if found and found[-1].epoch == piece.epoch:
            found[-1] = Piece(piece.epoch, found[-1].begin, piece.end)
        else:
            found.append(piece)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_long_request_becomes_parts_of_whole_records(seed: int) -> None:
    rng = random.Random(seed)
    leader = Leader(rng)
    begin, end = sorted(rng.sample(leader.ends, 2))
    inside = [at for at in leader.ends if begin < at <= end]
    request = leader.request(begin, end, tuple(sorted(rng.sample(inside, min(len(inside), 2)))))
    bytes_max = rng.choice([1, 8, 200, 1000, 5000, 1 << 20])
    found = list(parts(request, leader.store, bytes_max=bytes_max))
    assert b"".join(part.data for part in found) == leader.read(begin, end)
    assert found[0].request.previous == request.previous and found[-1].request.end == end
    assert tuple(merged(piece for part in found for piece in part.request.pieces)) == request.pieces
    assert tuple(entry for part in found for entry in part.request.memberships) == request.memberships
    for part, following in pairwise(found):
        assert following.request.previous == Position(part.request.pieces[-1].epoch, part.request.end)
    for part in found:
        check_bytes(part.request, part.data)
        is_one_record = sum(part.request.previous.end < at <= part.request.end for at in leader.ends) == 1
        assert len(part.data) <= bytes_max or is_one_record


def test_a_part_has_at_most_a_mebibyte() -> None:
    files = MemoryFiles()
    store = make_store(files, segment_size_bytes=16 << 20)
    store.open()
    ends = []
    for _ in range(3):
        put(store, "T", 0, bytes(PART_BYTES_MAX // 2 - 200))
        ends.append(store.physical_max_offset)
    put(store, "T", 0, bytes(PART_BYTES_MAX))
    ends.append(store.physical_max_offset)
    request = AppendRequest(N0, N1, 1, Position(0, 0), (Piece(1, 0, ends[-1]),), (), 0)
    assert [part.request.end for part in parts(request, store)] == [ends[1], ends[2], ends[3]]


def test_a_request_without_bytes_stays_one() -> None:
    leader = Leader(random.Random(1), 5)
    request = leader.request(leader.end, leader.end)
    assert list(parts(request, leader.store)) == [Part(request, b"")]
    check_bytes(request, b"")


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (
            bytes(8),
            r"the 8 bytes at offset \d+ \(0000000000000000\) begin no record; damage is not copied",
        ),
        (b"\x7f", r"the record at \d+ goes beyond \d+, where a record ends"),
    ],
)
def test_damage_is_not_sent(head: bytes, why: str) -> None:
    leader = Leader(random.Random(1))
    at = next(at for at in leader.ends[30:] if at % 4096)
    leader.files.open(f"{ROOT}/commitlog/{at // 4096 * 4096:020d}").pwrite(at % 4096, head)
    found = []
    with pytest.raises(CorruptRecordError, match=why) as caught:
        for part in parts(leader.request(0, leader.end), leader.store, bytes_max=700):
            found.append(part)
    assert caught.value.physical_offset == at == found[-1].request.end


# -- a follower --------------------------------------------------------------------------------------------------------


class Follower:
    """A store that follows. ``take`` does what the core does with a request: what is behind the log's end is new."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files = files
        self.store = opened(files)
        self.log = self.store.follow()

    def take(self, part: Part) -> int:
        check_bytes(part.request, part.data)
        new = [Piece(p.epoch, max(p.begin, self.log.end), p.end) for p in part.request.pieces if p.end > self.log.end]
        count = write_pieces(new, part.request, part.data, self.log)
        self.log.dispatch()
        return count


@pytest.mark.parametrize("seed", range(6))
def test_a_follower_s_files_become_the_leader_s(seed: int) -> None:
    rng = random.Random(seed)
    leader, follower = Leader(rng), Follower(MemoryFiles())
    while follower.log.end < leader.end:
        begin = rng.choice([at for at in leader.ends if at <= follower.log.end][-5:])  # sent again, in part
        end = rng.choice([at for at in leader.ends if at > follower.log.end][:20])
        for part in parts(leader.request(begin, end), leader.store, bytes_max=rng.choice([1, 700, 1 << 20])):
            follower.take(part)
        assert follower.log.end == follower.log.dispatched_end == end, "only whole records"
    assert everything(follower.store) == everything(leader.store)
    assert log_files(follower.files) == log_files(leader.files)


def test_a_divergent_tail_is_kept_and_replaced_by_the_leader_s_bytes() -> None:
    rng = random.Random(4)
    leader, files = Leader(rng), MemoryFiles()
    conflict = leader.epochs[2][1]  # up to here both have the bytes of the leaders of terms 1 and 2
    follower = Follower(files)
    for part in parts(leader.request(0, conflict), leader.store):
        follower.take(part)
    follower.store.close()
    alone = opened(files)  # it led in term 3, and nobody copied this
    for number in range(9):
        put(alone, "T", 0, b"alone-%d" % number)
    tail = read(alone, conflict, alone.physical_max_offset)
    alone.close()
    kept = truncate_log(files, ROOT, StoreSettings(**SMALL), conflict, ManualClock(), why="a leader of term 6")
    assert kept.start == conflict and files.read_bytes(kept.path) == tail and list_truncations(files, ROOT) == [kept]
    follower = Follower(files)
    for part in parts(leader.request(conflict, leader.end), leader.store, bytes_max=700):
        follower.take(part)
    assert log_files(files) == log_files(leader.files) and everything(follower.store) == everything(leader.store)


# -- what is refused ---------------------------------------------------------------------------------------------------


def one_part(leader: Leader) -> Part:
    (part,) = parts(leader.request(leader.ends[3], leader.ends[20]), leader.store)
    return part


def test_bytes_of_another_size_are_refused() -> None:
    part = one_part(Leader(random.Random(2)))
    for data in (part.data[:-1], part.data + b"\0", b""):
        with pytest.raises(ProtocolViolation, match=f"{len(data)} bytes for the log from"):
            check_bytes(part.request, data)


def test_ranges_that_end_within_a_record_are_refused() -> None:
    leader = Leader(random.Random(2))
    begin, end = leader.ends[3], leader.ends[20]
    for wrong in (end - 1, end - 8, leader.ends[19] + HEAD_BYTES):
        request = AppendRequest(N0, N1, 9, Position(1, begin), (Piece(6, begin, wrong),), (), 0)
        with pytest.raises(ProtocolViolation, match=f"no record ends at {wrong}: one from {leader.ends[19]} on goes"):
            check_bytes(request, leader.read(begin, wrong))
    pieces = (Piece(6, begin, end - 1), Piece(7, end - 1, end))
    with pytest.raises(ProtocolViolation, match=f"no record ends at {end - 1}"):
        check_bytes(AppendRequest(N0, N1, 9, Position(1, begin), pieces, (), 0), leader.read(begin, end))
    entries = (MembershipEntry(end - 1, MEMBERS),)
    with pytest.raises(ProtocolViolation, match=f"no record ends at {end - 1}"):
        check_bytes(
            AppendRequest(N0, N1, 9, Position(1, begin), (Piece(6, begin, end),), entries, 0), leader.read(begin, end)
        )


def test_bytes_that_are_no_records_are_refused() -> None:
    part = one_part(Leader(random.Random(2)))
    for data in (part.data[1:] + b"\0", bytes(len(part.data)), b"\xff" * len(part.data)):
        with pytest.raises(ProtocolViolation, match=r"the 8 bytes at offset \d+ \(.*\) begin no record"):
            check_bytes(part.request, data)


def test_any_changed_head_is_refused_or_ends_elsewhere() -> None:
    leader = Leader(random.Random(2))
    part, rng = one_part(leader), random.Random(3)
    heads = [at - part.request.previous.end for at in leader.ends[3:20]]
    for _ in range(300):
        data = bytearray(part.data)
        data[rng.choice(heads) + rng.randrange(HEAD_BYTES)] ^= rng.randrange(1, 256)
        try:
            check_bytes(part.request, bytes(data))
        except ProtocolViolation:
            continue
        assert whole_size(bytes(data), 0) == len(data), "another record's magic of the same size"
