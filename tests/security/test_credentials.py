"""Credentials: every request of every client is signed, and the secret is read from safe places and shown nowhere."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.metrics.collector import BROKER_METRICS
from pymq.client import Admin, Credentials, Message, PullConsumer
from pymq.errors import UsageError
from pymq.filterserver.metrics import FILTER_SERVER_METRICS
from pymq.namesrv.metrics import NAMESRV_METRICS
from pymq.security.credentials import ACCESS_KEY_VARIABLE, FILE_VARIABLE, SECRET_KEY_VARIABLE
from pymq.security.signature import ACCESS_KEY, SECURITY_TOKEN, Secret, is_signed_with
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer, route_reply, serve_routes
from tests.client.test_producer import SEND, run, stored

SECRET = "hunter22-hunter22"
USER = Credentials("user", SECRET)


def requests_of(servers: list[FakeServer]) -> list[Command]:
    return [command for server in servers for commands in server.requests.values() for command in commands]


def unsigned(servers: list[FakeServer]) -> list[Command]:
    """Return the requests without the user's right signature, as they arrived."""
    return [
        command
        for command in requests_of(servers)
        if command.ext.get(ACCESS_KEY) != "user"
        or not is_signed_with(Secret(SECRET), command.ext, command.body, command.version)
    ]


@pytest.mark.parametrize("options", [{}, {"linger_ms": 0}, {"compress": "zstd"}], ids=str)
def test_every_request_of_a_producer_is_signed(options: dict[str, Any]) -> None:
    async def scenario(namesrv: Any, brokers: Any, producer: Any) -> None:
        for body in (b"one", b"two", b"x" * 5000, b""):
            message = Message("T", body or b"-", tags="Tä")
            await producer.send(message)
        servers = [namesrv, *brokers]
        await brokers[0].wait_for(RequestCode.HEART_BEAT)
        assert len(requests_of(servers)) >= 5 and unsigned(servers) == []

    run(scenario, credentials=USER, **options)


def test_a_repeated_request_is_signed_again() -> None:
    async def scenario(namesrv: Any, brokers: Any, producer: Any) -> None:
        await producer.send(Message("T", b"warm"))
        refused: list[Command] = []

        def refuse_once(command: Command) -> Any:
            refused.append(command)
            return stored(command) if len(refused) > 1 else Reply(ResponseCode.SYSTEM_BUSY, "later")

        for broker in brokers:
            broker.on(SEND, refuse_once)
        await producer.send(Message("T", b"again"))
        assert len(refused) == 2 and unsigned([namesrv, *brokers]) == []

    run(scenario, brokers=2, credentials=USER)


def test_a_client_without_credentials_signs_nothing() -> None:
    async def scenario(namesrv: Any, brokers: Any, producer: Any) -> None:
        await producer.send(Message("T", b"one"))
        assert not [command for command in requests_of([namesrv, *brokers]) if ACCESS_KEY in command.ext]

    run(scenario)


@pytest.mark.parametrize(
    "ask",
    [
        lambda namesrv: _consumer(namesrv),
        lambda namesrv: _admin(namesrv),
    ],
    ids=["pull consumer", "admin"],
)
def test_requests_of_other_clients_are_signed(ask: Callable[[str], Any]) -> None:
    async def main() -> None:
        namesrv = await FakeServer().start()
        serve_routes(namesrv, {"T": route_reply({"broker-0": namesrv.address}, queues=2)})
        try:
            await ask(namesrv.address)
            assert requests_of([namesrv]) and unsigned([namesrv]) == []
        finally:
            await namesrv.stop()

    asyncio.run(main())


async def _consumer(namesrv: str) -> None:
    async with PullConsumer("G", namesrv=namesrv, credentials=USER) as consumer:
        assert len(await consumer.queues("T")) == 2


async def _admin(namesrv: str) -> None:
    async with Admin(namesrv, credentials=USER) as admin:
        await admin.topics.route("T")


