"""A whole application: FastStream's commands, its lifespan, its document and its test of first steps."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from faststream.security import SASLPlaintext
from faststream.specification import AsyncAPI
from pydantic import ValidationError
from pymq_faststream import PymqBroker, TestPymqBroker

from pymq.testing.broker import TestBroker

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
FASTSTREAM = [sys.executable, "-m", "faststream"]
WAIT_S = 60.0
USER = '{"name": "Bo", "number": 3}'


@pytest.fixture(scope="module")
def app() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pymq_faststream_app", HERE / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations of its handlers are looked up there
    spec.loader.exec_module(module)
    return module


async def test_first_steps_in_memory(app: ModuleType) -> None:
    async with TestPymqBroker(app.broker) as started:
        await started.publish({"name": "Ada", "number": 1}, "in-topic")
        app.greet.mock.assert_called_once_with({"name": "Ada", "number": 1})
        (publisher,) = app.broker.publishers
        publisher.mock.assert_called_once_with("User: Ada - 1 registered")
        with pytest.raises(ValidationError):
            await started.publish("wrong", "in-topic")


async def test_faststream_run(server: TestBroker, topic: str) -> None:
    environment = {**os.environ, "PYMQ_TEST_URL": server.namesrv, "PYMQ_TEST_PREFIX": f"{topic}-"}
    async with PymqBroker(server.namesrv, group=topic, logger=None) as client:
        answers = client.subscriber(f"{topic}-out-topic", persistent=False, consume_from="first")
        await answers.start()
        process = await asyncio.to_thread(
            subprocess.Popen[str],
            [*FASTSTREAM, "run", "app:app"],
            cwd=HERE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout is not None
            lines: list[str] = []
            while not any("FastStream app started successfully" in line for line in lines):
                lines.append(await asyncio.to_thread(process.stdout.readline))
                assert lines[-1], "".join(lines)
            await client.publish({"name": "Ada", "number": 2}, f"{topic}-in-topic")
            answer = await answers.get_one(timeout=WAIT_S)
            assert answer is not None
            assert await answer.decode() == "User: Ada - 2 registered"
            asked = await asyncio.to_thread(
                subprocess.run,
                [
                    *FASTSTREAM,
                    "publish",
                    "app:app",
                    USER,
                    "--topic",
                    f"{topic}-in-topic",
                    "--rpc",
                ],
                cwd=HERE,
                env=environment,
                capture_output=True,
                text=True,
                timeout=WAIT_S,
            )
            assert "User: Bo - 3 registered" in asked.stdout, asked.stderr
        finally:
            process.send_signal(signal.SIGTERM)
            rest, _ = await asyncio.to_thread(process.communicate, timeout=WAIT_S)
        await answers.stop()
    log = "".join(lines) + rest
    assert process.returncode == 0
    assert "greeting Ada" in log
    assert f"{topic}-in-topic" in log
    assert "FastStream app shut down gracefully" in log


def test_faststream_docs(tmp_path: Path) -> None:
    out = tmp_path / "asyncapi.json"
    subprocess.run([*FASTSTREAM, "docs", "gen", "app:app", "--out", str(out)], cwd=HERE, check=True, timeout=WAIT_S)
    document = json.loads(out.read_text())
    assert document["servers"] == {"development": {"host": "localhost:9876", "pathname": "", "protocol": "rocketmq"}}
    channels = document["channels"]
    assert channels["Registrations"]["address"] == "in-topic"
    assert channels["Registrations"]["description"] == "Greet a user."
    assert channels["out-topic:Publisher"]["address"] == "out-topic"
    assert channels["out-topic:Publisher"]["description"] == "Greetings of users"
    actions = {name: each["action"] for name, each in document["operations"].items()}
    assert actions == {"Registrations": "receive", "out-topic:Publisher": "send"}
    schemas = document["components"]["schemas"]
    assert schemas["User"]["required"] == ["name", "number"]


def test_a_document_has_servers_security_and_a_channel_for_each_topic_but_no_secret() -> None:
    broker = PymqBroker(
        ["pymq://ada:top-secret@one:9876", "two"],
        security=SASLPlaintext("ada", "top-secret", use_ssl=True),
        description="orders",
    )

    @broker.subscriber("a", "b")
    async def handle(body: int) -> None: ...

    broker.publisher("c", schema=int)
    hidden = broker.subscriber("hidden", include_in_schema=False)
    text = AsyncAPI(broker).to_specification().to_json()
    document = json.loads(text)
    assert [server["host"] for server in document["servers"].values()] == ["one:9876", "two:9876"]
    assert {server["protocol"] for server in document["servers"].values()} == {"rocketmq-secure"}
    assert document["components"]["securitySchemes"] == {"user-password": {"type": "userPassword"}}
    assert sorted(document["channels"]) == ["a:Handle", "b:Handle", "c:Publisher"]
    assert hidden.topics == ["hidden"]
    assert "top-secret" not in text
