"""Rebalance strategies: the shares of the members cover every queue once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.model.allocation import (
    BY_NAME,
    STRATEGIES,
    Configured,
    ConsistentHash,
    MachineRoom,
    Nearby,
    Strategy,
    average,
    average_by_circle,
    strategy_of,
)
from pymq.model.message import MessageQueue


def queues(count: int) -> Any:
    return [MessageQueue("T", "broker-a", i) for i in range(count)]


def ids(result: Any) -> Any:
    return [queue.queue_id for queue in result]


def test_average_gives_neighbours_and_the_first_clients_one_more() -> None:
    # Java: AllocateMessageQueueAveragely with 8 queues and 3 clients gives 3, 3 and 2.
    shares = [ids(average(client, queues(8), ["c2", "c0", "c1"])) for client in ("c0", "c1", "c2")]
    assert shares == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_average_leaves_late_clients_without_queues() -> None:
    assert [ids(average(c, queues(2), ["a", "b", "c"])) for c in "abc"] == [[0], [1], []]


def test_by_circle_deals_like_cards() -> None:
    assert [ids(average_by_circle(c, queues(8), ["a", "b", "c"])) for c in "abc"] == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_queues_are_ordered_by_broker_then_number() -> None:
    mixed = [MessageQueue("T", "b", 0), MessageQueue("T", "a", 1), MessageQueue("T", "a", 0)]
    assert average("x", mixed, ["x"]) == sorted(mixed)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_client_that_is_not_a_member_gets_no_queue(name: Any) -> None:
    assert strategy_of(name)("unknown", queues(4), ["a", "b"]) == []


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@given(queue_count=st.integers(0, 40), clients=st.sets(st.text(max_size=3), min_size=1, max_size=12))
def test_shares_cover_all_queues_once_and_differ_by_one_at_most(name: Any, queue_count: int, clients: Any) -> None:
    shares = [strategy_of(name)(client, queues(queue_count), list(clients)) for client in clients]
    assert sorted(queue for share in shares for queue in share) == queues(queue_count)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(queue_count=st.integers(0, 40), clients=st.sets(st.text(max_size=3), min_size=1, max_size=12))
def test_a_ring_of_hashes_covers_all_queues_once(queue_count: int, clients: set[str]) -> None:
    shares = [ConsistentHash()(client, queues(queue_count), list(clients)) for client in clients]
    assert sorted(queue for share in shares for queue in share) == queues(queue_count)


def test_on_a_ring_of_hashes_a_new_client_takes_queues_from_others_only_for_itself() -> None:
    def owners(clients: list[str]) -> dict[MessageQueue, str]:
        return {queue: client for client in clients for queue in ConsistentHash()(client, queues(200), clients)}

    before, after = owners(["a", "b", "c"]), owners(["a", "b", "c", "d"])
    moved = {queue for queue in before if before[queue] != after[queue]}
    assert {after[queue] for queue in moved} == {"d"} and len(moved) < 100


def test_configured_queues_are_this_clients_and_other_topics_are_shared() -> None:
    strategy = Configured(queues(4)[2:3])
    assert strategy("a", queues(4), ["a", "b"]) == queues(4)[2:3]
    retries = [MessageQueue("%RETRY%G", "broker-a", 0)]
    assert strategy("a", retries, ["a", "b"]) == retries and strategy("b", retries, ["a", "b"]) == []


def room_of_broker(queue: MessageQueue) -> str:
    return queue.broker_name.split("@")[0]


def room_of_client(client_id: str) -> str:
    return client_id.split("-", maxsplit=1)[0]


def strategies_of_java(all_queues: list[MessageQueue]) -> dict[str, Strategy]:
    return {
        **STRATEGIES,
        "CONSISTENT_HASH:10": BY_NAME["CONSISTENT_HASH"],
        "CONSISTENT_HASH:3": ConsistentHash(3),
        "CONFIG": Configured(all_queues[:1]),
        "MACHINE_ROOM": MachineRoom({"r1", "r3"}),
        "MACHINE_ROOM_NEARBY-AVG": Nearby(room_of_broker, room_of_client),
        "MACHINE_ROOM_NEARBY-CONSISTENT_HASH": Nearby(room_of_broker, room_of_client, ConsistentHash()),
    }


def test_shares_are_those_of_the_java_client() -> None:
    # The file is the output of tests/interop/java/sharing, which calls RocketMQ 5.3.3's own classes.
    lines = (Path(__file__).parents[1] / "golden" / "sharing.jsonl").read_text().splitlines()
    counts = Counter[str]()
    for case in map(json.loads, lines):
        rooms, each = range(1, case["rooms"] + 1), range(case["queues"])
        all_queues = [MessageQueue("Orders", f"r{room}@broker", queue) for room in rooms for queue in each]
        clients = sorted(f"r{1 + client % 2}-10.0.0.{client}@billing" for client in range(case["clients"]))
        strategy = strategies_of_java(all_queues)[case["strategy"]]
        shares = [[all_queues.index(queue) for queue in strategy(one, all_queues, clients)] for one in clients]
        assert shares == case["shares"], case
        counts[case["strategy"]] += 1
    assert set(counts) == set(strategies_of_java(queues(1))) and min(counts.values()) == 36


def test_an_own_function_is_taken_as_it_is() -> None:
    assert strategy_of(average) is average


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, give one of Conf.*, or a function"):
        strategy_of("RANDOM")
    with pytest.raises(UsageError, match=r"the rebalance strategy MACHINE_ROOM needs arguments: give MachineRoom\("):
        strategy_of("MACHINE_ROOM")
    with pytest.raises(UsageError, match="no rebalance strategy 3"):
        strategy_of(3)  # type: ignore[arg-type]


def test_a_strategy_inside_a_room_has_a_name_or_is_a_function() -> None:
    for name, inside in (("AVG_BY_CIRCLE", average_by_circle), ("CONSISTENT_HASH", ConsistentHash())):
        named = Nearby(lambda queue: "one", lambda client: "one", name)
        assert named("a", queues(5), ["a", "b"]) == inside("a", queues(5), ["a", "b"])
    with pytest.raises(UsageError, match="no rebalance strategy 'RANDOM'"):
        Nearby(lambda queue: "one", lambda client: "one", "RANDOM")
