"""App: decorated handlers in one process, which starts, stops and fails as a whole."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import pymq
from pymq.client import Admin, ConsumeResult, Message, Producer, StoredMessage, sync
from pymq.client.app import App
from pymq.client.codecs import JsonCodec
from pymq.errors import UnreachableError, UsageError
from pymq.testing.broker import TestBroker
from tests.client.scenarios import until


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@dataclass
class Order:
    id: int


def app_of(broker: TestBroker, **options: Any) -> App:
    return App(namesrv=broker.namesrv, consume_from="first", rebalance_interval_s=0.2, **options)


async def send(broker: TestBroker, topic: str, *bodies: str, tags: str = "") -> None:
    async with Producer("app_test", namesrv=broker.namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, tags=tags))


def test_handlers_of_a_group_share_one_consumer(broker: TestBroker) -> None:
    app = app_of(broker, group="shop")
    seen: list[object] = []

    @app.on("app_orders", tags="new", codec=JsonCodec(Order))
    async def order(value: Order, message: StoredMessage) -> None:
        seen.append((value, message.tags))

    @app.on("app_refunds")
    def refund(message: StoredMessage) -> ConsumeResult:
        seen.append(message.content())
        return ConsumeResult.SUCCESS

    @app.on("app_refunds", group="audit", codec=JsonCodec())
    async def audit(value: Any) -> None:
        seen.append(value)

    async def main() -> None:
        broker.create_topic("app_orders")
        broker.create_topic("app_refunds")
        async with app:
            await send(broker, "app_orders", '{"id": 7}', tags="new")
            await send(broker, "app_orders", '{"id": 8}', tags="old")
            await send(broker, "app_refunds", "[1]")
            await until(lambda: len(seen) == 3, "all messages")
            async with Admin(broker.namesrv) as admin:
                (master,) = await admin.cluster.masters()
                assert len((await admin.groups.connections(master.address, "shop")).connection_set) == 1
        assert (Order(7), "new") in seen and b"[1]" in seen and [1] in seen

    asyncio.run(main())
    assert order.__name__ == "order"  # what was decorated stays callable


def test_a_body_that_cannot_be_read_is_a_dead_letter(broker: TestBroker, caplog: Any) -> None:
    app = app_of(broker, group="readers")
    seen: list[Order] = []

    @app.on("app_bodies", codec=JsonCodec(Order), ordered=True)
    async def read(value: Order) -> None:
        seen.append(value)

    async def main() -> None:
        broker.create_topic("app_bodies", queue_count=1)
        await send(broker, "app_bodies", "no JSON", '{"id": 1}')
        async with app:
            await until(lambda: seen == [Order(1)], "the readable one")
            async with Admin(broker.namesrv) as admin:
                assert "%DLQ%readers" in await admin.topics.names()
        assert "can't be read, so it goes to the dead letters" in caplog.text

    asyncio.run(main())


def test_hooks_surround_the_consumers(broker: TestBroker) -> None:
    app = app_of(broker, group="hooked")
    events: list[str] = []
    broker.create_topic("app_hooks")

    @app.on("app_hooks")
    async def handle(message: StoredMessage) -> None:
        await asyncio.sleep(0)
        events.append("message")
        app.end()

    @app.on_start
    async def connect() -> None:
        events.append("start")

    @app.on_stop
    def first() -> None:
        events.append("stop 1")

    @app.on_stop
    async def second() -> None:
        events.append("stop 2")

    async def main() -> None:
        await send(broker, "app_hooks", "x")
        await asyncio.wait_for(app.serve(), 60)

    asyncio.run(main())
    assert events == ["start", "message", "stop 2", "stop 1"]


def test_a_start_that_fails_stops_what_was_started() -> None:
    app = App(namesrv="127.0.0.1:1", group="lost")
    events: list[str] = []
    app.on("T")(lambda message: None)
    app.on_stop(lambda: events.append("stop"))
    with pytest.raises(UnreachableError):
        asyncio.run(app.serve())
    assert events == ["stop"]


def test_an_error_of_a_stop_hook_comes_last(broker: TestBroker) -> None:
    app = app_of(broker, group="failing")
    events: list[str] = []
    app.on("app_failing")(lambda message: None)
    app.on_stop(lambda: events.append("stop"))

    @app.on_stop
    def fail() -> None:
        raise ValueError("boom")

    async def main() -> None:
        async with app:
            pass

    with pytest.raises(ValueError, match="boom"):
        asyncio.run(main())
    assert events == ["stop"]


def no_arguments() -> None: ...


def three(value: object, message: object, more: object) -> None: ...


def test_mistakes_are_refused_where_they_are_made() -> None:
    app = App(group="G")
    app.on("T")(print)
    with pytest.raises(UsageError, match="has a handler of T already"):
        app.on("T", tags="A")(print)
    with pytest.raises(UsageError, match="have different options"):
        app.on("U", ordered=True)(print)
    with pytest.raises(UsageError, match=r"write it with \(message\)"):
        app.on("U")(no_arguments)
    with pytest.raises(UsageError, match=r"write it with \(value\) or \(value, message\)"):
        app.on("U", codec=JsonCodec())(three)
    with pytest.raises(UsageError, match="one message at a time"):
        App(group="G", batch_count_max=2).on("T")(print)
    with pytest.raises(UsageError, match="has no group"):
        App().on("T")
    with pytest.raises(UsageError, match="has no handlers"):
        asyncio.run(App().serve())


def test_an_app_is_started_once(broker: TestBroker) -> None:
    app = app_of(broker, group="once")
    app.on("app_once")(print)

    async def main() -> None:
        async with app:
            with pytest.raises(UsageError, match="register handlers before it starts"):
                app.on("U")
        with pytest.raises(UsageError, match="has been started before"):
            await app.start()

    asyncio.run(main())


PROGRAM = """
    import sys, time
    import pymq

    app = pymq.App(namesrv=sys.argv[1], group="signals", consume_from="first")

    @app.on("app_signals")
    def handle(message):
        print("begin", flush=True)
        time.sleep(0.3)
        print("end", flush=True)

    @app.on_stop
    def stopped():
        print("stopped", flush=True)

    app.run()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_app_after_its_running_handlers(broker: TestBroker, number: signal.Signals) -> None:
    broker.create_topic("app_signals", queue_count=1)
    asyncio.run(send(broker, "app_signals", "x"))
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), broker.namesrv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "begin\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert output.splitlines() == ["end", "stopped"], errors
        assert process.returncode == 0, errors
    # What the handler did is committed.
    with sync.PullConsumer("signals", namesrv=broker.namesrv) as look:
        (queue,) = look.queues("app_signals")
        assert look.committed(queue) == look.max_offset(queue)


HANGING = """
    import sys, threading
    import pymq

    app = pymq.App(namesrv=sys.argv[1], group="hanging", consume_from="first", stop_timeout_s=0.1)

    @app.on("app_hanging")
    def handle(message):
        print("begin", flush=True)
        threading.Event().wait()

    app.run()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_handler_that_hangs_does_not_keep_the_process_alive(broker: TestBroker) -> None:
    broker.create_topic("app_hanging", queue_count=1)
    asyncio.run(send(broker, "app_hanging", "x"))
    program = textwrap.dedent(HANGING)
    with subprocess.Popen(
        [sys.executable, "-c", program, broker.namesrv], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        process.terminate()
        assert process.wait(60) == 0
    with sync.PullConsumer("hanging", namesrv=broker.namesrv) as look:
        (queue,) = look.queues("app_hanging")
        assert not look.committed(queue)  # the message comes again


def test_pymq_exports_it() -> None:
    assert pymq.App is App
    with pytest.raises(AttributeError, match="Application"):
        _ = pymq.Application  # type: ignore[attr-defined]
