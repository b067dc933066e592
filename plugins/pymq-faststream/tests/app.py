"""An application as FastStream's first steps write it; PYMQ_TEST_URL and PYMQ_TEST_PREFIX say where it runs."""

from __future__ import annotations

import os

from faststream import FastStream
from faststream.annotations import Logger
from pydantic import BaseModel, Field, PositiveInt
from pymq_faststream import PymqBroker, PymqRouter

PREFIX = os.environ.get("PYMQ_TEST_PREFIX", "")


class User(BaseModel):
    """A registered user."""

    name: str = Field(..., examples=["Ada"])
    number: PositiveInt


broker = PymqBroker(os.environ.get("PYMQ_TEST_URL", "localhost:9876"), group="first")
router = PymqRouter(PREFIX)


@router.subscriber("in-topic", title="Registrations")
@router.publisher("out-topic", description="Greetings of users")
async def greet(user: User, logger: Logger) -> str:
    """Greet a user."""
    logger.info("greeting %s", user.name)
    return f"User: {user.name} - {user.number} registered"


broker.include_router(router)
app = FastStream(broker)
