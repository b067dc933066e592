"""A cluster with a console, and a browser; skipped with a reason where there is no Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from pymq.client import Message
from pymq.client.sync import Producer, PushConsumer
from pymq.testing.standalone import StandaloneProcess
from tests.browser.chromium import chromium_path, running_chromium

SECRET = "open sesame 1"  # of the user admin


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not chromium_path():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="there is no Chromium: install one, or set PYMQ_CHROMIUM"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture(scope="session")
def console() -> Iterator[str]:
    """The URL of a console, of a cluster with some topics, messages and a group."""
    with StandaloneProcess(arguments=["--console-port", "0"]) as server:
        with Producer("seeding", namesrv=server.namesrv) as producer:
            for number in range(60):
                producer.send(Message(f"topic-{number:02}", b'{"id": 1}'))
            for number in range(20):
                body = f'{{"id": {number}, "text": "<b>bold</b>"}}'
                producer.send(Message("orders", body, tags="<i>paid</i>", keys=f"order-{number}"))
        consumer = PushConsumer("billing", namesrv=server.namesrv, on_message=lambda message: None)
        consumer.subscribe("orders")
        with consumer:
            yield server.console


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a console, of a cluster that checks users."""
    file = tmp_path_factory.mktemp("users") / "admin.yml"
    file.write_text(f"accessKey: admin\nsecretKey: {SECRET}\n")
    file.chmod(0o600)
    users = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": f"file:{file}"}
    with StandaloneProcess(settings=users, arguments=["--console-port", "0"]) as server:
        yield server.console
