"""TestPymqBroker: handlers without a server."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from faststream import Context, Depends, ExceptionMiddleware, FastStream, Header, StreamMessage, TestApp
from faststream.exceptions import SetupError, SubscriberNotFound
from pydantic import ValidationError
from pymq_faststream import PymqBroker, PymqMessage, PymqPublishMessage, TestPymqBroker
from pymq_faststream.annotations import PymqBroker as CurrentBroker
from pymq_faststream.message import PymqMessage as RawMessage

from pymq.errors import UsageError
from pymq.testing.broker import TestBroker

pytestmark = pytest.mark.anyio


async def test_handlers_and_publishers_record_their_calls() -> None:
    broker = PymqBroker()
    out = broker.publisher("out", tags="t")

    @broker.subscriber("in")
    @out
    async def handle(number: int) -> str:
        return f"n{number}"

    async with TestPymqBroker(broker) as started:
        await started.publish(3, "in")
        handle.mock.assert_called_once_with(3)
        out.mock.assert_called_once_with("n3")
        with pytest.raises(ValidationError):
            await started.publish("x", "in")
        await out.publish("direct")
        assert out.mock.call_count == 2


async def test_tags_sql_groups_and_broadcasts_select_as_a_server_does() -> None:
    broker = PymqBroker()
    got: list[str] = []

    def listener(name: str, topic: str = "t", **options: object) -> None:
        @broker.subscriber(topic, group=name.partition(".")[0], **options)  # type: ignore[arg-type]
        async def handle(body: str) -> None:
            got.append(f"{name}:{body}")

    listener("all.1")
    listener("all.2")
    listener("tagged", tags="a || b")
    listener("sql", sql="price > 5")
    listener("each.1", broadcast=True)
    listener("each.2", broadcast=True)
    listener("other", topic="u")
    async with TestPymqBroker(broker) as started:
        await started.publish("1", "t", tags="b")
        assert sorted(one for one in got if one.startswith("all")) in (["all.1:1"], ["all.2:1"])
        assert sorted(one for one in got if not one.startswith("all")) == ["each.1:1", "each.2:1", "tagged:1"]
        got.clear()
        await started.publish("2", "t", headers={"price": "6"})
        assert sorted(one for one in got if one[:3] in ("sql", "tag")) == ["sql:2"]


async def test_batches() -> None:
    broker = PymqBroker()
    lists: list[list[int]] = []
    single: list[tuple[int, str]] = []

    @broker.subscriber("t", batch=True, group="b")
    async def handle(numbers: list[int]) -> None:
        lists.append(numbers)

    @broker.subscriber("t", group="s")
    async def one(number: int, message: PymqMessage) -> None:
        single.append((number, message.headers.get("h", "")))

    async with TestPymqBroker(broker) as started:
        await started.publish_batch(1, PymqPublishMessage(2, headers={"h": "x"}), topic="t")
        await started.publish(3, "t")
    assert lists == [[1, 2], [3]]
    assert single == [(1, ""), (2, "x"), (3, "")]


async def test_requests_and_what_a_server_would_refuse() -> None:
    broker = PymqBroker()

    @broker.subscriber("t")
    async def handle(number: int) -> int:
        return number + 1

    async with TestPymqBroker(broker) as started:
        reply = await started.request(1, "t")
        assert await reply.decode() == 2
        with pytest.raises(SubscriberNotFound, match="no subscriber of topic u"):
            await started.request(1, "u")
        with pytest.raises(UsageError, match="names and values are text"):
            await started.publish(1, "t", headers={"n": 1})  # type: ignore[dict-item]


async def test_an_application_with_its_lifespan() -> None:
    broker = PymqBroker()
    app = FastStream(broker)
    order: list[str] = []

    @app.on_startup
    async def begin() -> None:
        order.append("startup")

    @app.after_startup
    async def publish() -> None:
        await broker.publish("x", "t")

    @app.on_shutdown
    async def end() -> None:
        order.append("shutdown")

    @broker.subscriber("t")
    async def handle(body: str) -> None:
        order.append(body)

    async with TestPymqBroker(broker, connect_only=True), TestApp(app):
        pass
    assert order == ["startup", "x", "shutdown"]


async def test_a_real_server_may_stay(server: TestBroker, topic: str) -> None:
    broker = PymqBroker(server.namesrv, group=topic, logger=None)
    out = broker.publisher(f"{topic}-out")

    @broker.subscriber(topic)
    @out
    async def handle(number: int) -> int:
        return number * 2

    async with TestPymqBroker(broker, with_real=True) as started:
        await started.publish(4, topic)
        await handle.wait_call(20)
        handle.mock.assert_called_once_with(4)


async def test_a_subscriber_that_is_added_meanwhile() -> None:
    broker = PymqBroker()
    async with TestPymqBroker(broker) as started:
        late = started.subscriber("t", persistent=False)
        got: list[str] = []

        @late
        async def handle(body: str) -> None:
            got.append(body)

        await late.start()
        await started.publish("x", "t")
        await late.stop()
        with pytest.raises(SubscriberNotFound):
            await started.request("y", "other")
    assert got == ["x"]


async def test_dependencies_context_headers_and_exceptions() -> None:
    broker = PymqBroker()
    errors = ExceptionMiddleware()
    seen: list[object] = []

    @errors.add_handler(ZeroDivisionError, publish=True)
    def answer(error: ZeroDivisionError) -> str:
        return "infinite"

    broker.add_middleware(errors)

    def double(number: int) -> int:
        return number * 2

    @broker.subscriber("t")
    async def handle(
        number: int,
        doubled: Annotated[int, Depends(double)],
        message: PymqMessage,
        kind: Annotated[str, Header("kind")],
        tag: Annotated[str, Context("message.tags")],
        started: CurrentBroker,
    ) -> float:
        seen.extend([doubled, message.keys, kind, tag, started is broker])
        return 1 / number

    async with TestPymqBroker(broker) as started:
        reply = await started.request(2, "t", headers={"kind": "a"}, tags="x", keys=["k"])
        assert await reply.decode() == 0.5
        assert seen == [4, ["k"], "a", "x", True]
        reply = await started.request(0, "t", headers={"kind": "a"}, keys="k")
        assert await reply.decode() == "infinite"


async def test_an_argument_of_a_class_in_place_of_its_annotation_is_refused_with_the_import() -> None:
    broker = PymqBroker()

    @broker.subscriber("t")
    async def handle(message: RawMessage) -> None: ...

    with pytest.raises(SetupError, match=r"from pymq_faststream\.annotations import PymqMessage"):
        async with TestPymqBroker(broker, connect_only=False):
            pass


async def test_custom_parsers_decoders_and_codecs() -> None:
    async def parser(raw: object, original: Any) -> Any:
        message = await original(raw)
        message.headers["parsed"] = "yes"
        return message

    async def decoder(message: StreamMessage[Any], original: Any) -> Any:
        return [await original(message)]

    class Upper:
        async def decode(self, msg: StreamMessage[Any]) -> str:
            return str(msg.body.decode()).upper()

        async def encode(self, msg: Any, serializer: object = None) -> tuple[bytes, str | None]:
            return str(msg).encode(), "text/x"

    broker, coded = PymqBroker(parser=parser, decoder=decoder), PymqBroker(codec=Upper())
    seen: list[object] = []

    @broker.subscriber("t")
    async def handle(body: list[str], message: PymqMessage) -> None:
        seen.append((body, message.headers["parsed"]))

    @coded.subscriber("t")
    async def upper(body: str) -> str:
        return body

    async with TestPymqBroker(broker) as started:
        await started.publish("x", "t")
    async with TestPymqBroker(coded) as started:
        assert await (await started.request("y", "t")).decode() == "Y"
    assert seen == [(["x"], "yes")]
