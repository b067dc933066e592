"""A web service with FastAPI: an order that comes by HTTP is a message, and a consumer of the same process counts them.

pip install fastapi uvicorn
uvicorn fastapi_app:app --port 8000
curl -X POST 127.0.0.1:8000/orders -H 'content-type: application/json' -d '{"number": 1, "total": 9.5}'
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel

from pymq.client import Message, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
counts = {"orders": 0}


class Order(BaseModel):
    number: int
    total: float


async def count(messages: list) -> None:
    counts["orders"] += len(messages)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run the clients as long as the application."""
    consumer = PushConsumer("counter", namesrv=NAMESRV, on_message=count, consume_from="first")
    consumer.subscribe("WebOrders")
    async with Producer("shop", namesrv=NAMESRV) as producer:
        app.state.producer = producer
        async with consumer:
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def place(order: Order) -> dict[str, str]:
    """Answer once the broker has the message."""
    message = Message("WebOrders", order.model_dump_json().encode(), keys=f"order-{order.number}")
    result = await app.state.producer.send(message)
    return {"message_id": result.message_id}


@app.get("/orders/count")
async def counted() -> dict[str, int]:
    return counts
