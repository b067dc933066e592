"""The work of ``pymq send``: builds messages, keeps sends in flight, and counts the results."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pymq.cli.common.options import request_credentials, split_addresses
from pymq.cli.output import Progress, print_note, progress
from pymq.client import Message, MessageQueue, Producer, SendResult
from pymq.client.admin import Admin
from pymq.client.ordered_sends import BATCH_COUNT, OrderedSends
from pymq.client.outgoing import BODY_SIZE_MAX_BYTES
from pymq.client.producer import RETRY_COUNT
from pymq.errors import PymqError, StoppedError, UsageError
from pymq.model.message import check_delay_level
from pymq.net.runtime import StopSignals
from pymq.operations.message import sending
from pymq.operations.message.records import message_in_lane
from pymq.operations.pace import Pace
from pymq.operations.queues import QueueChoice

READ_SIZE_BYTES = 256 * 1024
CHUNKS_AHEAD_MAX = 8
FAILURES_SHOWN_MAX = 5
NEAR = 0.75  # share of a topic's name that another one has in common to be meant by it


def with_body(message: Message, body: bytes) -> Message:
    """Return the message with this body."""
    return dataclasses.replace(message, body=body)


def body_argument(text: str) -> bytes:
    """Return the body that the argument means: ``@FILE`` a whole file, ``@-`` all of stdin, ``@@x`` the text ``@x``.

    Raises UsageError for a file that can't be read, and for one beyond the largest body that a producer sends.
    """
    if not text.startswith("@"):
        return text.encode()
    name = text[1:]
    if name.startswith("@"):
        return name.encode()
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as source:
            body = source.read(BODY_SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{text}: the file can't be read: {error.strerror}; @@ begins a text with @") from error
    if len(body) > BODY_SIZE_MAX_BYTES:
        raise UsageError(f"{text} has more than {BODY_SIZE_MAX_BYTES} bytes, the limit of a body: split it")
    return body


async def find_queue(topic: str, choice: QueueChoice, namesrv: str) -> MessageQueue:
    """Return the queue that is meant. Raises NotFoundError, or UsageError when several brokers have it."""
    async with Admin(split_addresses(namesrv), credentials=request_credentials.get()) as admin:
        return await sending.find_queue(admin, topic, choice)


@dataclass(frozen=True)
class Sender:
    """The producer that sends: its group, the name servers as typed, and the number of delay levels of the brokers."""

    group: str
    namesrv: str
    delay_level_max: int

    def producer(self) -> Producer:
        """Return a producer to start. It signs with the credentials of the command."""
        return Producer(
            self.group,
            namesrv=";".join(split_addresses(self.namesrv)),
            delay_level_max=self.delay_level_max,
            credentials=request_credentials.get(),
        )


async def send_one(sender: Sender, message: Message, queue: MessageQueue | None) -> SendResult:
    """Send one message and wait for the answer."""
    async with sender.producer() as producer:
        result = await sending.send_one(producer, message, queue)
        await note_made_topic(producer, sender, message.topic)
    return result


async def note_made_topic(producer: Producer, sender: Sender, topic: str) -> None:
    """Tell people that the topic did not exist before, and which one they may have meant."""
    if topic not in producer.made_topics:
        return
    with suppress(PymqError):
        async with Admin(split_addresses(sender.namesrv), credentials=request_credentials.get()) as admin:
            others = [name for name in await admin.topics.names() if name != topic]
        near = get_close_matches(topic, others, n=1, cutoff=NEAR)
        meant = f"; if {near[0]} was meant: pymq topic delete {topic}" if near else ""
        print_note(f"topic {topic} did not exist, the broker made it{meant}")


@dataclass
class Summary:
    """The results of many sends. ``interrupted``: a signal ended them before the input did."""

    topic: str
    sent_count: int = 0
    failed_count: int = 0
    duration_s: float = 0.0
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False

    def record(self) -> dict[str, Any]:
        """Return the results for JSON output."""
        record = {
            "topic": self.topic,
            "sent": self.sent_count,
            "failed": self.failed_count,
            "seconds": round(self.duration_s, 3),
            "messages_per_second": round(self.sent_count / self.duration_s) if self.duration_s else 0,
        }
        return record | {"interrupted": True} if self.interrupted else record

    def text(self) -> str:
        """Return one line for people."""
        failed = f", {self.failed_count} failed" if self.failed_count else ""
        rate = self.sent_count / self.duration_s if self.duration_s else 0
        ended = ", interrupted" if self.interrupted else ""
        return f"sent {self.sent_count} to {self.topic}{failed} in {self.duration_s:.2f} s ({rate:,.0f}/s){ended}"


@dataclass(frozen=True)
class Flow:
    """How messages leave: requests at a time, messages in each, messages in all, messages per second."""

    in_flight: int = 64
    batch: int = 1
    count_max: int | None = None
    rate_per_s: float | None = None


Item = tuple[Message, str]  # with what it keeps its order with; empty: nothing


class SendJob:
    """Sends a message per line of stdin, or one body ``count_max`` times.

    ``body`` None: lines of stdin, which are JSON objects with ``json_lines``. Those that come from one queue, or have
    one ordering key, go to one queue in their order.
    """

    def __init__(
        self,
        sender: Sender,
        message: Message,
        queue: MessageQueue | None,
        flow: Flow,
        *,
        body: bytes | None = None,
        json_lines: bool = False,
    ) -> None:
        self._sender = sender
        self._template = message
        self._queue = queue
        self._flow = flow
        self._body = body
        self._json_lines = json_lines
        self._slots = asyncio.Semaphore(flow.in_flight)
        self._pace = Pace(flow.rate_per_s)
        self._lanes: dict[str, MessageQueue] = {}
        self._summary = Summary(message.topic)
        self._first_error: PymqError | None = None

    async def run(self) -> Summary:
        """Send to the end of the input, or until SIGINT or SIGTERM, after which it waits for the open sends.

        Raises the first error when no message could be sent, UsageError for a line that is not a message.
        """
        producer = self._sender.producer()
        started_s = time.monotonic()
        # A bar would be drawn over what is typed.
        is_wanted = self._body is not None or not sys.stdin.isatty()
        with progress(f"sending to {self._template.topic}", self._flow.count_max, wanted=is_wanted) as bar:
            async with producer:
                with StopSignals() as signals:
                    try:
                        await signals.unless_stopped(self._send_all(producer, bar))
                    except StoppedError:
                        self._summary.interrupted = True
                        if not is_wanted:
                            print(file=sys.stderr)  # ends the line that was being typed
                    except UsageError as error:
                        raise UsageError(f"{error}; before it {self._counts()}") from error
                if self._summary.sent_count:
                    await note_made_topic(producer, self._sender, self._template.topic)
        self._summary.duration_s = time.monotonic() - started_s
        if self._first_error is not None and not self._summary.sent_count:
            raise self._first_error
        for text in self._summary.failures:
            print_note(f"pymq: {text}")
        return self._summary

    def _counts(self) -> str:
        sent, failed = self._summary.sent_count, self._summary.failed_count
        one = "message was" if sent == 1 else "messages were"
        return f"{sent} {one} sent" + (f", {failed} failed" if failed else "")

    async def _send_all(self, producer: Producer, bar: Progress) -> None:
        open_sends: set[asyncio.Task[None]] = set()
        batch = self._flow.batch if self._flow.batch > 1 else BATCH_COUNT
        ordered = OrderedSends(producer, retry_count=RETRY_COUNT, batch_count=batch)
        is_first = True
        try:
            async for items in self._limited():
                await self._pace.wait(len(items))
                if self._first_error is not None and not self._summary.sent_count:
                    break  # nothing can be sent: stop reading
                for message, lane in items:
                    if lane:
                        await ordered.put(message, await self._queue_of(producer, lane), self._counter(bar))
                messages = [message for message, lane in items if not lane]
                if not messages:
                    continue
                await self._slots.acquire()
                task = asyncio.create_task(self._send(producer, messages, bar))
                open_sends.add(task)
                task.add_done_callback(open_sends.discard)
                if is_first:
                    # The first request looks up the route and connects. Requests that wait for that together would be
                    # sent in any order.
                    await asyncio.shield(task)
                    is_first = False
        finally:
            await asyncio.gather(*open_sends)
            await ordered.flush()

    async def _queue_of(self, producer: Producer, lane: str) -> MessageQueue:
        """Return the queue of all messages of a lane; the lanes take turns."""
        if self._queue is not None:
            return self._queue
        if lane not in self._lanes:
            queues = await producer.queues(self._template.topic)
            self._lanes[lane] = queues[len(self._lanes) % len(queues)]
        return self._lanes[lane]

    def _counter(self, bar: Progress) -> Callable[[PymqError | None], None]:
        def count(error: PymqError | None) -> None:
            self._count(1, error)
            bar.advance(1)

        return count

    def _count(self, messages: int, error: PymqError | None) -> None:
        if error is None:
            self._summary.sent_count += messages
            return
        self._first_error = self._first_error or error
        self._summary.failed_count += messages
        if len(self._summary.failures) < FAILURES_SHOWN_MAX:
            self._summary.failures.append(str(error))

    async def _send(self, producer: Producer, messages: list[Message], bar: Progress) -> None:
        try:
            if len(messages) == 1:
                await producer.send(messages[0], queue=self._queue)
            else:
                await producer.send_batch(messages, queue=self._queue)
            self._count(len(messages), None)
        except PymqError as error:
            self._count(len(messages), error)
        finally:
            bar.advance(len(messages))
            self._slots.release()

    async def _limited(self) -> AsyncIterator[list[Item]]:
        """Yield batches up to ``count_max`` messages."""
        left = self._flow.count_max
        async for messages in self._repeated() if self._body is not None else self._batches():
            if left is None:
                yield messages
                continue
            yield messages[:left]
            left -= len(messages)
            if left <= 0:
                return

    async def _repeated(self) -> AsyncIterator[list[Item]]:
        assert self._body is not None
        batch = [(with_body(self._template, self._body), "")] * self._flow.batch
        while True:
            yield batch

    async def _batches(self) -> AsyncIterator[list[Item]]:
        """Yield messages in batches; messages that have arrived don't wait for a full batch, or for a bad line."""
        number = 0
        async for lines in stdin_lines():
            messages: list[Item] = []
            try:
                for line in lines:
                    number += 1
                    if not line.strip():
                        continue
                    messages.append(self._message(line, number))
                    if len(messages) == self._flow.batch:
                        yield messages
                        messages = []
            except UsageError:
                if messages:
                    yield messages
                raise
            if messages:
                yield messages

    def _message(self, line: bytes, number: int) -> Item:
        if not self._json_lines:
            return with_body(self._template, line), ""
        try:
            message, lane = message_in_lane(self._template.topic, line)
            check_delay_level(message.delay_level, self._sender.delay_level_max)
        except UsageError as error:
            raise UsageError(f"line {number} of stdin: {error}") from error
        base = self._template
        message = dataclasses.replace(
            message,
            tags=message.tags or base.tags,
            keys=message.keys or base.keys,
            properties=base.properties | message.properties,
            delay_level=message.delay_level or base.delay_level,
            delay_ms=base.delay_ms,
            deliver_at_ms=base.deliver_at_ms,
            priority=base.priority,
            lite_topic=base.lite_topic,
        )
        return message, lane


async def stdin_lines() -> AsyncIterator[list[bytes]]:
    """Yield lists of lines as they arrive on stdin, without their line ends.

    A thread reads, so that the event loop runs while there is no input; it is a daemon, so that Ctrl-C doesn't wait.
    """
    if sys.stdin.isatty():
        print_note("each line is a message; Ctrl-D ends")
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_AHEAD_MAX)
    threading.Thread(target=_read_stdin, args=(loop, chunks, room), daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        room.release()
        if isinstance(chunk, Exception):
            raise chunk
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def _read_stdin(
    loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes | Exception], room: threading.Semaphore
) -> None:
    """Read stdin in a thread; ``room`` limits the number of waiting chunks."""
    try:
        while True:
            try:
                item: bytes | Exception = os.read(sys.stdin.fileno(), READ_SIZE_BYTES)
            except OSError as error:
                item = error
            room.acquire()
            loop.call_soon_threadsafe(chunks.put_nowait, item)
            if not item or isinstance(item, Exception):
                return
    except RuntimeError:
        pass  # the loop has ended
