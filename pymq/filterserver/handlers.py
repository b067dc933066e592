"""The requests that consumers send to a filter server: upload a filter class (302), pull (11), read its figures (28).

A pull may carry its class (with both the subscription and the class filter bit). It needs no earlier request, so
clients that manage their own offsets, and send no heartbeats, can use it.

Tasks of the event loop send the answers later.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Coroutine
from typing import Any

import msgspec

from pymq.errors import PymqError, Refusal, RefusedError, UnreachableError
from pymq.filter.running import EXPRESSION_LENGTH_MAX
from pymq.filterserver.broker_link import BrokerLink
from pymq.filterserver.classes import CARRIED, UPLOADED, ClassTable, FilterClass, FilterText, Key, parse_class
from pymq.filterserver.figures import figures
from pymq.filterserver.filtering import Filtering
from pymq.filterserver.workers import Filter, WorkerPool
from pymq.model import sysflag
from pymq.model.access import Action
from pymq.model.names import check_group, check_topic
from pymq.net.memory_budget import PARKED_REQUESTS, MemoryBudget
from pymq.wire.access import cluster, group, needs, topic
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_route import KvTable
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Route, error_reply
from pymq.wire.header import decode_header
from pymq.wire.headers.filter_server import RegisterFilterClassHeader
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

SOURCE_SIZE_MAX_BYTES = 128 * 1024
PENDING_COUNT_MAX = 4096
PENDING_BYTES = 8192  # of one request that waits, without its expression. Measured
SUBSCRIPTION_LENGTH_MAX = EXPRESSION_LENGTH_MAX + 1024  # a class name and its expression


class FilterServerHandlers:
    """Answers consumers with the broker's messages, filtered."""

    def __init__(
        self, *, link: BrokerLink, classes: ClassTable, workers: WorkerPool, filtering: Filtering, budget: MemoryBudget
    ) -> None:
        self._budget = budget
        self._link = link
        self._classes = classes
        self._workers = workers
        self._filtering = filtering
        self._tasks: set[asyncio.Task[None]] = set()
        self._learning: dict[Key, asyncio.Lock] = {}
        self._dismissal_count = 0

    @property
    def pending_count(self) -> int:
        """The number of requests that wait for their answer."""
        return len(self._tasks)

    def routes(self) -> list[Route]:
        """Return the filter server's route table."""
        consume = needs(topic(Action.SUB), group(Action.SUB))
        figures_access = needs(cluster(Action.GET))
        return [
            Route(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, RegisterFilterClassHeader, self.take_class, consume),
            Route(RequestCode.PULL_MESSAGE, PullMessageHeader, self.pull, consume),
            Route(RequestCode.GET_BROKER_RUNTIME_INFO, None, self.runtime_info, figures_access),
        ]

    def take_class(self, request: Command, header: RegisterFilterClassHeader, peer: Peer) -> Reply | None:
        """Take a consumer's filter class; compile it before the answer."""
        group, topic = check_group(header.consumer_group), check_topic(header.topic)
        text = parse_class(header.class_name, _source(request.body, header.class_crc))
        known = self._classes.find(group, topic)
        if known is not None and known.text == text and known.version == UPLOADED:
            return Reply()
        self._classes.check_room(group, topic)
        self._answer_later(request, peer, self._take_class(group, topic, text), len(text.expression))
        return None

    def pull(self, request: Command, header: PullMessageHeader, peer: Peer) -> Reply | None:
        """Answer with the broker's messages that match the group's filter."""
        length = len(header.subscription or "")
        if length > SUBSCRIPTION_LENGTH_MAX:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"the subscription has {length} characters, the limit is {SUBSCRIPTION_LENGTH_MAX}: shorten it",
            )
        self._answer_later(request, peer, self._pull(header, peer), length)
        return None

    def runtime_info(self, request: Command, header: None, peer: Peer) -> Reply:
        """Answer with the server's figures and those of each group."""
        return Reply(
            body=encode_body(KvTable(table=figures(self._link, self._classes, self._workers, len(self._tasks))))
        )

    def dismiss_all(self) -> None:
        """Let every pull that waits now end without messages: the consumers pull, and are checked, again."""
        self._dismissal_count += 1

    async def stop(self) -> None:
        """Drop the requests that wait for an answer."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- later answers -------------------------------------------------------------------------------------------

    def _answer_later(self, request: Command, peer: Peer, work: Coroutine[Any, Any, Reply], text_length: int) -> None:
        size_bytes = PENDING_BYTES + text_length
        try:
            self._budget.check_room(size_bytes, "a waiting request")
        except Refusal:
            work.close()
            raise
        if len(self._tasks) >= PENDING_COUNT_MAX:
            work.close()
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._tasks)} requests wait at this filter server, the limit is {PENDING_COUNT_MAX}: start "
                "another one",
            )
        task = asyncio.get_running_loop().create_task(self._answer(request.envelope(), peer, work))
        self._budget.hold_for(peer, PARKED_REQUESTS, size_bytes)
        task.add_done_callback(lambda _: self._budget.hold_for(peer, PARKED_REQUESTS, -size_bytes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Command, peer: Peer, work: Coroutine[Any, Any, Reply]) -> None:
        try:
            reply = await work
        except UnreachableError as error:
            reply = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, f"the filter server's broker: {error}")
        except RefusedError as error:
            reply = Reply(error.code, error.remark)
        except PymqError as error:
            reply = error_reply(error)
        except Exception as error:
            log.exception("a request of %s failed", peer.address)
            reply = Reply(
                ResponseCode.SYSTEM_ERROR, f"failed inside the filter server: {type(error).__name__}: {error}"
            )
        peer.answer(request, reply)

    # -- classes -------------------------------------------------------------------------------------------------

    async def _take_class(self, group: str, topic: str, text: FilterText) -> Reply:
        await self._compile(group, topic, text, UPLOADED)
        return Reply()

    async def _compile(self, group: str, topic: str, text: FilterText, version: int) -> FilterClass:
        compiled = Filter(text.name, text.expression)
        if error := await self._workers.compile(compiled):
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"filter {text.name} of {group} for {topic}: {error}")
        log.info("%s reads %s through filter %s", group, topic, text.name)
        return self._classes.put(group, topic, text, compiled, version)

    async def _class_for(self, header: PullMessageHeader) -> FilterClass:
        """Return the class of a pull: the one it carries, the uploaded one, or the one in the consumer's heartbeats."""
        group, topic = check_group(header.consumer_group), check_topic(header.topic)
        carried = _carried(header)
        known = self._classes.find(group, topic, carried)
        if known is not None and _is_current(known, header):
            return known
        key = group, topic, carried
        lock = self._learning.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                known = self._classes.find(group, topic, carried)
                if known is not None and _is_current(known, header):
                    return known
                if carried is not None:
                    self._classes.check_room(group, topic, carried)
                    return await self._compile(group, topic, carried, CARRIED)
                return await self._learn(group, topic, header.sub_version, known)
        finally:
            if not lock.locked():
                self._learning.pop(key, None)

    async def _learn(self, group: str, topic: str, sub_version: int, known: FilterClass | None) -> FilterClass:
        """Return the class from the group's heartbeats: Java clients from 5.0 on name it there and don't upload it."""
        found = await self._link.subscription(group, topic)
        if found is None or not found.class_filter_mode:
            raise Refusal(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"no filter of {group} for {topic} is known here: the consumer's next heartbeat brings it",
            )
        if found.sub_version < sub_version:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"{group}'s subscription to {topic} is of version {found.sub_version} at the broker, the pull's is "
                f"{sub_version}: the next heartbeat brings it",
            )
        text = parse_class(found.sub_string or "", None)
        if known is not None and known.text == text:
            known.version = found.sub_version
            return known
        return await self._compile(group, topic, text, found.sub_version)

    # -- pulls ---------------------------------------------------------------------------------------------------

    async def _pull(self, header: PullMessageHeader, peer: Peer) -> Reply:
        dismissal_count = self._dismissal_count
        filter_class = await self._class_for(header)
        answer = await self._link.pull(header)
        if answer.code not in _PULL_RESULTS:
            return Reply(answer.code, answer.remark)
        header_in = decode_header(PullMessageAnswer, answer.ext)
        if self._dismissal_count != dismissal_count:
            nothing = msgspec.structs.replace(header_in, next_begin_offset=header.queue_offset)
            return Reply(ResponseCode.PULL_NOT_FOUND, "users or permissions have changed: pull again", nothing)
        code, remark, body, next_offset = answer.code, answer.remark, b"", header_in.next_begin_offset
        if code == ResponseCode.SUCCESS and answer.body:
            self._filtering.broker_name = self._link.broker_name
            self._budget.hold_for(peer, PARKED_REQUESTS, len(answer.body))
            try:
                filtered = await self._filtering.run(filter_class, header.queue_id, answer.body)
            finally:
                self._budget.hold_for(peer, PARKED_REQUESTS, -len(answer.body))
            if filtered.stopped_by:
                return Reply(ResponseCode.SYSTEM_ERROR, filtered.stopped_by)
            body = b"".join(filtered.parts)
            if filtered.next_offset is not None:
                next_offset = filtered.next_offset
            if not body:
                code, remark = ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"
        header_out = PullMessageAnswer(
            next_begin_offset=next_offset, min_offset=header_in.min_offset, max_offset=header_in.max_offset
        )
        return Reply(code, remark, header_out, body)


_PULL_RESULTS = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def _carried(header: PullMessageHeader) -> FilterText | None:
    """Return the class that the pull of a client without a consumer group carries, or None. Raises Refusal."""
    if not (header.sys_flag & sysflag.PULL_SUBSCRIPTION and header.sys_flag & sysflag.PULL_CLASS_FILTER):
        return None
    return parse_class(header.subscription or "", None)


def _is_current(known: FilterClass, header: PullMessageHeader) -> bool:
    return known.version in (UPLOADED, CARRIED) or known.version >= header.sub_version


def _source(body: bytes, crc: int) -> str:
    """Return the source text of a class. Raises Refusal."""
    if len(body) > SOURCE_SIZE_MAX_BYTES:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the class's source has {len(body)} bytes, the limit is {SOURCE_SIZE_MAX_BYTES}: shorten the expression",
        )
    found = zlib.crc32(body) & 0x7FFFFFFF
    if crc not in (0, found):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"the class's source has CRC {found}, classCRC says {crc}: send it again"
        )
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"the class's source is not UTF-8: {error}") from error
