"""JoiningMark: a log is set aside, dropped or put back, and a crash in each step leaves one log or the other."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from pymq.broker.raft.bodies import founding_id
from pymq.broker.raft.joining_mark import FORMER_DIRECTORY, JoiningMark
from pymq.broker.raft.node_directory import RAFT_STATE_FILE
from pymq.broker.raft.state_files import encode
from pymq.errors import StoreError
from pymq.raft.state import Kind, Membership, MembershipEntry, RaftState, Replica
from pymq.store.disk.fs import make_directory
from pymq.store.disk.memory_fs import MemoryFiles

ROOT = "/node"
N0 = Replica("n0", "00aa")
FIRST = Membership(((N0, Kind.VOTER),))
STATE = encode(RaftState(N0, 7, memberships=(MembershipEntry(0, FIRST),)))
OLD = {
    "commitlog/00000000000000000000": b"old log",
    "consumequeue/T/0/00000000000000000000": b"old queue",
    "checkpoint": b"old checkpoint",
    f"config/{RAFT_STATE_FILE}": STATE,
    "config/consumerOffset.json": b"old offsets",
    "config/consumerOffset.json.bak": b"older offsets",
}
NEW = {
    "commitlog/00000000000000001000": b"new log",
    "commitlog/00000000000000002000": b"more of it",
    f"config/{RAFT_STATE_FILE}": b"new state",
    "config/topics.json": b"new topics",
}
KEPT = {"config/role.json": b"role", "divergent/tail.log": b"tail"}


def write(files: MemoryFiles, content: dict[str, bytes]) -> None:
    for name, data in content.items():
        path = f"{ROOT}/{name}"
        make_directory(files, path.rpartition("/")[0])
        with closing(files.open(path, create=True)) as file:
            file.pwrite(0, data)
            file.sync()
        files.sync_dir(path.rpartition("/")[0])


def content(files: MemoryFiles) -> dict[str, bytes]:
    """Return all files of the node."""
    return {path[len(ROOT) + 1 :]: bytes(node.data) for path, node in files.nodes.items() if path.startswith(ROOT)}


def node(*contents: dict[str, bytes]) -> tuple[MemoryFiles, JoiningMark]:
    files = MemoryFiles()
    for each in (KEPT, *contents):
        write(files, each)
    return files, JoiningMark(files, ROOT)


def aside() -> dict[str, bytes]:
    return {f"{FORMER_DIRECTORY}/{name}": data for name, data in OLD.items()}


def test_a_log_is_set_aside_with_all_that_says_something_of_it() -> None:
    files, mark = node(OLD)
    assert not mark.has_former and mark.former_group() == ""
    mark.discard()
    assert content(files) == {**KEPT, **aside(), "config/raftJoining": b"copy"}
    assert mark.has_former and mark.former_group() == founding_id(FIRST)


def test_a_log_that_is_installed_replaces_the_former_one() -> None:
    files, mark = node(OLD)
    mark.discard()
    mark.set()
    write(files, NEW)
    mark.drop_former()
    assert mark.has_former, "a log that may be put back stays"
    mark.remove()
    mark.drop_former()
    assert content(files) == {**KEPT, **NEW} and not mark.has_former
    mark.recover()
    assert content(files) == {**KEPT, **NEW}


def test_an_unfinished_copy_is_dropped_and_the_former_log_stays() -> None:
    files, mark = node(OLD)
    mark.discard()
    for finish in (mark.discard, mark.recover):
        write(files, NEW)
        finish()
        assert content(files) == {**KEPT, **aside(), "config/raftJoining": b"copy"}


def test_a_former_log_is_put_back() -> None:
    files, mark = node(OLD)
    mark.discard()
    write(files, NEW)
    mark.put_back()
    assert content(files) == {**KEPT, **OLD} and not mark.is_set and not files.exists(f"{ROOT}/{FORMER_DIRECTORY}")


def test_a_replica_that_never_had_a_log_has_nothing_to_put_back() -> None:
    files, mark = node()
    mark.set()
    write(files, NEW)
    mark.recover()
    assert content(files) == {**KEPT, "config/raftJoining": b"copy"} and not mark.has_former
    assert mark.former_group() == ""


def test_a_mark_that_says_something_else_moves_and_removes_nothing() -> None:
    files, mark = node(OLD)
    write(files, {"config/raftJoining": b"cop"})
    before = content(files)
    for call in (mark.discard, mark.recover):
        with pytest.raises(StoreError, match="says 'cop', it must be aside, copy or back: nothing is moved or removed"):
            call()
    assert content(files) == before


class Crash(Exception):
    """The machine stops."""


def crash_at(files: MemoryFiles, count: int) -> None:
    """Have the machine stop before its change with this number."""
    left = count

    def fault(call: str, path: str) -> None:
        nonlocal left
        left -= call not in ("read_bytes", "open")
        if left < 0:
            raise Crash

    files.fault = fault


def crashed(files: MemoryFiles, chance: random.Random) -> MemoryFiles:
    """Return the disk after a power loss: the entries that were not synced are there or not, as file systems with a
    journal rename in one step; of file contents any part is there.
    """
    keeps_entries = chance.random() < 0.5
    return files.after_power_loss(lambda *place: chance.random() < 0.5, lambda path: keeps_entries)


@pytest.mark.parametrize("step", ["aside", "back", "installed"])
@pytest.mark.parametrize("power", ["killed", "power loss"])
def test_a_crash_in_each_step_leaves_one_whole_log(step: str, power: str) -> None:
    chance, count, has_crashed = random.Random(step), 0, True
    while has_crashed:
        files, mark = node(OLD)
        if step != "aside":
            mark.discard()
            write(files, NEW)
        crash_at(files, count)
        try:
            {"aside": mark.discard, "back": mark.put_back, "installed": mark.remove}[step]()
            mark.drop_former()
            has_crashed = False
        except Crash:
            pass
        files.fault = None
        if power == "power loss" and has_crashed:
            files = crashed(files, chance)
        after = JoiningMark(files, ROOT)
        after.recover()
        found = content(files)
        found.pop("config/raftJoining.tmp", None)
        possible = [{**KEPT, **OLD}, {**KEPT, **aside(), "config/raftJoining": b"copy"}]
        if step == "installed":
            possible = [{**KEPT, **NEW}, {**KEPT, **aside(), "config/raftJoining": b"copy"}]
        assert found in possible, (count, sorted(found))
        if after.has_former:
            after.put_back()
            found = content(files)
            found.pop("config/raftJoining.tmp", None)
            assert found == {**KEPT, **OLD}
        count += 1
    assert count > 8
