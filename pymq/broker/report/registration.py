"""Registrar: reports this broker and its topics to every name server, regularly and whenever topics change.

Java: BrokerController.registerBrokerAll and BrokerOuterAPI.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pymq.broker.addresses import own_ha_address
from pymq.broker.runtime import Runtime
from pymq.errors import PymqError, RefusedError
from pymq.model.route import MASTER_ID
from pymq.model.tables import PERM_READ, PERM_WRITE, TopicConfig
from pymq.wire.bodies_registration import body_crc32, encode_registration
from pymq.wire.bodies_replication import REFUSED, SlaveState
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.route import BrokerIdentityHeader, RegisterBrokerAnswer, RegisterBrokerHeader

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.config import BrokerConfig

log = logging.getLogger(__name__)

REGISTRATION_JOB = "registration"
HEARTBEAT_TIMEOUT_MS = 120_000
# The pause after a failed round: a broker that has our id may be about to give it up. Grows for servers that are away.
RETRY_MS = 1000
UNREGISTER_TIMEOUT_S = 2.0
# Slaves that a master names: a name server takes no more (namesrv/handlers/broker.py).
NAMED_SLAVES_MAX = 64

Gather = Callable[..., Awaitable[Any]]


def named_slaves(states: Iterable[SlaveState]) -> list[str]:
    """Return the addresses of slaves that have joined and confirmed a part of the log, connected ones first."""
    joined = [
        state for state in states if state.broker_id > MASTER_ID and state.state != REFUSED and state.ack_offset > 0
    ]
    joined.sort(key=lambda state: (not state.is_connected, state.address))
    return [state.address for state in joined][:NAMED_SLAVES_MAX]


class Invoker(Protocol):
    """The part of :class:`pymq.net.client.RemotingClient` that a Registrar uses."""

    async def invoke_ok(self, address: str, command: Command, timeout_s: float = 3.0) -> Command: ...


class RegisteredBroker(Protocol):
    """A broker that serves: what name servers learn of it, and what it hears from them."""

    @property
    def topics(self) -> TopicManager: ...

    @property
    def epoch(self) -> int:
        """The newest epoch, by which a name server tells a new master from an old one."""

    def filter_servers(self) -> list[str]:
        """Return the addresses that routes name beside this broker's."""

    def slaves(self) -> list[str] | None:
        """Return a master's :func:`named_slaves`; None for a slave.

        They alone may succeed the master at a name server while it lives.
        """

    def note_master(self, master_address: str, ha_address: str) -> None:
        """Take the master's addresses, as a name server gives them to a slave."""

    def note_refused(self, why: str) -> None:
        """Hear why a name server refuses the registration: another broker has the same name and id.

        ``why`` is empty when all name servers take the registration again.
        """


