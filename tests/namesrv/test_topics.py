"""TopicManager: shares of brokers, permissions, lists."""

from __future__ import annotations

from pymq.model.tables import SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUBSCRIPTION, TopicConfig
from pymq.namesrv.topics import TopicManager


def config(name: str, **fields: int) -> TopicConfig:
    return TopicConfig(topic_name=name, **fields)  # type: ignore[arg-type]


def test_each_broker_has_its_own_share_of_a_topic() -> None:
    manager = TopicManager()
    manager.put("a", config("T", read_queue_nums=8, write_queue_nums=4))
    manager.put("b", config("T", read_queue_nums=2, write_queue_nums=2, perm=4))
    shares = {share.broker_name: share for share in manager.queues("T")}
    assert (shares["a"].read_queue_nums, shares["a"].write_queue_nums, shares["a"].perm) == (8, 4, 6)
    assert (shares["b"].read_queue_nums, shares["b"].write_queue_nums, shares["b"].perm) == (2, 2, 4)
    assert manager.queues("unknown") == []


def test_putting_again_replaces_the_share() -> None:
    manager = TopicManager()
    manager.put("a", config("T", write_queue_nums=16))
    manager.put("a", config("T", write_queue_nums=8))
    assert [share.write_queue_nums for share in manager.queues("T")] == [8]


def test_a_topic_without_shares_is_gone() -> None:
    manager = TopicManager()
    for broker in ("a", "b"):
        manager.put(broker, config("T"))
    manager.remove("T", ["a"])
    assert manager.names() == ["T"]
    manager.remove("T", ["b"])
    assert len(manager) == 0
    manager.remove("T")  # an unknown topic: nothing happens


def test_removing_a_broker_leaves_the_others() -> None:
    manager = TopicManager()
    manager.put("a", config("both"))
    manager.put("b", config("both"))
    manager.put("a", config("only-a"))
    manager.remove_broker("a")
    assert manager.names() == ["both"]
    assert not manager.has("both", "a")


def test_write_permission_is_wiped_and_given_back_on_one_broker() -> None:
    manager = TopicManager()
    manager.put("a", config("T", perm=7))
    manager.put("a", config("U", perm=6))
    manager.put("b", config("T", perm=6))
    assert manager.wipe_write("a") == 2
    assert {(s.broker_name, s.perm) for s in manager.queues("T")} == {("a", 5), ("b", 6)}
    assert manager.add_write("a") == 2
    assert {(s.broker_name, s.perm) for s in manager.queues("T")} == {("a", 6), ("b", 6)}
    assert manager.wipe_write("unknown") == 0


def test_unit_lists_follow_the_topic_flags() -> None:
    manager = TopicManager()
    manager.put("a", config("plain"))
    manager.put("a", config("unit", topic_sys_flag=SYS_FLAG_UNIT))
    manager.put("a", config("both", topic_sys_flag=SYS_FLAG_UNIT | SYS_FLAG_UNIT_SUBSCRIPTION))
    manager.put("a", config("sub", topic_sys_flag=SYS_FLAG_UNIT_SUBSCRIPTION))
    assert manager.unit_topics() == ["unit", "both"]
    assert manager.unit_subscription_topics() == ["both", "sub"]
    assert manager.unit_subscription_topics(without_unit=True) == ["sub"]
