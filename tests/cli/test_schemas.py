"""docs/cli-output.md names every field that a command prints for programs, with its type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Message
from pymq.client.sync import SyncProducer
from pymq.client.sync_admin import SyncAdmin
from pymq.model.tables import SubscriptionGroupConfig
from pymq.testing.standalone import StandaloneProcess

from .conftest import Outcome, Pymq

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cli-output.md").read_text()
TOPIC, GROUP = "schema-topic", "schema-group"

# Objects whose names are data: topics, properties, keys.
OPEN = {"attributes", "origins", "properties", "tables", "values", "retry_policy"}
COMMANDS: dict[str, tuple[str, ...]] = {
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
    "config diff": ("--file", str(ROOT / "conf" / "broker.conf"), "-b", "broker-a"),
    "config set": ("fileReservedTime=71", "-b", "broker-a", "--dry-run"),
    "config show": (),
    "config unset": ("fileReservedTime", "-b", "broker-a", "--dry-run"),
    "context show": (),
    "dlq list": (),
    "doctor": ("--observe", "0"),
    "dlq purge": (GROUP,),
    "dlq resend": (GROUP,),
    "filter list": (),
    "filter test": (TOPIC, "a > 1", "--from", "start"),
    "group describe": (GROUP,),
    "group lag": (GROUP,),
    "group list": (),
    "message trace": (),
    "namesrv status": (),
    "offset copy": (GROUP, "schema-copy", "--topic", TOPIC),
    "offset reset": (GROUP, "--to", "start"),
    "offset show": (GROUP,),
    "offset skip": (GROUP,),
    "send": (TOPIC, "body"),
    "stats": (),
    "top": ("--once", "--interval", "0.2"),
    "topic create": ("schema-dry", "--dry-run"),
    "topic describe": (TOPIC,),
    "topic list": (),
    "topic route": (TOPIC,),
    "topic stats": (TOPIC,),
    "topic update": (TOPIC, "--perm", "RW", "--dry-run"),
}


@pytest.fixture(scope="module")
def message_id(server: StandaloneProcess) -> str:
    """Make a topic with messages, a group with a place in it and a dead letter. Return a message's id."""
    with SyncAdmin(namesrv=server.namesrv) as admin, SyncProducer("p", namesrv=server.namesrv) as producer:
        [target] = admin.cluster.masters()
        admin.groups.put(target.address, SubscriptionGroupConfig(group_name=GROUP))
        sent = [producer.send(Message(TOPIC, b"body", properties={"a": "2"})) for _ in range(3)]
        producer.send(Message(f"%DLQ%{GROUP}", b"dead"))
        admin.offsets.move(GROUP, {one.queue: 0 for one in sent})
    return sent[0].message_id


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of every field: ``a.b``, ``list[]``, ``list[].name``."""
    if isinstance(value, dict) and path.rpartition(".")[2].removesuffix("[]") not in OPEN:
        if path:
            yield path, "object"
        for name, one in value.items():
            yield from fields(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield path, "list"
        for one in value:
            yield from fields(one, f"{path}[]")
    else:
        yield path, kind(value)


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "object"
    return "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def printed(outcome: Outcome) -> dict[str, set[str]]:
    value = outcome.json()
    found: dict[str, set[str]] = {}
    for record in value if isinstance(value, list) else [value]:
        for path, name in fields(record):
            found.setdefault(path, set()).add(name)
    return found


def documented() -> dict[str, dict[str, set[str]]]:
    """Return command -> field -> types, as the page has them."""
    sections = re.split(r"^### `pymq ([^`]+)`\n", TEXT, flags=re.MULTILINE)[1:]
    return {
        command: {
            field: set(types.split(" or "))
            for field, types in re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|", section, re.MULTILINE)
        }
        for command, section in zip(sections[::2], sections[1::2], strict=True)
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_prints_is_documented(command: str, pymq: Pymq, message_id: str) -> None:
    arguments = (message_id, "--topic", TOPIC) if command == "message trace" else COMMANDS[command]
    found = printed(pymq(*command.split(), *arguments, "-o", "json"))
    known = documented()[command]
    assert found, "nothing was printed"
    assert found.keys() - known.keys() == set(), "not on the page"
    outer = {path for path in known if not re.search(r"[.\[]", path)}
    assert outer - found.keys() == set(), "on the page, not printed"
    assert {path: found[path] - known[path] for path in found if found[path] - known[path]} == {}, "other types"


def test_every_section_is_about_a_command_that_is_tried() -> None:
    assert sorted(documented()) == sorted(COMMANDS)
