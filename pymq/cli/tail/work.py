"""The work of ``pymq tail``: shows the stored messages of all queues in order of time, then follows each queue."""

from __future__ import annotations

import asyncio
import heapq
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import BinaryIO

from pymq.cli.common.message_text import Formatter
from pymq.cli.common.options import request_credentials, split_addresses
from pymq.cli.output import print_note, progress
from pymq.cli.tail.last import LastMessages, by_time
from pymq.cli.tail.options import Cursor, TailOptions
from pymq.cli.tail.outages import Outages
from pymq.cli.tail.sources import Sources
from pymq.client import Admin, MessageQueue, PullConsumer, PullStatus, StoredMessage
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.operations.group.ensuring import ensure_group
from pymq.operations.start import StartKind

PULL_COUNT = 1024  # brokers have their own limits
SUSPEND_MS = 15_000
LOOK_FOR_QUEUES_EVERY_S = 5.0
COMMIT_EVERY_S = 5.0
RETRY_AFTER_S = 1.0

_Arrivals = asyncio.Queue[tuple[Cursor, list[StoredMessage], int]]


class Tail:
    """One run of the command: writes formatted messages to ``out`` until it is done or interrupted."""

    def __init__(self, options: TailOptions, to_bytes: Formatter, out: BinaryIO) -> None:
        self._options = options
        self._to_bytes = to_bytes
        self._out = out
        self._left = options.count if options.count is not None else sys.maxsize
        self._cursors: dict[MessageQueue, Cursor] = {}
        self._outages = Outages()
        self._namesrv = ";".join(split_addresses(options.namesrv))
        stop = options.stop
        self._until_ms = stop.value if stop is not None and stop.kind is StartKind.TIME else None
        self._until_offset = stop.value if stop is not None and stop.kind is StartKind.OFFSET else None

    async def run(self) -> None:
        """Show messages.

        Raises NotFoundError for an unknown topic or group, UnreachableError before anything was shown.
        """
        options = self._options
        async with (
            PullConsumer(options.group, namesrv=self._namesrv, credentials=request_credentials.get()) as pull,
            Admin(self._namesrv, credentials=request_credentials.get()) as admin,
        ):
            if options.is_group_named:
                await ensure_group(admin, options.group, create=options.create_group)
            sources = Sources(options, pull, admin)
            queues = await sources.queues()
            cursors = await asyncio.gather(*(self._begin(pull, queue) for queue in queues))
            self._cursors = {cursor.queue: cursor for cursor in cursors}
            try:
                await self._show_stored(pull, cursors)
                for cursor in cursors:
                    cursor.is_over = cursor.is_over or self._reaches_end(cursor.end)
                if options.follow and self._left and not self._is_over():
                    await self._follow(pull, sources)
            finally:
                if options.commit:
                    await self._commit(pull)

    async def _begin(self, pull: PullConsumer, queue: MessageQueue) -> Cursor:
        first, end = await asyncio.gather(pull.min_offset(queue), pull.max_offset(queue))
        if self._until_offset is not None:
            end = min(end, max(self._until_offset, first))
        elif self._until_ms is not None and self._until_ms <= _now_ms():
            # One more: a broker may answer with the last offset before the time. The message's own time decides.
            end = min(end, await pull.offset_by_time(queue, self._until_ms) + 1)
        kind, value = self._options.start.kind, self._options.start.value
        if kind in (StartKind.FIRST, StartKind.LAST):
            offset = first  # the last ones are looked for behind it
        elif kind is StartKind.END:
            offset = end
        elif kind is StartKind.OFFSET:
            offset = value
        elif kind is StartKind.TIME:
            offset = await pull.offset_by_time(queue, value)
        else:
            committed = await pull.committed(queue)
            offset = first if committed is None else committed
        offset = min(max(offset, first), end)
        return Cursor(queue, offset, end, done=offset)

    def _reaches_end(self, offset: int) -> bool:
        return self._until_offset is not None and offset >= self._until_offset

    def _is_over(self) -> bool:
        """Return whether the end that the command was given is reached in every queue."""
        if self._until_ms is not None and self._until_ms <= _now_ms():
            return True
        return self._options.stop is not None and all(cursor.is_over for cursor in self._cursors.values())

    def _is_wanted(self, cursor: Cursor, message: StoredMessage) -> bool:
        """Return whether to show the message; one behind the given end ends its queue."""
        if self._until_ms is not None and message.store_timestamp_ms >= self._until_ms:
            cursor.is_over = True
            return False
        return self._options.selection.matches(message)

    # Stored messages

    async def _show_stored(self, pull: PullConsumer, cursors: list[Cursor]) -> None:
        if self._options.start.kind is StartKind.LAST:
            await self._show_last(pull, cursors)
            return
        streams = [self._stored(pull, cursor) for cursor in cursors if cursor.offset < cursor.end]
        total = sum(cursor.end - cursor.offset for cursor in cursors)
        try:
            # Shows a bar only if the messages don't go to the terminal.
            with progress("reading", total, wanted=not sys.stdout.isatty()) as bar:
                async for message in _merged(streams):
                    bar.advance(1)
                    self._show((message,), flush=False)
                    if not self._left:
                        break
        finally:
            for stream in streams:
                await stream.aclose()
            self._out.flush()

    async def _show_last(self, pull: PullConsumer, cursors: list[Cursor]) -> None:
        """Show the last N messages over all queues that match, as far back as the limit allows."""

        async def read(cursor: Cursor, begin: int, end: int) -> list[StoredMessage]:
            cursor.done = begin
            part = Cursor(cursor.queue, begin, end, done=begin)
            return [message async for message in self._stored(pull, part)]

        async def time_at(cursor: Cursor, offset: int) -> int | None:
            result = await pull.pull(cursor.queue, offset, 1)
            messages = result.messages() if result.status is PullStatus.FOUND else []
            return messages[0].store_timestamp_ms if messages else None

        options = self._options
        wanted = options.start.value
        look_back = max(options.look_back_max, wanted * len(cursors)) if options.selection.is_everything else None
        search = LastMessages(wanted, look_back or options.look_back_max, read, time_at)
        for cursor in cursors:
            cursor.done = cursor.end
        found = await search.find([(cursor, cursor.offset) for cursor in cursors])
        if not options.selection.is_everything and found.note(wanted):
            print_note(f"pymq: {found.note(wanted)}")
        self._show(found.messages)
        for cursor in cursors:
            cursor.offset = cursor.end
            if self._left:
                self._passed(cursor, cursor.end)

    async def _stored(self, pull: PullConsumer, cursor: Cursor) -> AsyncGenerator[StoredMessage, None]:
        """Yield the selected messages of one queue up to its end; pulls the next ones meanwhile."""
        pulling = asyncio.ensure_future(self._pull(pull, cursor.queue, cursor.offset))
        try:
            while cursor.offset < cursor.end and not cursor.is_over:
                messages, next_offset = await pulling
                if next_offset < cursor.end:
                    pulling = asyncio.ensure_future(self._pull(pull, cursor.queue, next_offset))
                for message in messages:
                    if message.queue_offset < cursor.end and self._is_wanted(cursor, message):
                        yield message
                    if cursor.is_over:
                        self._passed(cursor, message.queue_offset)
                        return
                cursor.offset = min(next_offset, cursor.end)
                self._passed(cursor, cursor.offset)
        finally:
            pulling.cancel()

    async def _pull(
        self, pull: PullConsumer, queue: MessageQueue, offset: int, suspend_ms: int = 0
    ) -> tuple[list[StoredMessage], int]:
        """Return messages from ``offset`` on, and the offset of the next pull."""
        selection = self._options.selection
        result = await pull.pull(queue, offset, PULL_COUNT, suspend_ms=suspend_ms, **selection.pull_arguments())
        if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset > offset:
            print_note(f"{_name(queue)}: offsets {offset} to {result.next_offset - 1} are no longer stored")
        return selection.keep(result.messages()) if result.status is PullStatus.FOUND else [], result.next_offset

    # New messages

    async def _follow(self, pull: PullConsumer, sources: Sources) -> None:
        arrivals: _Arrivals = asyncio.Queue(16)
        tasks: set[asyncio.Task[None]] = set()

        def follow(cursor: Cursor) -> None:
            tasks.add(asyncio.create_task(self._follow_queue(pull, cursor, arrivals)))

        for cursor in self._cursors.values():
            if not cursor.is_over:
                follow(cursor)
        tasks.add(asyncio.create_task(self._look_for_queues(pull, sources, follow)))
        if self._options.commit:
            tasks.add(asyncio.create_task(self._commit_often(pull)))
        left_s = None if self._until_ms is None else max(self._until_ms - _now_ms(), 0) / 1000
        try:
            async with asyncio.timeout(left_s):
                while self._left and not self._is_over():
                    self._show_arrived(*await arrivals.get())
        except TimeoutError:
            while not arrivals.empty():
                self._show_arrived(*arrivals.get_nowait())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _show_arrived(self, cursor: Cursor, messages: list[StoredMessage], next_offset: int) -> None:
        if self._until_offset is not None:
            messages = [one for one in messages if one.queue_offset < (self._until_offset or 0)]
            next_offset = min(next_offset, self._until_offset)
        self._show(message for message in messages if self._is_wanted(cursor, message))
        if self._left and not cursor.is_over:
            self._passed(cursor, next_offset)
        cursor.is_over = cursor.is_over or self._reaches_end(next_offset)

    async def _follow_queue(self, pull: PullConsumer, cursor: Cursor, arrivals: _Arrivals) -> None:
        """Pull one queue until it is over; while it can't be read, keeps trying."""
        while not cursor.is_over:
            try:
                messages, next_offset = await self._pull(pull, cursor.queue, cursor.offset, SUSPEND_MS)
            except (NotFoundError, UnreachableError, RefusedError) as error:
                self._outages.failed(cursor.queue, error)
                await asyncio.sleep(RETRY_AFTER_S)
                continue
            self._outages.worked(cursor.queue)
            cursor.offset = next_offset
            await arrivals.put((cursor, messages, next_offset))

    async def _look_for_queues(self, pull: PullConsumer, sources: Sources, follow: Callable[[Cursor], None]) -> None:
        """Find topics and queues that are created while the tail runs, and show them from their start."""
        while True:
            await asyncio.sleep(LOOK_FOR_QUEUES_EVERY_S)
            try:
                for queue in await sources.queues_now():
                    if queue not in self._cursors:
                        first = await pull.min_offset(queue)
                        self._cursors[queue] = Cursor(queue, first, first, done=first)
                        follow(self._cursors[queue])
            except PymqError:
                pass  # the name server can't be reached now; the known queues are followed

    # Output and commits

    def _show(self, messages: Iterable[StoredMessage], *, flush: bool = True) -> None:
        """Write messages up to the limit of ``count``."""
        for message in messages:
            if not self._left:
                break
            self._left -= 1
            self._out.write(self._to_bytes(message))
            cursor = self._cursors.get(MessageQueue(message.topic, message.broker_name, message.queue_id))
            if cursor is not None:
                self._passed(cursor, message.queue_offset + 1)
        if flush:
            self._out.flush()

    @staticmethod
    def _passed(cursor: Cursor, offset: int) -> None:
        cursor.done = max(cursor.done, offset)

    async def _commit(self, pull: PullConsumer) -> None:
        for cursor in self._cursors.values():
            if cursor.committed != cursor.done:
                await pull.commit(cursor.queue, cursor.done)
                cursor.committed = cursor.done

    async def _commit_often(self, pull: PullConsumer) -> None:
        while True:
            await asyncio.sleep(COMMIT_EVERY_S)
            await self._commit(pull)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"


async def _merged(streams: list[AsyncGenerator[StoredMessage, None]]) -> AsyncGenerator[StoredMessage, None]:
    """Yield the messages of all streams, oldest first; each stream is in order of its offsets."""
    heads = []
    for at, stream in enumerate(streams):
        message = await anext(stream, None)
        if message is not None:
            heads.append((by_time(message), at, message))
    heapq.heapify(heads)
    while heads:
        _, at, message = heads[0]
        yield message
        following = await anext(streams[at], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (by_time(following), at, following))
