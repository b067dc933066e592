"""The examples of docs/client.md run, one after another, against a broker: nothing in them is wrong or outdated."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

import pymq
from pymq.client import Admin, Message, Producer, PushConsumer
from pymq.model.message_types import LITE, TYPE_ATTRIBUTE
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.testing.standalone import StandaloneProcess

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
ADDRESSES = re.compile(r"127\.0\.0\.1:9876(;127\.0\.0\.1:9877)?")
EXAMPLES_MIN = 10
TIME_MAX_S = 60


class Enough(Exception):
    """Ends a loop of an example that has no end."""


async def handle(content: bytes) -> None:
    """The handler that loops of examples call."""
    raise Enough


async def run_briefly(app: pymq.App) -> None:
    """Do what ``app.run()`` does, and end at once."""
    async with app:
        pass


def compiled(example: str, namesrv: str) -> CodeType:
    text = ADDRESSES.sub(namesrv, example).replace("app.run()", "await run_briefly(app)")
    return compile(text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def execute(example: str, names: dict[str, Any], namesrv: str) -> None:
    names["handle"] = handle
    running = eval(compiled(example, namesrv), names)
    if inspect.isawaitable(running):
        await running


async def make_lite_topics(namesrv: str) -> None:
    """Make the parent topic and the group of the examples, and send a message to one of its lite topics."""
    async with Admin(namesrv) as admin, Producer("before", namesrv=namesrv) as producer:
        for target in await admin.cluster.masters():
            await admin.topics.put(
                target.address, TopicConfig(topic_name="sessions", attributes={TYPE_ATTRIBUTE: LITE})
            )
            bound = {"+lite.bind.topic": "sessions"}
            await admin.groups.put(target.address, SubscriptionGroupConfig(group_name="workers", attributes=bound))
        await producer.send(Message("sessions", "hello", lite_topic="session-4711"))


def test_the_examples_of_the_client_run_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("examples")
    monkeypatch.setitem(sys.modules, "examples", module)  # where dataclasses look for the types of fields
    names = vars(module)
    names |= {"run_briefly": run_briefly, "save_order": lambda *args, **fields: None, "is_saved": bool, "order": 17}

    async def run(namesrv: str) -> None:
        await make_lite_topics(namesrv)
        async with Producer("before", namesrv=namesrv) as producer:
            for number, example in enumerate(EXAMPLES):
                await producer.send(Message("Orders", '{"number": 7}', tags="new"))  # for consumers, which wait for one
                # Some examples go on with a client of the text before them.
                names["producer"], names["consumer"] = producer, PushConsumer("before", namesrv=namesrv)
                try:
                    async with asyncio.timeout(TIME_MAX_S):
                        await execute(example, names, namesrv)
                except Enough:
                    pass
                except Exception as error:
                    raise AssertionError(f"example {number} of {PAGE.name} fails:\n{example}") from error

    with StandaloneProcess() as servers:
        asyncio.run(run(servers.namesrv))
    assert len(EXAMPLES) >= EXAMPLES_MIN


def test_an_example_that_is_wrong_is_found() -> None:
    with pytest.raises(TypeError, match="colour"):
        asyncio.run(execute('Message("Orders", b"x", colour="red")', {"Message": Message}, "127.0.0.1:1"))
