"""The driver of the Python gRPC client. It does what each line of standard input asks, side by side.

It runs in its own virtual environment, which holds only the client.
"""

import base64
import json
import os
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

CALL_TIMEOUT_S = 10
AWAIT_S = 5
CALLS_MAX = 64

OUT = sys.stdout
PRINTING = threading.Lock()
CLIENTS: dict[str, Any] = {}
TRANSACTIONS: dict[str, Any] = {}
RECEIVED: dict[str, Message] = {}
Request = dict[str, Any]


def configuration(request: Request) -> ClientConfiguration:
    credentials = Credentials(*request["user"]) if "user" in request else Credentials()
    return ClientConfiguration(request["endpoint"], credentials, request_timeout=CALL_TIMEOUT_S)


def tell(line: dict[str, Any]) -> None:
    with PRINTING:
        OUT.write(json.dumps(line) + "\n")
        OUT.flush()


def fields(message: Message) -> dict[str, Any]:
    return {
        "id": message.message_id,
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        "message_group": message.message_group,
        "delivery_ms": message.delivery_timestamp or None,
        "born_ms": message.born_timestamp,
        "attempt": message.delivery_attempt,
    }


class Checker(TransactionChecker):
    """A body's last word says how its transaction ended."""

    def check(self, message: Message) -> Any:
        if message.body.endswith(b"commit"):
            return TransactionResolution.COMMIT
        if message.body.endswith(b"rollback"):
            return TransactionResolution.ROLLBACK
        return TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED


class Listener(MessageListener):
    """A body "fail N …" fails at its first N deliveries; "slow N …" takes N seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._deliveries: Counter[str] = Counter()

    def consume(self, message: Message) -> ConsumeResult:
        self._deliveries[message.message_id] += 1
        tell({"consumer": self._name, "message": fields(message)})
        words = message.body.split(b" ")
        if words[0] == b"slow":
            time.sleep(int(words[1]))
        fails = words[0] == b"fail" and self._deliveries[message.message_id] <= int(words[1])
        return ConsumeResult.FAILURE if fails else ConsumeResult.SUCCESS


def subscription(request: Request) -> dict[str, FilterExpression]:
    if "sql" in request:
        return {request["topic"]: FilterExpression(request["sql"], FilterType.SQL)}
    return {request["topic"]: FilterExpression(request["tags"])}


def producer(request: Request) -> None:
    made = Producer(configuration(request), [request["topic"]], checker=Checker())
    made.startup()
    CLIENTS[request["name"]] = made


def send(request: Request) -> dict[str, Any]:
    message = Message()
    message.topic = request["topic"]
    message.body = base64.b64decode(request["body"])
    for name in ("tag", "message_group"):
        if name in request:
            setattr(message, name, request[name])
    for key in request.get("keys", ()):
        message.keys = key
    for key, value in request.get("properties", {}).items():
        message.add_property(key, value)
    if "delivery_ms" in request:
        message.delivery_timestamp = request["delivery_ms"] // 1000  # it takes whole seconds
    by = CLIENTS[request["name"]]
    if not request.get("transaction"):
        receipt = by.send(message)
        return {"id": receipt.message_id, "handle": receipt.recall_handle}
    transaction = by.begin_transaction()
    receipt = by.send(message, transaction)
    TRANSACTIONS[receipt.message_id] = transaction
    return {"id": receipt.message_id}


def end(request: Request) -> None:
    transaction = TRANSACTIONS.pop(request["id"])
    if request["commit"]:
        transaction.commit()
    else:
        transaction.rollback()


def recall(request: Request) -> str:
    return str(CLIENTS[request["name"]].recall_message(request["topic"], request["handle"]))


def simple(request: Request) -> None:
    made = SimpleConsumer(configuration(request), request["group"], subscription(request), AWAIT_S)
    made.startup()
    CLIENTS[request["name"]] = made


def receive(request: Request) -> list[dict[str, Any]]:
    messages = CLIENTS[request["name"]].receive(request["count"], request["seconds"])
    RECEIVED.update((message.message_id, message) for message in messages)
    return [fields(message) for message in messages]


def ack(request: Request) -> None:
    CLIENTS[request["name"]].ack(RECEIVED[request["id"]])


def change(request: Request) -> None:
    CLIENTS[request["name"]].change_invisible_duration(RECEIVED[request["id"]], request["seconds"])


def push(request: Request) -> None:
    made = PushConsumer(configuration(request), request["group"], Listener(request["name"]), subscription(request))
    made.startup()
    CLIENTS[request["name"]] = made


def close(request: Request) -> None:
    CLIENTS.pop(request["name"]).shutdown()


OPS = {op.__name__: op for op in (producer, send, end, recall, simple, receive, ack, change, push, close)}


def answer(request: Request) -> None:
    try:
        tell({"call": request["call"], "result": OPS[request["op"]](request)})
    except BaseException as failure:
        tell({"call": request["call"], "error": described(failure)})


def described(failure: BaseException | None) -> str:
    """Return a failure and what it followed: the client's own tidying up may fail after the failure that matters."""
    texts = []
    while failure is not None:
        texts.append(repr(failure))
        failure = failure.__context__
    return ", after ".join(texts)


if __name__ == "__main__":
    sys.stdout = sys.stderr
    pool = ThreadPoolExecutor(CALLS_MAX)
    for line in sys.stdin:
        pool.submit(answer, json.loads(line))
    os._exit(0)  # threads of clients would keep the process alive
