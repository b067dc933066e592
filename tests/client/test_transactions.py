"""TransactionProducer against a scripted broker: what it sends, what a listener may do, and what a broker may ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pymq.client import Message, TransactionProducer, TransactionState
from pymq.errors import UsageError
from pymq.model.names import TRACE_TOPIC
from pymq.model.properties import decode_properties, encode_properties
from pymq.model.record import encode_record
from pymq.model.trace import TraceKind
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer, route_reply, serve_routes
from tests.client.scenarios import until
from tests.client.test_producer import SEND, sent, stored
from tests.client.test_tracing import traced

END, CHECK = RequestCode.END_TRANSACTION, RequestCode.CHECK_TRANSACTION_STATE
HOST = b"\x7f\0\0\1\0\0\0\1"


class Listener:
    """``execute`` and ``check`` call what a test gives."""

    def __init__(self, say: Callable[[], Any] = lambda: TransactionState.COMMIT) -> None:
        self.say = say
        self.checked: list[bytes] = []

    def execute(self, message: Message, arg: Any) -> Any:
        return self.say()

    async def check(self, message: Any) -> Any:
        self.checked.append(message.content())
        said = self.say()
        return await said if asyncio.iscoroutine(said) else said


def run(
    scenario: Callable[[FakeServer, TransactionProducer], Awaitable[None]],
    listener: Listener | None = None,
    **options: Any,
) -> None:
    async def main() -> None:
        namesrv, broker = await FakeServer().start(), await FakeServer().start()
        route = route_reply({"broker-0": broker.address}, queues=2)
        serve_routes(namesrv, {"T": route, TRACE_TOPIC: route})
        broker.on(SEND, stored)
        options["listener"] = listener or Listener()
        try:
            async with TransactionProducer("PG", namesrv=namesrv.address, **options) as producer:
                await scenario(broker, producer)
        finally:
            await broker.stop()
            await namesrv.stop()

    asyncio.run(main())


def question(body: bytes = b"m", group: str = "PG", **changes: str) -> Command:
    record = encode_record(
        topic=b"T", queue_id=1, queue_offset=3, physical_offset=500, body=body,
        properties=encode_properties({"PGROUP": group, "UNIQ_KEY": body.decode()}), flag=0, sys_flag=0,
        born_timestamp_ms=1, born_host=HOST, store_timestamp_ms=2, store_host=HOST,
    )  # fmt: skip
    ext = {
        "topic": "T", "tranStateTableOffset": "3", "commitLogOffset": "500", "msgId": body.decode(),
        "transactionId": body.decode(), "offsetMsgId": "7F" * 16, "bname": "broker-0", **changes,
    }  # fmt: skip
    return Command(CHECK, opaque=7, flag=2, ext=ext, body=record)


def test_the_half_message_and_its_end_name_what_rocketmq_s_do() -> None:
    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        result = await producer.send_in_transaction(Message("T", b"m", "A"), 1)
        assert result.is_confirmed and result.state is TransactionState.COMMIT and result.error is None
        header, _ = sent(broker)
        properties = decode_properties(header.properties.encode())
        assert (properties["TRAN_MSG"], properties["PGROUP"], properties["TAGS"]) == ("true", "PG", "A")
        assert properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "60" and header.sys_flag == 4
        (end,) = broker.requests[END]
        assert end.ext == {
            "producerGroup": "PG", "tranStateTableOffset": "7", "commitLogOffset": str(0x7F7F7F7F7F7F7F7F),
            "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": result.message_id,
            "transactionId": result.message_id, "topic": "T",
        }  # fmt: skip

    run(scenario, check_after_s=60)


@pytest.mark.parametrize("said", [None, "COMMIT", 8, ValueError("no")])
def test_a_listener_that_raises_or_returns_nonsense_leaves_the_state_unknown(said: Any) -> None:
    def say() -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        result = await producer.send_in_transaction(Message("T", b"m"))
        assert result.state is TransactionState.UNKNOWN and not result.is_confirmed
        assert result.error is (said if isinstance(said, Exception) else None)
        assert broker.count(END) == 0

    run(scenario, Listener(say))


def test_a_half_message_that_is_not_safe_is_rolled_back_without_its_local_transaction() -> None:
    called: list[int] = []
    listener = Listener(lambda: called.append(1))

    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        broker.on(SEND, lambda command: Reply(ResponseCode.FLUSH_SLAVE_TIMEOUT, ext=stored(command).ext))
        result = await producer.send_in_transaction(Message("T", b"m"))
        assert result.state is TransactionState.ROLLBACK and called == []
        assert broker.requests[END][0].ext["commitOrRollback"] == "12"

    run(scenario, listener)


def test_an_end_that_is_refused_is_not_confirmed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        broker.refuse(END, ResponseCode.SYSTEM_ERROR)
        assert not (await producer.send_in_transaction(Message("T", b"m"))).is_confirmed

    run(scenario)
    assert "refused the end of transaction" in caplog.text and "asks later" not in caplog.text


def test_a_check_is_answered_with_its_own_offsets() -> None:
    listener = Listener()

    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        await producer.send(Message("T", b"connects"))
        broker.push(question())
        end = await broker.wait_for(END)
        assert end.is_oneway and listener.checked == [b"m"]
        assert (end.ext["tranStateTableOffset"], end.ext["commitLogOffset"]) == ("3", "500")
        assert (end.ext["fromTransactionCheck"], end.ext["commitOrRollback"]) == ("true", "8")

    run(scenario, listener)


def test_a_check_that_can_t_be_read_or_is_of_another_group_is_ignored() -> None:
    listener = Listener()

    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        await producer.send(Message("T", b"connects"))
        broken = question()
        broken.body = b"junk"
        broker.push(broken)
        broker.push(question(b"other", "OTHER"))
        broker.push(question(b"odd", commitLogOffset="x"))
        broker.push(question(b"good"))
        await broker.wait_for(END)
        assert listener.checked == [b"good"] and broker.count(END) == 1

    run(scenario, listener)


def test_a_check_that_hangs_is_not_begun_twice_and_holds_up_no_other() -> None:
    release = asyncio.Event()

    async def hang() -> TransactionState:
        await release.wait()
        return TransactionState.ROLLBACK

    listener = Listener(hang)

    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        await producer.send(Message("T", b"connects"))
        for _ in range(3):
            broker.push(question(b"slow"))
        broker.push(question(b"other"))
        await until(lambda: len(listener.checked) >= 2, "both checks")
        assert listener.checked == [b"slow", b"other"]
        release.set()
        await broker.wait_for(END, 2)

    run(scenario, listener)


def test_what_is_no_transaction_is_refused_before_anything_is_sent() -> None:
    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        with pytest.raises(UsageError, match="delay"):
            await producer.send_in_transaction(Message("T", b"m", delay_level=3))
        assert broker.count(SEND) == 0

    run(scenario)
    with pytest.raises(UsageError, match="check_after_s"):
        TransactionProducer("PG", listener=Listener(), namesrv="127.0.0.1:1", check_after_s=0)
    unstarted = TransactionProducer("PG", listener=Listener(), namesrv="127.0.0.1:1")
    with pytest.raises(UsageError, match="start"):
        asyncio.run(unstarted.send_in_transaction(Message("T", b"m")))


def test_traces_show_the_half_message_and_each_end() -> None:
    async def scenario(broker: FakeServer, producer: TransactionProducer) -> None:
        result = await producer.send_in_transaction(Message("T", b"m", keys="k"))
        broker.push(question(b"other"))
        await broker.wait_for(END, 2)
        await until(lambda: len(producer._tracer._waiting) == 3, "the traces")
        await producer.stop()
        records, _ = traced(broker)
        shown = {(one.kind, one.message_id, one.message_type, one.state, one.from_check) for one in records}
        assert shown == {
            (TraceKind.PUBLISHED, result.message_id, 1, "", False),
            (TraceKind.TRANSACTION_ENDED, result.message_id, 2, "COMMIT_MESSAGE", False),
            (TraceKind.TRANSACTION_ENDED, "other", 2, "COMMIT_MESSAGE", True),
        }
        assert {one.store_host for one in records} == {broker.address}

    run(scenario, trace=True)
