"""Consumes with PyMQ's own push consumer, as a program of its own: prints its rate and CPU time as one line of JSON.

The handler does nothing: a ``coroutine``, or a plain ``function``, which runs in a thread.
"""

import argparse
import asyncio
import json
import os
import threading
import time

from bench.cpu_parts import PART_MESSAGES, CpuParts
from pymq.client import PushConsumer, StoredMessage
from pymq.net.runtime import run


async def consume(namesrv: str, topic: str, count: int, handler: str) -> dict[str, float]:
    """Returns rate and CPU time for the first ``count`` messages of a backlog, from the start of the consumer on."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    lock = threading.Lock()
    left = count
    parts = CpuParts()

    async def coroutine(messages: list[StoredMessage]) -> None:
        nonlocal left
        left -= 1
        if left % PART_MESSAGES == 0:
            parts.end()
            if not left:
                done.set()

    def function(messages: list[StoredMessage]) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left % PART_MESSAGES == 0:
                parts.end()
            if left:
                return
        loop.call_soon_threadsafe(done.set)

    consumer = PushConsumer(
        f"bench_{handler}",
        namesrv=namesrv,
        on_message=coroutine if handler == "coroutine" else function,
        consume_from="first",
    )
    consumer.subscribe(topic)
    begun_s, cpu_begun_s = time.perf_counter(), time.process_time()
    async with consumer:
        await done.wait()
        seconds, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_begun_s
    return {"rate": count / seconds, "cpu_us": cpu_s / count * 1e6, "least_cpu_us": parts.least_us}


def main() -> None:
    """Consumes on the last CPU that this process may use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("handler", choices=("coroutine", "function"))
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--messages", type=int, required=True)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(run(consume(options.namesrv, options.topic, options.messages, options.handler))))


if __name__ == "__main__":
    main()
