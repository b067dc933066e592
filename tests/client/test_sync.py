"""The blocking wrappers; the scenarios test what they do at a broker."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pymq import client as asyncio_clients
from pymq.client import Message, MessageQueue, sync
from pymq.client.sync import LoopThread
from pymq.errors import ClosedError, UnreachableError, UsageError

NO_SERVER = "127.0.0.1:1"


async def where() -> Any:
    return threading.current_thread().name


def test_all_threads_share_one_loop_thread() -> None:
    loop = LoopThread()
    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(lambda _: loop.call(where()), range(20)))
    assert names == {"pymq-client"}


def test_a_blocking_call_on_the_loop_raises_an_error() -> None:
    loop = LoopThread()

    async def misuse() -> None:
        loop.call(where())

    with pytest.raises(RuntimeError, match=r"use pymq\.client's classes"):
        loop.call(misuse())


def test_the_module_has_blocking_clients_under_the_names_of_the_asyncio_ones() -> None:
    names = set(sync.__all__) - {"LoopThread"}
    assert {"Producer", "PushConsumer", "Admin"} < names <= set(asyncio_clients.__all__)
    assert all(vars(sync)[name] is not getattr(asyncio_clients, name) for name in names)


def test_errors_are_raised_in_the_caller() -> None:
    with sync.Producer("P", namesrv=NO_SERVER) as producer:
        with pytest.raises(UnreachableError, match="no name server answers"):
            producer.send(Message("T", b"x"))
        with pytest.raises(UnreachableError):
            producer.send_async(Message("T", b"x")).result(10)
        with pytest.raises(UsageError):
            producer.send(Message("T", b""))


def test_a_stopped_client_says_so() -> None:
    producer, pull = sync.Producer("P", namesrv=NO_SERVER), sync.PullConsumer("G", namesrv=NO_SERVER)
    push = sync.PushConsumer("G", namesrv=NO_SERVER, on_message=lambda messages: None)
    push.subscribe("T")
    producer.start()
    pull.start()
    for client in (producer, pull, push):
        client.stop()
        client.stop()
        with pytest.raises(ClosedError, match="make a new one, a stopped client can't be started again"):
            client.start()
    queue = MessageQueue("T", "b", 0)
    for call in (
        lambda: producer.send(Message("T", b"x")),
        lambda: producer.queues("T"),
        lambda: pull.pull(queue, 0),
        lambda: pull.commit(queue, 0),
        push.commit,
    ):
        with pytest.raises(ClosedError, match="the client is stopped"):
            call()


def test_name_servers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses() -> list[list[str]]:
        made: Any = [
            sync.Producer("P"),
            sync.PullConsumer("G"),
            sync.PushConsumer("G", on_message=lambda messages: None),
        ]
        return [*(one._client._instance.name_servers.addresses for one in made), sync.Admin().namesrv.addresses]

    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert addresses() == [["a:1", "b:2"]] * 4
    monkeypatch.setenv("NAMESRV_ADDR", "a")
    with pytest.raises(UsageError, match=r"'a' is not an address.*from NAMESRV_ADDR"):
        sync.Producer("P")


# Of other parts of this package, or what a blocking client has in another form.
_NOT_BLOCKING = {"inherited", "commit_copy", "failure", "leave_message", "messages", "running_info", "pull_as"}


@pytest.mark.parametrize(
    "name", ["Producer", "TransactionProducer", "PushConsumer", "PullConsumer", "SimpleConsumer", "LiteConsumer"]
)
def test_a_blocking_client_has_all_that_its_asyncio_client_has(name: str) -> None:
    public = [
        {member for member in dir(getattr(module, name)) if not member.startswith("_")} - _NOT_BLOCKING
        for module in (asyncio_clients, sync)
    ]
    assert public[0] == public[1] - {"messages"}
