"""SavedTable: the four managers that save a table after each change share its verbs."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.saved_table import SavedTable
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.store.disk.json_table import JsonTable
from tests.broker.world import World


def test_a_manager_s_table_is_what_its_file_has() -> None:
    world = World()
    metadata = world.parts.metadata
    metadata.topics.put([TopicConfig(topic_name="T")])
    metadata.groups.put([SubscriptionGroupConfig(group_name="g")])
    for file_name, table in (("topics.json", metadata.topics), ("subscriptionGroup.json", metadata.groups)):
        table.save()
        saved = JsonTable(world.files, f"/data/config/{file_name}").load()
        assert saved["dataVersion"]["counter"] == table.data_version.counter > 0, file_name


@pytest.mark.parametrize("name", ["topics", "groups", "request_modes", "auth"])
def test_metadata_stops_every_such_table(name: str) -> None:
    metadata = World().parts.metadata
    table = getattr(metadata, name)
    assert isinstance(table, SavedTable) and table in metadata._saved_tables.values()
    metadata.stop()
    assert table._state._is_stopped
