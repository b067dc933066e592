"""GroupTables: tables that follow a store's log, a leader's records in it, and the files that a start reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pymq.broker.metadata.table_saver import run_inline
from pymq.broker.raft.group_tables import QUEUE_ID, SAVE_BYTES_MIN, SAVE_INTERVAL_MS, GroupTables
from pymq.broker.raft.node_directory import TABLES_FILE
from pymq.broker.raft.table_files import LOG_END
from pymq.broker.replication.master.found_topics import make_found_topics
from pymq.broker.replication.roles.role import Role
from pymq.clock import ManualClock
from pymq.errors import StoreError
from pymq.model import names
from pymq.model.draft import Draft
from pymq.model.names import RAFT_TOPIC
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore, Placed
from tests.broker.world import BORN_HOST, ROOT, World, slave_side
from tests.store.support import SMALL

_TOPICS = "topics.json"
SEGMENT_BYTES = 4 << 20  # of a world


class _Writer:
    """Stages records, and tells how a commit ended."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._listeners: list[Callable[[bool], None]] = []

    def put(self, topic: str, queue_id: int, draft: Draft) -> Placed:
        return self._store.stage(topic, queue_id, draft)

    def when_committed(self, listener: Callable[[bool], None]) -> None:
        self._listeners.append(listener)

    def commit(self, *, is_stored: bool = True) -> int:
        """Commit what is staged, or drop it as a failing disk does; return the log's end."""
        if is_stored:
            self._store.commit()
        else:
            self._store._appender.drop_staged()
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(is_stored)
        return self._store.physical_max_offset


