"""Sends with PyMQ's own producer, as a program of its own. Prints rate and CPU time a message as one line of JSON.

``batched`` enqueues as fast as it can with automatic batches; ``awaited`` keeps 64 tasks that each await every send.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable

from bench.cpu_parts import PART_MESSAGES, CpuParts
from pymq.client import Message, Producer
from pymq.net.runtime import run

IN_FLIGHT = 64
LINGER_MS = 5.0
BODY = b"x" * 128
CHUNK = 2048  # results that are looked at together

Load = Callable[[str, str, int, CpuParts], Awaitable[float]]


async def batched(namesrv: str, topic: str, count: int, parts: CpuParts) -> float:
    """Returns the seconds that ``count`` messages took from the first call to the last result."""
    async with Producer("bench_client", namesrv=namesrv, linger_ms=LINGER_MS) as producer:
        await producer.send(Message(topic, BODY))
        futures = []
        begun_s = time.perf_counter()
        for number in range(count):
            if number % PART_MESSAGES == 0:
                parts.end()
            futures.append(await producer.enqueue(Message(topic, BODY, tags="TagA"), timeout_s=60))
            if len(futures) == CHUNK * 2:
                for future in futures[:CHUNK]:
                    if not future.done():
                        await future
                    future.result()
                del futures[:CHUNK]
        await producer.flush()
        for future in futures:
            future.result()
        return time.perf_counter() - begun_s


async def awaited(namesrv: str, topic: str, count: int, parts: CpuParts) -> float:
    """Returns the seconds that ``count`` messages took, each awaited by one of 64 tasks."""
    async with Producer("bench_client", namesrv=namesrv) as producer:
        left = count

        async def sender() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                if left % PART_MESSAGES == 0:
                    parts.end()
                await producer.send(Message(topic, BODY, tags="TagA"), timeout_s=60)

        await producer.send(Message(topic, BODY))
        begun_s = time.perf_counter()
        await asyncio.gather(*[sender() for _ in range(IN_FLIGHT)])
        return time.perf_counter() - begun_s


LOADS: dict[str, Load] = {"batched": batched, "awaited": awaited}


def main() -> None:
    """Runs one load on the last CPU that this process may use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--messages", type=int, default=300_000)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    async def measured() -> dict[str, float]:
        load = LOADS[options.load]
        await load(options.namesrv, options.topic, options.messages // 10, CpuParts())
        parts = CpuParts()
        before_s = time.process_time()
        seconds = await load(options.namesrv, options.topic, options.messages, parts)
        cpu_s = time.process_time() - before_s
        return {
            "rate": options.messages / seconds,
            "cpu_us": cpu_s / options.messages * 1e6,
            "least_cpu_us": parts.least_us,
            "sent": options.messages + options.messages // 10,
        }

    print(json.dumps(run(measured())))


if __name__ == "__main__":
    main()
