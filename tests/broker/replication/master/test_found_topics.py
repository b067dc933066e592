"""A promoted slave serves all messages of its log, also those of topics that were not copied in time."""

from __future__ import annotations

import pytest

from pymq.broker.replication.roles.role import Role
from pymq.model.tables import TopicConfig
from tests.broker.world import World


def promoted(world: World) -> World:
    world.parts.close()
    return World(world.files, world.clock, role=Role(0, begins_epoch=True))


def test_a_topic_that_was_not_copied_is_made_with_its_queues() -> None:
    world = World()
    world.put("New", b"1", queue_id=1)
    world.put("Wide", b"2", queue_id=9)
    world.put("%RETRY%g", b"3")
    master = promoted(world)
    counts = {name: master.parts.metadata.topics.require(name).read_queue_nums for name in ("New", "Wide", "%RETRY%g")}
    assert counts == {"New": 4, "Wide": 10, "%RETRY%g": 1}
    assert [message.body for message in master.messages("New", 1)] == [b"1"]
    assert World(master.files.after_kill(), master.clock).parts.metadata.topics.get("New") is not None, "saved"


def test_a_copied_topic_stays_as_it_is() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=1)])
    world.put("T", b"1", queue_id=5)
    assert promoted(world).parts.metadata.topics.require("T").read_queue_nums == 2


def test_a_deleted_topic_stays_deleted() -> None:
    world = World()
    world.put("Gone", b"1")
    world.parts.store.delete_topics("Gone")
    assert promoted(world).parts.metadata.topics.get("Gone") is None


@pytest.mark.parametrize("role", [Role(0), Role(1)])
def test_a_restarted_master_and_a_slave_make_no_topic(role: Role) -> None:
    """A master that starts again had saved its topics before it answered; a slave copies them."""
    world = World()
    world.put("New", b"1")
    world.parts.close()
    assert World(world.files, world.clock, role=role).parts.metadata.topics.get("New") is None
