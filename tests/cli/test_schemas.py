"""docs/cli-output.md names every field that a command prints for programs, with its type."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.cli.output import OutputFormat
from pymq.client import Message
from pymq.client.sync import Producer
from pymq.client.sync_admin import Admin
from pymq.errors import EXIT_OK
from pymq.model.tables import SubscriptionGroupConfig
from pymq.testing.standalone import StandaloneProcess
from tests.cli.command_tree import leaves
from tests.cli.conftest import Pymq
from tests.cli.schemas import ROOT, assert_documented, documented
from tests.golden_stores import unpack
from tests.offline.support import flip, log_place, records

TOPIC, GROUP, CONTEXT = "schema-topic", "schema-group", "schema-context"

# Words in braces stand for what the fixture ``places`` made.
COMMANDS: dict[str, tuple[str, ...]] = {
    "auth cert": ("{store}-certificates", "--name", "server"),
    "bench consume": (TOPIC,),
    "bench latency": (TOPIC, "--rate", "20", "--seconds", "0.1"),
    "bench send": (TOPIC, "--messages", "2"),
    "broker drain": ("broker-a",),
    "broker status": ("broker-a",),
    "broker undrain": ("broker-a",),
    "check broker": (),
    "check disk": (),
    "check lag": (),
    "check replica": (),
    "cluster list": (),
    "cluster shards": (),
    "config diff": ("--file", str(ROOT / "conf" / "broker.conf"), "-b", "broker-a"),
    "config set": ("fileReservedTime=71", "-b", "broker-a", "--dry-run"),
    "config show": (),
    "config unset": ("fileReservedTime", "-b", "broker-a", "--dry-run"),
    "context list": (),
    "context show": (),
    "dlq list": (),
    "dlq show": (GROUP,),
    "doctor": ("--observe", "0"),
    "dlq purge": (GROUP,),
    "dlq resend": (GROUP,),
    "filter list": (),
    "filter test": (TOPIC, "a > 1", "--from", "start"),
    "group create": ("schema-new", "--dry-run"),
    "group delete": (GROUP, "--dry-run", "--yes"),
    "group describe": (GROUP,),
    "group disable": (GROUP, "--dry-run"),
    "group enable": (GROUP, "--dry-run"),
    "group lag": (GROUP,),
    "group lag --topic": (TOPIC,),
    "group list": (),
    "group update": (GROUP, "--retries", "3", "--dry-run"),
    "message get": ("{message_id}", "--topic", TOPIC),
    "message query": (TOPIC, "--key", "schema-key"),
    "message trace": ("{message_id}", "--topic", TOPIC),
    "namesrv status": (),
    "offset copy": (GROUP, "schema-copy", "--topic", TOPIC),
    "offset reset": (GROUP, "--to", "start"),
    "offset show": (GROUP,),
    "offset skip": (GROUP,),
    "send": (TOPIC, "body"),
    "send --count": ("2", TOPIC, "body"),
    "stats": (),
    "stats --brokers": (),
    "store accept-loss": ("{store}",),
    "store dump": ("{store}", "--topic", "TopicPlain"),
    "store inspect": ("{store}",),
    "store inspect --offset": ("0", "{store}"),
    "store repair": ("{damaged}", "--to", "{damaged}-repaired"),
    "store thaw": ("{store}", "--dry-run"),
    "store verify": ("{damaged}",),
    "tail": (TOPIC, "--no-follow"),
    "top": ("--once", "--interval", "0.2"),
    "topic create": ("schema-dry", "--dry-run"),
    "topic delete": (TOPIC, "--dry-run"),
    "topic describe": (TOPIC,),
    "topic expand": (TOPIC, "--to", "9", "--dry-run"),
    "topic list": (),
    "topic route": (TOPIC,),
    "topic shrink": (TOPIC, "--to", "1"),
    "topic stats": (TOPIC,),
    "topic update": (TOPIC, "--perm", "RW", "--dry-run"),
}
# Commands that need clients or further servers: the file that checks their fields with assert_documented.
TRIED_ELSEWHERE = {
    "auth acl create": "auth/test_users.py",
    "auth acl delete": "auth/test_users.py",
    "auth acl list": "auth/test_users.py",
    "auth acl show": "auth/test_users.py",
    "auth acl update": "auth/test_users.py",
    "auth check": "auth/test_users.py",
    "auth init": "auth/test_users.py",
    "auth reset": "auth/test_users.py",
    "auth user create": "auth/test_users.py",
    "auth user delete": "auth/test_users.py",
    "auth user list": "auth/test_users.py",
    "auth user show": "auth/test_users.py",
    "auth user update": "auth/test_users.py",
    "broker promote": "broker/test_promote.py",
    "check raft": "raft/test_command.py",
    "cluster clients": "cluster/test_clients.py",
    "cluster rebalance": "raft/test_command.py",
    "conf": "conf/test_command.py",
    "config check": "config/test_command.py",
    "docs": "docs/test_command.py",
    "group client": "group/test_command.py",
    "group consume": "group/test_command.py",
    "group members": "group/test_command.py",
    "message resend": "message/test_resend.py",
    "lite describe": "lite/test_command.py",
    "lite lag": "lite/test_command.py",
    "lite list": "lite/test_command.py",
    "mirror": "mirror/test_command.py",
    "namesrv kv list": "namesrv/test_command.py",
    "raft add": "raft/test_command.py",
    "raft remove": "raft/test_command.py",
    "raft status": "raft/test_command.py",
    "raft term": "raft/test_files.py",
    "raft transfer": "raft/test_command.py",
    "spark-import": "spark/test_spark_import.py",
    "store recover": "store/test_recover.py",
    "topic order": "topic/test_order.py",
}
WITHOUT_OUTPUT_FORMATS = {
    "broker": "a server: --json prints its addresses",
    "broker rejoin": "says one sentence",
    "console": "a server: --json prints its address",
    "context add": "says one sentence",
    "context remove": "says one sentence",
    "context use": "says one sentence",
    "dlq export": "writes a file of JSON lines",
    "exporter": "a server: --json prints its addresses",
    "filter eval": "reads and writes JSON lines",
    "filter-server": "a server: --json prints its addresses",
    "message recall": "says one sentence",
    "namesrv": "a server: --json prints its addresses",
    "namesrv kv delete": "says one sentence",
    "namesrv kv get": "prints the value alone",
    "namesrv kv set": "says one sentence",
    "pipeline check": "says one sentence; --json prints counts",
    "pipeline plan": "two tables; --json prints both",
    "pipeline run": "runs until it is stopped; --json prints the summary",
    "proxy": "a server: --json prints its addresses",
    "raft secret": "writes a file, and says one sentence",
    "spark-export": "writes files, and --output names their directory; --json prints the summary",
    "spark-prepare": "says one sentence",
    "spark-sql": "the rows of a query, with its names",
    "standalone": "a server: --json prints its addresses",
}
STREAMS = ("dlq show", "message get", "message query", "store dump", "tail")


@pytest.fixture(scope="module")
def places(server: StandaloneProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make a topic with messages, a group with a place in it, a dead letter and a data directory."""
    with Admin(namesrv=server.namesrv) as admin, Producer("p", namesrv=server.namesrv) as producer:
        [target] = admin.cluster.masters()
        admin.groups.put(target.address, SubscriptionGroupConfig(group_name=GROUP))
        message = Message(TOPIC, b'"tab\there"', keys="schema-key", properties={"a": "2"})
        sent = [producer.send(message) for _ in range(3)]
        producer.send(Message(f"%DLQ%{GROUP}", b"dead"))
        admin.offsets.move(GROUP, {one.queue: 0 for one in sent})
    store, damaged = (unpack("store-clean", tmp_path_factory.mktemp("schemas"))[0] for _ in range(2))
    path, position = log_place(damaged, records(damaged)[5].offset)
    flip(path, position + 90)
    return {"message_id": sent[0].message_id, "store": str(store), "damaged": str(damaged)}


