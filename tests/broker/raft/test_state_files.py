"""RaftStateFile: no crash, failure or damage takes a term or a vote back."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.raft.state_files import RaftStateFile, decode, encode, goes_on, within
from pymq.errors import StoreError, StoreUnavailableError, UsageError
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, RaftState, Replica
from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.disk.crash_points import crash_points, every_outcome

ROOT = "/store"
PATH = "/store/config/raftState.json"
N0, N1, N2 = Replica("n0", "00aa"), Replica("n1", "11bb"), Replica("n2", "22cc")
MEMBERS = Membership(((N0, Kind.VOTER), (N1, Kind.LEARNER), (N2, Kind.OBSERVER)))
FULL = RaftState(N0, 7, N1, (N2,), 400, (Epoch(1, 0), Epoch(7, 300)), (MembershipEntry(100, MEMBERS),))


def new_files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    files.sync_dir("/")
    files.sync_dir(ROOT)
    return files


@pytest.fixture
def files() -> MemoryFiles:
    return new_files()


def opened(files: MemoryFiles, node_id: str = "n0", log_end: int = 1000) -> tuple[RaftStateFile, RaftState]:
    file = RaftStateFile(files, ROOT, random.Random(5))
    return file, file.open(node_id, log_end)


def planted(files: MemoryFiles, state: RaftState) -> None:
    """Save a state that another replica id wrote."""
    RaftStateFile(files, ROOT, random.Random(1)).save(state)


def test_a_node_without_a_file_is_a_new_replica() -> None:
    files = MemoryFiles()
    _, first = opened(files)
    assert first == RaftState(Replica("n0", first.replica.disk_id)) and len(first.replica.disk_id) == 16
    assert opened(files)[1] == first, "the disk id stays"
    files.remove(PATH)
    file = RaftStateFile(files, ROOT, random.Random(6))
    assert file.open("n0", 0).replica.disk_id != first.replica.disk_id, "an emptied disk is another replica"


def test_a_state_comes_back_as_it_was_saved(files: MemoryFiles) -> None:
    planted(files, FULL)
    assert opened(files)[1] == FULL
    assert opened(files, log_end=400)[1] == FULL


def test_what_lies_beyond_the_log_s_end_is_dropped() -> None:
    state = within(FULL, 300)
    assert state.epochs == (Epoch(1, 0),) and state.confirm_offset == 300
    assert (state.replica, state.term, state.vote, state.promised) == (N0, 7, N1, (N2,)), "no vote is taken back"
    later = MembershipEntry(350, Membership(((N0, Kind.VOTER),)))
    grown = replace(FULL, memberships=(*FULL.memberships, later))
    assert within(grown, 350) == replace(grown, confirm_offset=350)
    assert within(grown, 349).memberships == within(grown, 9).memberships == FULL.memberships
    assert within(grown, 9).is_founded, "it founds its group no second time"


def test_a_log_that_lost_confirmed_bytes_is_another_replica_s(files: MemoryFiles) -> None:
    planted(files, FULL)
    state = opened(files, log_end=399)[1]
    assert state.replica.node_id == "n0" and state.replica.disk_id != N0.disk_id
    assert state == replace(within(FULL, 399), replica=state.replica, vote=None, promised=())
    assert opened(files, log_end=399)[1] == state, "it stays that replica"


def test_a_log_that_may_have_lost_bytes_is_another_replica_s(
    files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    planted(files, FULL)
    file = RaftStateFile(files, ROOT, random.Random(5))
    state = file.open("n0", 1000, lost="it was not stopped cleanly")
    assert state == replace(FULL, replica=state.replica, vote=None, promised=()) and state.replica != N0
    file.save(replace(state, term=8, vote=N2))
    assert "n0: it was not stopped cleanly; it joins with the new disk id" in caplog.text


def test_the_file_is_readable_and_stays_as_it_is() -> None:
    """Later versions must read it."""
    founded = MembershipEntry(12, Membership(((N0, Kind.VOTER),)))
    raw = encode(RaftState(N0, 3, N1, (), 12, (Epoch(3, 0),), (founded,)))
    assert raw.decode() == GOLDEN
    assert encode(decode(raw)) == raw


GOLDEN = """\
{"checksum": "591c33ae89f28856",
"state": {
 "format": 1,
 "replica": {
  "nodeId": "n0",
  "diskId": "00aa"
 },
 "term": 3,
 "vote": {
  "nodeId": "n1",
  "diskId": "11bb"
 },
 "promised": [],
 "confirmOffset": 12,
 "epochs": [
  {
   "number": 3,
   "start": 0
  }
 ],
 "memberships": [
  {
   "end": 12,
   "members": [
    {
     "nodeId": "n0",
     "diskId": "00aa",
     "kind": "voter"
    }
   ]
  }
 ]
}}
"""


def test_another_node_s_directory_is_refused(files: MemoryFiles) -> None:
    planted(files, FULL)
    with pytest.raises(UsageError, match=r"raftState\.json belongs to n0, this broker is n1: .* dLegerSelfId=n0"):
        opened(files, "n1")


# -- terms and votes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "may"),
    [
        (RaftState(N0, 8), True),
        (RaftState(N0, 8, N2), True),
        (RaftState(N0, 7, N1, ()), True),
        (RaftState(N0, 7, N2), False),
        (RaftState(N0, 7), False),
        (RaftState(N0, 6, N1), False),
        (RaftState(N1, 8), False),
    ],
)
def test_a_state_that_takes_a_vote_back_is_a_bug(files: MemoryFiles, after: RaftState, may: bool) -> None:
    assert goes_on(FULL, after) is may
    planted(files, FULL)
    file, _ = opened(files)
    if may:
        file.save(after)
    else:
        with pytest.raises(AssertionError, match="does not follow"):
            file.save(after)
    assert opened(files)[1].term == (after.term if may else 7)


def test_an_unchanged_state_is_not_written(files: MemoryFiles) -> None:
    file, state = opened(files)
    calls: list[str] = []
    files.fault = lambda call, path: calls.append(call)
    file.save(state)
    assert calls == []


@pytest.mark.parametrize("is_first", [True, False])
def test_a_crash_between_any_two_calls_leaves_the_old_or_the_new_state(files: MemoryFiles, is_first: bool) -> None:
    """A start after the crash reads one of them; a power loss after that start takes it back no more."""
    old = None if is_first else FULL
    if old is not None:
        planted(files, old)
    new = RaftState(N0, 8, N2, (), 500, FULL.epochs, FULL.memberships)
    points = outcomes = 0

    def save() -> None:
        planted(files, new)

    def read(disk: MemoryFiles) -> RaftState | None:
        return decode(disk.read_bytes(PATH)) if disk.exists(PATH) else None

    for is_finished in crash_points(save, files):
        points += 1
        allowed = [new] if is_finished else [old, new]
        for after in every_outcome(files):
            outcomes += 1
            assert read(after) in allowed
        if read(files) is None:
            continue
        state = opened(files)[1]  # the process was killed; it starts again, and then the power fails
        assert state in allowed
        for after in every_outcome(files):
            assert read(after) == state, "it has acted on this state"
    assert points >= 7 and outcomes >= 14


class Crash(BaseException):
    """The machine stops here."""


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_crash_lets_a_term_or_vote_go_back(rng: random.Random) -> None:
    """Kills, power losses and failing calls; after each the state is that of the last save, or of a later try."""
    files = new_files()
    file, state = opened(files)
    for _ in range(12):
        after = _next(rng, state)
        files.fault = _faults(rng)
        try:
            file.save(after)
            tried, state = None, after
        except StoreUnavailableError:
            tried = after
        except Crash:
            tried = after
        files.fault = None
        ending = rng.choice(["none", "kill", "power"])
        if ending == "none" and tried is None:
            continue
        if ending == "power":
            files = _powered_off(files, rng)
        file, found = opened(files)
        if rng.random() < 0.3:  # it has acted on what it read, and now the power fails
            assert opened(_powered_off(files, rng))[1] == found
        assert found in (state, tried)
        assert goes_on(state, found)
        state = found


def _next(rng: random.Random, state: RaftState) -> RaftState:
    """Return a state that may follow: a vote in this term, or a later term with or without a vote."""
    voter = rng.choice([N0, N1, N2])
    if state.vote is None and rng.random() < 0.5:
        return RaftState(state.replica, state.term, voter)
    return RaftState(state.replica, state.term + rng.randint(1, 3), rng.choice([None, voter]))


def _powered_off(files: MemoryFiles, rng: random.Random) -> MemoryFiles:
    def coin(*_: object) -> bool:
        return rng.random() < 0.5

    return MemoryFiles.restored(files.snapshot().after_power_loss(coin, coin, coin))


def _faults(rng: random.Random) -> Callable[[str, str], None]:
    at, kind = rng.randint(1, 9), rng.choice([None, Crash, errno.ENOSPC, errno.EIO])
    seen = 0

    def fault(call: str, path: str) -> None:
        nonlocal seen
        seen += 1
        if seen == at and kind is Crash:
            raise Crash
        if seen == at and isinstance(kind, int):
            raise OSError(kind, os.strerror(kind), path)

    return fault


# -- damage ------------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_found() -> None:
    good = encode(RaftState(N0, 7, N1))
    state = decode(good)
    for at in range(len(good)):
        for bit in range(8):
            try:
                assert decode(good[:at] + bytes((good[at] ^ 1 << bit,)) + good[at + 1 :]) == state
            except ValueError:
                continue


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is damaged"),
        (b"\0" * 40, "it is damaged"),
        (encode(FULL)[:-9], "it is damaged"),
        (b"[]", "it is damaged"),
        (b'{"state": {}}', "it is damaged"),
        (b'{"checksum": "0", "state": {}}', "does not match its checksum: it is damaged, or was edited"),
        (encode(FULL).replace(b'"term": 7', b'"term": 6'), "does not match its checksum"),
    ],
)
def test_a_damaged_file_is_refused_and_no_older_one_is_used(files: MemoryFiles, content: bytes, why: str) -> None:
    planted(files, RaftState(N0, 6, N2))
    planted(files, FULL)
    files.open(PATH).truncate(0)
    files.open(PATH).pwrite(0, content)
    with pytest.raises(StoreError, match=rf"raftState\.json: .*{why}.*Do not put back an older copy\. Move the file"):
        opened(files)
    files.remove(PATH)
    assert opened(files)[1].replica.disk_id != N0.disk_id


def test_a_later_version_s_file_is_refused() -> None:
    body = b'{"format": 2}'
    raw = b'{"checksum": "%s", "state": %s}' % (xxhash.xxh3_64_hexdigest(body).encode(), body)
    with pytest.raises(ValueError, match="of another version than 1"):
        decode(raw)


def test_an_unreadable_file_is_refused(files: MemoryFiles) -> None:
    planted(files, FULL)

    def fault(call: str, path: str) -> None:
        if call == "read_bytes":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    with pytest.raises(StoreError, match=r"can't be read: Input/output error \(errno 5\)"):
        opened(files)


@pytest.mark.parametrize("call", ["sync", "sync_dir"])
def test_a_state_that_can_t_be_synced_is_not_acted_on(files: MemoryFiles, call: str) -> None:
    planted(files, FULL)

    def fault(called: str, path: str) -> None:
        if called == call:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    with pytest.raises(StoreUnavailableError, match="does not vote with what a power loss may take back"):
        opened(files)


@pytest.mark.parametrize("call", ["open", "truncate", "pwrite", "sync", "replace", "sync_dir"])
def test_a_failing_save_says_what_to_do_and_the_next_one_works(files: MemoryFiles, call: str) -> None:
    planted(files, FULL)
    file, _ = opened(files)

    def fault(called: str, path: str) -> None:
        if called == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = fault
    with pytest.raises(StoreUnavailableError, match=r"can't be saved: No space left.*neither votes nor leads until"):
        file.save(RaftState(N0, 8, N2))
    files.fault = None
    file.save(RaftState(N0, 8, N1))
    assert opened(files)[1] == RaftState(N0, 8, N1)
