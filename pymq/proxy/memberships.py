"""Memberships: brokers know the proxy's clients as members of their groups, so that tools show them.

A broker knows one member of a group for each connection. So members of one group have connections of their own, up to
LANE_COUNT_MAX, which groups share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from pymq.errors import PymqError
from pymq.model.javahash import string_hash
from pymq.model.names import retry_topic
from pymq.model.route import TopicRoute
from pymq.net.client import RemotingClient
from pymq.proxy.protocol.names import FilterType
from pymq.proxy.sessions import Session
from pymq.wire.bodies_client import ConsumerData, HeartbeatData, SubscriptionData, encode_body
from pymq.wire.codes import LANGUAGE_CODES, RequestCode
from pymq.wire.command import request
from pymq.wire.headers.client import UnregisterClientHeader

log = logging.getLogger(__name__)

LANE_COUNT_MAX = 32  # a group's further members receive as all others do, but no tool shows them
TIMEOUT_S = 3.0
# As the metadata names them; brokers have other names.
_LANGUAGES = {"GOLANG": "GO", "DOT_NET": "DOTNET", "NODE_JS": "NODE_JS"}


class _Lane:
    """A connection to each broker, with at most one member of each group."""

    def __init__(self, client: RemotingClient) -> None:
        self.client = client
        self.members: dict[str, str] = {}  # group -> client id


class Memberships:
    """``connect(language)`` makes a client; ``route(topic)`` returns a topic's route."""

    def __init__(self, connect: Callable[[str], RemotingClient], route: Callable[[str], Awaitable[TopicRoute]]) -> None:
        self._connect = connect
        self._route = route
        self._lanes: dict[str, list[_Lane]] = {}  # by language
        self._lane_of: dict[str, _Lane] = {}  # by client id
        self._tasks: dict[str, asyncio.Task[None]] = {}  # the last one of each client

    def __len__(self) -> int:
        return len(self._lane_of)

    def join(self, session: Session) -> None:
        """Tell the brokers of a client, or of its new subscriptions; call it again now and then."""
        lane = self._lane_of.get(session.client_id) or self._free_lane(session)
        if lane is not None:
            self._lane_of[session.client_id] = lane
            lane.members[session.group] = session.client_id
            self._spawn(session, self._beat(lane, session))

    def leave(self, session: Session) -> None:
        """Tell the brokers that a client has left."""
        lane = self._lane_of.pop(session.client_id, None)
        if lane is not None:
            self._spawn(session, self._unregister(lane, session))

    async def close(self) -> None:
        """End all connections: brokers notice it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        lanes = [lane for lanes in self._lanes.values() for lane in lanes]
        await asyncio.gather(*[lane.client.close() for lane in lanes])

    def _free_lane(self, session: Session) -> _Lane | None:
        language = _LANGUAGES.get(session.language, session.language)
        language = language if language in LANGUAGE_CODES else "OTHER"
        lanes = self._lanes.setdefault(language, [])
        for lane in lanes:
            if session.group not in lane.members:
                return lane
        if len(lanes) >= LANE_COUNT_MAX:
            return None
        lanes.append(_Lane(self._connect(language)))
        return lanes[-1]

    async def _beat(self, lane: _Lane, session: Session) -> None:
        body = encode_body(HeartbeatData(client_id=session.client_id, consumer_data_set=[consumer_data(session)]))
        addresses = await self._addresses(session)
        for address in addresses:
            try:
                await lane.client.invoke_ok(address, request(RequestCode.HEART_BEAT, body=body), TIMEOUT_S)
                session.joined.add(address)
            except PymqError as error:
                log.info("%s does not know the member %s: %s", address, session.client_id, error)

    async def _unregister(self, lane: _Lane, session: Session) -> None:
        header = UnregisterClientHeader(client_id=session.client_id, consumer_group=session.group)
        for address in session.joined:
            try:
                await lane.client.invoke(address, request(RequestCode.UNREGISTER_CLIENT, header), TIMEOUT_S)
            except PymqError as error:
                log.debug("%s was not asked to forget %s: %s", address, session.client_id, error)
        if lane.members.get(session.group) == session.client_id:
            del lane.members[session.group]

    async def _addresses(self, session: Session) -> Iterable[str]:
        addresses: set[str] = set()
        for entry in session.settings.subscription.subscriptions:
            try:
                route = await self._route(entry.topic.name)
            except PymqError as error:
                log.debug("no route for the member %s: %s", session.client_id, error)
                continue
            addresses.update(address for broker in route.broker_datas for address in broker.broker_addrs.values())
        return sorted(addresses)

    def _spawn(self, session: Session, work: Coroutine[Any, Any, None]) -> None:
        """Start work for a client after what was begun before: its end must not overtake its heartbeat."""
        client_id, before = session.client_id, self._tasks.get(session.client_id)

        async def follow() -> None:
            if before is not None:
                await asyncio.wait((before,))
            await work

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(client_id) is task:
                del self._tasks[client_id]

        task = self._tasks[client_id] = asyncio.get_running_loop().create_task(follow())
        task.add_done_callback(ended)


def consumer_data(session: Session) -> ConsumerData:
    """Return a client's part of a heartbeat."""
    subscriptions = [_subscription(entry) for entry in session.settings.subscription.subscriptions]
    return ConsumerData(
        group_name=session.group,
        consume_type="CONSUME_PASSIVELY" if session.is_push else "CONSUME_ACTIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=[*subscriptions, SubscriptionData(topic=retry_topic(session.group))],
    )


def _subscription(entry: Any) -> SubscriptionData:
    text = entry.expression.expression or "*"
    if entry.expression.type == FilterType.SQL:
        return SubscriptionData(topic=entry.topic.name, sub_string=text, expression_type="SQL92")
    tags = [] if text == "*" else [tag for part in text.split("||") if (tag := part.strip())]
    codes = [string_hash(tag) for tag in tags]
    return SubscriptionData(topic=entry.topic.name, sub_string=text, tags_set=tags, code_set=codes)