def test_the_security_token_is_signed() -> None:
    command = Command(RequestCode.HEART_BEAT, body=b"{}")
    Credentials("user", SECRET, "token").sign(command)
    assert command.ext[SECURITY_TOKEN] == "token"
    assert is_signed_with(Secret(SECRET), command.ext, b"{}", 479)
    assert not is_signed_with(Secret(SECRET), {**command.ext, SECURITY_TOKEN: "other"}, b"{}", 479)


def test_signing_twice_is_signing_once() -> None:
    command = Command(RequestCode.HEART_BEAT, ext={"a": "b"})
    USER.sign(command)
    once = command.ext
    USER.sign(command)
    assert command.ext == once


def test_the_secret_is_neither_shown_nor_pickled() -> None:
    assert SECRET not in repr(USER) + str(USER) + f"{[USER]}"
    for hand_over in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            hand_over(USER)


# -- where credentials come from ---------------------------------------------------------------------------------------


def written(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "credentials.yml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def signature(credentials: Credentials | None) -> dict[str, str]:
    assert credentials is not None
    command = Command(RequestCode.HEART_BEAT)
    credentials.sign(command)
    return command.ext


def test_the_file_of_mqadmin_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "accessKey: rocketmq2\nsecretKey: 12345678\n")
    assert signature(Credentials.from_file(path)) == {
        "AccessKey": "rocketmq2",
        "Signature": "Ou1T58RIcyZWaTIwzkhJZWn/Zvs=",
    }
    path = written(tmp_path, "accessKey: a\nsecretKey: b\nsecurityToken: c\n")
    assert signature(Credentials.from_file(path))[SECURITY_TOKEN] == "c"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, f"accessKey: u\nsecretKey: {SECRET}\n", mode)
    with pytest.raises(UsageError, match=f"mode {mode:04o}.*chmod 600"):
        Credentials.from_file(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"secretKey: {SECRET}\n",
        "accessKey: u\n",
        f"accessKey: u\nsecretKey: {SECRET}\nsecretkey: {SECRET}\n",
        f"accessKey: u\nsecretKey: [{SECRET}]\n",
        f"- {SECRET}\n",
        f"accessKey: u\nsecretKey: '{SECRET}\n",
        f"accessKey: u\nsecretKey: &x {SECRET}\n",
    ],
)
def test_a_file_that_is_not_usable_is_refused_without_its_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"credentials\.yml") as caught:
        Credentials.from_file(written(tmp_path, text))
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.yml can't be read: No such file"):
        Credentials.from_file(tmp_path / "missing.yml")


def test_the_environment_names_keys_or_a_file(tmp_path: Path) -> None:
    keys = {ACCESS_KEY_VARIABLE: "user", SECRET_KEY_VARIABLE: SECRET}
    assert signature(Credentials.from_environment(keys)) == signature(USER)
    path = written(tmp_path, "accessKey: other\nsecretKey: 12345678\n")
    assert signature(Credentials.from_environment({**keys, FILE_VARIABLE: str(path)}))[ACCESS_KEY] == "other"
    assert Credentials.from_environment({}) is None


@pytest.mark.parametrize("name", [ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE])
def test_one_key_without_the_other_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="set both"):
        Credentials.from_environment({name: SECRET})


@pytest.mark.parametrize("keys", [("", SECRET), ("user", "")])
def test_an_empty_key_is_refused(keys: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="is empty"):
        Credentials(*keys)


def test_no_metric_says_who_sent_something() -> None:
    """Whoever reads the metrics needs no permission to see users."""
    labels = {
        label for metric in (*BROKER_METRICS, *NAMESRV_METRICS, *FILTER_SERVER_METRICS) for label in metric.labels
    }
    assert "topic" in labels
    assert not [label for label in labels if any(word in label for word in ("user", "key", "secret", "subject"))]
