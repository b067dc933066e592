"""``pymq tail`` in full: groups, look back, both ends, patterns, retries, fields, formats; and copies by JSON lines."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from pymq.cli.tail.verbs import verb_meanings
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.test_send_tail import lines, make, wait_until
from tests.client.registries import ORDER_AVRO, Registry, framed

DOCS = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()


def raw(pymq: Pymq, *arguments: str) -> list[str]:
    outcome = pymq("tail", *arguments, "-F", "-o", "raw")
    assert outcome.code == EXIT_OK, outcome.err
    return outcome.out.splitlines()


@pytest.fixture(scope="module")
def _made() -> set[str]:
    return set()


@pytest.fixture
def rare(pymq: Pymq, _made: set[str]) -> str:
    """Make a topic with 400 messages in 2 queues; the tag ``rare`` is on m5, m6 and m7 alone."""
    if "rare" not in _made:
        make(pymq, "rare", 2)
        rows = [{"body": f"m{at}", "tags": "rare" if at in (5, 6, 7) else "often"} for at in range(400)]
        pymq("send", "rare", "--jsonl", "--in-flight", "1", stdin="".join(json.dumps(row) + "\n" for row in rows))
        _made.add("rare")
    return "rare"


def test_an_unknown_group_is_refused_and_not_created(pymq: Pymq, rare: str) -> None:
    assert pymq("tail", rare, "-F", "-n", "1", "--group", "billing", "--create-group").code == EXIT_OK
    outcome = pymq("tail", rare, "-F", "-n", "1", "--group", "biling")
    assert outcome.code == EXIT_NOT_FOUND
    assert "no group 'biling'" in outcome.err and "billing" in outcome.err and "--create-group" in outcome.err
    assert "biling" not in pymq("group", "list", "-o", "json").out


def test_the_last_ones_that_match_are_looked_for(pymq: Pymq, rare: str) -> None:
    assert raw(pymq, rare, "--tag", "rare") == ["m5", "m6", "m7"]
    assert raw(pymq, rare, "-2", "--tag", "rare") == ["m6", "m7"]
    assert raw(pymq, rare, "-1", "--grep", "^m7$") == ["m7"]


def test_a_look_back_that_ends_early_says_how_far_it_looked(pymq: Pymq, rare: str) -> None:
    outcome = pymq("tail", rare, "-F", "--tag", "rare", "--look-back", "100")
    assert outcome.out == "" and outcome.code == EXIT_OK
    assert "0 of the last 100 messages match, 400 are stored: --look-back N" in outcome.err
    assert "none of all 400 stored" in pymq("tail", rare, "-F", "--tag", "never").err


def test_a_topic_that_can_only_be_written_says_so(pymq: Pymq) -> None:
    topic = make(pymq, "write_only")
    pymq("topic", "update", topic, "--perm", "W")
    outcome = pymq("tail", topic, "-F")
    assert outcome.code == EXIT_REFUSED and "its permission on broker-a is" in outcome.err


def test_a_tail_from_offset_to_offset(pymq: Pymq, rare: str) -> None:
    found = pymq("tail", rare, "--from", "8", "--to", "10", "-o", "jsonl").json_lines()
    assert sorted((one["queue"], one["offset"]) for one in found) == [(0, 8), (0, 9), (1, 8), (1, 9)]
    assert len(raw(pymq, rare, "--to", "3", "-2")) == 2


def test_a_tail_from_time_to_time(pymq: Pymq) -> None:
    topic = make(pymq, "tf_timed")
    for body in ("a", "b", "c", "d"):
        pymq("send", topic, body)
        time.sleep(0.003)  # so that no two have the same millisecond
    times = [one["store_timestamp_ms"] for one in pymq("tail", topic, "-F", "-o", "jsonl").json_lines()]
    begin, end = str(times[1]), str(times[3])
    outcome = pymq("tail", topic, "--from", begin, "--until", end, "-o", "raw")
    assert outcome.out.splitlines() == ["b", "c"], "it ends by itself"
    assert pymq("tail", topic, "-1", "--to", end, "-o", "raw").out == "c\n"
    assert pymq("tail", topic, "--to", "end", "-o", "raw").out.split() == ["a", "b", "c", "d"]
    assert pymq("tail", topic, "--until", "+300ms", "-o", "raw").out.split() == ["a", "b", "c", "d"]
    for wrong in ("start", "group", "soon"):
        assert pymq("tail", topic, "--to", wrong).code == EXIT_USAGE


def test_patterns_of_topics(pymq: Pymq) -> None:
    for name in ("glob_a", "glob_b", "other_glob"):
        pymq("send", make(pymq, name), name)
    assert sorted(raw(pymq, "glob_*")) == ["glob_a", "glob_b"]
    outcome = pymq("tail", "absent*", "-F")
    assert outcome.code == EXIT_NOT_FOUND and "no topic matches absent*" in outcome.err


def test_retries_and_dead_letters_of_a_group(pymq: Pymq) -> None:
    for prefix in ("%RETRY%", "%DLQ%"):
        pymq("send", make(pymq, f"{prefix}failing"), f"in {prefix}")
    assert sorted(raw(pymq, "--retries", "failing", "--dead-letters", "failing")) == ["in %DLQ%", "in %RETRY%"]
    outcome = pymq("tail", "--retries", "fine", "-F")
    assert outcome.code == EXIT_NOT_FOUND and "%RETRY%fine" in outcome.err


@pytest.fixture
def orders(pymq: Pymq, _made: set[str]) -> str:
    if "orders_json" not in _made:
        make(pymq, "orders_json")
        rows = [
            {
                "body": {"id": 1, "price": 4.5, "user": {"name": "Ann"}, "lines": [{"n": 1}]},
                "keys": "k1",
                "tags": "new",
            },
            {"body": {"id": 2, "price": 5, "user": {"name": "Bob"}}, "properties": {"color": "re\x1b[2Jd"}},
            {"body": "no JSON"},
        ]
        pymq("send", "orders_json", "--jsonl", stdin="".join(json.dumps(row) + "\n" for row in rows))
        _made.add("orders_json")
    return "orders_json"


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("price>=5", [2]),
        ("price < 5", [1]),
        ("user.name=Bob", [2]),
        ("user.name != Bob", [1]),
        ("user.name~^A", [1]),
        ("lines[0].n=1", [1]),
        ("lines", [1]),
        ("id", [1, 2]),
        ("lines[0]!=x", [1, 2]),
    ],
)
def test_conditions_on_fields(pymq: Pymq, orders: str, condition: str, ids: list[int]) -> None:
    found = pymq("tail", orders, "-F", "--where", condition, "-o", "jsonl").json_lines()
    assert [one["body"]["id"] for one in found] == ids


def test_projections_and_formats(pymq: Pymq, orders: str) -> None:
    cut = pymq("tail", orders, "-F", "--where", "id=1", "--fields", "id,user.name", "-o", "jsonl").json_lines()
    assert [one["body"] for one in cut] == [{"id": 1, "user.name": "Ann"}]
    shown = pymq("tail", orders, "-F", "--format", r"%t %B/%q@%o %k %g %s %[user.name] %{color}\t100%%").out
    assert shown.splitlines() == [
        f"{orders} broker-a/0@0 k1 new 69 Ann -\t100%",
        f"{orders} broker-a/0@1 - - 46 Bob re\\x1b[2Jd\t100%",
        f"{orders} broker-a/0@2 - - 7 - -\t100%",
    ]
    for wrong in ("%z", "%[", "%[a..b]"):
        outcome = pymq("tail", orders, "-F", "--format", wrong)
        assert outcome.code == EXIT_USAGE, wrong
    assert pymq("tail", orders, "--where", "a..b").code == EXIT_USAGE


def test_every_verb_is_documented_as_it_is() -> None:
    for verb, meaning in verb_meanings().items():
        assert f"| `{verb}` | {meaning} |" in DOCS


def test_packed_bodies_are_shown_as_text(pymq: Pymq, tmp_path: Path) -> None:
    import lz4.frame
    import zstandard

    topic = make(pymq, "tf_packed")
    packed = [gzip.compress(b"in gzip"), lz4.frame.compress(b"in lz4"), zstandard.compress(b"in zstd")]
    for at, body in enumerate([*packed, msgspec.msgpack.encode({"in": ["msgpack", 1]})]):
        (tmp_path / str(at)).write_bytes(body)
        assert pymq("send", topic, f"@{tmp_path / str(at)}").code == EXIT_OK
    shown = pymq("tail", topic, "-F", "--format", "%b").out.splitlines()
    assert shown[:3] == ["in gzip", "in lz4", "in zstd"] and shown[3].startswith("<")
    outcome = pymq("tail", topic, "-F", "-1", "--decode", "msgpack", "-o", "jsonl")
    assert outcome.json_lines()[0]["body"] == {"in": ["msgpack", 1]}
    first = pymq("tail", topic, "-F", "--from", "start", "-n", "1", "-o", "jsonl").json_lines()[0]
    assert first["body_encoding"] == "base64", "JSON lines hold the body itself, so that it can be sent again"
    outcome = pymq("tail", topic, "-F", "--decode", "gzip,json")
    assert outcome.code == EXIT_OK and "--decode can't read" in outcome.err
    assert pymq("tail", topic, "--decode", "json,gzip").code == EXIT_USAGE
    assert pymq("tail", topic, "--decode", "avro").code == EXIT_USAGE


def test_avro_and_protobuf_bodies(pymq: Pymq, tmp_path: Path) -> None:
    pytest.importorskip("fastavro", reason="NOT TESTED: the extra avro is not installed")
    pytest.importorskip("google.protobuf", reason="NOT TESTED: the extra protobuf is not installed")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    from pymq.client.codecs import AvroCodec

    topic = make(pymq, "tf_schemas")
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    (tmp_path / "order.avsc").write_text(schema)
    (tmp_path / "body").write_bytes(AvroCodec(schema).encode({"id": 17}))
    pymq("send", topic, f"@{tmp_path / 'body'}")
    arguments = ["--decode", "avro", "--schema", str(tmp_path / "order.avsc")]
    assert raw(pymq, topic, "-1", *arguments) == ['{"id":17}']

    described = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    kind = described.message_type.add(name="Order")
    kind.field.add(name="item_name", number=1, type=9, label=1)
    (tmp_path / "set").write_bytes(descriptor_pb2.FileDescriptorSet(file=[described]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(item_name="tea")
    (tmp_path / "body").write_bytes(order.SerializeToString())
    pymq("send", topic, f"@{tmp_path / 'body'}")
    arguments = ["--decode", "protobuf", "--descriptor", str(tmp_path / "set"), "--message"]
    assert raw(pymq, topic, "-1", *arguments, "shop.Order") == ['{"item_name": "tea"}']
    outcome = pymq("tail", topic, "-F", *arguments, "Oder")
    assert outcome.code == EXIT_USAGE and "shop.Order" in outcome.err


def test_bodies_of_a_registry(pymq: Pymq, tmp_path: Path) -> None:
    pytest.importorskip("fastavro", reason="NOT TESTED: the extra registry is not installed")
    from pymq.client.codecs import AvroCodec

    topic = make(pymq, "tf_registry")
    order = AvroCodec(ORDER_AVRO).encode({"id": 17, "total": 2})
    for at, body in enumerate((framed(7, order), order, framed(99, order))):
        (tmp_path / str(at)).write_bytes(body)
        assert pymq("send", topic, f"@{tmp_path / str(at)}").code == EXIT_OK
    with Registry() as served:
        served.put(7, "AVRO", ORDER_AVRO, f"{topic}-value")
        decode = ("--decode", "registry", "--registry", served.url)
        done = pymq("tail", topic, "-F", "--from", "start", "-o", "raw", *decode)
        assert done.out.splitlines()[:2] == ['{"id":17,"total":2.0}'] * 2
        assert "the schema with the id 99: " in done.err and "Schema not found" in done.err
    gone = pymq("tail", topic, "-F", "-1", *decode)
    assert gone.code == EXIT_OK and "does not answer" in gone.err, "bodies are shown as they are, and why"
    for arguments in (decode[:2], decode[2:], (*decode[:3], "host:8081")):
        assert pymq("tail", topic, *arguments).code == EXIT_USAGE


# Sending


def test_a_whole_file_is_one_body(pymq: Pymq, tmp_path: Path) -> None:
    topic = make(pymq, "tf_files")
    (tmp_path / "file").write_bytes(b"line\n\xff\x00\nline\n")
    assert pymq("send", topic, f"@{tmp_path / 'file'}").code == EXIT_OK
    assert pymq("send", topic, "@-", stdin="two\nlines\n").code == EXIT_OK
    assert pymq("send", topic, "@@home").code == EXIT_OK
    bodies = [one["body"] for one in pymq("tail", topic, "-F", "-o", "jsonl").json_lines()]
    assert bodies == ["bGluZQr/AApsaW5lCg==", "two\nlines\n", "@home"]
    missing = pymq("send", topic, "@/no/file")
    assert missing.code == EXIT_USAGE and "@@" in missing.err
    with (tmp_path / "large").open("wb") as large:
        large.truncate(5 << 20)
    assert "limit of a body" in pymq("send", topic, f"@{tmp_path / 'large'}").err


def test_a_count_and_a_rate(pymq: Pymq) -> None:
    topic = make(pymq, "tf_counted")
    assert pymq("send", topic, "again", "--count", "7", "-o", "json").json()["sent"] == 7
    assert pymq("send", topic, "-n", "3", "--batch", "2", "-o", "json", stdin=lines(10)).json()["sent"] == 3
    summary = pymq("send", topic, "slow", "--count", "11", "--rate", "100", "-o", "json").json()
    assert summary["sent"] == 11 and summary["seconds"] >= 0.1, "the first leaves at once, the others 10 ms apart"
    assert raw(pymq, topic, "-30") == ["again"] * 7 + ["m0", "m1", "m2"] + ["slow"] * 11


@pytest.mark.parametrize("batch", ["1", "10"])
def test_a_bad_line_says_how_many_were_sent_before(pymq: Pymq, batch: str) -> None:
    topic = make(pymq, f"bad_line_{batch}")
    outcome = pymq("send", topic, "--jsonl", "--batch", batch, stdin='{"body": "1"}\n{"body": "2"}\n{oops\n')
    assert outcome.code == EXIT_USAGE
    assert "line 3 of stdin" in outcome.err and "before it 2 messages were sent" in outcome.err
    assert raw(pymq, topic) == ["1", "2"]


@pytest.mark.parametrize("command", ["send", "bench"])
def test_an_interrupted_load_keeps_its_counts(pymq: Pymq, server: StandaloneProcess, command: str) -> None:
    topic = make(pymq, f"interrupted_{command}")
    arguments = {
        "send": ["send", topic, "again", "--count", "1000000", "--rate", "200"],
        "bench": ["bench", "send", topic, "--messages", "100000000"],
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pymq", *arguments[command], "-o", "json"],
        stdout=subprocess.PIPE,
        env={**os.environ, "NAMESRV_ADDR": server.namesrv},
    )
    wait_until(lambda: len(raw(pymq, topic, "-3")) == 3, "sending")
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=30)[0]
    assert process.returncode == 130
    record = json.loads(out)
    assert record["interrupted"] is True
    assert record.get("sent", record.get("messages")) >= 3


def test_an_interrupted_line_does_not_swallow_the_count(pymq: Pymq, server: StandaloneProcess) -> None:
    """Typed on a terminal: no bar is drawn over the text, and the count stands on a line of its own."""
    topic = make(pymq, "interrupted_typing")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pymq", "send", topic],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env={**os.environ, "NAMESRV_ADDR": server.namesrv},
    )  # fmt: skip
    os.write(master, b"whole\nhalf")
    wait_until(lambda: raw(pymq, topic) == ["whole"], "sending")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "━" not in shown and shown.count("half") == 1
    assert "\r\nsent 1 to interrupted_typing in " in shown


def test_a_copy_by_json_lines_keeps_everything_and_its_order(pymq: Pymq, tmp_path: Path) -> None:
    source, copy = make(pymq, "tf_copied", 4), make(pymq, "tf_copied_to", 3)
    rows = [
        {"body": f"m{at}", "keys": [f"k{at}", "all"], "tags": f"t{at % 3}", "properties": {"at": str(at)}}
        for at in range(200)
    ]
    rows[7]["properties"]["__SHARDINGKEY"] = rows[11]["properties"]["__SHARDINGKEY"] = "same"  # type: ignore[index]
    pymq("send", source, "--jsonl", stdin="".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "binary").write_bytes(b"\xff\x00\x01")
    pymq("send", source, f"@{tmp_path / 'binary'}")
    pymq("send", source, '{\n  "pretty": 1.50\n}')
    shown = pymq("tail", source, "-F", "--from", "start", "-o", "jsonl")
    assert pymq("send", copy, "--jsonl", stdin=shown.out).code == EXIT_OK
    before = shown.json_lines()
    after = pymq("tail", copy, "-F", "--from", "start", "-o", "jsonl").json_lines()

    def content(record: dict) -> tuple:
        names = ("body", "body_text", "body_encoding", "tags", "keys")
        own = {name: value for name, value in record["properties"].items() if name in ("at", "__SHARDINGKEY")}
        return (*(json.dumps(record.get(name)) for name in names), json.dumps(own))

    assert sorted(map(content, before)) == sorted(map(content, after))
    for queue in range(4):
        expected = [one["offset"] for one in before if one["queue"] == queue]
        assert expected == sorted(expected)
        wanted = [content(one) for one in before if one["queue"] == queue and "__SHARDINGKEY" not in one["properties"]]
        queues = {one["queue"] for one in after if content(one) in wanted}
        assert len(queues) == 1, "one queue stays together"
        assert [content(one) for one in after if content(one) in wanted] == wanted
