"""Large tables of topics and groups come to a slave in pieces, and end up the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from pymq.broker.replication.tables.table_pieces import COPIES_MAX, PIECE, Piece, PieceCount, PieceSizes, TablePieces
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from tests.broker.replication.pair import Pair
from tests.broker.world import World

AT_ONCE = 10
SIZES = PieceSizes(entries=AT_ONCE)
COUNT = 35


def tables(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    metadata = world.parts.metadata
    return metadata.topics.as_table(), metadata.groups.as_table()


def fill(pair: Pair, count: int = COUNT) -> None:
    metadata = pair.master.parts.metadata
    metadata.topics.put(TopicConfig(topic_name=f"topic{number}") for number in range(count))
    metadata.groups.put(SubscriptionGroupConfig(group_name=f"group{number}") for number in range(count))
    metadata.groups.set_readable("group3", "topic4", readable=False)


def test_a_slave_gets_every_topic_and_group() -> None:
    pair = Pair(piece_sizes=SIZES)
    fill(pair)
    pair.run(500)
    assert tables(pair.slave) == tables(pair.master)
    assert "topic34" in tables(pair.slave)[0]["topicConfigTable"]


def test_a_change_between_two_pieces_comes_with_the_next_copy() -> None:
    pair = Pair(piece_sizes=SIZES)
    fill(pair)
    pair.copy.tick()
    pair.network.answer_one()
    pair.master.parts.metadata.topics.delete("topic1")
    pair.master.parts.metadata.groups.delete("group1")
    fill(pair, COUNT + 1)
    pair.run(1000)
    assert tables(pair.slave) == tables(pair.master)


def test_what_the_master_deleted_is_gone_after_the_last_piece() -> None:
    pair = Pair(piece_sizes=SIZES)
    fill(pair)
    pair.run(500)
    pair.master.parts.metadata.topics.delete("topic30")
    pair.master.parts.metadata.groups.delete("group30")
    pair.run(500)
    assert tables(pair.slave) == tables(pair.master)
    assert pair.slave.parts.metadata.topics.get("topic30") is None


def test_a_master_that_restarts_between_two_pieces_begins_the_copy_again() -> None:
    pair = Pair(piece_sizes=SIZES)
    fill(pair)
    pair.copy.tick()
    pair.network.answer_one()
    pair.restart_master()
    pair.run(1000)
    assert tables(pair.slave) == tables(pair.master)


def whole(count: int) -> dict[str, Any]:
    return {"rows": {f"r{number}": number for number in range(count)}, "dataVersion": count}


def copied(pieces: TablePieces, version: str, count: int) -> list[Piece]:
    """Return all pieces of a copy that begins now."""
    found = [pieces.read("", version, whole(count))]
    while not found[-1].is_last:
        found.append(pieces.read(found[-1].version, version, whole(count)))
    return found


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, [0]), (AT_ONCE, [AT_ONCE]), (AT_ONCE + 1, [AT_ONCE, 1]), (3 * AT_ONCE, [AT_ONCE] * 3)],
)
def test_pieces_have_at_most_so_many_entries_and_the_last_one_the_rest(count: int, sizes: list[int]) -> None:
    found = copied(TablePieces("rows", AT_ONCE), "1.5", count)
    assert [len(piece.table["rows"]) for piece in found] == sizes
    assert found[-1].table["dataVersion"] == count and found[-1].version == ("1.5" if len(sizes) > 1 else "")
    starts = [piece.table[PIECE]["from"] for piece in found if PIECE in piece.table]
    assert all(later - earlier == AT_ONCE for earlier, later in pairwise(starts))


def test_a_copy_stays_what_it_was_at_its_begin() -> None:
    pieces = TablePieces("rows", AT_ONCE)
    first = pieces.read("", "1.5", whole(AT_ONCE + 1))
    last = pieces.read(first.version, "1.6", whole(3 * AT_ONCE))
    assert last.is_last and last.version == "1.5" and list(last.table["rows"]) == [f"r{AT_ONCE}"]


def test_a_copy_that_the_master_does_not_keep_any_more_begins_again() -> None:
    pieces = TablePieces("rows", AT_ONCE)
    first = pieces.read("", "1.0", whole(AT_ONCE + 1))
    for number in range(COPIES_MAX):
        pieces.read("", f"1.{number + 1}", whole(AT_ONCE + 1))
    assert pieces.read(first.version, "1.9", whole(AT_ONCE + 1)).table[PIECE]["from"] == 0
    assert pieces.read(f"1.{COPIES_MAX}+{AT_ONCE}", "1.9", whole(AT_ONCE + 1)).is_last


@pytest.mark.parametrize("place", ["+", "+x", "+-1", "+999999999999"])
def test_a_place_that_no_piece_has_is_answered(place: str) -> None:
    pieces = TablePieces("rows", AT_ONCE)
    pieces.read("", "1.5", whole(3 * AT_ONCE))
    answer = pieces.read("1.5" + place, "1.5", whole(3 * AT_ONCE))
    assert answer.is_last == (place == "+999999999999")


def test_a_piece_that_does_not_follow_the_one_before_is_refused() -> None:
    count = PieceCount()
    assert count.take({"from": 0, "isLast": False}, 10) == (True, False)
    with pytest.raises(ValueError, match="after 10 entries"):
        count.take({"from": 20, "isLast": True}, 5)
    assert count.take({"from": 10, "isLast": True}, 5) == (False, True)
    assert count.take({"from": 0, "isLast": True}, 5) == (True, True)
