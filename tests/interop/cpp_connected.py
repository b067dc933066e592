"""Stays connected as one user with the C++ client: NAMESRV TOPIC GROUP ACCESS_KEY SECRET_KEY.

Without keys it signs nothing. It sends each line of its input, and prints what it sent and consumed. It runs in the
virtual environment of the binding.
"""

import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer
from rocketmq.exceptions import RocketMQException

NAMESRV, TOPIC, GROUP, ACCESS_KEY, SECRET_KEY = sys.argv[1:6]
PRINTING = threading.Lock()


def say(line: str) -> None:
    with PRINTING:
        print(line.replace("\n", " "), flush=True)


def with_keys(client: Any) -> Any:
    client.set_namesrv_addr(NAMESRV)
    if ACCESS_KEY:
        client.set_session_credentials(ACCESS_KEY, SECRET_KEY, "")
    return client


def send(producer: Any, body: str) -> str:
    message = Message(TOPIC)
    message.set_body(body)
    try:
        return f"SEND_{producer.send_sync(message).status.name}"
    except RocketMQException as refused:
        return str(refused)


def main() -> None:
    producer = with_keys(Producer(f"{GROUP}-producer", timeout=30000))
    producer.start()
    consumer = with_keys(PushConsumer(GROUP))
    consumer.set_thread_count(1)
    consumer.subscribe(TOPIC, lambda message: say(f"consumed {message.body.decode()}"))
    consumer.start()
    for line in sys.stdin:
        say(f"sent {line.rstrip()}: {send(producer, line.rstrip())}")


if __name__ == "__main__":
    main()
