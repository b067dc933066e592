"""Runs the scenarios of the C++ client (Python binding rocketmq 0.4.4) against one server: NAMESRV PREFIX [SCENARIO…].

It runs in its own virtual environment, which holds only the binding.
"""

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rocketmq.client import Message, MessageModel, Producer, PullConsumer, PushConsumer, SendStatus
from rocketmq.exceptions import ProducerSendSyncFailed

WAIT_S = 120
NAMESRV, PREFIX = sys.argv[1:3]


KEPT: list[Any] = []


def kept(client: Any) -> Any:
    """Keep a client to the end: one that is freed while its threads run crashes the process."""
    KEPT.append(client)
    return client


def until(what: Any, condition: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_S} s for {what}"
        time.sleep(0.02)


def producer(topic: str) -> Any:
    made = kept(Producer(f"{topic}-producer", timeout=30000))
    made.set_namesrv_addr(NAMESRV)
    made.start()
    until("the producer's connection", lambda: is_connected(made))
    return made


def is_connected(made: Any) -> Any:
    """Return True when a send succeeds; it fails with "No route info" while another thread connects."""
    try:
        return made.send_sync(message(f"{PREFIX}-connect", "anyone there?")).status == SendStatus.OK
    except ProducerSendSyncFailed:
        return False


def message(topic: str, body: Any, tag: str = "T", **properties: Any) -> Any:
    made = Message(topic)
    made.set_body(body)
    made.set_tags(tag)
    for key, value in properties.items():
        made.set_property(key, value)
    return made


class Seen:
    """Copies of the messages of a consumer: the client frees a message when its callback returns."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.messages: list[Any] = []

    def __call__(self, received: Any) -> Any:
        fields = ("topic", "tags", "keys", "body", "id", "queue_id", "queue_offset", "reconsume_times")
        copy = {field: getattr(received, field) for field in fields}
        copy["waited_ms"] = received.store_timestamp - received.born_timestamp
        copy["store_size"] = received.store_size
        copy["color"] = received.get_property("color")
        with self.lock:
            self.messages.append(copy)
        return copy

    def bodies(self) -> Any:
        with self.lock:
            return [one["body"].decode() for one in self.messages]

    def __len__(self) -> int:
        return len(self.messages)


def consumer(topic: str, seen: Any, tags: str = "*", **options: Any) -> Any:
    made = kept(PushConsumer(topic, **options))
    made.set_namesrv_addr(NAMESRV)
    made.set_instance_name(f"{topic}-{time.monotonic_ns()}")
    made.set_thread_count(2)
    made.subscribe(topic, seen, tags)
    made.start()
    return made


def once(bodies: Any, count: int) -> None:
    assert sorted(map(int, bodies)) == list(range(count)), f"{count} sent, came: {sorted(bodies, key=int)}"


def stored(topic: str, *counts: Any) -> Any:
    """Read the topic's messages back with the pull consumer; their number must be in `counts`."""
    puller = kept(PullConsumer(f"{topic}-reader"))
    puller.set_namesrv_addr(NAMESRV)
    puller.start()
    seen = Seen()
    deadline = time.monotonic() + WAIT_S
    while len(seen) < min(counts):
        assert time.monotonic() < deadline, f"pulled {len(seen)} of {counts}"
        for received in puller.pull(topic):
            seen(received)
    puller.shutdown()
    assert len(seen) in counts, f"{len(seen)} messages stored, expected {counts}"
    return seen.messages


def sync_send(topic: str) -> str:
    made = producer(topic)
    for i in range(8):
        one = message(topic, f"body {i}", "TagA", color="red")
        one.set_keys(f"key{i}")
        result = made.send_sync(one)
        assert result.status == SendStatus.OK, result
        assert len(result.msg_id) == 32, result
    made.shutdown()
    found = stored(topic, 8)
    assert {one["queue_id"] for one in found} == {0, 1, 2, 3}, "queues"
    for one in found:
        number = one["body"].decode()[-1]
        assert one["keys"] == b"key" + number.encode() and one["tags"] == b"TagA" and one["color"] == b"red", one
    return "8 in 4 queues"


def async_send(topic: str) -> str:
    made = producer(topic)
    results: list[Any] = []
    failures: list[Any] = []
    for i in range(50):
        made.send_async(message(topic, str(i)), results.append, failures.append)
    until("50 answers", lambda: len(results) + len(failures) == 50)
    assert not failures, failures
    made.shutdown()
    once([one["body"].decode() for one in stored(topic, 50)], 50)
    return "50 answered"


def oneway(topic: str) -> str:
    made = producer(topic)
    for i in range(10):
        made.send_oneway(message(topic, str(i)))
    once([one["body"].decode() for one in stored(topic, 10)], 10)
    made.shutdown()
    return "10 stored"


def batch(topic: str) -> str:
    made = producer(topic)
    result = made.send_batch([message(topic, str(i), color="red") for i in range(20)])
    assert result.status == SendStatus.OK, result
    made.shutdown()
    found = stored(topic, 1, 20)
    if len(found) == 1:
        # This client leaves out the batch flag: Apache 5.3.3 then stores one message with all entries as its body.
        assert found[0]["store_size"] > 20 * 80, found
        return "stored as one message"
    assert [one["body"].decode() for one in found] == [str(i) for i in range(20)], "order"
    assert all(one["color"] == b"red" for one in found), "properties"
    return "20 in order"


