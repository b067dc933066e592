"""A large table of consumer offsets comes to a slave in pieces, and ends up the same."""

from __future__ import annotations

import msgspec
import pytest

from pymq.broker.replication.tables.replicated_tables import OFFSETS
from pymq.broker.replication.tables.slave_cursors import SlaveCursors
from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.wire.bodies_replication import MetadataTables
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.replication.pair import MASTER, Pair
from tests.broker.world import World

AT_ONCE = 3
SIZES = PieceSizes(offsets=AT_ONCE)


def pair_with(group_count: int) -> Pair:
    """Return a pair whose slave has taken a first state, and then offsets of so many groups in the master."""
    pair = Pair(piece_sizes=SIZES)
    pair.ha_client.is_following = True
    pair.run(300)
    for number in range(group_count):
        commit(pair, f"g{number:02d}", number + 1)
    return pair


def commit(pair: Pair, group: str, offset: int, queue_id: int = 0) -> None:
    pair.master.parts.metadata.cursors.advance(group, "T", queue_id, offset)


def offsets(world: World) -> dict[tuple[str, str], dict[int, int]]:
    return {key: dict(queues) for key, queues in world.parts.metadata.cursors._offsets.items()}


def answers(pair: Pair, ms: int = 500) -> list[MetadataTables]:
    """Let time pass; return the master's answers that had offsets."""
    found: list[MetadataTables] = []
    serve = pair.network.servers[MASTER]
    dispatch = serve.dispatch

    def noting(peer: object, command: Command) -> object:
        reply = dispatch(peer, command)  # type: ignore[arg-type]
        if command.code == RequestCode.PYMQ_COPY_METADATA and reply is not None:
            tables = msgspec.json.decode(reply.body, type=MetadataTables)
            if OFFSETS in tables.tables:
                found.append(tables)
        return reply

    serve.dispatch = noting  # type: ignore[method-assign, assignment]
    pair.run(ms)
    serve.dispatch = dispatch  # type: ignore[method-assign]
    return found


def sizes(found: list[MetadataTables]) -> list[int]:
    return [len(msgspec.json.decode(tables.tables[OFFSETS])["offsetTable"]) for tables in found]


@pytest.mark.parametrize("count", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, 10])
def test_a_slave_gets_every_offset(count: int) -> None:
    pair = pair_with(count)
    pair.restart_slave()  # it asks for everything
    found = answers(pair)
    assert offsets(pair.slave) == offsets(pair.master)
    whole = count <= AT_ONCE
    assert max(sizes(found)) <= AT_ONCE and [tables.parts == [] for tables in found[:1]] == [whole]
    assert [tables.more for tables in found] == [True] * (len(found) - 1) + [False]


def test_many_changes_come_as_a_whole_copy() -> None:
    pair = pair_with(0)
    pair.restart_slave()  # it asks for everything
    pair.run(300)
    for number in range(8):
        commit(pair, f"g{number}", 5)
    assert max(sizes(answers(pair))) <= AT_ONCE
    assert offsets(pair.slave) == offsets(pair.master)


def test_changes_between_two_pieces_come_after_the_last() -> None:
    pair = pair_with(10)
    pair.restart_slave()  # it asks for everything
    pair.copy.tick()
    pair.network.answer_one()  # the first piece
    commit(pair, "g00", 50)
    commit(pair, "new", 7)
    pair.run(500)
    assert offsets(pair.slave) == offsets(pair.master)
    assert offsets(pair.slave)["T", "g00"] == {0: 50}


def test_a_removal_between_two_pieces_begins_the_copy_again() -> None:
    pair = pair_with(10)
    pair.restart_slave()  # it asks for everything
    pair.copy.tick()
    pair.network.answer_one()
    pair.master.parts.metadata.cursors.forget_group("g01")
    pair.run(500)
    assert offsets(pair.slave) == offsets(pair.master)
    assert ("T", "g01") not in offsets(pair.slave)


def test_what_the_master_lacks_goes_with_the_last_piece() -> None:
    pair = pair_with(10)
    pair.restart_slave()  # it asks for everything
    pair.run(500)
    assert ("T", "g00") in offsets(pair.slave)
    pair.master.parts.metadata.cursors.forget_group("g00")
    pair.run(500)
    assert offsets(pair.slave) == offsets(pair.master) and len(offsets(pair.slave)) == 9


def test_nothing_goes_before_the_last_piece() -> None:
    pair = pair_with(3)
    pair.run(500)
    cursors = slave_cursors(pair)
    cursors.take_over({"offsetTable": {"T@a": {"0": 1}}, "piece": {"from": 0, "isLast": False}}, is_part=True)
    assert len(offsets(pair.slave)) == 4
    cursors.take_over({"offsetTable": {"T@b": {"0": 1}}, "piece": {"from": 1, "isLast": True}}, is_part=True)
    assert offsets(pair.slave) == {("T", "a"): {0: 1}, ("T", "b"): {0: 1}}


def test_a_commit_that_waits_for_the_master_stays() -> None:
    pair = pair_with(0)
    cursors = slave_cursors(pair)
    cursors.commit("local", "T", 0, 3)
    cursors.take_over({"offsetTable": {"T@g": {"0": 1}}, "piece": {"from": 0, "isLast": True}}, is_part=True)
    assert offsets(pair.slave) == {("T", "g"): {0: 1}, ("T", "local"): {0: 3}}


def slave_cursors(pair: Pair) -> SlaveCursors:
    cursors = pair.slave.parts.metadata.cursors
    assert isinstance(cursors, SlaveCursors)
    return cursors
