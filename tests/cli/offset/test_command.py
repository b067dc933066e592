"""pymq offset: plans, moves of groups that are online, offline or new, and what is read back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pymq.client import MessageQueue
from pymq.client.sync import Producer, PushConsumer, SimpleConsumer
from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from pymq.model.message import Message
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Outcome, Pymq

COUNT = 10


def filled(pymq: Pymq, topic: str, group: str = "", queues: int = 1, place: int = 4) -> None:
    """Make a topic with 10 messages in each queue; ``group`` is at ``place`` in the first one."""
    assert pymq("topic", "create", topic, "--wq", str(queues), "--rq", str(queues)).code == EXIT_OK
    for queue in range(queues):
        lines = "\n".join(str(number) for number in range(COUNT))
        assert pymq("send", topic, "--queue", f"broker-a:{queue}", stdin=lines).code == EXIT_OK
    if group:
        moved = pymq("offset", "reset", group, "--topic", topic, "--queue", "0", "--to", str(place), "--yes")
        assert moved.code == EXIT_OK, moved.err


def queues_of(outcome: Outcome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = outcome.json()["queues"]
    return found


def committed(pymq: Pymq, group: str, topic: str) -> list[int | None]:
    shown = pymq("offset", "show", group, "--topic", topic, "--json").json()
    return [record["committed"] for record in shown]


def test_a_plan_changes_nothing(pymq: Pymq) -> None:
    filled(pymq, "planned", "planner")
    outcome = pymq("offset", "reset", "planner", "--to", "end", "--topic", "planned")
    assert outcome.code == EXIT_OK and "+6" in outcome.out and "--yes applies" in outcome.err
    assert committed(pymq, "planner", "planned") == [4]
    record = pymq("offset", "reset", "planner", "--to", "end", "--topic", "planned", "--json").json()
    assert record["applied"] is False
    assert record["queues"] == [
        {
            "topic": "planned",
            "broker": "broker-a",
            "queue": 0,
            "first_offset": 0,
            "end_offset": 10,
            "before": 4,
            "after": 10,
            "moves_by": 6,
        }
    ]


@pytest.mark.parametrize(("where", "after"), [("start", 0), ("end", 10), ("7", 7), ("99", 10), ("-1h", 0)])
def test_an_offline_group_moves_both_ways(pymq: Pymq, where: str, after: int) -> None:
    topic = f"moved_{where.strip('-')}"
    filled(pymq, topic, "mover")
    outcome = pymq("offset", "reset", "mover", "--topic", topic, "--to", where, "--yes", "--json")
    assert outcome.code == EXIT_OK
    (record,) = queues_of(outcome)
    assert (record["before"], record["after"], record["now"], record["problem"]) == (4, after, after, None)
    assert pymq("group", "lag", "mover", "--topic", topic, "--json").json()[0]["committed"] == after
    outside = ["1 queues have no such offset: they get the nearest one"] if where == "99" else []
    assert outcome.json()["notes"] == outside


def test_a_new_group_is_created_where_it_is_moved(pymq: Pymq) -> None:
    filled(pymq, "untouched", queues=2)
    shown = pymq("offset", "show", "newcomer", "--topic", "untouched")
    assert shown.code == EXIT_OK and committed(pymq, "newcomer", "untouched") == [None, None]
    planned = pymq("offset", "reset", "newcomer", "--topic", "untouched", "--to", "3", "--queue", "1")
    assert "is created on broker-a" in planned.err
    assert all(record["group"] != "newcomer" for record in pymq("group", "list", "--json").json())
    done = pymq("offset", "reset", "newcomer", "--topic", "untouched", "--to", "3", "--queue", "1", "--yes")
    assert done.code == EXIT_OK and "was created on broker-a" in done.err
    assert committed(pymq, "newcomer", "untouched") == [None, 3]
    # It has read a topic now, so none must be named.
    assert pymq("offset", "reset", "newcomer", "--to", "start", "--broker", "broker-a", "--yes").code == EXIT_OK
    assert committed(pymq, "newcomer", "untouched") == [0, 0]


def test_a_group_takes_anothers_place(pymq: Pymq) -> None:
    filled(pymq, "copied", "original", queues=2)
    outcome = pymq("offset", "copy", "original", "second", "--yes", "--json", "--topic", "copied")
    assert outcome.code == EXIT_OK and outcome.json()["notes"] == [
        "1 queues stay as they are: original has committed nothing in them"
    ]
    assert committed(pymq, "second", "copied") == [4, None]
    assert pymq("offset", "copy", "original", "original").code == EXIT_USAGE
    nothing = pymq("offset", "copy", "never_seen", "second", "--topic", "copied")
    assert nothing.code == EXIT_NOT_FOUND and "never_seen" in nothing.err


def test_messages_are_skipped(pymq: Pymq) -> None:
    filled(pymq, "skipped", "skipper", queues=2)
    for arguments, after in ((["--count", "1"], [5, 1]), (["--count", "99"], [10, 10]), ([], [10, 10])):
        assert pymq("offset", "skip", "skipper", "--topic", "skipped", *arguments, "--yes").code == EXIT_OK
        assert committed(pymq, "skipper", "skipped") == after


def test_a_topic_of_many_queues_is_moved_at_once(pymq: Pymq) -> None:
    assert pymq("topic", "create", "wide", "--wq", "300", "--rq", "300").code == EXIT_OK
    outcome = pymq("offset", "reset", "widely", "--topic", "wide", "--to", "end", "--yes", "--json")
    assert outcome.code == EXIT_OK and [one["now"] for one in queues_of(outcome)] == [0] * 300


def test_an_online_group_goes_on_at_its_new_place(pymq: Pymq, server: StandaloneProcess) -> None:
    filled(pymq, "live")
    seen: list[bytes] = []
    consumer = PushConsumer(
        "alive", namesrv=server.namesrv, consume_from="first", on_message=lambda some: seen.extend(m.body for m in some)
    )
    consumer.subscribe("live")
    with consumer, Producer("P", namesrv=server.namesrv) as producer:
        reached(lambda: len(seen) == COUNT)
        outcome = pymq("offset", "reset", "alive", "--topic", "live", "--to", "6", "--yes")
        assert outcome.code == EXIT_OK and "1 members are online" in outcome.err
        reached(lambda: len(seen) == COUNT + 4)
        assert seen[-4:] == [b"6", b"7", b"8", b"9"]
        producer.send(Message("live", b"new"))
        reached(lambda: seen[-1] == b"new")


def reached(condition: Callable[[], object]) -> None:
    """Wait for what threads and servers do."""
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_broadcasting_group_has_no_place_at_brokers(pymq: Pymq, server: StandaloneProcess) -> None:
    filled(pymq, "aired")
    seen: list[Any] = []
    consumer = PushConsumer(
        "listeners", namesrv=server.namesrv, broadcasting=True, consume_from="first", on_message=seen.extend
    )
    consumer.subscribe("aired")
    with consumer:
        reached(lambda: len(seen) == COUNT)
        outcome = pymq("offset", "reset", "listeners", "--topic", "aired", "--to", "start", "--yes")
    assert outcome.code == EXIT_USAGE and "broadcasting" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["show", "nowhere_group"], EXIT_NOT_FOUND, "--topic"),
        (["show", "g", "--topic", "absent_topic"], EXIT_NOT_FOUND, "absent_topic"),
        (["reset", "g", "--to", "never"], EXIT_USAGE, "--to 'never'"),
        (["reset", "g", "--to", "group", "--topic", "wrongs"], EXIT_USAGE, "--to takes"),
        (["reset", "a/b", "--to", "end"], EXIT_USAGE, "a/b"),
        (["skip", "g", "--topic", "wrongs", "--queue", "99"], EXIT_NOT_FOUND, "--queue"),
    ],
)
def test_wrong_uses_name_the_next_step(pymq: Pymq, arguments: list[str], code: int, part: str) -> None:
    pymq("topic", "create", "wrongs")
    outcome = pymq("offset", *arguments)
    assert outcome.code == code and part in outcome.err


def test_without_resets_in_the_broker_an_offline_group_moves_all_the_same(pymq: Pymq) -> None:
    """With useServerSideResetOffset=false the broker leaves resets to members. There are none, so it is a commit."""
    assert pymq("config", "set", "useServerSideResetOffset=false", "-b", "broker-a").code == EXIT_OK
    try:
        filled(pymq, "unreset", "driven")
        outcome = pymq("offset", "reset", "driven", "--topic", "unreset", "--to", "2", "--yes", "--json")
        assert outcome.code == EXIT_OK and queues_of(outcome)[0]["now"] == 2
    finally:
        assert pymq("config", "set", "useServerSideResetOffset=true", "-b", "broker-a").code == EXIT_OK


def test_a_refused_move_is_shown_with_its_queue(pymq: Pymq, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(pymq, "refusing", "refused")

    async def move(self: Any, group: str, offsets: dict[MessageQueue, int]) -> dict[MessageQueue, str]:
        return dict.fromkeys(offsets, "no, because")

    monkeypatch.setattr("pymq.client.admin.offsets.OffsetAdmin.move", move)
    outcome = pymq("offset", "reset", "refused", "--topic", "refusing", "--to", "end", "--yes")
    assert outcome.code == EXIT_FAILED and "no, because" in outcome.out


def test_a_group_that_pops_moves(pymq: Pymq, server: StandaloneProcess) -> None:
    """Its offset is behind what was handed out; a move takes effect with the next pop, and receipts stay valid."""
    filled(pymq, "popping")
    on_topic = ("--topic", "popping", "--yes")

    def bodies(group: str, count: int) -> list[bytes]:
        with SimpleConsumer(group, namesrv=server.namesrv) as consumer:
            return [one.message.body for one in consumer.receive("popping", count, invisible_ms=600_000)]

    with SimpleConsumer("popper", namesrv=server.namesrv) as consumer:
        first, *_ = consumer.receive("popping", 4, invisible_ms=600_000)
        assert committed(pymq, "popper", "popping") == [4]
        assert pymq("offset", "skip", "popper", "--count", "2", *on_topic).code == EXIT_OK
        assert bodies("popper", 1) == [b"6"]
        assert pymq("offset", "copy", "popper", "popper2", *on_topic).code == EXIT_OK
        assert bodies("popper2", 1) == [b"7"]
        assert pymq("offset", "reset", "popper", "--to", "start", *on_topic).code == EXIT_OK
        consumer.ack(first)
        assert bodies("popper", 2) == [b"0", b"1"]
        assert pymq("offset", "reset", "popper", "--to", "end", *on_topic).code == EXIT_OK
        assert consumer.receive("popping", wait_ms=0) == []
