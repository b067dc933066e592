"""Groups, single messages and loads through the commands."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pymq.client.sync import PushConsumer, SimpleConsumer
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq


def committed_group(pymq: Pymq, topic: str, group: str) -> None:
    """Make a topic with 10 messages in one queue; the group has committed offset 4."""
    pymq("topic", "create", topic, "--wq", "1")
    pymq("send", topic, stdin="".join(f"m{number}\n" for number in range(10)))
    assert pymq("tail", topic, "-F", "-n", "4", "--group", group, "--create-group", "--commit").code == EXIT_OK


def topic_record(topic: str, *, lag: int, invisible: int = 0, retry: int = 0) -> dict[str, Any]:
    figures = {"lag": lag, "invisible": invisible, "retry": retry, "unknown_queues": 0}
    return {"topic": topic, "queues": 1} | figures


def test_lag_of_one_group(pymq: Pymq) -> None:
    committed_group(pymq, "lagging", "slow")
    [record] = pymq("group", "lag", "slow", "-o", "json").json()
    assert 0 < record.pop("lag_ms") < 600_000
    assert (record["topic"], record["queue"], record["end_offset"], record["committed"], record["lag"]) == (
        "lagging",
        0,
        10,
        4,
        6,
    )
    assert "total lag 6" in pymq("group", "lag", "slow").out
    assert "the oldest waits for" in pymq("group", "lag", "slow").out
    pymq("topic", "create", "never_read", "--wq", "1")
    [record] = pymq("group", "lag", "slow", "--topic", "never_read", "-o", "json").json()
    assert (record["committed"], record["end_offset"]) == (None, 0)
    for group in (["slow"], []):
        outcome = pymq("group", "lag", *group, "--topic", "elsewhere")
        assert (outcome.code, "no topic 'elsewhere'" in outcome.err) == (EXIT_NOT_FOUND, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["group", "lag", "nope"],
        ["group", "lag", "nope", "--topic", "wrong_names"],
        ["group", "lag", "nope", "--topic", "nope"],
        ["group", "lag", "--topic", "nope"],
        ["group", "describe", "nope"],
        ["group", "members", "nope"],
        ["offset", "show", "nope"],
        ["offset", "show", "nope", "--topic", "nope"],
        ["offset", "reset", "nope", "--topic", "nope", "--to", "end"],
        ["cluster", "clients", "--group", "nope"],
        ["dlq", "show", "nope"],
        ["message", "query", "nope", "--key", "k"],
        ["stats", "nope"],
        ["topic", "describe", "nope"],
        ["topic", "stats", "nope"],
        ["topic", "route", "nope"],
        ["tail", "nope", "--no-follow"],
        ["tail", "wrong_names", "--group", "nope", "--no-follow"],
    ],
    ids=" ".join,
)
def test_a_wrong_name_is_not_found_and_never_an_empty_success(pymq: Pymq, arguments: list[str]) -> None:
    pymq("topic", "create", "wrong_names")  # or it exists already
    outcome = pymq(*arguments)
    assert (outcome.code, outcome.out) == (EXIT_NOT_FOUND, "") and "nope" in outcome.err


def test_the_lag_of_a_group_without_offsets_is_unknown(pymq: Pymq) -> None:
    pymq("group", "create", "idle")
    found = {one["group"]: one for one in pymq("group", "list", "-o", "json").json()}
    assert found["idle"]["lag"] is None


def test_lag_of_all_groups(pymq: Pymq) -> None:
    committed_group(pymq, "lagging_too", "slow_too")
    records = pymq("group", "lag", "-o", "json").json()
    for record in records:
        record.pop("lag_ms")
    assert {"group": "slow_too"} | topic_record("lagging_too", lag=6) in records
    lags = [record["lag"] or 0 for record in records]
    assert lags == sorted(lags, reverse=True)


def test_lag_of_a_group_that_pops(pymq: Pymq, server: StandaloneProcess) -> None:
    """Of 10 messages one is acknowledged, 2 are in retry, one is handed out, and 6 were never handed out."""
    pymq("topic", "create", "popped", "--wq", "1")
    pymq("send", "popped", stdin="".join(f"m{number}\n" for number in range(10)))
    with SimpleConsumer("poppers", namesrv=server.namesrv) as consumer:
        first, second, third, _ = consumer.receive("popped", 4, invisible_ms=600_000)
        consumer.ack(first)
        consumer.give_back(second)
        consumer.give_back(third)
        deadline = time.monotonic() + 30
        while pymq("group", "lag", "--topic", "popped", "-o", "json").json()[0]["retry"] < 2:
            assert time.monotonic() < deadline
    record = topic_record("popped", lag=6, invisible=1, retry=2)
    [found] = pymq("group", "lag", "--topic", "popped", "-o", "json").json()
    assert found.pop("lag_ms") > 0
    assert found == {"group": "poppers", **record}
    described = pymq("group", "describe", "poppers", "-o", "json").json()
    described["progress"][0].pop("lag_ms")
    assert (described["lag"], described["invisible"], described["progress"]) == (8, 1, [record])
    rows = pymq("group", "lag", "poppers", "--topic", "popped", "-o", "json").json()
    assert {row["topic"]: (row["lag"], row["invisible"]) for row in rows} == {
        "popped": (6, 1), "%RETRY%poppers+popped": (2, 0),
    }  # fmt: skip
    assert "total lag 8, 2 of it in retry, 1 invisible" in pymq("group", "lag", "poppers").out


def test_list_and_describe(pymq: Pymq) -> None:
    committed_group(pymq, "grouped", "workers")
    record = {record["group"]: record for record in pymq("group", "list", "-o", "json").json()}["workers"]
    assert (record["brokers"], record["members"], record["lag"], record["retry_max"]) == (["broker-a"], 0, 6, 16)
    described = pymq("group", "describe", "workers", "-o", "json").json()
    assert described["progress"][0].pop("lag_ms") > 0
    assert described["progress"] == [topic_record("grouped", lag=6)]
    text = pymq("group", "describe", "workers").out
    assert "no member is online" in text
    assert "grouped" in text
    assert pymq("topic", "describe", "grouped", "-o", "json").json()["groups"] == ["workers"]


def test_members_that_subscribe_differently_are_shown(pymq: Pymq, server: StandaloneProcess) -> None:
    pymq("topic", "create", "shared")
    members = []
    for tag in ("A", "B", "B"):
        member = PushConsumer("unequal", namesrv=server.namesrv, on_message=lambda messages: None)
        member.subscribe("shared", tag)
        members.append(member)
    with members[1], members[2]:
        assert pymq("group", "describe", "unequal", "-o", "json").json()["differing_subscriptions"] == []
        assert "differing" not in pymq("group", "describe", "unequal").out
        with members[0]:
            described = pymq("group", "describe", "unequal", "-o", "json").json()
            expected = [("A", 1), ("B", 2)]
            found = described["differing_subscriptions"]
            assert sorted((one["selection"], one["members"]) for one in found) == expected
            assert {one["topic"] for one in found} == {"shared"}
            outcome = pymq("group", "describe", "unequal")
            assert "differing subscriptions" in outcome.out.lower()
            assert "give all members the same subscriptions" in outcome.out + outcome.err


def test_own_groups_are_listed_with_all_only(pymq: Pymq) -> None:
    users = {record["group"] for record in pymq("group", "list", "-o", "json").json()}
    everything = {record["group"] for record in pymq("group", "list", "--all", "-o", "json").json()}
    assert "TOOLS_CONSUMER" not in users
    assert users <= everything


def test_no_group(pymq: Pymq) -> None:
    for command in ("describe", "lag"):
        outcome = pymq("group", command, "absent_group")
        assert outcome.code == EXIT_NOT_FOUND
        assert "absent_group" in outcome.err


def test_get_by_each_id(pymq: Pymq) -> None:
    pymq("topic", "create", "by_id")
    sent = pymq("send", "by_id", "hello", "--tag", "t", "--key", "k", "--property", "color=red", "-o", "json").json()
    [message] = pymq("message", "get", sent["offset_message_id"], "-o", "jsonl").json_lines()
    assert (message["body"], message["broker"], message["queue"]) == ("hello", "broker-a", sent["queue"])
    assert pymq("message", "get", sent["offset_message_id"], "-o", "raw").out == "hello\n"
    text = pymq("message", "get", sent["message_id"], "--topic", "by_id").out
    for words in (sent["message_id"], sent["offset_message_id"], "color=red", "hello"):
        assert words in text


def test_get_of_a_missing_message(pymq: Pymq) -> None:
    pymq("topic", "create", "no_id")
    sent = pymq("send", "no_id", "hello", "-o", "json").json()
    offset_id = sent["offset_message_id"]
    for arguments in (
        [sent["message_id"]],
        ["nonsense"],
        [f"{offset_id[:-2]}{int(offset_id[-2:], 16) ^ 1:02X}"],
        ["0" * 32, "--topic", "no_id"],
    ):
        outcome = pymq("message", "get", *arguments)
        assert outcome.code == EXIT_NOT_FOUND, arguments
        assert outcome.err.count("\n") == 1


def test_query_by_key(pymq: Pymq) -> None:
    pymq("topic", "create", "keyed", "--wq", "1")
    for number in range(3):
        pymq("send", "keyed", f"m{number}", "--key", "same", "--key", f"own{number}")
    assert pymq("message", "query", "keyed", "--key", "same", "-o", "raw").out.split() == ["m0", "m1", "m2"]
    assert pymq("message", "query", "keyed", "--key", "own1", "-o", "raw").out.split() == ["m1"]
    assert pymq("message", "query", "keyed", "--key", "same", "--from", "-1h", "-o", "raw").out.split() == [
        "m0",
        "m1",
        "m2",
    ]
    hour_ago_ms = str(int(time.time() * 1000) - 3_600_000)
    assert pymq("message", "query", "keyed", "--key", "same", "--to", hour_ago_ms).code == EXIT_NOT_FOUND
    assert pymq("message", "query", "keyed", "--key", "none").code == EXIT_NOT_FOUND
    assert pymq("message", "query", "absent", "--key", "none").code == EXIT_NOT_FOUND


def test_the_loads(pymq: Pymq) -> None:
    sent = pymq("bench", "send", "bench_load", "--messages", "500", "-o", "json")
    assert sent.code == EXIT_OK
    assert sent.json()["messages"] == 500
    assert pymq("bench", "send", "bench_load", "--messages", "500", "--batch", "50", "-o", "json").code == EXIT_OK
    consumed = pymq("bench", "consume", "bench_load", "-o", "json").json()
    assert consumed["messages"] == 1002, "each load sends one more first"
    tripped = pymq("bench", "latency", "bench_load", "--rate", "200", "--seconds", "0.5", "-o", "json").json()
    assert tripped["received"] == tripped["sent"] == 100
    assert 0 < tripped["end_to_end_p50_ms"] <= tripped["end_to_end_max_ms"]
    assert "messages per second" in pymq("bench", "send", "bench_load", "--messages", "10").out


def test_consuming_nothing(pymq: Pymq) -> None:
    pymq("topic", "create", "bench_empty")
    assert pymq("bench", "consume", "bench_empty").code == EXIT_NOT_FOUND


def test_a_timer_message_is_sent_and_recalled(pymq: Pymq) -> None:
    assert pymq("topic", "create", "timed", "--wq", "1").code == EXIT_OK
    recalled = pymq("send", "timed", "gone", "--delay", "2s", "-o", "json").json()
    assert pymq("send", "timed", "kept", "--delay", "2s").out.splitlines()[1].startswith("recall it with: pymq message")
    outcome = pymq("message", "recall", "timed", recalled["recall_handle"])
    assert outcome.code == EXIT_OK and outcome.out == f"recalled {recalled['message_id']}\n"
    assert pymq("message", "recall", "timed", "bm9uZQ==").code == EXIT_USAGE
    assert pymq("send", "timed", "x", "--delay", "4d").code == EXIT_REFUSED
    assert pymq("send", "timed", "x", "--delay", "4s", "--deliver-at", "+1h").code == EXIT_USAGE
    [message] = pymq("tail", "timed", "-n", "1", "-o", "jsonl", "--from", "start").json_lines()
    assert message["body"] == "kept" and message["properties"]["REAL_TOPIC"] == "timed"
