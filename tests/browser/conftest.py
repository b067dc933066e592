"""A cluster with a console, and a browser; skipped with a reason where there is no Chromium."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from pymq.client import Message
from pymq.client.sync import Admin, Producer, PushConsumer
from pymq.model.names import TRACE_TOPIC
from pymq.model.trace import TraceKind, TraceRecord, encode_trace
from pymq.operations.topic.order import ORDER_NAMESPACE
from pymq.testing.standalone import StandaloneProcess
from tests.browser.chromium import chromium_path, running_chromium

SECRET = "open sesame 1"  # of the user admin
# Texts that others can put into keys, tags, properties, bodies and values. A dialog of theirs fails the test.
HOSTILE_FILE = "<img src=x onerror=alert(5)>\u202e.yml"  # a setting's value
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(2)</script><svg onload=alert(3)>",
    "{{ 7*7 }}${7*7}<%= 7*7 %>",
    "javascript:alert(4)",
    "\u202egnp.exe\u2066",
    "a\x1b[31mb\u0000c",
    "\U0001f600" * 40,
    "x" * 20_000,
    "</script></style></title></textarea><b>",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not chromium_path():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="there is no Chromium: install one, or set PYMQ_CHROMIUM"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture(scope="session")
def cluster() -> Iterator[StandaloneProcess]:
    """A cluster with some topics, messages and a group, and its console."""
    settings = {"traceTopicEnable": "true", "plainAclFile": HOSTILE_FILE}
    with StandaloneProcess(settings=settings, arguments=["--console-port", "0"]) as server:
        with Producer("seeding", namesrv=server.namesrv) as producer:
            for number in range(60):
                producer.send(Message(f"topic-{number:02}", b'{"id": 1}'))
            for number in range(20):
                body = f'{{"id": {number}, "text": "<b>bold</b>"}}'
                producer.send(Message("orders", body, tags="<i>paid</i>", keys=f"order-{number}"))
            for text in HOSTILE:
                plain = text.replace("\0", "").replace(" ", "_")[:200]
                properties = {"color": plain, plain[:60].replace("=", "-"): "x"}
                sent = producer.send(
                    Message("hostile", text, tags=plain.replace("|", ""), keys=[plain], properties=properties)
                )
                producer.send(Message(TRACE_TOPIC, _traces(sent.message_id, text), keys=[sent.message_id]))
        with Admin(server.namesrv) as admin:
            for number, text in enumerate(HOSTILE[:6]):
                admin.namesrv.put_value(ORDER_NAMESPACE, f"topic-{number}", text.replace("\0", ""))
        consumer = PushConsumer("billing", namesrv=server.namesrv, on_message=lambda message: None)
        consumer.subscribe("orders")
        with consumer:
            yield server


def _traces(message_id: str, text: str) -> str:
    """Return records whose texts are hostile."""
    shared: dict[str, Any] = {"message_id": message_id, "group": text, "region": text, "keys": text, "request_id": text}
    sent: dict[str, Any] = {"topic": text, "tags": text, "store_host": text, "offset_message_id": text}
    records = [
        TraceRecord(TraceKind.PUBLISHED, **shared, **sent),
        TraceRecord(TraceKind.DELIVERED, **shared),
        TraceRecord(TraceKind.CONSUMED, **shared),
        TraceRecord(TraceKind.TRANSACTION_ENDED, transaction_id=text, state=text, **shared, **sent),
    ]
    return "".join(map(encode_trace, records))


@pytest.fixture(scope="session")
def console(cluster: StandaloneProcess) -> str:
    """The URL of a console that only looks."""
    return cluster.console


@pytest.fixture(scope="session")
def changing(cluster: StandaloneProcess) -> Iterator[str]:
    """The URL of a console of the same cluster whose pages may change it."""
    command = [sys.executable, "-m", "pymq", "console", "--namesrv", cluster.namesrv, "--port", "0", "--json"]
    with subprocess.Popen([*command, "--allow-changes"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["console"]
        process.terminate()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a console, of a cluster that checks users."""
    file = tmp_path_factory.mktemp("users") / "admin.yml"
    file.write_text(f"accessKey: admin\nsecretKey: {SECRET}\n")
    file.chmod(0o600)
    users = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": f"file:{file}"}
    with StandaloneProcess(settings=users, arguments=["--console-port", "0"]) as server:
        yield server.console
