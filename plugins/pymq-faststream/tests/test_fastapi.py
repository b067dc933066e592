"""The router for FastAPI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import pytest
from pymq_faststream import PymqBroker, TestPymqBroker

from pymq.testing.broker import TestBroker

fastapi = pytest.importorskip("fastapi", reason="needs FastAPI")
from fastapi import Depends, FastAPI  # noqa: E402
from pydantic import BaseModel  # noqa: E402
from pymq_faststream.fastapi import PymqRouter  # noqa: E402

pytestmark = pytest.mark.anyio


class Order(BaseModel):
    number: int
    note: str | None = None


def price() -> int:
    return 7


async def test_a_subscriber_with_fastapis_dependencies_in_memory() -> None:
    router = PymqRouter(group="shop")

    @router.subscriber("orders", tags="new", response_model=Order, response_model_exclude_none=True)
    @router.publisher("bills")
    async def handle(order: Order, unit: Annotated[int, Depends(price)]) -> Order:
        return Order(number=order.number * unit)

    async with TestPymqBroker(router.broker) as broker:
        await broker.publish({"number": 2}, "orders", tags="new")
        (publisher,) = broker.publishers
        publisher.mock.assert_called_once_with({"number": 14})


async def test_the_broker_lives_as_long_as_the_application(server: TestBroker, topic: str) -> None:
    inbox: asyncio.Queue[int] = asyncio.Queue()
    router = PymqRouter(server.namesrv, group=topic, logger=None)

    @router.subscriber(topic)
    async def handle(number: int) -> None:
        await inbox.put(number)

    app = FastAPI()
    app.include_router(router)
    async with app.router.lifespan_context(app):
        assert await router.broker.ping(20)
        await router.broker.publish(3, topic)
        async with asyncio.timeout(20):
            assert await inbox.get() == 3
    assert not router.broker.running


async def test_a_broker_in_a_lifespan_of_ones_own(server: TestBroker, topic: str) -> None:
    broker = PymqBroker(server.namesrv, group=topic, logger=None)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with broker:
            await broker.start()
            yield

    app = FastAPI(lifespan=lifespan)
    async with app.router.lifespan_context(app):
        assert broker.running
    assert not broker.running
