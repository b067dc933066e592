"""The client library: producers, consumers and administration for asyncio; ``pymq.client.sync`` has blocking ones.

Names load on first use, so that a command that only administrates never imports a consumer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.client.app import App
    from pymq.client.consume_result import ConsumeResult
    from pymq.client.lite_consumer import LiteConsumer
    from pymq.client.producer import Producer
    from pymq.client.pull_consumer import PullConsumer
    from pymq.client.push_consumer import PushConsumer
    from pymq.client.received import Received
    from pymq.client.simple_consumer import SimpleConsumer
    from pymq.client.tls import Tls
    from pymq.client.transactions import TransactionListener, TransactionProducer, TransactionResult, TransactionState
    from pymq.model.message import Message, MessageQueue, PullResult, PullStatus, SendResult, SendStatus
    from pymq.model.record import StoredMessage
    from pymq.security.credentials import Credentials

_HOMES = {
    "Admin": "pymq.client.admin",
    "App": "pymq.client.app",
    "ConsumeResult": "pymq.client.consume_result",
    "Credentials": "pymq.security.credentials",
    "LiteConsumer": "pymq.client.lite_consumer",
    "Message": "pymq.model.message",
    "MessageQueue": "pymq.model.message",
    "Producer": "pymq.client.producer",
    "PullConsumer": "pymq.client.pull_consumer",
    "PullResult": "pymq.model.message",
    "PullStatus": "pymq.model.message",
    "PushConsumer": "pymq.client.push_consumer",
    "Received": "pymq.client.received",
    "SendResult": "pymq.model.message",
    "SendStatus": "pymq.model.message",
    "SimpleConsumer": "pymq.client.simple_consumer",
    "StoredMessage": "pymq.model.record",
    "Tls": "pymq.client.tls",
    "TransactionListener": "pymq.client.transactions",
    "TransactionProducer": "pymq.client.transactions",
    "TransactionResult": "pymq.client.transactions",
    "TransactionState": "pymq.client.transactions",
}

__all__ = [
    "Admin",
    "App",
    "ConsumeResult",
    "Credentials",
    "LiteConsumer",
    "Message",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "Received",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "StoredMessage",
    "Tls",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
