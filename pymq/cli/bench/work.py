"""The loads of ``pymq bench``: each runs to its end and returns one record of figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import typer

from pymq.cli.common.options import request_credentials, split_addresses
from pymq.cli.output import OutputFormat, Progress, print_data, print_fields, progress
from pymq.client import Message, MessageQueue, Producer, PullConsumer, PullStatus
from pymq.errors import NotFoundError, StoppedError
from pymq.model.names import check_topic
from pymq.net.runtime import StopSignals

GROUP = "PYMQ_BENCH"
READER_GROUP = "TOOLS_CONSUMER"
PULL_COUNT = 1024
PULL_BYTES = 1024 * 1024
SUSPEND_MS = 5_000
LATE_MESSAGES_WAIT_S = 5.0
INTERRUPTED = "interrupted"
_STAMP_BYTES = 20


def print_result(record: dict[str, Any], output: OutputFormat) -> None:
    """Print the figures as lines for people or as data. Raises typer.Abort after those of an interrupted run."""
    if not print_data(record, output):
        print_fields({name.replace("_", " "): _figure(value) for name, value in record.items()})
    if INTERRUPTED in record:
        raise typer.Abort


def _figure(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def percentiles_ms(durations_ns: list[int], what: str) -> dict[str, Any]:
    """Return p50, p90, p99 and the maximum of some durations, in ms, as members of a record."""
    if not durations_ns:
        return {}
    ordered = sorted(durations_ns)
    marks = {"p50": 0.50, "p90": 0.90, "p99": 0.99, "max": 1.0}
    return {
        f"{what}_{name}_ms": round(ordered[min(int(len(ordered) * mark), len(ordered) - 1)] / 1e6, 3)
        for name, mark in marks.items()
    }


class SendLoad:
    """``in_flight`` senders; each sends its next request when the last one is answered."""

    def __init__(self, topic: str, count: int, size_bytes: int, *, in_flight: int, batch: int, namesrv: str) -> None:
        self._message = Message(check_topic(topic), b"x" * size_bytes)
        self._count = count
        self._left = count
        self._in_flight = in_flight
        self._batch = batch
        self._namesrv = ";".join(split_addresses(namesrv))
        self._sent_count = 0
        self._durations_ns: list[int] = []

    async def run(self) -> dict[str, Any]:
        """Return the figures. Raises the first error of a send."""
        async with Producer(GROUP, namesrv=self._namesrv, credentials=request_credentials.get()) as producer:
            await producer.send(self._message)  # finds routes, connects, and lets the broker create the topic
            with progress("sending", self._count) as bar:
                started_s = time.perf_counter()
                ended = await _until_stopped(_all(self._sender(producer, bar) for _ in range(self._in_flight)))
                took_s = time.perf_counter() - started_s
        return {
            "topic": self._message.topic,
            "messages": self._sent_count,
            "body_bytes": len(self._message.body),
            "in_flight": self._in_flight,
            "batch": self._batch,
            "seconds": round(took_s, 3),
            "messages_per_second": round(self._sent_count / took_s),
            "mb_per_second": round(self._sent_count * len(self._message.body) / took_s / 1e6, 2),
            **percentiles_ms(self._durations_ns, "send"),
            **ended,
        }

    async def _sender(self, producer: Producer, bar: Progress) -> None:
        while self._left:
            count = min(self._batch, self._left)
            self._left -= count
            began_ns = time.perf_counter_ns()
            if count == 1:
                await producer.send(self._message)
            else:
                await producer.send_batch([self._message] * count)
            self._durations_ns.append(time.perf_counter_ns() - began_ns)
            self._sent_count += count
            bar.advance(count)


class ConsumeLoad:
    """One reader per queue, from its first message to its end."""

    def __init__(self, topic: str, count: int | None, namesrv: str) -> None:
        self._topic = topic
        self._left = count
        self._read_count = 0
        self._read_bytes = 0
        self._namesrv = ";".join(split_addresses(namesrv))

    async def run(self) -> dict[str, Any]:
        """Return the figures. Raises NotFoundError when the topic holds no messages."""
        async with PullConsumer(READER_GROUP, namesrv=self._namesrv, credentials=request_credentials.get()) as pull:
            queues = await pull.queues(self._topic)
            firsts = await asyncio.gather(*map(pull.min_offset, queues))
            ends = await asyncio.gather(*map(pull.max_offset, queues))
            total = sum(ends) - sum(firsts)
            if not total:
                raise NotFoundError(f"{self._topic} holds no messages: pymq bench send {self._topic} sends some")
            with progress("reading", min(total, self._left or total)) as bar:
                started_s = time.perf_counter()
                places = zip(queues, firsts, ends, strict=True)
                ended = await _until_stopped(_all(self._reader(pull, *where, bar) for where in places))
                took_s = time.perf_counter() - started_s
        return {
            "topic": self._topic,
            "queues": len(queues),
            "messages": self._read_count,
            "seconds": round(took_s, 3),
            "messages_per_second": round(self._read_count / took_s),
            "stored_mb_per_second": round(self._read_bytes / took_s / 1e6, 2),
            **ended,
        }

    async def _reader(self, pull: PullConsumer, queue: MessageQueue, offset: int, end: int, bar: Progress) -> None:
        while offset < end and (self._left is None or self._read_count < self._left):
            result = await pull.pull(queue, offset, PULL_COUNT, bytes_max=PULL_BYTES)
            if result.status is PullStatus.FOUND:
                self._read_count += result.next_offset - offset
                self._read_bytes += len(result.raw)
                bar.advance(result.next_offset - offset)
            offset = max(result.next_offset, offset)
            if result.status is PullStatus.NO_NEW_MESSAGE:
                return


class LatencyLoad:
    """A steady sender and a waiting reader in one process, so that both use one clock."""

    def __init__(self, topic: str, rate: int, duration_s: float, size_bytes: int, namesrv: str) -> None:
        self._topic = check_topic(topic)
        self._rate = rate
        self._count = max(int(rate * duration_s), 1)
        self._padding = b"x" * max(size_bytes - _STAMP_BYTES, 0)
        self._namesrv = ";".join(split_addresses(namesrv))
        # Marks this run's messages among the other messages of the topic.
        self._tag = f"run{time.time_ns():x}"
        self._trips_ns: list[int] = []
        self._sends_ns: list[int] = []
        self._all_received = asyncio.Event()

    async def run(self) -> dict[str, Any]:
        """Return the figures. Raises the first error of a send or a pull."""
        async with (
            Producer(GROUP, namesrv=self._namesrv, credentials=request_credentials.get()) as producer,
            PullConsumer(READER_GROUP, namesrv=self._namesrv, credentials=request_credentials.get()) as pull,
        ):
            await producer.send(Message(self._topic, b"warm-up"))
            queues = await pull.queues(self._topic)
            ends = await asyncio.gather(*map(pull.max_offset, queues))
            readers = [asyncio.create_task(self._reader(pull, *where)) for where in zip(queues, ends, strict=True)]
            try:
                with progress("round trips", self._count) as bar:
                    ended = await _until_stopped(self._send_steadily(producer, bar))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._all_received.wait(), 0 if ended else LATE_MESSAGES_WAIT_S)
            finally:
                for reader in readers:
                    reader.cancel()
                await asyncio.gather(*readers, return_exceptions=True)
        return {
            "topic": self._topic,
            "rate": self._rate,
            "sent": len(self._sends_ns),
            "received": len(self._trips_ns),
            **percentiles_ms(self._sends_ns, "send"),
            **percentiles_ms(self._trips_ns, "end_to_end"),
            **ended,
        }

    async def _send_steadily(self, producer: Producer, bar: Progress) -> None:
        """Send by the clock: after a late send the next ones follow at once until the schedule is met."""
        started_ns = time.perf_counter_ns()
        open_sends: set[asyncio.Task[None]] = set()
        for number in range(self._count):
            wait_s = (started_ns + number * 1_000_000_000 // self._rate - time.perf_counter_ns()) / 1e9
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            task = asyncio.create_task(self._send(producer))
            open_sends.add(task)
            task.add_done_callback(open_sends.discard)
            bar.advance(1)
        await asyncio.gather(*open_sends)

    async def _send(self, producer: Producer) -> None:
        began_ns = time.perf_counter_ns()
        stamp = str(began_ns).rjust(_STAMP_BYTES).encode()
        await producer.send(Message(self._topic, stamp + self._padding, tags=self._tag))
        self._sends_ns.append(time.perf_counter_ns() - began_ns)

    async def _reader(self, pull: PullConsumer, queue: MessageQueue, offset: int) -> None:
        while True:
            result = await pull.pull(queue, offset, PULL_COUNT, expression=self._tag, suspend_ms=SUSPEND_MS)
            now_ns = time.perf_counter_ns()
            offset = result.next_offset
            if result.status is PullStatus.FOUND:
                self._trips_ns += [now_ns - int(message.body[:_STAMP_BYTES]) for message in result.messages()]
                if len(self._trips_ns) >= self._count:
                    self._all_received.set()


async def _until_stopped(work: Coroutine[Any, Any, None]) -> dict[str, Any]:
    """Await ``work``. Returns an empty dictionary, or the member of a record that says a signal ended it."""
    with StopSignals() as signals:
        try:
            await signals.unless_stopped(work)
        except StoppedError:
            return {INTERRUPTED: True}
    return {}


async def _all(jobs: Any) -> None:
    """Run coroutines side by side; the first failure ends the others and is raised."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
