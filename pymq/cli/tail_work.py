"""The work of ``pymq tail``: shows the stored messages of all queues in order of time, then follows each queue."""

from __future__ import annotations

import asyncio
import heapq
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

from pymq.cli.filter_option import PluginChoice, check_sql
from pymq.cli.message_text import Formatter, content
from pymq.cli.options import split_addresses
from pymq.cli.output import print_note, progress
from pymq.cli.tail_start import Start, StartKind
from pymq.cli.topic_work import user_topics
from pymq.client import Admin, MessageQueue, PullConsumer, PullStatus, StoredMessage
from pymq.client.local_filter import LocalFilter
from pymq.client.route_cache import why_not_read
from pymq.errors import (
    ExpressionError,
    NoQueueError,
    NotFoundError,
    PymqError,
    RefusedError,
    UnreachableError,
    UsageError,
)

PULL_COUNT = 1024  # brokers have their own limits
SUSPEND_MS = 15_000
LOOK_FOR_QUEUES_EVERY_S = 5.0
COMMIT_EVERY_S = 5.0
RETRY_AFTER_S = 1.0


class MessageSelection:
    """The messages to show. The broker applies ``tag`` or ``sql``, a filter server or this command applies ``plugin``.

    This command checks key and pattern.
    """

    def __init__(
        self,
        tag: str = "*",
        key: str | None = None,
        grep: str | None = None,
        sql: str | None = None,
        plugin: PluginChoice | None = None,
    ) -> None:
        """Raises UsageError for tags with SQL, for either with a filter server, and for a wrong expression."""
        self._tag = tag or "*"
        self._sql = sql
        self._remote = plugin if plugin is not None and plugin.via is not None else None
        self._plugin = None if plugin is None or self._remote is not None else _plugin_filter(plugin)
        if self._remote is not None and (sql is not None or self._tag != "*"):
            raise UsageError(
                "--via excludes --tag and --sql: filter servers run one filter, for example --filter sql92"
            )
        if sql is not None:
            if self._tag != "*":
                raise UsageError("--tag and --sql exclude each other: write TAGS = 'A' in the SQL")
            check_sql(sql)
        self._key = key
        try:
            self._pattern = re.compile(grep) if grep is not None else None
        except re.error as error:
            raise UsageError(f"--grep {grep!r} is not a regular expression: {error}") from error

    def pull_arguments(self) -> dict[str, Any]:
        """Returns the arguments for :meth:`PullConsumer.pull`."""
        if self._remote is not None:
            name, expression, via = self._remote
            return {"filter": name, "expression": expression, "via": via}
        return {"expression": self._tag, "sql": self._sql}

    def keep(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Returns those messages of one pull that match the plugin."""
        return messages if self._plugin is None or not messages else self._plugin.keep(messages).messages

    def matches(self, message: StoredMessage) -> bool:
        if self._key is not None and self._key not in message.keys.split() and self._key != message.message_id:
            return False
        return self._pattern is None or self._pattern.search(content(message).decode("utf-8", "replace")) is not None


@dataclass(frozen=True)
class TailOptions:
    """The options of the command. ``topics`` empty: all topics of applications. ``count`` None: no limit."""

    topics: list[str]
    start: Start
    count: int | None
    follow: bool
    selection: MessageSelection
    queue_id: int | None
    group: str
    commit: bool
    namesrv: str


@dataclass
class Cursor:
    """The position in one queue. ``offset``: the next to read; ``end``: the queue's end when the tail began;
    ``done``: the offset after the last message shown or skipped, which may be committed."""

    queue: MessageQueue
    offset: int
    end: int
    done: int
    committed: int = -1


class Tail:
    """One run of the command: writes formatted messages to ``out`` until it is done or interrupted."""

    def __init__(self, options: TailOptions, to_bytes: Formatter, out: BinaryIO) -> None:
        self._options = options
        self._to_bytes = to_bytes
        self._out = out
        self._left = options.count if options.count is not None else sys.maxsize
        self._cursors: dict[MessageQueue, Cursor] = {}
        self._namesrv = ";".join(split_addresses(options.namesrv))

    async def run(self) -> None:
        """Shows messages. Raises NotFoundError for an unknown topic, UnreachableError before anything was shown."""
        options = self._options
        async with PullConsumer(options.group, namesrv=self._namesrv) as pull, Admin(self._namesrv) as admin:
            queues = await self._find_queues(pull, admin)
            cursors = await asyncio.gather(*(self._begin(pull, queue) for queue in queues))
            self._cursors = {cursor.queue: cursor for cursor in cursors}
            try:
                await self._show_stored(pull, cursors)
                if options.follow and self._left:
                    await self._follow(pull, admin)
            finally:
                if options.commit:
                    await self._commit(pull)

    async def _find_queues(self, pull: PullConsumer, admin: Admin) -> list[MessageQueue]:
        topics = self._options.topics or await user_topics(admin)
        found: list[MessageQueue] = []
        for topic in topics:
            try:
                queues = await pull.queues(topic)
            except NotFoundError:
                if self._options.topics:
                    raise
                continue  # deleted since it was listed
            chosen = [queue for queue in queues if self._options.queue_id in (None, queue.queue_id)]
            if not queues and self._options.topics:
                raise NoQueueError(why_not_read(topic, await admin.topics.route(topic)))
            if not chosen and self._options.topics:
                raise NotFoundError(f"no queue {self._options.queue_id} in {topic}: it has {len(queues)} queues")
            found += chosen
        if not found and not self._options.topics:
            waiting = self._options.follow
            print_note("no topics of applications yet" + (": waiting for the first" if waiting else ""))
        return found

    async def _begin(self, pull: PullConsumer, queue: MessageQueue) -> Cursor:
        first, end = await asyncio.gather(pull.min_offset(queue), pull.max_offset(queue))
        kind, value = self._options.start.kind, self._options.start.value
        if kind is StartKind.FIRST:
            offset = first
        elif kind is StartKind.END:
            offset = end
        elif kind is StartKind.OFFSET:
            offset = value
        elif kind is StartKind.LAST:
            offset = end - value
        elif kind is StartKind.TIME:
            offset = await pull.offset_by_time(queue, value)
        else:
            committed = await pull.committed(queue)
            offset = first if committed is None else committed
        offset = min(max(offset, first), end)
        return Cursor(queue, offset, end, done=offset)

    # Stored messages

    async def _show_stored(self, pull: PullConsumer, cursors: list[Cursor]) -> None:
        streams = [self._stored(pull, cursor) for cursor in cursors if cursor.offset < cursor.end]
        total = sum(cursor.end - cursor.offset for cursor in cursors)
        try:
            if self._options.start.kind is StartKind.LAST:
                await self._show_last(cursors, streams)
                return
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

    async def _show_last(self, cursors: list[Cursor], streams: list[AsyncGenerator[StoredMessage, None]]) -> None:
        """Shows the last N messages over all queues; the streams yield the last N of each queue."""
        began = {cursor.queue: cursor.offset for cursor in cursors}
        parts = await asyncio.gather(*map(_collect, streams))
        messages = sorted((message for part in parts for message in part), key=_by_time)
        for cursor in cursors:
            cursor.done = began[cursor.queue]
        self._show(messages[-self._options.start.value :] if self._options.start.value else [])
        if self._left:
            for cursor in cursors:
                self._passed(cursor, cursor.end)

    async def _stored(self, pull: PullConsumer, cursor: Cursor) -> AsyncGenerator[StoredMessage, None]:
        """Yields the selected messages of one queue up to its end; pulls the next ones meanwhile."""
        pulling = asyncio.ensure_future(self._pull(pull, cursor.queue, cursor.offset))
        try:
            while cursor.offset < cursor.end:
                messages, next_offset = await pulling
                if next_offset < cursor.end:
                    pulling = asyncio.ensure_future(self._pull(pull, cursor.queue, next_offset))
                for message in messages:
                    if message.queue_offset < cursor.end and self._options.selection.matches(message):
                        yield message
                cursor.offset = min(next_offset, cursor.end)
                self._passed(cursor, cursor.offset)
        finally:
            pulling.cancel()

    async def _pull(
        self, pull: PullConsumer, queue: MessageQueue, offset: int, suspend_ms: int = 0
    ) -> tuple[list[StoredMessage], int]:
        """Returns messages from ``offset`` on, and the offset of the next pull."""
        selection = self._options.selection
        result = await pull.pull(queue, offset, PULL_COUNT, suspend_ms=suspend_ms, **selection.pull_arguments())
        if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset > offset:
            print_note(f"{_name(queue)}: offsets {offset} to {result.next_offset - 1} are no longer stored")
        return selection.keep(result.messages()) if result.status is PullStatus.FOUND else [], result.next_offset

    # New messages

    async def _follow(self, pull: PullConsumer, admin: Admin) -> None:
        arrivals: asyncio.Queue[tuple[Cursor, list[StoredMessage], int]] = asyncio.Queue(16)
        tasks: set[asyncio.Task[None]] = set()

        def follow(cursor: Cursor) -> None:
            tasks.add(asyncio.create_task(self._follow_queue(pull, cursor, arrivals)))

        for cursor in self._cursors.values():
            follow(cursor)
        tasks.add(asyncio.create_task(self._look_for_queues(pull, admin, follow)))
        if self._options.commit:
            tasks.add(asyncio.create_task(self._commit_often(pull)))
        try:
            while self._left:
                cursor, messages, next_offset = await arrivals.get()
                self._show(message for message in messages if self._options.selection.matches(message))
                if self._left:
                    self._passed(cursor, next_offset)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_queue(
        self,
        pull: PullConsumer,
        cursor: Cursor,
        arrivals: asyncio.Queue[tuple[Cursor, list[StoredMessage], int]],
    ) -> None:
        """Pulls one queue forever; when its broker can't be reached it prints that once and keeps trying."""
        failed = False
        while True:
            try:
                messages, next_offset = await self._pull(pull, cursor.queue, cursor.offset, SUSPEND_MS)
            except NotFoundError:
                print_note(f"{_name(cursor.queue)} is gone")
                del self._cursors[cursor.queue]
                return
            except (UnreachableError, RefusedError) as error:
                if not failed:
                    print_note(f"{_name(cursor.queue)}: {error}; trying again")
                failed = True
                await asyncio.sleep(RETRY_AFTER_S)
                continue
            if failed:
                print_note(f"{_name(cursor.queue)}: back")
                failed = False
            cursor.offset = next_offset
            await arrivals.put((cursor, messages, next_offset))

    async def _look_for_queues(self, pull: PullConsumer, admin: Admin, follow: Callable[[Cursor], None]) -> None:
        """Finds topics and queues that are created while the tail runs, and shows them from their start."""
        while True:
            await asyncio.sleep(LOOK_FOR_QUEUES_EVERY_S)
            try:
                for queue in await self._find_queues_quietly(pull, admin):
                    if queue not in self._cursors:
                        first = await pull.min_offset(queue)
                        self._cursors[queue] = Cursor(queue, first, first, done=first)
                        follow(self._cursors[queue])
            except PymqError:
                pass  # the name server can't be reached now; the known queues are followed

    async def _find_queues_quietly(self, pull: PullConsumer, admin: Admin) -> list[MessageQueue]:
        topics = self._options.topics or await user_topics(admin)
        queues = [queue for topic in topics for queue in await pull.queues(topic)]
        return [queue for queue in queues if self._options.queue_id in (None, queue.queue_id)]

    # Output and commits

    def _show(self, messages: Iterable[StoredMessage], *, flush: bool = True) -> None:
        """Writes messages up to the limit of ``count``."""
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


def _plugin_filter(plugin: PluginChoice) -> LocalFilter:
    from pymq.clock import SystemClock
    from pymq.filter.registry import installed_filters
    from pymq.filter.running import RunningFilter

    try:
        found = installed_filters().find(plugin.name)
        return LocalFilter(RunningFilter(found, plugin.expression, clock=SystemClock()))
    except ExpressionError as error:
        raise UsageError(f"--filter {plugin.name}: the expression is wrong at {error}") from error


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"


def _by_time(message: StoredMessage) -> tuple[int, int]:
    """Returns the sort key: the store time, and within a millisecond the offset in the log."""
    return message.store_timestamp_ms, message.physical_offset


async def _collect(stream: AsyncGenerator[StoredMessage, None]) -> list[StoredMessage]:
    return [message async for message in stream]


async def _merged(streams: list[AsyncGenerator[StoredMessage, None]]) -> AsyncGenerator[StoredMessage, None]:
    """Yields the messages of all streams, oldest first; each stream is in order of its offsets."""
    heads = []
    for at, stream in enumerate(streams):
        message = await anext(stream, None)
        if message is not None:
            heads.append((_by_time(message), at, message))
    heapq.heapify(heads)
    while heads:
        _, at, message = heads[0]
        yield message
        following = await anext(streams[at], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (_by_time(following), at, following))
