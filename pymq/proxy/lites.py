"""Lite topics: SyncLiteSubscription, and what brokers say of subscriptions that another client ended.

Brokers keep the subscriptions. A client sends its whole set again from time to time, so no proxy keeps one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.model.lite_topics import lite_name_problem
from pymq.proxy.backend import Backend
from pymq.proxy.calls import Call, status_ok
from pymq.proxy.checks import check_client_id, check_group, check_topic
from pymq.proxy.clients import Stream
from pymq.proxy.protocol.messages import SyncLiteSubscriptionResponse, TelemetryCommand
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.sessions import Session, Sessions
from pymq.wire import bodies_lites as wire

log = logging.getLogger(__name__)

_OPTIONS = {"policy": wire.POLICY, "offset": wire.OFFSET, "tail_n": wire.TAIL_N, "timestamp": wire.TIMESTAMP}


class Lites:
    """Passes clients' subscriptions to lite topics on to brokers."""

    def __init__(self, backend: Backend, sessions: Sessions, clock: Clock) -> None:
        self._backend = backend
        self._sessions = sessions
        self._clock = clock
        self._leaving: set[asyncio.Task[None]] = set()

    async def sync_lite_subscription(self, call: Call, request: Any) -> Any:
        """Change a client's set of lite topics at all brokers of the parent topic."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        session = self._sessions.touch(check_client_id(call.client_id), call.user, self._clock.monotonic_ms())
        if session is None or not session.is_lite:
            text = f"client {call.client_id} is no lite consumer: open a Telemetry stream with its settings first"
            raise ProxyRefusal(Code.UNRECOGNIZED_CLIENT_TYPE, text)
        if session.group != group:
            text = f"the settings of client {call.client_id} name group {session.group}, not {group}"
            raise ProxyRefusal(Code.ILLEGAL_CONSUMER_GROUP, text)
        if not 0 <= request.action < len(wire.ACTIONS):
            raise ProxyRefusal(Code.BAD_REQUEST, f"the action {request.action} is unknown: use 0 to 3")
        for lite in request.lite_topic_set:
            problem = lite_name_problem(lite)
            if problem is not None:
                raise ProxyRefusal(Code.ILLEGAL_LITE_TOPIC, problem)
        entry = wire.LiteSubscription(
            action=wire.ACTIONS[request.action],
            client_id=call.client_id,
            group=group,
            topic=topic,
            lite_topic_set=list(request.lite_topic_set),
            offset_option=_option_of(request),
            version=request.version,
        )
        await self._backend.subscribe_lites(entry)
        return SyncLiteSubscriptionResponse(status=status_ok())

    def unsubscribed(self, client_id: str, group: str, lite: str) -> None:
        """Tell a client that another one has the lite topic now."""
        session = self._sessions.find(client_id)
        if session is None or session.group != group or not isinstance(session.stream, Stream):
            return
        command = TelemetryCommand(status=status_ok())
        command.notify_unsubscribe_lite_command.lite_topic = lite
        session.stream.send(command)

    def left(self, session: Session) -> None:
        """End the subscriptions of a client that has left."""
        for topic in {entry.topic.name for entry in session.settings.subscription.subscriptions}:
            entry = wire.LiteSubscription(
                action=wire.COMPLETE_REMOVE, client_id=session.client_id, group=session.group, topic=topic
            )
            task = asyncio.get_running_loop().create_task(self._leave(entry))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _leave(self, entry: wire.LiteSubscription) -> None:
        try:
            await self._backend.subscribe_lites(entry)
        except PymqError as error:
            log.info("subscriptions of client %s end when brokers notice: %s", entry.client_id, error)

    async def stop(self) -> None:
        """Wait for what is under way."""
        if self._leaving:
            await asyncio.wait(self._leaving)


def _option_of(request: Any) -> wire.LiteOffsetOption | None:
    """Return where a request wants its group to begin; None where it is."""
    kind = request.offset_option.WhichOneof("offset_type") if request.HasField("offset_option") else None
    if kind is None:
        return None
    return wire.LiteOffsetOption(type=_OPTIONS[kind], value=getattr(request.offset_option, kind))
