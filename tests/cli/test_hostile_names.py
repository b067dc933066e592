"""No command lets a cluster drive the terminal: names, properties, bodies and remarks with control characters.

The cluster is real. Between it and the commands, each harmless name becomes a hostile one in every answer, and the
other way round in every request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_PARTIAL
from pymq.net.client import RemotingClient
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.command import Command
from tests.cli.conftest import Pymq

# ESC and its 8-bit form, a title with its bell, a mark of direction, separators of lines, DEL.
DRIVE = "\x1b[2J\x9b31m\x1b]0;title\x07\u202e\u2028\r\n\x7f\x85"
OBEYED = sorted({*DRIVE} - {*"[2J31m]0;title"})
NAMES = {
    name: f"{name[:6]}{DRIVE}{name[6:]}" for name in ("HostileTopic", "HostileGroup", "broker-a", "DefaultCluster")
}
TOPIC, GROUP, BROKER = NAMES["HostileTopic"], NAMES["HostileGroup"], NAMES["broker-a"]
FORMATS = ("table", "json", "jsonl", "tsv", "yaml")

SHOWS = [
    ("broker", "status", BROKER),
    ("cluster", "list"),
    ("check", "broker"),
    ("check", "disk"),
    ("check", "lag", GROUP),
    ("check", "replica"),
    ("config", "show", BROKER),
    ("doctor", "--observe", "0"),
    ("top", "--once", "--interval", "0.2"),
    ("topic", "list"),
    ("topic", "describe", TOPIC),
    ("topic", "route", TOPIC),
    ("topic", "stats", TOPIC),
    ("topic", "update", TOPIC, "--perm", "RW", "--dry-run"),
    ("topic", "expand", TOPIC, "--to", "9", "--dry-run"),
    ("topic", "shrink", TOPIC, "--to", "1", "--dry-run"),
    ("group", "list"),
    ("group", "describe", GROUP),
    ("group", "lag"),
    ("group", "lag", GROUP),
    ("offset", "show", GROUP, "--topic", TOPIC),
    ("offset", "reset", GROUP, "--topic", TOPIC, "--to", "start", "--dry-run"),
    ("dlq", "list"),
    ("filter", "test", TOPIC, "a > 1", "--from", "start"),
]
MESSAGE_SHOWS = [
    ("tail", "HostileTopic", "--from", "start", "-F"),
    ("message", "query", "HostileTopic", "--key", "hostile"),
]


def swapped(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text


@pytest.fixture(scope="module")
def hostile_world(server: StandaloneProcess) -> str:
    """Make a topic, a group and messages with hostile bodies and properties. Return the name server."""
    from pymq.client import Message
    from pymq.client.sync import Admin, Producer
    from pymq.model.tables import SubscriptionGroupConfig, TopicConfig

    with Admin(namesrv=server.namesrv) as admin, Producer("p", namesrv=server.namesrv) as producer:
        for target in admin.cluster.masters():
            admin.topics.put(
                target.address, TopicConfig(topic_name="HostileTopic", read_queue_nums=2, write_queue_nums=2)
            )
            admin.groups.put(target.address, SubscriptionGroupConfig(group_name="HostileGroup"))
        for body in (DRIVE, json.dumps({"a": DRIVE}, ensure_ascii=False), f'["{DRIVE[8:14]}"]'):
            message = Message("HostileTopic", body.encode(), tags=f"t{DRIVE}", keys=f"hostile k{DRIVE}")
            message.properties[f"p{DRIVE}"] = DRIVE
            producer.send(message)
    return server.namesrv


@pytest.fixture
def disguised(hostile_world: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the client hostile names for harmless ones."""
    back = {hostile: name for name, hostile in NAMES.items()}
    in_json = {name: json.dumps(hostile)[1:-1] for name, hostile in NAMES.items()}
    invoke = RemotingClient.invoke

    async def disguising(self: RemotingClient, address: str, command: Command, timeout_s: float = 3.0) -> Command:
        command.ext = {key: swapped(value, back) for key, value in command.ext.items()}
        answer = await invoke(self, address, command, timeout_s)
        answer.remark = swapped(answer.remark or "", NAMES)
        answer.ext = {key: swapped(value, NAMES) for key, value in answer.ext.items()}
        body = bytes(answer.body)
        if body.startswith((b"{", b"[")):
            answer.body = swapped(body.decode(), in_json).encode()
        elif b"brokerName=" in body:  # settings are lines
            answer.body = swapped(body.decode(), {"broker-a": BROKER.replace("\n", "")}).encode()
        return answer

    monkeypatch.setattr(RemotingClient, "invoke", disguising)
    yield


def check(text: str, arguments: tuple[str, ...]) -> None:
    allowed = {"\n", "\t"} if "tsv" in arguments else {"\n"}
    found = [one for one in OBEYED if one in text and one not in allowed]
    assert not found, (arguments, found, text)


@pytest.mark.parametrize("arguments", SHOWS, ids=lambda arguments: " ".join(arguments[:2]))
def test_hostile_names_are_escaped_in_every_format(
    arguments: tuple[str, ...], pymq: Pymq, disguised: None, hostile_world: str
) -> None:
    for output in FORMATS if arguments == ("topic", "list") else ("table", "json"):
        outcome = pymq(*arguments, "-o", output)
        assert "internal error" not in outcome.err, outcome.err
        check(outcome.out + outcome.err, (*arguments, output))


def test_messages_are_escaped_in_the_other_formats(pymq: Pymq, hostile_world: str) -> None:
    for output in ("tsv", "yaml", "table"):
        shown = pymq("message", "query", "HostileTopic", "--key", "hostile", "-o", output)
        assert shown.code == EXIT_OK and "HostileTopic" in shown.out
        check(shown.out, ("message", "query", output))


def test_a_name_that_is_missing_is_escaped_in_the_error(pymq: Pymq, disguised: None) -> None:
    for arguments in (("topic", "describe", f"no{DRIVE}"), ("group", "describe", f"no{DRIVE}"), (f"no{DRIVE}",)):
        outcome = pymq(*arguments)
        assert outcome.code != EXIT_OK and outcome.err.startswith("pymq: ")
        check(outcome.out + outcome.err, arguments)


@pytest.mark.parametrize("arguments", MESSAGE_SHOWS, ids=lambda arguments: " ".join(arguments[:2]))
@pytest.mark.parametrize("output", ["text", "json", "jsonl", "tsv", "yaml"])
def test_hostile_bodies_and_properties_are_escaped(
    arguments: tuple[str, ...], output: str, pymq: Pymq, hostile_world: str
) -> None:
    outcome = pymq(*arguments, "-o", output)
    assert outcome.code == EXIT_OK and outcome.out
    check(outcome.out + outcome.err, arguments)
    if output == "json":
        assert DRIVE in outcome.json()[0]["properties"].values()


def test_the_disguise_works(pymq: Pymq, disguised: None) -> None:
    [topic] = [record for record in pymq("topic", "list", "-o", "json").json() if record["topic"].startswith("Hostil")]
    assert topic["topic"] == TOPIC and topic["brokers"] == [BROKER]
    assert pymq("topic", "stats", TOPIC).code in (EXIT_OK, EXIT_NOT_FOUND, EXIT_PARTIAL)
