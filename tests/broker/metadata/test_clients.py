"""ClientManager: members, subscriptions, change notices, goodbyes and silence."""

from __future__ import annotations

import sys

import pytest

from pymq.broker.metadata.clients import (
    LIST_LENGTH_MAX,
    MEMBER_BYTES,
    SILENT_A_TICK,
    SUBSCRIPTION_BYTES,
    TAG_BYTES,
    ClientManager,
    ConsumerGroup,
)
from pymq.broker.metadata.groups import GroupManager
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.model.tables import SubscriptionGroupConfig
from pymq.net.memory_budget import CLIENT_TABLES, MemoryBudget
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.bodies_client import ConsumerData, SubscriptionData, decode_body, encode_body
from pymq.wire.codes import RequestCode
from tests.broker.world import FakePeer


class Setup:
    """A ClientManager alone."""

    def __init__(self, **settings: str) -> None:
        self.clock = ManualClock()
        self.budget = MemoryBudget()
        files = MemoryFiles()
        files.makedirs("/c")
        config = load_broker_config(None, settings)
        self.groups = GroupManager(TableSaver(JsonTable(files, "/c/g.json")), clock=self.clock, config=config)
        self.clients = ClientManager(clock=self.clock, config=config, groups=self.groups, budget=self.budget)

    def consumer(
        self,
        peer: FakePeer,
        client_id: str,
        *topics: str,
        version: int = 1,
        keep: bool = False,
        model: str = "CLUSTERING",
    ) -> bool:
        data = ConsumerData(
            group_name="g",
            message_model=model,
            subscription_data_set=[SubscriptionData(topic=topic, sub_version=version) for topic in topics],
        )
        client = self.clients.client(client_id, peer, "JAVA", 479)
        return self.clients.register_consumer(client, data, keep_subscriptions=keep)

    def group(self, name: str = "g") -> ConsumerGroup:
        found = self.clients.consumer_group(name)
        assert found is not None
        return found


def notices(peer: FakePeer) -> list[str]:
    assert all(command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and command.is_oneway for command in peer.pushed)
    return [command.ext["consumerGroup"] for command in peer.pushed]


def test_members_that_subscribe_differently_are_logged_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pymq.broker.metadata.clients")
    setup, first, second = Setup(), FakePeer(), FakePeer()

    def beat(peer: FakePeer, client_id: str, tag: str) -> None:
        data = ConsumerData(group_name="g", subscription_data_set=[SubscriptionData(topic="T", sub_string=tag)])
        setup.clients.register_consumer(setup.clients.client(client_id, peer, "JAVA", 479), data)

    beat(first, "a", "A")
    assert not setup.clients.differing("g") and not setup.clients.differing("unknown")
    for _ in range(60):  # half an hour
        beat(first, "a", "A")
        beat(second, "b", "B")
        setup.clock.advance(30_000)
    text = (
        "members of group 'g' subscribe differently, and lose messages that others skip: topic 'T': 'A' by 1, 'B' by 1"
    )
    assert setup.clients.differing("g").startswith(text)
    lines = [record.getMessage() for record in caplog.records]
    assert 3 <= len(lines) <= 6 and all(line.startswith(text) for line in lines)
    beat(second, "b", "A")
    assert not setup.clients.differing("g")
    assert caplog.records[-1].getMessage() == "members of group 'g' subscribe alike again"


def test_members_are_notified_when_one_joins_leaves_or_changes() -> None:
    setup, first, second = Setup(), FakePeer(), FakePeer()
    assert setup.consumer(first, "a", "T")
    assert not setup.consumer(first, "a", "T")
    assert notices(first) == ["g"]
    assert setup.consumer(second, "b", "T")
    assert setup.group().client_ids() == ["a", "b"]
    assert notices(first) == ["g"] * 2 and notices(second) == ["g"]
    assert setup.consumer(second, "b", "T", "U")
    assert notices(first) == ["g"] * 3
    setup.clients.disconnect(second)
    assert setup.group().client_ids() == ["a"]
    assert notices(first) == ["g"] * 4
    setup.clients.disconnect(first)
    assert setup.clients.consumer_group("g") is None


def test_subscriptions_are_taken_when_newer_and_dropped_when_gone() -> None:
    setup, peer = Setup(), FakePeer()
    setup.consumer(peer, "a", "T", "U", version=5)
    setup.consumer(peer, "a", "T", version=4)
    found = setup.clients.subscription("g", "T")
    assert found is not None and found.sub_version == 5
    assert setup.clients.subscription("g", "U") is None
    assert setup.clients.groups_of("T") == ["g"] and setup.clients.groups_of("U") == []
    setup.consumer(peer, "a", version=9, keep=True)
    assert setup.clients.subscription("g", "T") is not None


def test_no_member_is_notified_when_notices_are_off() -> None:
    for settings, config in (({"notifyConsumerIdsChangedEnable": "false"}, True), ({}, False)):
        setup, peer = Setup(**settings), FakePeer()
        setup.groups.put([SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=config)])
        setup.consumer(peer, "a", "T")
        assert peer.pushed == []


def test_a_broadcasting_group_needs_no_notices() -> None:
    setup, peer = Setup(), FakePeer()
    setup.consumer(peer, "a", "T", model="BROADCASTING")
    assert peer.pushed == [] and setup.group().is_broadcasting


