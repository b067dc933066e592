"""pymq dlq: dead letters are listed, shown, exported, sent again to their group or topic, and purged."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from pymq.client import ConsumeResult, StoredMessage
from pymq.client.sync import PushConsumer, SimpleConsumer
from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.offset.test_command import reached


class Member:
    """A consumer that fails every message until :attr:`heals` is set."""

    def __init__(self, server: StandaloneProcess, group: str, *topics: str) -> None:
        self.heals = threading.Event()
        self.handled: list[StoredMessage] = []
        self.consumer = PushConsumer(
            group, namesrv=server.namesrv, on_message=self._handle, consume_from="first", max_reconsume_times=0
        )
        for topic in topics:
            self.consumer.subscribe(topic)

    def _handle(self, messages: list[StoredMessage]) -> ConsumeResult:
        if not self.heals.is_set():
            return ConsumeResult.RECONSUME_LATER
        self.handled += messages
        return ConsumeResult.SUCCESS


def dead(pymq: Pymq, group: str) -> int:
    records = pymq("dlq", "list", "--json").json()
    return sum(record["messages"] for record in records if record["group"] == group)


def test_dead_letters_go_through_every_command(pymq: Pymq, server: StandaloneProcess, tmp_path: Path) -> None:
    for topic in ("fruit", "nuts"):
        assert pymq("topic", "create", topic, "--wq", "1", "--rq", "1").code == EXIT_OK
        assert pymq("send", topic, f"{topic} 1", "--tag", "A", "--key", f"{topic}-1").code == EXIT_OK
    assert pymq("send", "fruit", "fruit 2", "--property", "color=red").code == EXIT_OK
    member = Member(server, "eaters", "fruit", "nuts")
    with member.consumer:
        reached(lambda: dead(pymq, "eaters") == 3)
        shown = [json.loads(line) for line in pymq("dlq", "show", "eaters", "-o", "jsonl").out.splitlines()]
        assert sorted(one["body"] for one in shown) == ["fruit 1", "fruit 2", "nuts 1"]
        (nut,) = pymq("dlq", "show", "eaters", "--origin", "nuts", "-o", "jsonl").json_lines()
        for identity in (nut["message_id"], nut["offset_message_id"], nut["properties"]["ORIGIN_MESSAGE_ID"]):
            assert pymq("dlq", "show", "eaters", "--id", identity, "-o", "raw").out == "nuts 1\n"
        assert pymq("dlq", "show", "eaters", "--to", "-1h").out == ""
        assert len(pymq("dlq", "show", "eaters", "--max", "2").out.splitlines()) == 2
        _export(pymq, tmp_path)

        member.heals.set()
        planned = pymq("dlq", "resend", "eaters", "--origin", "fruit")
        assert planned.code == EXIT_OK and "2 from fruit" in planned.out and "--yes" in planned.err
        assert member.handled == []
        sent = pymq("dlq", "resend", "eaters", "--origin", "fruit", "--yes", "--json").json()
        assert (sent["found"], sent["sent"], sent["failed"]) == (2, 2, 0)
        reached(lambda: len(member.handled) == 2)
        again = {message.content(): message for message in member.handled}
        assert {message.topic for message in member.handled} == {"fruit"}, "consumers see the first topic"
        assert again[b"fruit 1"].tags == "A" and again[b"fruit 1"].keys == "fruit-1"
        assert again[b"fruit 2"].properties["color"] == "red"
        first = {one["body"]: one["message_id"] for one in shown}
        assert {body.decode(): one.message_id for body, one in again.items()}.items() <= first.items()

        assert pymq("dlq", "resend", "eaters", "--origin", "nuts", "--to-topic", "--yes").code == EXIT_OK
        reached(lambda: len(member.handled) == 3)
        assert member.handled[-1].content() == b"nuts 1" and "RETRY_TOPIC" not in member.handled[-1].properties
    _purge(pymq)


def _export(pymq: Pymq, tmp_path: Path) -> None:
    file = tmp_path / "dead.jsonl"
    assert "wrote 3" in pymq("dlq", "export", "eaters", "--out", str(file)).out
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 3
    repeated = pymq("dlq", "export", "eaters", "--out", str(file))
    assert repeated.code == EXIT_USAGE and "exists" in repeated.err


def _purge(pymq: Pymq) -> None:
    planned = pymq("dlq", "purge", "eaters")
    assert planned.code == EXIT_OK and "nothing was deleted" in planned.err and dead(pymq, "eaters") == 3
    done = pymq("dlq", "purge", "eaters", "--yes", "--json").json()
    assert (done["messages"], done["applied"], done["left"]) == (3, True, 0)
    assert dead(pymq, "eaters") == 0
    assert pymq("dlq", "show", "eaters").code == EXIT_NOT_FOUND


def test_a_letter_without_an_origin_is_counted_as_failed(pymq: Pymq) -> None:
    assert pymq("offset", "reset", "odd", "--topic", "oddities", "--to", "end").code in (EXIT_OK, EXIT_NOT_FOUND)
    assert pymq("topic", "create", "%DLQ%odd", "--wq", "1", "--rq", "1").code == EXIT_OK
    assert pymq("send", "%DLQ%odd", "where from").code == EXIT_OK
    outcome = pymq("dlq", "resend", "odd", "--yes")
    assert outcome.code == EXIT_FAILED and "no property says" in outcome.err and "failed 1" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["show", "healthy"], EXIT_NOT_FOUND, "no dead letters"),
        (["resend", "healthy", "--yes"], EXIT_NOT_FOUND, "%DLQ%healthy"),
        (["purge", "healthy", "--yes"], EXIT_NOT_FOUND, "%DLQ%healthy"),
        (["show", "a/b"], EXIT_USAGE, "a/b"),
        (["show", "g", "--from", "-1h", "--to", "-2h"], EXIT_USAGE, "--from"),
        (["show", "g", "-o", "xml"], EXIT_USAGE, "xml"),
    ],
)
def test_wrong_uses_name_the_next_step(pymq: Pymq, arguments: list[str], code: int, part: str) -> None:
    outcome = pymq("dlq", *arguments)
    assert outcome.code == code and part in outcome.err, outcome.err


def test_groups_without_dead_letters_are_not_listed(pymq: Pymq) -> None:
    records: list[Any] = pymq("dlq", "list", "--json").json()
    assert "healthy" not in [record["group"] for record in records]


def test_dead_letters_of_a_group_that_pops_go_to_the_retry_topic_of_its_pops(
    pymq: Pymq, server: StandaloneProcess
) -> None:
    assert pymq("topic", "create", "beans", "--wq", "1", "--rq", "1").code == EXIT_OK
    assert pymq("group", "create", "poppers-dlq", "--retries", "1").code == EXIT_OK
    assert pymq("send", "beans", "bean").code == EXIT_OK
    with SimpleConsumer("poppers-dlq", namesrv=server.namesrv) as consumer:
        for _ in range(2):
            (received,) = consumer.receive("beans")
            consumer.give_back(received)
        reached(lambda: dead(pymq, "poppers-dlq") == 1)
        sent = pymq("dlq", "resend", "poppers-dlq", "--yes", "--json").json()
        assert (sent["sent"], sent["failed"]) == (1, 0)
        (again,) = consumer.receive("beans")
        assert again.content() == b"bean" and again.topic == "%RETRY%poppers-dlq+beans"
        consumer.ack(again)
    assert "poppers-dlq+beans" not in {one["group"] for one in pymq("group", "list", "--json").json()}