def selected_queue(topic: str) -> str:
    made = producer(topic)
    for i in range(12):
        made.send_orderly(message(topic, str(i)), i % 3)
    made.shutdown()
    for one in stored(topic, 12):
        number = int(one["body"])
        assert (one["queue_id"], one["queue_offset"]) == (number % 3, number // 3), one
    return "12 to 3 queues"


def compressed(topic: str) -> str:
    made = producer(topic)
    body = " ".join(str(i) for i in range(20000))
    made.send_sync(message(topic, body))
    made.shutdown()
    (one,) = stored(topic, 1)
    assert one["body"].decode() == body, "the body came back changed"
    assert one["store_size"] < len(body) / 2, f"stored uncompressed: {one['store_size']}"
    return f"stored in {one['store_size']} bytes"


def auto_create(topic: str) -> str:
    made = producer(topic)
    fresh = f"{topic}-fresh"
    for i in range(4):
        assert made.send_sync(message(fresh, str(i))).status == SendStatus.OK
    made.shutdown()
    once([one["body"].decode() for one in stored(fresh, 4)], 4)
    return "4 sent"


def tag_filter(topic: str) -> str:
    made = producer(topic)
    for i in range(30):
        made.send_sync(message(topic, str(i), "Tag" + "ABC"[i % 3]))
    seen = Seen()
    listener = consumer(topic, seen, "TagA || TagB")
    until("20 messages", lambda: len(seen) >= 20)
    made.send_sync(message(topic, "other", "TagC"))
    made.send_sync(message(topic, "last", "TagB"))
    until("the last match", lambda: "last" in seen.bodies())
    assert len(seen) == 21, seen.bodies()
    listener.shutdown()
    made.shutdown()
    return "21 of 32"


def broadcasting(topic: str) -> str:
    all_seen = [Seen(), Seen()]
    listeners = [consumer(topic, seen, message_model=MessageModel.BROADCASTING) for seen in all_seen]
    made = producer(topic)
    # A broadcasting consumer of this client starts at the end: repeat until both listen, then count.
    deadline = time.monotonic() + WAIT_S
    while not all(seen.messages for seen in all_seen):
        assert time.monotonic() < deadline, f"no round was seen by both within {WAIT_S} s"
        for _ in range(4):
            made.send_sync(message(topic, "round"))
        time.sleep(0.2)
    made.send_sync(message(topic, "end"))
    until("the end at both", lambda: all("end" in seen.bodies() for seen in all_seen))
    for listener in listeners:
        listener.shutdown()
    made.shutdown()
    return f"{len(all_seen[0])} and {len(all_seen[1])}"


def clustering(topic: str) -> str:
    made = producer(topic)
    for i in range(40):
        made.send_sync(message(topic, str(i)))
    seen = Seen()
    listener = consumer(topic, seen)
    until("40 messages", lambda: len(seen) >= 40)
    once(seen.bodies(), 40)
    listener.shutdown()
    made.shutdown()
    return "40 once"


def orderly(topic: str) -> str:
    made = producer(topic)
    for i in range(40):
        made.send_orderly(message(topic, str(i)), i % 4)
    seen = Seen()
    listener = consumer(topic, seen, orderly=True)
    until("40 messages", lambda: len(seen) >= 40)
    for queue in range(4):
        numbers = [int(one["body"]) for one in seen.messages if one["queue_id"] == queue]
        assert numbers == list(range(queue, 40, 4)), f"queue {queue}: {numbers}"
    listener.shutdown()
    made.shutdown()
    return "40 in order in 4 queues"


class Retry(Exception):
    """Raised by a callback to make the binding answer RECONSUME_LATER."""


def retry(topic: str) -> str:
    seen = Seen()

    def first_time_fails(received: Any) -> None:
        if seen(received)["reconsume_times"] < 1:
            raise Retry

    listener = consumer(topic, first_time_fails)
    made = producer(topic)
    made.send_sync(message(topic, "again", "TagR"))
    until("the second delivery", lambda: len(seen) >= 2)
    second = seen.messages[1]
    assert second["reconsume_times"] == 1 and second["body"] == b"again", second
    listener.shutdown()
    made.shutdown()
    return "reconsumeTimes 1"


def delay_level(topic: str) -> str:
    seen = Seen()
    made = producer(topic)
    one = message(topic, "later")
    one.set_delay_time_level(1)
    made.send_sync(one)
    listener = consumer(topic, seen)
    until("the delayed message", lambda: len(seen) >= 1)
    assert seen.messages[0]["waited_ms"] >= 900, seen.messages[0]
    listener.shutdown()
    made.shutdown()
    return "delivered"


def run(name: str) -> None:
    try:
        report = {"scenario": name, "ok": True, "detail": globals()[name](f"{PREFIX}-{name}")}
    except Exception as failure:
        traceback.print_exc()
        report = {"scenario": name, "ok": False, "detail": f"{type(failure).__name__}: {failure}"}
    print(json.dumps(report), flush=True)
    # Threads of clients after their shutdown may still be ending: skip the interpreter's own teardown.
    os._exit(0)


def run_in_process(name: str) -> None:
    """Run each scenario in its own process: the native client may crash when two of them start at once."""
    command = [sys.executable, __file__, NAMESRV, PREFIX, name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "INTEROP_ONE": "1"})
    reports = [line for line in done.stdout.splitlines() if line.startswith('{"scenario"')]
    died = {"scenario": name, "ok": False, "detail": f"the client process ended with {done.returncode}"}
    print(reports[0] if reports else json.dumps(died), flush=True)


if __name__ == "__main__":
    if os.environ.get("INTEROP_ONE"):
        run(sys.argv[3])
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(run_in_process, sys.argv[3:]))
