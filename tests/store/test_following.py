"""A log that grows by another's bytes: equal files, queues and keys, wherever the pieces are cut."""

from __future__ import annotations

from pymq.store.following import Follower
from pymq.store.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.store.support import bodies, everything, make_store, put


def feed(follower: Follower, master: MessageStore, size: int) -> None:
    """Everything the master has, in pieces of at most ``size`` bytes."""
    while follower.end < master.physical_max_offset:
        follower.append(follower.end, master.read_log(follower.end, size))
        follower.dispatch()


def test_a_slave_has_what_its_master_has() -> None:
    master, slave = make_store(MemoryFiles()), make_store(MemoryFiles())
    master.open()
    slave.open()
    for number, body in enumerate(bodies(60)):
        put(master, "T", number % 3, body, tags="TagA", keys=f"k{number}")
    follower = Follower(slave)
    feed(follower, master, 77)
    assert follower.end == follower.dispatched_end == master.physical_max_offset
    assert everything(slave) == everything(master)
    assert slave.tail_digest(follower.end, 5000) == master.tail_digest(follower.end, 5000)


def test_two_topics_are_deleted_at_different_places() -> None:
    master, slave = make_store(MemoryFiles()), make_store(MemoryFiles())
    master.open()
    slave.open()
    follower = Follower(slave)
    for number in range(6):
        put(master, "Alpha", 0, b"a%d" % number)
        put(master, "Beta", 0, b"b%d" % number)
    master.delete_topic("Alpha")
    for number in range(6, 9):
        put(master, "Beta", 0, b"b%d" % number)
    master.delete_topic("Beta")
    put(master, "Alpha", 0, b"again")
    put(master, "Beta", 0, b"again")
    feed(follower, master, 500)
    slave.delete_topics_below(master.deletions.ends)
    assert everything(slave) == everything(master) == {("Alpha", 0): [b"again"], ("Beta", 0): [b"again"]}
