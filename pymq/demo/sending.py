"""Sends the tour's messages and keeps a digest of each, for the comparison at the end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from pymq.client import Message, Producer
from pymq.demo.rows import data_files, order_messages, row_messages

IN_FLIGHT = 64
BATCH = 64

Sent = dict[str, bytes]
"""Key of a message -> digest of its body."""


def digest(body: bytes) -> bytes:
    """Return a digest of 16 bytes."""
    return hashlib.blake2b(body, digest_size=16).digest()


async def send_rows(namesrv: str, on_sent: Callable[[int], None]) -> Sent:
    """Send every row of every data set in a separate request, many at a time."""
    sent: Sent = {}
    async with Producer("demo_producer", namesrv=namesrv) as producer:
        for path in data_files():
            for group in _groups(row_messages(path), IN_FLIGHT):
                await asyncio.gather(*(producer.send(message) for message in group))
                _remember(sent, group)
                on_sent(len(group))
    return sent


async def send_orders(namesrv: str, count: int, on_sent: Callable[[int], None]) -> Sent:
    """Send generated orders in batches."""
    sent: Sent = {}
    async with Producer("demo_producer", namesrv=namesrv) as producer:
        for group in _groups(order_messages(count), BATCH):
            await producer.send_batch(group)
            _remember(sent, group)
            on_sent(len(group))
    return sent


def _remember(sent: Sent, messages: Iterable[Message]) -> None:
    for message in messages:
        assert message.keys not in sent, message.keys
        sent[message.keys] = digest(message.body)


def _groups(messages: Iterator[Message], size: int) -> Iterator[list[Message]]:
    while group := list(islice(messages, size)):
        yield group
