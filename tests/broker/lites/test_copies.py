"""Groups' offsets in light queues on their way to the disk, to slaves, and back."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.offset_table import OffsetTable, as_offset_table, read_offsets
from pymq.model.lite_topics import is_light_queue, light_queue_name, parent_of, read_mark_name, split_light_queue
from tests.broker.handlers.test_lite_pops import LitePops

NAMES = ["a", "a@b", "@", "a$b", "%RETRY%x", "%LMQ%$P$a"]


@pytest.mark.parametrize("lite", NAMES)
def test_a_saved_offset_is_read_as_it_was(lite: str) -> None:
    key = light_queue_name("P", lite), "g"
    assert read_offsets(as_offset_table({key: {0: 7}})) == {key: {0: 7}}
    assert split_light_queue(key[0]) == ("P", lite) and parent_of(key[0]) == "P" and is_light_queue(key[0])


def test_broadcast_offsets_are_left_out_as_before() -> None:
    assert read_offsets({"T@g@client": {"0": 7}, "T@g": {"0": 1}}) == {("T", "g"): {0: 1}}


def test_a_read_mark_is_of_no_lite_topic() -> None:
    name = read_mark_name("P")
    assert split_light_queue(name) is None and parent_of(name) == "P"


def test_light_queues_are_in_no_index() -> None:
    table = OffsetTable()
    for lite in NAMES:
        table.set(light_queue_name("P", lite), "g", 0, 1)
    table.set("T", "g", 0, 1)
    assert (table.count, table.light_count) == (len(NAMES) + 1, len(NAMES))
    assert table.topics_of("g") == ["T"] and table.groups() == ["g"] and table.groups_of("%LMQ%$P$a") == []
    for key in table.light_keys():
        assert table.remove(key)
    assert (table.count, table.light_count) == (1, 0) and not table.light_keys()


def test_slaves_take_offsets_of_lite_topics_at_once() -> None:
    p = LitePops()
    p.subscribe("a@b")
    p.fill("a@b", "m")
    cursors = p.world.parts.metadata.cursors
    before = cursors.change_count
    p.ack(p.pop())
    part = cursors.changes_since(before)
    assert part is not None and part["offsetTable"] == {"%LMQ%$P$a@b@g": {"0": 1}}
    assert not cursors.log_bound_offsets()


def test_a_group_that_is_deleted_with_its_offsets_reads_all_again() -> None:
    p = LitePops()
    p.subscribe("a")
    p.fill("a", "m")
    p.ack(p.pop())
    p.caller.ok(207, groupName="g", cleanOffset="true")
    assert p.committed("a") == -1
    p.put_group("g")
    p.control("COMPLETE_REMOVE")
    p.subscribe("a")
    assert p.pop().bodies == ["m"]