class RegistrationRequests:
    """Requests for a round before its time, and callbacks that wait for one. Made before the :class:`Registrar`."""

    def __init__(self, config: BrokerConfig, wake: Callable[[], None]) -> None:
        """``wake`` is called with each request, so that a round can begin at once."""
        self._config = config
        self._wake = wake
        self._waiting: list[Callable[[], None]] = []
        self.is_pending = True

    def register_now(self) -> None:
        """Have a round of registrations started."""
        self.is_pending = True
        self._wake()

    def when_registered(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the name servers know the present topics, or could not be reached."""
        if not self._config.namesrv_addresses:
            callback()
            return
        self._waiting.append(callback)
        self.register_now()

    def take(self) -> list[Callable[[], None]]:
        """Begin a round: return the callbacks for its end."""
        self.is_pending = False
        waiting, self._waiting = self._waiting, []
        return waiting


class Registrar:
    """Keeps the name servers informed. One round of registrations runs at a time; a change during it starts another."""

    def __init__(
        self,
        runtime: Runtime,
        broker: RegisteredBroker,
        *,
        client: Invoker,
        address: str,
        requests: RegistrationRequests,
        gather: Gather,
        discover: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``address``: "host:port" that clients reach; ``requests``: what makes a round due before its time.

        ``gather`` awaits several awaitables at once (asyncio.gather); ``discover`` finds the name servers before each
        round.
        """
        self._client = client
        self._discover = discover
        self._gather = gather
        self._clock = runtime.clock
        self._config = runtime.config
        self._broker = broker
        self._address = address
        self._requests = requests
        self._registered_slaves: set[str] | None = None  # with the newest round
        self._unreachable: set[str] = set()
        self._refused: dict[str, str] = {}
        self._retry_ms = RETRY_MS
        self._running = False
        self._lost = False  # a name server's connection, since the newest round began
        self._next_ms = runtime.clock.monotonic_ms()
        broker.topics.add_listener(lambda changed: requests.register_now())

    @property
    def unreachable(self) -> frozenset[str]:
        """Name servers whose last registration failed."""
        return frozenset(self._unreachable)

    @property
    def refused(self) -> dict[str, str]:
        """Name server -> why it refused the last registration."""
        return dict(self._refused)

    def is_due(self) -> bool:
        """True when a round should start now: a change happened or the period is over."""
        if self._running:
            return False
        return self._requests.is_pending or self._clock.monotonic_ms() >= self._next_ms or self._has_new_slave()

    def _has_new_slave(self) -> bool:
        registered = self._registered_slaves
        return registered is not None and not registered.issuperset(self._broker.slaves() or ())

    async def register_all(self) -> None:
        """Run one round, and further ones while changes come in. Logs failures once per outage, never raises."""
        if self._running:
            return
        self._running = True
        try:
            while True:
                self._lost = False
                if self._discover is not None:
                    await self._discover()
                waiting = self._requests.take()
                self._registered_slaves = set(self._broker.slaves() or ())
                await self._gather(*[self._register(server) for server in self._config.namesrv_addresses])
                for callback in waiting:
                    callback()
                if not (self._requests.is_pending or self._has_new_slave()):
                    return
        finally:
            self._running = False
            self._next_ms = self._clock.monotonic_ms() + self._pause_ms()

    def _pause_ms(self) -> int:
        """Return the pause before the next round; a short one after a failure, which may concern a new role."""
        period_ms = self._config.register_period_ms
        if self._refused or self._lost:
            return RETRY_MS
        if not self._unreachable:
            self._retry_ms = RETRY_MS
            return period_ms
        pause_ms = min(self._retry_ms, period_ms)
        self._retry_ms = pause_ms * 2
        return pause_ms

    def note_lost(self, address: str) -> None:
        """Plan a round soon after a name server's connection ended: a server that starts again knows nothing."""
        if address in self._config.namesrv_addresses:
            self._lost = True
            self._next_ms = min(self._next_ms, self._clock.monotonic_ms() + RETRY_MS)

    async def unregister_all(self) -> None:
        """Remove the broker from every reachable name server's routes. Never raises for a server that is away."""
        await self._gather(*[self._unregister(server) for server in self._config.namesrv_addresses])

    def registration(self) -> Command:
        """Return REGISTER_BROKER with the whole topic table."""
        config, broker = self._config, self._broker
        topics = [self._as_served(topic) for topic in broker.topics.all().values()]
        slaves = broker.slaves()
        body = encode_registration(topics, broker.topics.data_version, filter_servers=broker.filter_servers())
        header = RegisterBrokerHeader(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
            ha_server_addr=own_ha_address(config),  # Java refuses a registration without it, a slave's too
            heartbeat_timeout_millis=HEARTBEAT_TIMEOUT_MS,
            enable_acting_master=False,
            master_epoch=broker.epoch,
            slave_addresses=";".join(slaves) if slaves is not None else None,
            compressed=False,
            body_crc32=body_crc32(body),
        )
        return request(RequestCode.REGISTER_BROKER, header, body)

    async def _register(self, server: str) -> None:
        try:
            answer = await self._client.invoke_ok(server, self.registration(), self._config.register_timeout_ms / 1000)
        except RefusedError as error:
            self._note_refusal(server, error)
            return
        except PymqError as error:
            if server not in self._unreachable:
                log.warning("registration at name server %s failed, trying again: %s", server, error)
            self._unreachable.add(server)
            self._refused.pop(server, None)
            return
        if server in self._unreachable or server in self._refused:
            log.info("registered at name server %s again", server)
        self._unreachable.discard(server)
        if self._refused.pop(server, None) is not None and not self._refused:
            self._broker.note_refused("")
        header = decode_header(RegisterBrokerAnswer, answer.ext or {})
        if header.master_addr:
            self._broker.note_master(header.master_addr, header.ha_server_addr or "")

    def _note_refusal(self, server: str, error: RefusedError) -> None:
        self._unreachable.discard(server)
        if self._refused.get(server) != str(error):
            log.warning("name server %s refused the registration, trying again: %s", server, error)
        self._refused[server] = str(error)
        self._broker.note_refused(str(error))

    async def _unregister(self, server: str) -> None:
        config = self._config
        header = BrokerIdentityHeader(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )
        try:
            command = request(RequestCode.UNREGISTER_BROKER, header)
            await self._client.invoke_ok(server, command, UNREGISTER_TIMEOUT_S)
        except PymqError as error:
            log.info("could not unregister from name server %s: %s", server, error)

    def _as_served(self, topic: TopicConfig) -> TopicConfig:
        """Return the topic as this broker serves it: without the permissions that the broker itself lacks."""
        permission = self._config.broker_permission
        if permission & PERM_READ and permission & PERM_WRITE:
            return topic
        return msgspec.structs.replace(topic, perm=topic.perm & permission)