class Node:
    """A node's tables on a store in memory."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.files: MemoryFiles = self.world.files
        self.clock: ManualClock = self.world.clock
        self.store = self.world.parts.store
        self.writer = _Writer(self.store)
        self.answers: list[str | None] = []
        self.tables = GroupTables(
            files=self.files,
            root=ROOT,
            segment_bytes=SEGMENT_BYTES,
            clock=self.clock,
            store_host=BORN_HOST,
            run_in_thread=run_inline,
        )

    def open(self, *, leads: bool) -> None:
        self.tables.open(self.store, self.writer, lambda: None, leads=leads)

    def propose(self, **topics: Any) -> None:
        self.tables.table_log.propose(
            _TOPICS,
            {"topicConfigTable": topics},
            lambda error: self.answers.append(None if error is None else str(error)),
        )

    def topics(self) -> dict[str, Any] | None:
        table = self.tables.tables.get(_TOPICS)
        return None if table is None else table.as_object()["topicConfigTable"]

    def saved(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.files.read_bytes(f"{ROOT}/config/{name}"))
        return found


def _leader() -> Node:
    node = Node()
    node.open(leads=True)
    return node


def test_a_leader_s_record_is_in_the_system_topic_and_answered_once_confirmed() -> None:
    node = _leader()
    node.propose(A=1)
    end = node.writer.commit()
    assert node.store.max_offset(RAFT_TOPIC, QUEUE_ID) == 1
    node.tables.confirmed(end - 1)
    assert (node.topics(), node.answers) == (None, [])
    node.tables.confirmed(end)
    assert (node.topics(), node.answers) == ({"A": 1}, [None])


def test_a_follower_takes_what_is_confirmed_and_a_new_leader_plans_with_all() -> None:
    node = _leader()
    node.propose(A=1)
    first = node.writer.commit()
    node.propose(A=1, B=2)
    second = node.writer.commit()
    node.open(leads=False)
    assert node.answers[0] is not None
    node.tables.confirmed(first)
    assert node.topics() == {"A": 1}
    node.open(leads=True)
    planned = node.tables.table_log.planned(_TOPICS)
    assert planned is not None and planned.as_object()["topicConfigTable"] == {"A": 1, "B": 2}
    assert node.topics() == {"A": 1}
    node.tables.confirmed(second)
    assert node.topics() == {"A": 1, "B": 2}


def test_records_are_of_no_topic_for_clients() -> None:
    node = _leader()
    node.propose(A=1)
    node.writer.commit()
    topics = node.world.parts.metadata.topics
    assert make_found_topics(node.store, topics) == []
    assert topics.get(RAFT_TOPIC) is None
    assert names.is_send_forbidden(RAFT_TOPIC)
    assert RAFT_TOPIC in names.HIDDEN_TOPICS
    assert "for the members of a Raft group alone" in names.hidden_text(RAFT_TOPIC)


def test_a_failed_commit_is_answered() -> None:
    node = _leader()
    node.propose(A=1)
    node.writer.commit(is_stored=False)
    assert node.answers == ["the change could not be written to the log"]
    node.propose(B=1)
    node.tables.confirmed(node.writer.commit())
    assert node.topics() == {"B": 1}


def test_a_start_makes_the_records_since_the_last_save() -> None:
    node = _leader()
    node.propose(A=1)
    saved_end = node.writer.commit()
    node.tables.confirmed(saved_end)
    node.clock.advance(SAVE_INTERVAL_MS)
    node.tables.tick()
    assert node.saved(_TOPICS)[LOG_END] == saved_end
    assert node.saved(TABLES_FILE)[LOG_END] == saved_end
    node.propose(A=1, B=2)
    end = node.writer.commit()
    again = Node(node.world)
    again.open(leads=False)
    assert (again.topics(), again.tables.tables.end) == ({"A": 1}, saved_end)
    again.tables.confirmed(end)
    assert (again.topics(), again.tables.tables.end) == ({"A": 1, "B": 2}, end)


def test_the_place_in_the_log_is_saved_without_changes_too() -> None:
    node = _leader()
    node.propose(A=1)
    node.tables.confirmed(node.writer.commit())
    node.clock.advance(SAVE_INTERVAL_MS)
    node.tables.tick()
    before = node.saved(TABLES_FILE)[LOG_END]
    for end in (before + SAVE_BYTES_MIN - 1, before + SAVE_BYTES_MIN):
        node.tables.tables.pass_over(end)
        node.clock.advance(SAVE_INTERVAL_MS)
        node.tables.tick()
    assert node.saved(TABLES_FILE)[LOG_END] == before + SAVE_BYTES_MIN


def test_a_record_that_is_none_stops_the_tables_and_the_leadership() -> None:
    node = Node()
    node.open(leads=False)
    node.writer.put(RAFT_TOPIC, QUEUE_ID, Draft(b"no record", b"", 1, BORN_HOST))
    node.tables.confirmed(node.writer.commit())
    assert "can't be read" in node.tables.problem
    with pytest.raises(StoreError, match="can't lead"):
        node.open(leads=True)


def test_a_file_that_was_written_without_the_group_stops_the_start() -> None:
    node = _leader()
    node.propose(A=1)
    node.tables.confirmed(node.writer.commit())
    node.clock.advance(SAVE_INTERVAL_MS)
    node.tables.tick()
    node.world.parts.metadata.topics.save()  # a plain broker's
    node.world.parts.metadata.topics.ensure_system("SELF_TEST_TOPIC2")
    with pytest.raises(StoreError, match="written without the Raft group"):
        Node(node.world)


def test_what_a_plain_broker_left_is_written_once() -> None:
    node = _leader()
    saver = node.tables.config_tables(leads=True).saver(_TOPICS, "topicConfigTable")
    assert "SELF_TEST_TOPIC" in saver.load()["topicConfigTable"]
    node.tables.tick()
    node.tables.tick()
    node.tables.confirmed(node.writer.commit())
    assert "SELF_TEST_TOPIC" in (node.topics() or {})
    assert node.store.max_offset(RAFT_TOPIC, QUEUE_ID) == 1
    node.tables.tick()
    assert saver.load()["topicConfigTable"] == node.topics()


def _fill_segment(node: Node) -> None:
    """Write messages until the log is in its next segment."""
    end = (node.store.physical_max_offset // SEGMENT_BYTES + 1) * SEGMENT_BYTES
    while node.store.physical_max_offset < end:
        node.writer.put("Filler", 0, Draft(b"x" * 900_000, b"", 1, BORN_HOST))
        node.writer.commit()


def _delete_first_segment(node: Node) -> None:
    node.store._log.drop_oldest()
    while not node.store.sweep():
        pass
    assert node.store.physical_min_offset == SEGMENT_BYTES


def test_each_segment_has_all_tables_so_a_log_gives_them_from_any_begin() -> None:
    node = _leader()
    node.propose(A=1, B=2)
    node.tables.confirmed(node.writer.commit())
    node.tables.tick()
    assert node.store.max_offset(RAFT_TOPIC, QUEUE_ID) == 1
    _fill_segment(node)
    node.propose(A=1, C=3)
    for _ in range(2):
        node.tables.tick()
    end = node.writer.commit()
    node.tables.confirmed(end)
    assert node.store.max_offset(RAFT_TOPIC, QUEUE_ID) == 3
    _delete_first_segment(node)
    other = Node(node.world)  # has no tables, as a replica that was given this log
    other.open(leads=False)
    other.tables.confirmed(end)
    assert other.topics() == node.topics() == {"A": 1, "C": 3}


def test_a_replica_without_a_log_gets_one_that_has_lost_its_begin() -> None:
    node = _leader()
    node.propose(A=1)
    node.tables.confirmed(node.writer.commit())
    _fill_segment(node)
    node.propose(A=1, B=2)
    for _ in range(2):
        node.tables.tick()
    end = node.writer.commit()
    new = Node()
    settings = StoreSettings(**{**SMALL, "segment_size_bytes": SEGMENT_BYTES})
    new.store = MessageStore(root="/new", files=MemoryFiles(), clock=ManualClock(), settings=settings)
    follower = new.store.follow()
    new.store.open()
    new.open(leads=False)
    new.tables.confirmed(0)  # before the first byte
    follower.start_at(SEGMENT_BYTES)
    follower.append(SEGMENT_BYTES, node.store.read_log(SEGMENT_BYTES, end - SEGMENT_BYTES))
    follower.dispatch()
    new.tables.confirmed(end)
    assert new.topics() == {"A": 1, "B": 2} and not new.tables.problem


def test_a_leader_of_a_log_without_its_begin_writes_all_tables_once() -> None:
    node = _leader()
    node.propose(A=1)
    node.tables.confirmed(node.writer.commit())
    _fill_segment(node)
    _delete_first_segment(node)
    node.tables.confirmed(node.store.physical_max_offset)
    node.open(leads=True)
    for _ in range(2):
        node.tables.tick()
    node.writer.commit()
    queue = node.store.queue_view(RAFT_TOPIC, QUEUE_ID)
    assert queue is not None and (queue.min_offset, queue.max_offset) == (1, 2)


def test_tables_that_are_older_than_the_log_are_made_anew() -> None:
    node = _leader()
    node.propose(Gone=1)
    node.tables.confirmed(node.writer.commit())
    old = Node(node.world)
    old.open(leads=False)
    old.tables.confirmed(node.tables.tables.end)
    assert old.topics() == {"Gone": 1}
    _fill_segment(node)
    node.propose(A=1)
    node.tables.tick()
    end = node.writer.commit()
    _delete_first_segment(node)
    old.open(leads=False)
    old.tables.confirmed(end)
    assert old.topics() == {"A": 1}


@pytest.mark.parametrize("leads", [False, True])
def test_a_deletion_of_the_leader_is_made_by_a_follower_and_by_a_new_leader(leads: bool) -> None:
    leader = _leader()
    leader.world.put("T", b"old")
    leader.world.put("Other", b"kept")
    leader.store.delete_topics("T")
    answers: list[StoreError | None] = []
    leader.tables.config_tables(leads=True).share_deletions(leader.store.deletions.ends, answers.append)
    end = leader.writer.commit()
    leader.world.put("T", b"new")
    leader.tables.confirmed(end - 1)
    assert answers == []
    leader.tables.confirmed(end)
    assert answers == [None]
    node = Node(World(role=Role(1)))
    follower = slave_side(node.world.parts).follower
    follower.append(0, leader.store.read_log(0, leader.store.physical_max_offset))
    follower.dispatch()
    assert node.store.max_offset("T", 0) == 1, "the new message waits for the deletion"
    if leads:
        node.tables.open(node.store, node.writer, lambda: None, leads=True)
    else:
        node.open(leads=False)
        node.tables.confirmed(end - 1)
        assert node.store.deletions.ends == {}
        node.tables.confirmed(end)
    assert node.store.deletions.ends == leader.store.deletions.ends
    assert [message.body for message in node.world.messages("T")] == [b"new"]
    assert [message.body for message in node.world.messages("Other")] == [b"kept"]