@pytest.fixture(autouse=True)
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pymq").mkdir(mode=0o700)
    path = tmp_path / "pymq" / "contexts.toml"
    path.write_text(f'current = "{CONTEXT}"\n[contexts.{CONTEXT}]\nnamesrv = "127.0.0.1:9876"\n')
    path.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def words(command: str, places: dict[str, str]) -> list[str]:
    return [*command.split(), *(word.format(**places) for word in COMMANDS[command])]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_prints_is_documented(command: str, pymq: Pymq, places: dict[str, str]) -> None:
    assert_documented(command, pymq(*words(command, places), "-o", "json").json())


@pytest.mark.parametrize("command", STREAMS)
def test_messages_are_the_same_records_in_every_format(command: str, pymq: Pymq, places: dict[str, str]) -> None:
    shown = {output: pymq(*words(command, places), "-o", output) for output in OutputFormat}
    assert {outcome.code for outcome in shown.values()} == {EXIT_OK}
    found = shown[OutputFormat.json].json()
    assert found and shown[OutputFormat.jsonl].json_lines() == found
    head, *rows = [line.split("\t") for line in shown[OutputFormat.tsv].out.splitlines()]
    assert len(rows) == len(found) and {len(row) for row in rows} == {len(head)}
    assert set(found[0]) <= set(head) and rows[0][head.index("topic")] == found[0]["topic"]
    # What YAML's rules make of it is tested with the formats; here: one list with all records.
    entries = [line for line in shown[OutputFormat.yaml].out.splitlines() if line.startswith("- ")]
    assert entries == [f"- topic: {record['topic']}" for record in found]
    assert len(shown[OutputFormat.table].out.splitlines()) >= len(found)


def test_every_section_is_about_a_command_that_is_tried() -> None:
    assert sorted(documented()) == sorted({**COMMANDS, **TRIED_ELSEWHERE})
    for command, name in TRIED_ELSEWHERE.items():
        assert f'assert_documented("{command}"' in (Path(__file__).parent / name).read_text(), command


def test_every_command_has_all_formats_and_documented_fields() -> None:
    without = set()
    for path, command in leaves():
        option = next((one for one in command.params if one.name == "output" and "-o" in one.opts), None)
        if option is None or not set(OutputFormat) <= set(option.type.choices):
            without.add(path)
            continue
        assert path in {**COMMANDS, **TRIED_ELSEWHERE}, f"{path}: docs/cli-output.md has no fields of it"
    assert without == set(WITHOUT_OUTPUT_FORMATS)