def test_goodbye() -> None:
    setup, peer, other = Setup(), FakePeer(), FakePeer()
    setup.consumer(peer, "a", "T")
    setup.clients.register_producer("p", setup.clients.client("a", peer, "JAVA", 479))
    setup.clients.unregister(other, "p", "g")
    assert len(setup.clients.producers("p")) == 1
    setup.clients.unregister(peer, "p", "g")
    assert setup.clients.producers("p") == [] and setup.clients.consumer_group("g") is None
    assert setup.clients.all_producers() == {} and setup.clients.consumer_groups() == []


def test_silent_clients_are_removed_and_the_others_notified() -> None:
    setup, silent, alive = Setup(), FakePeer(), FakePeer()
    setup.consumer(silent, "a", "T")
    setup.clients.register_producer("p", setup.clients.client("a", silent, "JAVA", 479))
    setup.clock.advance(100_000)
    setup.consumer(alive, "b", "T")
    before = len(alive.pushed)
    setup.clock.advance(20_001)
    setup.clients.tick()
    assert setup.group().client_ids() == ["b"]
    assert setup.clients.producers("p") == []
    assert len(alive.pushed) == before + 1


def test_a_client_on_two_connections_counts_once_and_the_later_is_found() -> None:
    setup, old, new = Setup(), FakePeer(), FakePeer()
    setup.consumer(old, "a", "T")
    setup.clock.advance(1)
    setup.consumer(new, "a", "T")
    assert setup.group().client_ids() == ["a"]
    found = setup.group().find("a")
    assert found is not None and found.peer is new
    assert setup.group().find("nobody") is None


def test_the_tables_count_for_the_member_that_brought_them_and_then_for_another() -> None:
    setup = Setup()
    first, second = FakePeer("127.0.0.1:1"), FakePeer("127.0.0.1:2")
    setup.consumer(first, "a", "T", "U")
    two_topics = setup.budget.held_for(first) - MEMBER_BYTES
    assert two_topics > 2 * SUBSCRIPTION_BYTES
    setup.consumer(second, "b", keep=True)
    assert setup.budget.held_for(second) == MEMBER_BYTES
    setup.clients.disconnect(first)
    assert setup.budget.held_for(first) == 0
    assert setup.budget.held_for(second) == setup.budget.held[CLIENT_TABLES] == MEMBER_BYTES + two_topics
    setup.clients.disconnect(second)
    assert setup.budget.total_bytes == 0


def test_tags_and_texts_of_subscriptions_count() -> None:
    setup, peer = Setup(), FakePeer()
    tags = ["x" * 100] * 50
    data = SubscriptionData(topic="T", sub_string="y" * 1000, sub_version=1, tags_set=tags, code_set=[1] * 50)
    client = setup.clients.client("a", peer, "JAVA", 1)
    setup.clients.register_consumer(client, ConsumerData(group_name="g", subscription_data_set=[data]))
    assert setup.budget.total_bytes > MEMBER_BYTES + SUBSCRIPTION_BYTES + 1000 + 50 * 103 + 50 * 2
    setup.clients.register_producer("p", client)
    setup.clients.register_producer("p", client)
    before = setup.budget.total_bytes
    setup.clients.unregister(peer, "p", None)
    assert before - setup.budget.total_bytes == MEMBER_BYTES
    setup.clients.unregister(peer, None, "g")
    assert setup.budget.total_bytes == 0


@pytest.mark.parametrize("count", [LIST_LENGTH_MAX, LIST_LENGTH_MAX + 1])
def test_long_lists_of_tags_are_kept_as_one_object_and_shown_as_they_were(count: int) -> None:
    setup, peer = Setup(), FakePeer()
    tags, codes = [f"tag{number}" for number in range(count)], list(range(count))
    data = SubscriptionData(topic="T", sub_version=1, tags_set=list(tags), code_set=list(codes))
    client = setup.clients.client("a", peer, "JAVA", 1)
    setup.clients.register_consumer(client, ConsumerData(group_name="g", subscription_data_set=[data]))
    kept = setup.clients.subscription("g", "T")
    assert kept is not None
    assert isinstance(kept.tags_set, list) == isinstance(kept.code_set, list) == (count <= LIST_LENGTH_MAX)
    shown = decode_body(SubscriptionData, encode_body(kept))
    assert (shown.tags_set, shown.code_set) == (tags, codes)
    texts_bytes = len(encode_body(tags)) if count > LIST_LENGTH_MAX else sum(TAG_BYTES + sys.getsizeof(t) for t in tags)
    assert setup.budget.total_bytes > MEMBER_BYTES + SUBSCRIPTION_BYTES + texts_bytes


def test_many_silent_members_go_in_several_ticks_and_a_group_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SILENT_A_TICK * MEMBER_BYTES >= 5_000_000, "all members that the budget allows go within a minute"
    monkeypatch.setattr("pymq.broker.metadata.clients.SILENT_A_TICK", 3)
    setup = Setup()
    silent = [FakePeer() for _ in range(5)]
    for number, peer in enumerate(silent):
        setup.consumer(peer, f"silent{number}", "T")
    setup.clock.advance(100_000)
    alive = FakePeer()
    setup.consumer(alive, "alive", "T")
    setup.clock.advance(100_000)
    alive.pushed.clear()
    told = []
    for _ in range(3):
        setup.clients.tick()
        told.append((len(setup.group().members), len(notices(alive))))
    assert told == [(3, 1), (1, 2), (1, 2)]
