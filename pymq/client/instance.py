"""The base of every client: an identity, connections, routes, heartbeats and background jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pymq.client.name_servers import NameServers
from pymq.client.route_cache import RouteCache
from pymq.client.tls import Tls, tls_context
from pymq.client.uninterrupted import uninterrupted
from pymq.clock import Clock, SystemClock
from pymq.errors import PymqError, UnreachableError
from pymq.model.hosts import parse_address, server_place
from pymq.model.ids import UniqueIdMaker
from pymq.model.route import MASTER_ID
from pymq.net.client import OnRequest, RemotingClient
from pymq.net.forks import notify_of_forks
from pymq.rate_limited_log import RateLimitedLog
from pymq.security.credentials import Credentials
from pymq.wire.bodies_client import DIFFERING_SUBSCRIPTIONS, ConsumerData, HeartbeatData, ProducerData, encode_body
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, request
from pymq.wire.headers.client import UnregisterClientHeader

log = logging.getLogger(__name__)

ROUTE_POLL_INTERVAL_S = 30.0
HEARTBEAT_INTERVAL_S = 30.0
LEAVE_TIMEOUT_S = 1.0
ANNOUNCE_WAIT_S = 1.0
ANNOUNCE_RETRY_MS = 10_000
PROBLEM_LENGTH_MAX = 2000  # of what a broker says about the group, in this client's log


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """A cluster as a client reaches it. ``namesrv`` and ``tls`` None: the environment's."""

    namesrv: str | Sequence[str] | None
    credentials: Credentials | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """What a client is to brokers, and what it hears: the groups that it is a member of, requests, changed routes.

    ``describe_consumer()`` returns the consumer's part of a heartbeat; it is None for clients that are in no consumer
    group. ``on_request(command, address)`` receives the requests of brokers, ``on_route_change(topic)`` a topic,
    ``on_connection_lost(address)`` the address of a broker or name server.
    """

    producer_group: str | None = None
    describe_consumer: Callable[[], ConsumerData] | None = None
    on_request: OnRequest | None = None
    on_route_change: Callable[[str], None] | None = None
    on_connection_lost: Callable[[str], None] | None = None

    @property
    def is_in_group(self) -> bool:
        """Return True for a client that sends heartbeats."""
        return bool(self.producer_group or self.describe_consumer)


