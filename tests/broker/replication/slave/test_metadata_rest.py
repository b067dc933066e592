"""After any sequence of faults, a slave at rest has the tables of its master."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import RequestCode as Code
from tests.broker.replication.pair import Pair
from tests.broker.world import Caller, World

TOPICS = ("T", "U")
GROUPS = ("g", "h")
QUEUES = (0, 1)

names = st.sampled_from(TOPICS)
groups = st.sampled_from(GROUPS)
queues = st.sampled_from(QUEUES)
offsets = st.integers(0, 6)
steps = st.one_of(
    st.tuples(st.just("send"), names, queues),
    st.tuples(st.just("commit"), st.booleans(), groups, names, queues, offsets),
    st.tuples(st.just("answer"), st.booleans(), st.booleans()),
    st.tuples(st.just("wait"), st.integers(1, 15)),
    st.tuples(st.just("follow"), st.booleans()),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("delay"), names),
    st.tuples(st.just("copy log")),
)
violent_steps = st.one_of(
    steps,
    st.tuples(st.just("delete topic"), names),
    st.tuples(st.just("delete group"), groups),
    st.tuples(st.just("topic"), names, st.integers(2, 5)),
    st.tuples(st.just("group"), groups, st.integers(0, 16)),
    st.tuples(st.just("reset"), groups, names, queues),
    st.tuples(st.just("kill slave")),
)


def in_order(table: dict[str, Any]) -> dict[str, Any]:
    """Sort the topics of each group, whose order means nothing."""
    topics = {group: sorted(names) for group, names in table.get("groupTopicMap", {}).items()}
    return {**table, "groupTopicMap": topics}


class Model:
    """A pair, the steps that are done to it, and the greatest committed offset within the queue."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.committed: dict[tuple[str, str, int], int] = {}
        for name in TOPICS:
            self.make_topic(name, 2)
        for group in GROUPS:
            self.make_group(group, 16)
        self.do_commit(False, "g", "T", 0, 0)
        self.pair.run(500)

    def make_topic(self, name: str, queue_count: int) -> None:
        topic = TopicConfig(topic_name=name, read_queue_nums=queue_count, write_queue_nums=queue_count)
        self.pair.master.parts.metadata.topics.put([topic])

    def make_group(self, group: str, retries: int) -> None:
        self.pair.master.parts.metadata.groups.put([SubscriptionGroupConfig(group_name=group, retry_max_times=retries)])

    def do(self, step: tuple[object, ...]) -> None:
        getattr(self, "do_" + str(step[0]).replace(" ", "_"))(*step[1:])

    def do_send(self, name: str, queue_id: int) -> None:
        self.pair.master.put(name, queue_id=queue_id)

    def do_delay(self, name: str) -> None:
        self.pair.master.put(name, DELAY="1")

    def do_copy_log(self) -> None:
        self.pair.copy_log()

    def do_commit(self, on_slave: bool, group: str, name: str, queue_id: int, offset: int) -> None:
        store = self.pair.master.parts.store
        if offset > store.max_offset(name, queue_id):
            return
        parts = (self.pair.slave if on_slave else self.pair.master).parts
        before = self.offset(self.pair.master, group, name, queue_id)
        if (
            parts.metadata.topics.get(name) is None
            or parts.metadata.groups.get(group) is None
            or (not on_slave and offset < before)
        ):
            return
        parts.metadata.cursors.commit(group, name, queue_id, offset)
        key = (group, name, queue_id)
        self.committed[key] = max(self.committed.get(key, -1), offset)

    def do_answer(self, lose_request: bool, lose_answer: bool) -> None:
        if self.pair.network.asked:
            self.pair.network.answer_one(lose_request=lose_request, lose_answer=lose_answer)

    def do_wait(self, ticks: int) -> None:
        for _ in range(ticks):
            self.pair.clock.advance(100)
            self.pair.tick()

    def do_follow(self, is_following: bool) -> None:
        self.pair.ha_client.is_following = is_following

    def do_restart(self, of_slave: bool) -> None:
        if of_slave:
            self.pair.restart_slave()
        else:
            self.pair.restart_master()

    def do_delete_topic(self, name: str) -> None:
        Caller(self.pair.master).ok(Code.DELETE_TOPIC_IN_BROKER, topic=name)
        self.make_topic(name, 2)

    def do_delete_group(self, group: str) -> None:
        Caller(self.pair.master).ok(Code.DELETE_SUBSCRIPTIONGROUP, groupName=group, removeOffset="true")

    def do_topic(self, name: str, queue_count: int) -> None:
        self.make_topic(name, queue_count)

    def do_group(self, group: str, retries: int) -> None:
        self.make_group(group, retries)

    def do_reset(self, group: str, name: str, queue_id: int) -> None:
        self.pair.master.parts.metadata.cursors.reset(group, name, queue_id, 0)

    def do_kill_slave(self) -> None:
        self.pair.copy.close()
        self.pair.slave.parts.leave_group("killed")
        self.pair.open_slave(self.pair.slave.files.after_kill())

    @staticmethod
    def offset(world: World, group: str, name: str, queue_id: int) -> int:
        return world.parts.metadata.cursors.query(group, name, queue_id)

    def rest(self) -> None:
        """Answer everything for longer than the slowest interval."""
        self.pair.ha_client.is_following = True
        self.pair.run(11_000)
        self.pair.copy_log()
        self.pair.run(1000)

    def check_equal(self) -> None:
        master, slave = self.pair.master.parts, self.pair.slave.parts
        assert slave.metadata.topics.as_table() == master.metadata.topics.as_table()
        assert slave.metadata.groups.as_table() == master.metadata.groups.as_table()
        assert in_order(slave.metadata.cursors.as_table()) == in_order(master.metadata.cursors.as_table())
        assert slave.messages.delays.as_table() == master.messages.delays.as_table()
        assert not len(slave.metadata.pending_offsets) and self.pair.copy.problem == ""
        for name in ("topics", "subscriptionGroup", "consumerOffset"):
            theirs = self.pair.file(self.pair.master, name)
            assert in_order(self.pair.file(self.pair.slave, name)) == in_order(theirs), name

    def check_ends(self) -> None:
        master, slave = self.pair.master.parts, self.pair.slave.parts
        for name in TOPICS:
            for group in GROUPS:
                for queue_id, offset in master.metadata.cursors.offsets(group, name).items():
                    assert offset <= master.store.max_offset(name, queue_id)
        ends = {key: master.store.max_offset(*key) for key in master.store.queues()}
        assert {key: slave.store.max_offset(*key) for key in slave.store.queues()} == ends


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=40))
def test_commits_of_both_arrive_and_offsets_never_go_back(chosen: list[tuple[object, ...]]) -> None:
    model = Model()
    seen: dict[tuple[bool, str, str, int], int] = {}
    for step in chosen:
        model.do(step)
        for is_slave, world in enumerate((model.pair.master, model.pair.slave)):
            for group in GROUPS:
                for name in TOPICS:
                    for queue_id in QUEUES:
                        key = (bool(is_slave), group, name, queue_id)
                        offset = model.offset(world, group, name, queue_id)
                        assert offset >= seen.get(key, -1), f"{key} went back from {seen.get(key)} to {offset}"
                        seen[key] = offset
    model.rest()
    model.check_equal()
    for (group, name, queue_id), offset in model.committed.items():
        assert model.offset(model.pair.master, group, name, queue_id) == offset


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(violent_steps, max_size=40))
@example(chosen=[("delete group", "h"), ("commit", True, "h", "T", 0, 0)])
def test_deletions_resets_and_kills_end_in_equal_tables(chosen: list[tuple[object, ...]]) -> None:
    model = Model()
    for step in chosen:
        model.do(step)
    model.rest()
    model.check_equal()
    model.check_ends()
