"""BrokerLink: the filter server as a client of its one broker: reports, pulls, and what a group subscribes to."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

import msgspec

from pymq.errors import PymqError, RefusedError
from pymq.model import sysflag
from pymq.wire.bodies_admin import SubscriptionAnswer, decode_admin_body
from pymq.wire.bodies_client import SubscriptionData
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.admin import TopicGroupHeader
from pymq.wire.headers.filter_server import RegisterFilterServerAnswer, RegisterFilterServerHeader
from pymq.wire.headers.pull import PullMessageHeader

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = 10.0
REPORT_RETRY_S = 1.0
REQUEST_TIMEOUT_S = 3.0
SUSPEND_SLACK_S = 10.0  # a broker answers a parked pull some seconds late at most
PULL_BYTES_MAX = 256 * 1024
EVERYTHING = "*"


class Invoker(Protocol):
    """What is needed of :class:`pymq.net.client.RemotingClient`."""

    async def invoke(self, address: str, command: Command, timeout_s: float = 3.0) -> Command: ...

    async def invoke_ok(self, address: str, command: Command, timeout_s: float = 3.0) -> Command: ...


class BrokerLink:
    """Requests to the broker at ``broker`` ("host:port"). ``own_address`` is what consumers are to connect to."""

    def __init__(self, client: Invoker, broker: str, own_address: str) -> None:
        self.broker = broker
        self.broker_name = ""  # known after the first report
        self.is_registered = False
        self._client = client
        self._own_address = own_address
        self._lost = asyncio.Event()
        self._told = False

    def note_lost(self) -> None:
        """The connection has ended: the broker has forgotten this server, a report is due."""
        self._lost.set()

    async def keep_registered(self) -> None:
        """Reports every 10 s, and again soon when the broker was away. Runs until it is cancelled."""
        while True:
            self._lost.clear()
            await self._report()
            if not self.is_registered:
                await asyncio.sleep(REPORT_RETRY_S)
                continue
            try:
                async with asyncio.timeout(REPORT_INTERVAL_S):
                    await self._lost.wait()
            except TimeoutError:
                continue

    async def pull(self, header: PullMessageHeader) -> Command:
        """The broker's answer to a consumer's pull without its filter, in the name of the consumer's group.

        Raises UnreachableError.
        """
        plain = msgspec.structs.replace(
            header,
            sys_flag=header.sys_flag & ~sysflag.PULL_CLASS_FILTER | sysflag.PULL_SUBSCRIPTION,
            subscription=EVERYTHING,
            expression_type=None,
            sub_version=0,
            max_msg_bytes=min(header.max_msg_bytes or PULL_BYTES_MAX, PULL_BYTES_MAX),
        )
        timeout_s = REQUEST_TIMEOUT_S + SUSPEND_SLACK_S + max(header.suspend_timeout_millis, 0) / 1000
        return await self._client.invoke(self.broker, request(RequestCode.PULL_MESSAGE, plain), timeout_s)

    async def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What the group's heartbeats say of the topic; None when it isn't connected there.

        Raises UnreachableError, RefusedError.
        """
        header = TopicGroupHeader(topic=topic, group=group)
        command = request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
        answer = await self._client.invoke_ok(self.broker, command, REQUEST_TIMEOUT_S)
        return decode_admin_body(SubscriptionAnswer, answer.body).subscription_data

    async def _report(self) -> None:
        header = RegisterFilterServerHeader(filter_server_addr=self._own_address)
        command = request(RequestCode.REGISTER_FILTER_SERVER, header)
        try:
            answer = await self._client.invoke_ok(self.broker, command, REQUEST_TIMEOUT_S)
            told = decode_header(RegisterFilterServerAnswer, answer.ext)
        except PymqError as error:
            self._note_failure(error)
            return
        if not self.is_registered:
            log.info("registered with broker %s (id %d) at %s", told.broker_name, told.broker_id, self.broker)
        self.broker_name = told.broker_name
        self.is_registered, self._told = True, False

    def _note_failure(self, error: PymqError) -> None:
        self.is_registered = False
        if self._told:
            return
        self._told = True
        hint = ": it must be a PyMQ broker, or one of RocketMQ 4.2" if isinstance(error, RefusedError) else ""
        log.warning(
            "broker %s does not know this filter server, it is told again and again: %s%s", self.broker, error, hint
        )
