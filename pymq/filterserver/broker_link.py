"""BrokerLink: the filter server as a client of its broker. Registers, pulls, and looks up subscriptions."""

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
SUSPEND_SLACK_S = 10.0  # a broker answers a parked pull at most some seconds late
PULL_BYTES_MAX = 256 * 1024
EVERYTHING = "*"


class Invoker(Protocol):
    """The part of :class:`pymq.net.client.RemotingClient` that the link uses."""

    async def invoke(self, address: str, command: Command, timeout_s: float = 3.0) -> Command: ...

    async def invoke_ok(self, address: str, command: Command, timeout_s: float = 3.0) -> Command: ...


class BrokerLink:
    """Sends requests to the broker at ``broker`` ("host:port"). Consumers connect to ``own_address``."""

    def __init__(self, client: Invoker, broker: str, own_address: str) -> None:
        self.broker = broker
        self.broker_name = ""  # known after the first report
        self.is_registered = False
        self._client = client
        self._own_address = own_address
        self._lost = asyncio.Event()
        self._failure_logged = False

    def note_lost(self) -> None:
        """Trigger a report: the connection ended, so the broker has forgotten this server."""
        self._lost.set()

    async def keep_registered(self) -> None:
        """Register every 10 s, and soon after the broker was away. Runs until it is cancelled."""
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
        """Pull for the consumer's group without its filter, and return the broker's answer.

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
        """Return the group's subscription to the topic; None when the group isn't connected to the broker.

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
            registered = decode_header(RegisterFilterServerAnswer, answer.ext)
        except PymqError as error:
            self._note_failure(error)
            return
        if not self.is_registered:
            log.info(
                "registered with broker %s (id %d) at %s", registered.broker_name, registered.broker_id, self.broker
            )
        self.broker_name = registered.broker_name
        self.is_registered, self._failure_logged = True, False

    def _note_failure(self, error: PymqError) -> None:
        self.is_registered = False
        if self._failure_logged:
            return
        self._failure_logged = True
        hint = ": it must be a PyMQ broker, or one of RocketMQ 4.2" if isinstance(error, RefusedError) else ""
        log.warning(
            "broker %s does not know this filter server, which registers again and again: %s%s",
            self.broker,
            error,
            hint,
        )
