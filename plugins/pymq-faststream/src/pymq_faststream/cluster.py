"""Where the cluster is, and the clients that reach it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from faststream.security import BaseSecurity, SASLPlaintext

from pymq.client import Admin, Credentials, Producer, PullConsumer, PushConsumer, SimpleConsumer, Tls
from pymq.client.handler import OnMessage
from pymq.client.options import ProducerOptions, SettingOptions
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError, UsageError
from pymq.model.tables import TopicConfig
from pymq.wire.codes import ResponseCode

SCHEME = "pymq://"
PORT = 9876
ROUTE_WAIT_S = 10.0
_ROUTE_PAUSE_S = 0.05
_PING_PAUSE_S = 0.2


@dataclass(kw_only=True)
class Cluster:
    """A cluster as one user sees it. ``namesrv`` None: the environment's, else 127.0.0.1:9876."""

    namesrv: str | None = None
    credentials: Credentials | None = None
    tls: Tls | None = None
    creates_topics: bool = True
    queue_count: int = 4
    _admin: Admin | None = field(default=None, repr=False)

    @property
    def addresses(self) -> list[str]:
        """The name servers, without user and secret."""
        return (self.namesrv or f"127.0.0.1:{PORT}").split(";")

    def producer(self, group: str, options: ProducerOptions) -> Producer:
        """Return a producer that is not started."""
        access: ProducerOptions = {"credentials": self.credentials, "tls": self.tls, **options}
        return Producer(group, namesrv=self.namesrv, **access)

    def push_consumer(self, group: str, on_message: OnMessage, settings: SettingOptions) -> PushConsumer:
        """Return a consumer that is not started."""
        return PushConsumer(
            group,
            namesrv=self.namesrv,
            credentials=self.credentials,
            tls=self.tls,
            on_message=on_message,
            **settings,
        )

    def simple_consumer(self, group: str, *, from_end: bool) -> SimpleConsumer:
        """Return a consumer that is not started."""
        return SimpleConsumer(
            group, namesrv=self.namesrv, credentials=self.credentials, tls=self.tls, from_end=from_end
        )

    @property
    def admin(self) -> Admin:
        """The client for look-ups. :meth:`close` ends it."""
        if self._admin is None:
            self._admin = Admin(self.namesrv, credentials=self.credentials, tls=self.tls)
        return self._admin

    async def close(self) -> None:
        """End the connections of :attr:`admin`."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()

    async def ensure_topic(self, topic: str) -> None:
        """Create a topic that does not exist, on every master, and return once name servers know it.

        Raises RefusedError for a user who may not, UnreachableError.
        """
        if not self.creates_topics or await self.has_topic(topic):
            return
        config = TopicConfig(topic_name=topic, read_queue_nums=self.queue_count, write_queue_nums=self.queue_count)
        for target in await self.admin.cluster.masters():
            try:
                await self.admin.topics.put(target.address, config)
            except RefusedError as error:
                need = f"topic {topic} does not exist: create it with a user who may, or set create_topics=False"
                raise explained(error, need) from error
        end_s = time.monotonic() + ROUTE_WAIT_S
        while not await self.has_topic(topic):
            if time.monotonic() > end_s:
                raise NotFoundError(f"topic {topic} was made, but no name server has its route after {ROUTE_WAIT_S} s")
            await asyncio.sleep(_ROUTE_PAUSE_S)

    async def check_rights(self, group: str, topic: str) -> None:
        """Raise RefusedError, which names the right, for a user who may not consume. Else that shows in logs alone."""
        if self.credentials is None:
            return
        async with PullConsumer(group, namesrv=self.namesrv, credentials=self.credentials, tls=self.tls) as puller:
            try:
                for queue in (await puller.queues(topic))[:1]:
                    await puller.pull(queue, 0, 1, suspend_ms=0)
            except NotFoundError:
                pass
            except RefusedError as error:
                if error.code == ResponseCode.NO_PERMISSION:
                    raise explained(error, f"a subscriber needs SUB on topic {topic} and on group {group}") from error

    async def has_topic(self, topic: str) -> bool:
        """Return True for a topic that name servers know."""
        try:
            await self.admin.topics.route(topic)
        except NotFoundError:
            return False
        return True

    async def ping(self) -> None:
        """Return once a name server and one of its brokers answer."""
        while not await self._answers():
            await asyncio.sleep(_PING_PAUSE_S)

    async def _answers(self) -> bool:
        try:
            targets = await self.admin.cluster.masters()
        except PymqError:
            return False
        for target in targets:
            try:
                await self.admin.brokers.runtime_info(target.address)
            except UnreachableError:
                continue
            except RefusedError:
                pass  # this user may not ask for that, but the broker answers
            return True
        return False


def explained(error: RefusedError, need: str) -> RefusedError:
    """Return the error with the next step."""
    return RefusedError(error.code, f"{error.remark.rstrip('.')}: {need}", error.address)


def cluster_of(
    url: str | Iterable[str] | None,
    *,
    security: BaseSecurity | None = None,
    tls: Tls | None = None,
    creates_topics: bool = True,
    queue_count: int = 4,
) -> Cluster:
    """Return the cluster of ``host:port``, several of these, or ``pymq://user:secret@host:port,host:port``.

    Raises UsageError for anything else.
    """
    texts = [url] if isinstance(url, str) else list(url or ())
    credentials, hosts = None, []
    for text in texts:
        rest = text.removeprefix(SCHEME)
        if text.startswith(("http://", "https://")):
            hosts.append(text)  # an address server
            continue
        if "://" in rest:
            raise UsageError(f"the URL's scheme is {rest.partition('://')[0]!r}: write {SCHEME}host:{PORT}")
        login, at, rest = rest.rpartition("@")
        if at:
            user, colon, secret = login.partition(":")
            if not (user and colon and secret):
                raise UsageError(f"the URL has no user and secret before its @: write {SCHEME}user:secret@{rest}")
            credentials = Credentials(unquote(user), unquote(secret))
        for host in rest.rstrip("/").replace(";", ",").split(","):
            if not host or "/" in host:
                raise UsageError(f"{host!r} is no address of a name server: write {SCHEME}host:{PORT}")
            hosts.append(host if ":" in host.rpartition("]")[2] else f"{host}:{PORT}")
    if security is not None:
        credentials, tls = _secured(security, credentials, tls)
    return Cluster(
        namesrv=";".join(hosts) or None,
        credentials=credentials,
        tls=tls,
        creates_topics=creates_topics,
        queue_count=queue_count,
    )


def _secured(
    security: BaseSecurity, credentials: Credentials | None, tls: Tls | None
) -> tuple[Credentials | None, Tls | None]:
    if security.ssl_context is not None:
        raise UsageError("security has an ssl_context, which PyMQ's client does not take: give tls=Tls(trust_path=…)")
    if isinstance(security, SASLPlaintext):
        credentials = Credentials(security.username, security.password)
    elif type(security) is not BaseSecurity:
        raise UsageError(f"security is a {type(security).__name__}: use SASLPlaintext(user, secret) or BaseSecurity")
    return credentials, (tls or Tls()) if security.use_ssl else tls