class ClientInstance:
    """One client: at most one producer group and one consumer group, with one connection per address."""

    def __init__(
        self,
        cluster: ClusterAccess,
        membership: Membership = Membership(),
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        instance_name: str | None = None,
        poll_interval_s: float = ROUTE_POLL_INTERVAL_S,
    ) -> None:
        """``membership``: by default in no group. ``poll_interval_s``: between two looks at the routes."""
        credentials = cluster.credentials
        self.clock: Clock = clock or SystemClock()
        self.rng = rng or random.Random()
        self.remoting = RemotingClient(
            clock=self.clock,
            on_request=membership.on_request,
            on_lost=self._lost,
            sign=credentials.sign if credentials is not None else None,
            tls=tls_context(cluster.tls, self.clock),
        )
        self.name_servers = NameServers(cluster.namesrv, self.remoting, self.rng)
        self.routes = RouteCache(self.name_servers, self._route_changed)
        self.host = local_host_towards(self.name_servers.places[0])
        self._instance_name = instance_name
        self._identify()
        self._membership = membership
        self._poll_interval_s = poll_interval_s
        self._heartbeat_sent_to: set[str] = set()
        self._announcing: dict[str, tuple[asyncio.Task[None], int]] = {}  # by address, with the time of its begin
        self._consumer_group: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.group_log = RateLimitedLog(log, self.clock, "this client's group")
        self._running = False
        notify_of_forks(self)

    def _identify(self) -> None:
        """Make the names that no other client has: brokers tell clients apart by them."""
        process_id = os.getpid()
        self.client_id = f"{self.host}@{self._instance_name or f'{process_id}#{self.rng.getrandbits(48):x}'}"
        self.ids = UniqueIdMaker(self.clock, _ip_bytes(self.host), process_id, self.rng.getrandbits(32))

    def after_fork(self) -> None:
        """In a forked child: a client that the parent has not used yet gets its own name, another can't be used."""
        if self._running or self.remoting.was_used:
            self._running = False
            self.remoting.leave_to_parent()
        else:
            self.rng.seed()
            self._identify()

    @property
    def inherited(self) -> bool:
        """True in a forked child if the parent used this client: it belongs to the parent."""
        return self.remoting.inherited

    @property
    def running(self) -> bool:
        return self._running

    def start(self) -> None:
        """Start the background jobs that refresh routes and send heartbeats. Raises ClosedError after a stop."""
        self.remoting.check_open()
        self._running = True
        self.every(self._poll_interval_s, self.routes.refresh, "refresh routes")
        if self._membership.is_in_group:
            self.every(HEARTBEAT_INTERVAL_S, self.heartbeat_all, "send heartbeats")

    async def close(self) -> None:
        """Leave the groups, end background work and connections."""
        if not self._running:
            await self.remoting.close()
            return
        self._running = False
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._leave_groups()
        await self.remoting.close()

    def every(self, interval_s: float, job: Callable[[], Awaitable[object]], what: str) -> None:
        """Run ``job`` every ``interval_s`` seconds until the client closes; a failure is logged, not fatal."""

        async def loop() -> None:
            while True:
                await asyncio.sleep(interval_s)
                try:
                    await job()
                except PymqError as error:
                    log.warning("could not %s: %s", what, error)
                except Exception:
                    log.exception("could not %s", what)

        self.spawn(loop())

    def spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        """Start a task, which is cancelled when the client closes."""
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a background task of %s failed", self.client_id, exc_info=task.exception())

    async def heartbeat_all(self) -> None:
        """Send a heartbeat to every broker of every route; one that can't be reached gets the next heartbeat."""
        addresses = self._heartbeat_addresses()
        await asyncio.gather(*[self._heartbeat_quietly(address) for address in addresses])

    async def heartbeat(self, address: str) -> None:
        """Send a heartbeat to one broker. Raises UnreachableError, RefusedError.

        Waits for the answer even if the caller is cancelled. Java's broker handles heartbeats and unregistrations in
        different threads: an unregistration that overtakes a heartbeat would leave a member that is gone.
        """
        self._heartbeat_sent_to.add(address)
        try:
            answer = await uninterrupted(self.remoting.invoke_ok(address, self._heartbeat_command()))
        except PymqError:
            self._heartbeat_sent_to.discard(address)
            raise
        problem = answer.ext.get(DIFFERING_SUBSCRIPTIONS) if answer.ext else None
        if problem:
            self.group_log.write("broker", problem[:PROBLEM_LENGTH_MAX])

    async def _heartbeat_quietly(self, address: str) -> None:
        try:
            await self.heartbeat(address)
        except PymqError as error:
            log.info("no heartbeat to %s: %s", address, error)

    async def announce(self) -> None:
        """Wait until every broker of the routes knows this client, or has been silent for a second.

        A broker that can't be reached is asked again after 10 seconds, or with the next heartbeat.
        """
        now_ms = self.clock.monotonic_ms()
        for address in self._heartbeat_addresses() - self._heartbeat_sent_to:
            _, begun_ms = self._announcing.get(address, (None, now_ms - ANNOUNCE_RETRY_MS))
            if now_ms - begun_ms >= ANNOUNCE_RETRY_MS:
                self._announce_to(address)
        late_ms = now_ms - int(ANNOUNCE_WAIT_S * 1000)
        pending = [task for task, begun_ms in self._announcing.values() if begun_ms > late_ms and not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=ANNOUNCE_WAIT_S)

    def _announce_to(self, address: str) -> None:
        task = self.spawn(self._heartbeat_quietly(address))
        self._announcing[address] = (task, self.clock.monotonic_ms())

    def _heartbeat_addresses(self) -> set[str]:
        """Return the addresses of all masters; for a consumer those of slaves too, because it may read from them."""
        result: set[str] = set()
        for broker in self.routes.brokers():
            for broker_id, address in broker.broker_addrs.items():
                if broker_id == MASTER_ID or self._membership.describe_consumer is not None:
                    result.add(address)
        return result

    def _heartbeat_command(self) -> Command:
        body, membership = HeartbeatData(client_id=self.client_id), self._membership
        if membership.producer_group:
            body.producer_data_set = [ProducerData(group_name=membership.producer_group)]
        if membership.describe_consumer is not None:
            described = membership.describe_consumer()
            self._consumer_group = described.group_name
            body.consumer_data_set = [described]
        return request(RequestCode.HEART_BEAT, body=encode_body(body))

    def _route_changed(self, topic: str) -> None:
        if self._running and self._membership.is_in_group:
            new = self._heartbeat_addresses() - self._heartbeat_sent_to
            self._heartbeat_sent_to |= new
            for address in new:
                self._announce_to(address)
        if self._membership.on_route_change is not None:
            self._membership.on_route_change(topic)

    def renew_route(self, topic: str) -> None:
        """Renew a topic's route in the background; call it when a broker can't be reached."""
        if self._running:
            self.spawn(self._renew_quietly(topic))

    async def _renew_quietly(self, topic: str) -> None:
        try:
            await self.routes.renew(topic)
        except PymqError as error:
            log.debug("the route of %s stays as it is: %s", topic, error)

    def _lost(self, address: str) -> None:
        self._heartbeat_sent_to.discard(address)
        self._announcing.pop(address, None)
        if self._membership.on_connection_lost is not None:
            self._membership.on_connection_lost(address)

    async def _leave_groups(self) -> None:
        producer_group = self._membership.producer_group
        header = UnregisterClientHeader(
            client_id=self.client_id, producer_group=producer_group, consumer_group=self._consumer_group
        )
        if not producer_group and not self._consumer_group:
            return
        # Brokers whose heartbeat failed are included: they may have received it.
        known = self._heartbeat_sent_to | self._heartbeat_addresses()
        addresses = [address for address in known if self.remoting.is_connected(address)]
        leaving = [self._leave(address, request(RequestCode.UNREGISTER_CLIENT, header)) for address in addresses]
        await asyncio.gather(*leaving)

    async def _leave(self, address: str, command: Command) -> None:
        try:
            await self.remoting.invoke(address, command, LEAVE_TIMEOUT_S)
        except UnreachableError as error:
            log.debug("could not unregister at %s: %s", address, error)


def local_host_towards(address: str) -> str:
    """Return this machine's address as ``address`` sees it, 127.0.0.1 when that is unknown. Sends nothing."""
    host, port = parse_address(server_place(address))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port or 9))
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def _ip_bytes(host: str) -> bytes:
    try:
        return socket.inet_aton(host)
    except OSError:
        return b"\x7f\0\0\1"
