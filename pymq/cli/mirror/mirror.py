"""Runs a mirror: finds queues, copies each of them, saves how far they came, and stops at a consistent point."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymq.cli.common.options import request_credentials, split_addresses
from pymq.cli.mirror.copying import Copied, Copier
from pymq.cli.mirror.figures import Figures, show_live
from pymq.cli.mirror.messages import Clusters
from pymq.cli.mirror.progress import FileProgress, GroupProgress, Progress
from pymq.cli.mirror.targets import Targets, check_rename, cluster_name, target_queue
from pymq.cli.output import print_note
from pymq.cli.tail.outages import Outages
from pymq.cli.tail.sources import is_pattern, matching_topics
from pymq.client import Admin, Credentials, MessageQueue, Producer, PullConsumer
from pymq.client.ordered_sends import OrderedSends
from pymq.errors import NotFoundError, PymqError, UsageError
from pymq.operations.group.ensuring import ensure_group
from pymq.operations.pace import Pace
from pymq.operations.start import Start, StartKind

PRODUCER_GROUP = "PYMQ_MIRROR"
SAVE_EVERY_S = 1.0
LOOK_FOR_QUEUES_EVERY_S = 5.0
LAST_ANSWERS_WAIT_S = 10.0


@dataclass(frozen=True)
class MirrorOptions:
    """The options of the command. ``group`` or ``progress`` is set; ``start`` counts for queues without progress."""

    topics: list[str]
    source: str
    target: str
    target_credentials: Credentials | None
    group: str | None
    progress: Path | None
    start: Start
    rename: str
    create: bool
    once: bool
    rate_per_s: float | None
    skips_failures: bool
    source_name: str | None
    target_name: str | None


class Mirror:
    """One run of the command."""

    def __init__(self, options: MirrorOptions) -> None:
        """Raise UsageError for options that don't fit together."""
        if (options.group is None) == (options.progress is None):
            raise UsageError("a mirror keeps its progress in one place: give --group NAME or --progress FILE")
        check_rename(options.rename)
        self._options = options
        self.figures = Figures()
        self.has_begun = False  # to copy: before, there is nothing to show
        self._outages = Outages(lambda text: print_note(f"pymq: source: {text}"))
        self._target_outages = Outages(lambda text: print_note(f"pymq: target: {text}"))
        self._copied: dict[MessageQueue, Copied] = {}
        self._source_names = ";".join(split_addresses(options.source))
        self._target_names = ";".join(split_addresses(options.target))

    async def run(self) -> None:
        """Copy until everything that was there is copied (``once``), or without end.

        Cancelled, it waits for the answers to what it sent, and saves. Raises CopyError, NotFoundError,
        UnreachableError, UsageError.
        """
        options, source_credentials = self._options, request_credentials.get()
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(Admin(self._source_names, credentials=source_credentials))
            target = await stack.enter_async_context(Admin(self._target_names, credentials=options.target_credentials))
            names = await self._names(source, target)
            if options.group is not None:
                await ensure_group(source, options.group, create=True)
            pull = await stack.enter_async_context(
                PullConsumer(
                    options.group or "TOOLS_CONSUMER", namesrv=self._source_names, credentials=source_credentials
                )
            )
            producer = await stack.enter_async_context(
                Producer(PRODUCER_GROUP, namesrv=self._target_names, credentials=options.target_credentials)
            )
            progress: Progress = (
                GroupProgress(pull) if options.progress is None else FileProgress(options.progress, *names)
            )
            stack.callback(progress.close)
            sends = OrderedSends(
                producer, retry_count=None, stops_after_failure=not options.skips_failures, on_trouble=self._trouble
            )
            copier = Copier(
                pull,
                sends,
                self.figures,
                self._outages,
                Pace(options.rate_per_s),
                clusters=names,
                skips_failures=options.skips_failures,
            )
            targets = Targets(source, target, producer, options.rename, create=options.create)
            await self._copy(source, pull, progress, targets, sends, copier)

    async def _names(self, source: Admin, target: Admin) -> Clusters:
        options = self._options
        names = Clusters(
            await cluster_name(source, options.source_name, "--source-name", "source"),
            await cluster_name(target, options.target_name, "--target-name", "target"),
        )
        if names.source == names.target:
            raise UsageError(
                f"source and target are both called {names.source}: give --source-name and --target-name, and use the "
                "same names in every mirror, because messages remember where they have been"
            )
        return names

    def _trouble(self, queue: MessageQueue, error: PymqError | None) -> None:
        if error is None:
            self.figures.failing.discard(("target", queue))
            self._target_outages.worked(queue)
        else:
            self.figures.failing.add(("target", queue))
            self._target_outages.failed(queue, error)

    async def _copy(
        self,
        source: Admin,
        pull: PullConsumer,
        progress: Progress,
        targets: Targets,
        sends: OrderedSends,
        copier: Copier,
    ) -> None:
        tasks: set[asyncio.Task[None]] = set()
        helpers = [asyncio.create_task(show_live(self.figures)), asyncio.create_task(self._save_often(progress))]

        async def begin(queues: list[MessageQueue], start: Start) -> None:
            for queue in queues:
                if queue not in self._copied:
                    at, end = await self._begin(pull, progress, targets, queue, start)
                    self._copied[queue] = at
                    tasks.add(asyncio.create_task(copier.copy(at, end if self._options.once else None)))

        try:
            await begin(await self._queues(source, pull, is_first=True), self._options.start)
            self.has_begun = True
            if not self._options.once:
                helpers.append(asyncio.create_task(self._look_for_queues(source, pull, begin)))
            await _until_all_or_failure(tasks, copier.failure, is_endless=not self._options.once)
            await sends.flush()
            if copier.failure.done():
                await copier.failure
        finally:
            for task in (*tasks, *helpers):
                task.cancel()
            await asyncio.gather(*tasks, *helpers, return_exceptions=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(sends.flush(), LAST_ANSWERS_WAIT_S)
            await sends.cancel()
            await self._save(progress)
            if copier.failure.done() and not copier.failure.cancelled():
                copier.failure.exception()  # it is raised above, or a signal came first

    async def _queues(self, source: Admin, pull: PullConsumer, *, is_first: bool) -> list[MessageQueue]:
        names = [name for name in self._options.topics if not is_pattern(name)]
        patterns = [name for name in self._options.topics if is_pattern(name)]
        topics = list(dict.fromkeys([*names, *(await matching_topics(source, patterns) if patterns else [])]))
        if is_first and not topics:
            if self._options.once:
                raise NotFoundError(f"no topic at the source matches {' '.join(patterns)}")
            print_note(f"pymq: no topic matches {' '.join(patterns)} yet: waiting for the first")
        found: list[MessageQueue] = []
        for topic in topics:
            try:
                found += await pull.queues(topic)
            except NotFoundError:
                if is_first and topic in names:
                    raise
        return found

    async def _begin(
        self, pull: PullConsumer, progress: Progress, targets: Targets, queue: MessageQueue, start: Start
    ) -> tuple[Copied, int]:
        """Return the position to begin at, and the queue's end."""
        target = target_queue(queue, await targets.queues(queue.topic))
        first, end = await asyncio.gather(pull.min_offset(queue), pull.max_offset(queue))
        offset = await progress.offset(queue)
        if offset is None:
            offset = first
            if start.kind is StartKind.END:
                offset = end
            elif start.kind is StartKind.TIME:
                offset = await pull.offset_by_time(queue, start.value)
        return Copied(queue, target, offset, done=offset), end

    async def _look_for_queues(self, source: Admin, pull: PullConsumer, begin: Callable[..., Any]) -> None:
        """Find topics and queues that are created while the mirror runs, and copies them from their start."""
        while True:
            await asyncio.sleep(LOOK_FOR_QUEUES_EVERY_S)
            with suppress(PymqError):  # a cluster that can't be reached now; the known queues are copied
                await begin(await self._queues(source, pull, is_first=False), Start(StartKind.FIRST))

    async def _save_often(self, progress: Progress) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            try:
                await self._save(progress)
            except PymqError as error:
                print_note(f"pymq: the progress can't be saved now: {error}; trying again")

    async def _save(self, progress: Progress) -> None:
        offsets = {one.queue: one.done for one in self._copied.values() if one.done != one.saved}
        if offsets:
            await progress.save(offsets)
            for queue, offset in offsets.items():
                self._copied[queue].saved = offset


async def _until_all_or_failure(
    tasks: set[asyncio.Task[None]], failure: asyncio.Future[None], *, is_endless: bool
) -> None:
    """Wait for all tasks (for ever if ``is_endless``), for a failed one, or for ``failure``."""
    while not failure.done():
        running = {task for task in tasks if not task.done()}
        for task in tasks - running:
            task.result()
        if not running and not is_endless:
            return
        await asyncio.wait({failure, *running}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
