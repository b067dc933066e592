"""The commands ``send`` and ``tail``: every form of input, every starting point, commits only on request."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pymq.cli.send import work as send_work
from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq

DEADLINE_S = 20.0
# pymq, whose tail looks for new topics five times a second.
EAGER_PYMQ = (
    "from pymq.cli import main; from pymq.cli.tail import work; work.LOOK_FOR_QUEUES_EVERY_S = 0.2; main.main()"
)


def make(pymq: Pymq, topic: str, queues: int = 1) -> str:
    assert pymq("topic", "create", topic, "--wq", str(queues)).code == EXIT_OK
    return topic


def lines(count: int, start: int = 0) -> str:
    return "".join(f"m{number}\n" for number in range(start, start + count))


def test_one_message(pymq: Pymq) -> None:
    topic = make(pymq, "single")
    outcome = pymq("send", topic, "hello", "--tag", "new", "--key", "k1", "--key", "k2", "--property", "color=red")
    assert outcome.code == EXIT_OK
    assert outcome.out.startswith(f"sent {topic} broker-a/0@0 ")
    [message] = pymq("tail", topic, "-F", "-o", "jsonl").json_lines()
    assert (message["body"], message["tags"], message["keys"]) == ("hello", "new", "k1 k2")
    assert message["properties"]["color"] == "red"


def test_the_result_as_json(pymq: Pymq) -> None:
    topic = make(pymq, "single_json")
    result = pymq("send", topic, "hello", "-o", "json").json()
    assert (result["status"], result["broker"], result["queue"], result["offset"]) == ("SEND_OK", "broker-a", 0, 0)
    [message] = pymq("tail", topic, "-F", "-o", "jsonl").json_lines()
    assert message["message_id"] == result["message_id"]
    assert message["offset_message_id"] == result["offset_message_id"]


def test_a_priority_is_the_queue(pymq: Pymq) -> None:
    topic = "by_priority"
    assert pymq("topic", "create", topic, "--wq", "3", "--type", "priority").code == EXIT_OK
    assert pymq("send", topic, "one", "--priority", "1").out.startswith(f"sent {topic} broker-a/1@0 ")
    assert pymq("send", topic, "--priority", "9", stdin=lines(4)).code == EXIT_OK
    found = pymq("tail", topic, "-F", "-o", "jsonl").json_lines()
    assert sorted((message["queue"], message["body"]) for message in found) == [
        (1, "one"), *[(2, f"m{number}") for number in range(4)],
    ]  # fmt: skip
    outcome = pymq("send", topic, "--priority", "9", "--batch", "4", stdin=lines(4))
    assert outcome.code != EXIT_OK and "can't be sent as a batch" in outcome.err
    assert pymq("send", topic, "one", "--priority", "-1").code == EXIT_USAGE
    outcome = pymq("send", topic, "one", "--priority", "1", "--delay", "5m")
    assert outcome.code == EXIT_USAGE and "a delayed message has no priority" in outcome.err


def test_messages_of_a_lite_topic_are_in_one_queue(pymq: Pymq) -> None:
    topic = "with_lites"
    outcome = pymq("topic", "create", topic, "--wq", "4", "--type", "lite", "--expire", "36h", "-o", "json")
    assert outcome.code == EXIT_OK, outcome.err
    (record,) = outcome.json()
    assert record["attributes"] == {"message.type": "LITE", "lite.topic.expiration": "2160"}
    for lite in ("a", "b", "c"):
        assert pymq("send", topic, "--lite", lite, stdin=lines(3)).code == EXIT_OK
    found = pymq("tail", topic, "-F", "-o", "jsonl").json_lines()
    assert len(found) == 9
    for lite in ("a", "b", "c"):
        of_lite = [message for message in found if message["properties"]["__LITE_TOPIC"] == lite]
        assert len({message["queue"] for message in of_lite}) == 1
        in_order = sorted(of_lite, key=lambda message: message["offset"])
        places = [message["properties"]["INNER_MULTI_QUEUE_OFFSET"] for message in in_order]
        assert places == ["0", "1", "2"]
        assert [message["body"] for message in in_order] == ["m0", "m1", "m2"]
    outcome = pymq("send", topic, "--lite", "a", "--batch", "4", stdin=lines(4))
    assert outcome.code != EXIT_OK and "can't be sent as a batch" in outcome.err
    assert "has a comma" in pymq("send", topic, "one", "--lite", "a,b").err
    assert pymq("topic", "update", topic, "--expire", "never").code == EXIT_OK
    assert "use whole minutes" in pymq("topic", "update", topic, "--expire", "90s").err
    assert "use whole minutes" in pymq("topic", "update", topic, "--expire", "31d").err


def test_tail_by_sql(pymq: Pymq) -> None:
    topic = make(pymq, "by_sql")
    for size in ("3", "7", "12"):
        assert pymq("send", topic, f"m{size}", "--property", f"size={size}").code == EXIT_OK
    outcome = pymq("tail", topic, "-F", "--sql", "size BETWEEN 5 AND 20", "-o", "raw")
    assert outcome.out.splitlines() == ["m7", "m12"] and not outcome.err
    outcome = pymq("tail", topic, "-F", "--sql", "size = 3 or", "-o", "raw")
    assert outcome.code == EXIT_USAGE and "column 12" in outcome.err
    outcome = pymq("tail", topic, "-F", "--sql", "size = 3 size = 7", "-o", "raw")
    assert outcome.out == "m3\n" and "ignore the text from column 10 on: 'size = 7'" in outcome.err
    outcome = pymq("tail", topic, "-F", "--sql", "size = 3", "--tag", "A")
    assert outcome.code == EXIT_USAGE and "exclude each other" in outcome.err


@pytest.mark.parametrize("batch", ["1", "16"])
def test_lines_of_stdin(pymq: Pymq, batch: str) -> None:
    topic = make(pymq, f"lines{batch}")
    outcome = pymq("send", topic, "--batch", batch, stdin=lines(100) + "\n\nlast without its end")
    assert outcome.code == EXIT_OK
    assert outcome.out.startswith(f"sent 101 to {topic} in ")
    shown = pymq("tail", topic, "-F", "--from", "start", "-o", "raw").out.splitlines()
    assert shown == [*lines(100).split(), "last without its end"]


def test_the_summary_as_json(pymq: Pymq) -> None:
    topic = make(pymq, "summary")
    summary = pymq("send", topic, "-", "-o", "json", stdin=lines(10)).json()
    assert (summary["sent"], summary["failed"]) == (10, 0)


def test_json_lines(pymq: Pymq) -> None:
    topic = make(pymq, "jsonl")
    stdin = '{"body": {"id": 1, "n": 1.50}, "tags": "t", "keys": ["a", "b"]}\n{"body": "text"}\n'
    assert pymq("send", topic, "--json-lines", "--tag", "default", stdin=stdin).code == EXIT_OK
    first, second = pymq("tail", topic, "-F", "-o", "jsonl").json_lines()
    assert (first["body"], first["tags"], first["keys"]) == ({"id": 1, "n": 1.5}, "t", "a b")
    assert (second["body"], second["tags"]) == ("text", "default")


def test_a_line_that_is_not_a_message_is_named(pymq: Pymq) -> None:
    topic = make(pymq, "badline")
    outcome = pymq("send", topic, "--json-lines", stdin='{"body": "ok"}\n{oops\n')
    assert outcome.code == EXIT_USAGE
    assert "line 2 of stdin" in outcome.err


def test_an_unknown_member_is_named_with_its_line(pymq: Pymq) -> None:
    topic = make(pymq, "badmember")
    outcome = pymq("send", topic, "--json-lines", stdin='{"body": "ok"}\n{"body": "x", "tag": "A"}\n')
    assert outcome.code == EXIT_USAGE
    assert "line 2 of stdin: no message: unknown member 'tag' (do you mean 'tags'?)" in outcome.err


def test_a_delay_level_that_brokers_lower_is_refused(pymq: Pymq) -> None:
    topic = make(pymq, "toolate")
    for arguments, stdin in [(["x", "--delay-level", "99"], None), (["--json-lines"], '{"body":"x","delay_level":99}')]:
        outcome = pymq("send", topic, *arguments, stdin=stdin)
        assert outcome.code == EXIT_USAGE and "delay_level is 99, the largest is 18" in outcome.err
    told = pymq("send", topic, "x", "--delay-level", "19", "--delay-level-max", "20")
    assert told.code == EXIT_OK


def test_tail_output_can_be_sent_again(pymq: Pymq) -> None:
    source, copy = make(pymq, "copy_source"), make(pymq, "copy_target")
    pymq("send", source, '{"a": 1}', "--tag", "t", "--key", "k", "--property", "color=red")
    shown = pymq("tail", source, "-F", "--from", "start", "-o", "jsonl").out
    assert pymq("send", copy, "--json-lines", stdin=shown).code == EXIT_OK
    [message] = pymq("tail", copy, "-F", "-o", "jsonl").json_lines()
    assert (message["body"], message["tags"], message["keys"]) == ({"a": 1}, "t", "k")
    assert message["properties"]["color"] == "red"


def test_a_refused_send(pymq: Pymq) -> None:
    topic = make(pymq, "readonly")
    pymq("topic", "update", topic, "--perm", "R")
    outcome = pymq("send", topic, "hello", "--queue", "broker-a:0")
    assert outcome.code in (EXIT_REFUSED, EXIT_NOT_FOUND)
    assert outcome.err.startswith("pymq: ")
    assert pymq("send", topic, "--queue", "broker-a:0", stdin=lines(10)).code == outcome.code


def test_a_send_to_a_topic_that_is_not_made_by_itself(pymq: Pymq) -> None:
    assert pymq("config", "set", "autoCreateTopicEnable=false", "--broker", "broker-a").code == EXIT_OK
    try:
        outcome = pymq("send", "never_made", "hello")
    finally:
        assert pymq("config", "set", "autoCreateTopicEnable=true", "--broker", "broker-a").code == EXIT_OK
    assert outcome.code == EXIT_NOT_FOUND
    assert "never_made" in outcome.err and "pymq topic" in outcome.err


@pytest.mark.parametrize("count", [(), ("--count", "3")])
def test_a_topic_that_a_send_makes_is_named_with_the_one_that_may_be_meant(pymq: Pymq, count: tuple[str, ...]) -> None:
    topic = make(pymq, f"Invoices{len(count)}")
    typed = f"Invoces{len(count)}"
    first = pymq("send", typed, "hello", *count)
    assert first.code == EXIT_OK and first.err.endswith(
        f"topic {typed} did not exist, the broker made it; if {topic} was meant: pymq topic delete {typed}\n"
    )
    assert pymq("send", typed, "hello").err == pymq("send", topic, "hello").err == ""
    far = "zebra" if count else "quite_another"
    assert pymq("send", far, "hello").err == f"topic {far} did not exist, the broker made it\n"


def test_a_send_may_fail_in_part(pymq: Pymq) -> None:
    topic = make(pymq, "partly")
    too_large = json.dumps({"body": "x" * (5 * 1024 * 1024)})
    outcome = pymq("send", topic, "--json-lines", "-o", "json", stdin=f'{{"body": "ok"}}\n{too_large}\n')
    assert outcome.code == EXIT_FAILED
    assert (outcome.json()["sent"], outcome.json()["failed"]) == (1, 1)
    assert "limit" in outcome.err


@pytest.fixture(scope="module")
def _stored_topic() -> dict[str, bool]:
    return {}


@pytest.fixture
def stored(pymq: Pymq, _stored_topic: dict[str, bool]) -> str:
    """Make a topic with m0 to m39 in 4 queues; every fourth message has a tag and a key."""
    if not _stored_topic:
        make(pymq, "stored", 4)
        rows = [
            {"body": f"m{number}", **({"tags": "four", "keys": f"k{number}"} if number % 4 == 0 else {})}
            for number in range(40)
        ]
        pymq(
            "send", "stored", "--json-lines", "--in-flight", "1", stdin="".join(json.dumps(row) + "\n" for row in rows)
        )
        _stored_topic["stored"] = True
    return "stored"


def test_start_shows_all_in_order_of_storing(pymq: Pymq, stored: str) -> None:
    assert pymq("tail", stored, "-F", "--from", "start", "-o", "raw").out == lines(40)


def test_the_default_is_the_last_ten(pymq: Pymq, stored: str) -> None:
    assert pymq("tail", stored, "-F", "-o", "raw").out == lines(10, 30)


@pytest.mark.parametrize("arguments", [["-3"], ["--last", "3"], ["--from", "-3"]], ids=" ".join)
def test_the_last_three(pymq: Pymq, stored: str, arguments: list[str]) -> None:
    assert pymq("tail", stored, "-F", *arguments, "-o", "raw").out == lines(3, 37)


def test_asking_for_more_messages_than_stored(pymq: Pymq, stored: str) -> None:
    assert pymq("tail", stored, "-F", "-1000", "-o", "raw").out == lines(40)


def test_the_end_shows_nothing(pymq: Pymq, stored: str) -> None:
    assert pymq("tail", stored, "-F", "--from", "end", "-o", "raw").out == ""
    assert pymq("tail", stored, "-F", "-0", "-o", "raw").out == ""


def test_an_offset_in_each_queue(pymq: Pymq, stored: str) -> None:
    records = pymq("tail", stored, "-F", "--from", "8", "-o", "jsonl").json_lines()
    assert sorted(record["offset"] for record in records) == [8, 8, 8, 8, 9, 9, 9, 9]


def test_one_queue(pymq: Pymq, stored: str) -> None:
    records = pymq("tail", stored, "-F", "--from", "8", "--queue", "1", "-o", "jsonl").json_lines()
    assert [(record["queue"], record["offset"]) for record in records] == [(1, 8), (1, 9)]
    assert pymq("tail", stored, "-F", "--queue", "9").code == EXIT_NOT_FOUND


def test_times(pymq: Pymq, stored: str) -> None:
    records = pymq("tail", stored, "-F", "--from", "start", "-o", "jsonl").json_lines()
    since = [record["body"] for record in records if record["store_timestamp_ms"] >= records[20]["store_timestamp_ms"]]
    for start in (str(records[20]["store_timestamp_ms"]), records[20]["store_time"]):
        assert pymq("tail", stored, "-F", "--from", start, "-o", "raw").out.split() == since
    assert pymq("tail", stored, "-F", "-1h", "-o", "raw").out == lines(40)
    assert pymq("tail", stored, "-F", "--from", "2100-01-01", "-o", "raw").out == ""


def test_count(pymq: Pymq, stored: str) -> None:
    assert pymq("tail", stored, "-F", "--from", "start", "-n", "7", "-o", "raw").out == lines(7)
    assert pymq("tail", stored, "--from", "start", "-n", "7", "-o", "raw").out == lines(7), (
        "following ends at the count"
    )


def test_tags_keys_and_patterns(pymq: Pymq, stored: str) -> None:
    start = ["tail", stored, "-F", "--from", "start", "-o", "raw"]
    assert pymq(*start, "--tag", "four").out.split() == [f"m{number}" for number in range(0, 40, 4)]
    assert pymq(*start, "--tag", "none || four", "-n", "1").out.split() == ["m0"]
    assert pymq(*start, "--tag", "none").out == ""
    assert pymq(*start, "--key", "k8").out.split() == ["m8"]
    assert pymq(*start, "--grep", "^m.5$").out.split() == ["m15", "m25", "m35"]


def test_text_lines(pymq: Pymq, stored: str) -> None:
    [line] = pymq("tail", stored, "-F", "--key", "k8", "--from", "start").out.splitlines()
    assert line.endswith(" [four] k8 m8")
    assert f" {stored} broker-a/" in line


def test_several_topics_and_all_of_them(pymq: Pymq, stored: str) -> None:
    other = make(pymq, "other_topic")
    pymq("send", other, "elsewhere")
    assert pymq("tail", stored, other, "-F", "-2", "-o", "raw").out.split() == ["m39", "elsewhere"]
    assert "elsewhere" in pymq("tail", "-F", "--format", "%b", "--from", "start").out.split()


def test_no_topic(pymq: Pymq) -> None:
    assert pymq("tail", "absent", "-F").code == EXIT_NOT_FOUND


def test_offsets_are_committed_only_when_asked(pymq: Pymq, stored: str) -> None:
    group = ["--group", "readers"]
    first = pymq("tail", stored, "-F", *group, "--create-group", "-n", "15", "-o", "raw").out
    assert first == lines(15)
    assert pymq("tail", stored, "-F", *group, "-n", "15", "-o", "raw").out == lines(15), "nothing was committed"
    assert pymq("tail", stored, "-F", *group, "-n", "15", "--commit", "-o", "raw").out == lines(15)
    assert pymq("tail", stored, "-F", *group, "--commit", "-o", "raw").out == lines(25, 15)
    assert pymq("tail", stored, "-F", *group, "-o", "raw").out == ""
    records = pymq("group", "lag", "readers", "-o", "json").json()
    assert [(record["committed"], record["lag"]) for record in records] == [(10, 0)] * 4


def wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return
        threading.Event().wait(0.02)
    raise AssertionError(f"{what} did not happen within {DEADLINE_S} s")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_following_shows_new_messages_and_ends_on_a_signal(
    pymq: Pymq, server: StandaloneProcess, tmp_path: Path, how: signal.Signals
) -> None:
    topic = make(pymq, f"followed{how}", 2)
    pymq("send", topic, "before")
    out = tmp_path / "out"
    with out.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "pymq", "tail", topic, "-o", "raw"],
            stdout=sink,
            env={**os.environ, "NAMESRV_ADDR": server.namesrv},
        )
    try:
        wait_until(lambda: out.read_text() == "before\n", "showing what is stored")
        pymq("send", topic, stdin=lines(10))
        wait_until(lambda: sorted(out.read_text().split()) == sorted(["before", *lines(10).split()]), "following")
    finally:
        process.send_signal(how)
        code = process.wait(DEADLINE_S)
    assert code == EXIT_OK


def test_following_everything_notices_a_new_topic(pymq: Pymq, server: StandaloneProcess, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-c", EAGER_PYMQ, "tail", "--from", "end", "-o", "raw"],
            stdout=sink,
            env={**os.environ, "NAMESRV_ADDR": server.namesrv},
        )
    try:
        marker = make(pymq, "marker")

        def following() -> bool:
            pymq("send", marker, "started")
            return "started" in out.read_text()

        wait_until(following, "following")
        make(pymq, "born_later")
        pymq("send", "born_later", "here too")
        wait_until(lambda: "here too" in out.read_text(), "noticing the new topic")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(DEADLINE_S)


def test_a_closed_output_pipe_is_not_an_error(pymq: Pymq, server: StandaloneProcess, stored: str) -> None:
    process = subprocess.run(
        f"{sys.executable} -m pymq tail {stored} -F --from start | head -1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NAMESRV_ADDR": server.namesrv},
    )
    assert process.stderr == ""
    assert process.stdout.splitlines()[-1] == "0"


def test_the_stdin_reader_ends_quietly_after_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stdin").write_text("one\ntwo\n")
    loop = asyncio.new_event_loop()
    chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue()
    loop.close()
    with (tmp_path / "stdin").open() as source:
        monkeypatch.setattr("sys.stdin", source)
        send_work._read_stdin(loop, chunks, threading.Semaphore(1))
    assert chunks.empty()


def test_waiting_chunks_of_stdin_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stdin").write_bytes(b"a line\n" * 1000)
    monkeypatch.setattr(send_work, "READ_SIZE_BYTES", 70)
    read: list[list[bytes]] = []

    async def scenario() -> None:
        async for lines in send_work.stdin_lines():
            read.append(lines)
            await asyncio.sleep(0)

    with (tmp_path / "stdin").open() as source:
        monkeypatch.setattr("sys.stdin", source)
        asyncio.run(scenario())
    assert sum(map(len, read)) == 1000 and len(read) >= 100 > send_work.CHUNKS_AHEAD_MAX
