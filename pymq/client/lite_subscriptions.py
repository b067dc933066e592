"""The lite topics that a client subscribes to, and what its brokers know of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from pymq.client.instance import ClientInstance
from pymq.errors import PymqError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_lites import (
    COMPLETE_ADD,
    COMPLETE_REMOVE,
    PARTIAL_ADD,
    PARTIAL_REMOVE,
    LiteOffsetOption,
    LiteSubscription,
    LiteSubscriptions,
)
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.lites import NotifyUnsubscribeLiteHeader
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

# Brokers drop a client that they have not heard of for three minutes.
RENEW_INTERVAL_S = 30.0
LEAVE_TIMEOUT_S = 1.0

OnLost = Callable[[str], object]


class ClientSubscriptions:
    """One client's lite topics of ``parent``, which all brokers of it know.

    A broker that was away gets the whole set again before it is asked for messages.
    """

    def __init__(self, instance: ClientInstance, group: str, parent: str, on_lost: OnLost | None) -> None:
        """``on_lost(lite_topic)``: another client of an exclusive group has subscribed to it."""
        self._instance = instance
        self._group = group
        self._parent = parent
        self._on_lost = on_lost
        self._version = 0
        self._known: set[str] = set()  # addresses of brokers that know the whole set
        self._takes_all = False
        self.names: set[str] = set()

    async def add(self, names: Sequence[str], option: LiteOffsetOption | None) -> None:
        """Subscribe to lite topics, or with ``option`` move the group there.

        Raises RefusedError when a broker refuses, and then none of the new ones is subscribed to; NotFoundError;
        UnreachableError when no broker answers.
        """
        new = [name for name in names if name not in self.names]
        self.names.update(new)
        try:
            await self._tell(PARTIAL_ADD, names, option)
        except PymqError:
            self.names.difference_update(new)
            if new:
                await self._quietly(PARTIAL_REMOVE, new)
            raise

    async def remove(self, names: Sequence[str]) -> None:
        """Unsubscribe. Raises NotFoundError, RefusedError, UnreachableError when no broker answers."""
        self.names.difference_update(names)
        await self._tell(PARTIAL_REMOVE, names)

    async def add_all(self) -> None:
        """Join a group that gets all lite topics. Raises as :meth:`remove`."""
        self._takes_all = True
        await self._tell(COMPLETE_ADD, ())

    async def ensure(self, broker_name: str) -> None:
        """Send the whole set to a broker that may not know it. Raises RefusedError, UnreachableError."""
        if self._has_some and await self._address(broker_name) not in self._known:
            await self._send(broker_name, COMPLETE_ADD, self.names)

    async def renew(self) -> None:
        """Send the whole set to all brokers, so that they go on to know it. Raises NotFoundError."""
        if self._has_some:
            await self._quietly(COMPLETE_ADD, self.names)

    async def leave(self) -> None:
        """Have all brokers forget this client, as far as they answer within a second."""
        command = self._request(COMPLETE_REMOVE, ())
        calls = [self._instance.remoting.invoke(address, command, LEAVE_TIMEOUT_S) for address in self._known]
        await asyncio.gather(*calls, return_exceptions=True)

    def lost_connection(self, address: str) -> None:
        """Take note that the broker may have forgotten this client: it ends subscriptions with their connection."""
        self._known.discard(address)

    def handle(self, command: Command, address: str) -> Reply | None:
        """Serve a broker's request: an exclusive group's lite topic belongs to another client now."""
        if command.code != RequestCode.NOTIFY_UNSUBSCRIBE_LITE:
            text = f" request type {command.code} not supported by this consumer"
            return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
        header = decode_header(NotifyUnsubscribeLiteHeader, command.ext)
        is_mine = header.client_id == self._instance.client_id and header.consumer_group == self._group
        if is_mine and header.lite_topic in self.names:
            self.names.discard(header.lite_topic)
            log.info("group %s: another client has the lite topic %s now", self._group, header.lite_topic)
            if self._on_lost is not None:
                self._on_lost(header.lite_topic)
        return None

    @property
    def _has_some(self) -> bool:
        return bool(self.names) or self._takes_all

    async def _tell(self, action: str, names: Iterable[str], option: LiteOffsetOption | None = None) -> None:
        """Send a change to all brokers; one that can't be reached gets the whole set later."""
        brokers = await self._instance.routes.brokers_to_read(self._parent)
        sent = [self._send(broker, action, names, option) for broker in brokers]
        results = await asyncio.gather(*sent, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        refusals = [error for error in failures if not isinstance(error, UnreachableError)]
        if refusals or len(failures) == len(results):
            raise (refusals or failures)[0]

    async def _quietly(self, action: str, names: Iterable[str]) -> None:
        try:
            await self._tell(action, names)
        except PymqError as error:
            log.info("group %s: brokers of %s may not know its lite topics: %s", self._group, self._parent, error)

    async def _send(
        self, broker_name: str, action: str, names: Iterable[str], option: LiteOffsetOption | None = None
    ) -> None:
        address = await self._address(broker_name)
        try:
            await self._instance.remoting.invoke_ok(address, self._request(action, names, option))
        except UnreachableError:
            self._known.discard(address)
            raise
        if action == COMPLETE_ADD or (action == PARTIAL_ADD and self.names <= set(names)):
            self._known.add(address)

    def _request(self, action: str, names: Iterable[str], option: LiteOffsetOption | None = None) -> Command:
        self._version += 1
        entry = LiteSubscription(
            action=action,
            client_id=self._instance.client_id,
            group=self._group,
            topic=self._parent,
            lite_topic_set=sorted(names),
            offset_option=option,
            version=self._version,
        )
        return request(RequestCode.LITE_SUBSCRIPTION_CTL, body=encode_body(LiteSubscriptions(subscription_set=[entry])))

    async def _address(self, broker_name: str) -> str:
        return await self._instance.routes.write_address(MessageQueue(self._parent, broker_name, 0))
