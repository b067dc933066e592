"""Transport: kombu's connection. A thread of pymq.client receives; the caller's thread or event loop drains."""

from __future__ import annotations

import os
import queue
from typing import Any

from kombu.transport import base, virtual
from kombu.utils.url import as_url

import pymq
from pymq.client.loop_thread import shared
from pymq.errors import PymqError, UnreachableError
from pymq_celery.channel import Channel, Kind
from pymq_celery.inbox import Inbox
from pymq_celery.link import Link
from pymq_celery.settings import Options, masked, parse_url, tls_of

DELIVERIES_A_TURN_MAX = 100  # of an event loop, which has other work too


class Transport(virtual.Transport):  # type: ignore[misc] # kombu's types are of no use
    """A connection to one cluster. It is its own connection object, as kombu's other virtual transports are."""

    Channel = Channel
    can_parse_url = True
    driver_type = "pymq"
    driver_name = "pymq"

    connection_errors = (*virtual.Transport.connection_errors, UnreachableError)
    recoverable_connection_errors = connection_errors
    channel_errors = (*virtual.Transport.channel_errors, PymqError)
    recoverable_channel_errors = ()

    implements = base.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.inbox = Inbox()
        self.kinds: dict[str, Kind] = {}  # of the queues that this connection declared
        self.link: Link | None = None
        self._pid = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """True in a forked child, whose parent goes on with the connection."""
        return self._pid != os.getpid()

    @property
    def connected(self) -> bool:
        """True between establish_connection and close_connection, in the process that connected."""
        return self.link is not None and not self.is_inherited

    def driver_version(self) -> str:
        """Return PyMQ's version."""
        return pymq.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Return the URL to show."""
        return uri if include_password else masked(uri, mask)

    def establish_connection(self) -> Transport:
        """Reach a name server. Raises UnreachableError, after which kombu tries again."""
        link = Link(
            parse_url(self._url()), Options.from_mapping(self.client.transport_options), tls_of(self.client.ssl)
        )
        shared.call(link.open())
        self.link = link
        self.inbox = Inbox()
        self.kinds = {}
        self._pid = os.getpid()
        self._avail_channels.append(self.create_channel(self))
        return self

    def _url(self) -> str:
        """Return the URL of the cluster. kombu takes the URL to which it falls back apart."""
        client = self.client
        if "://" in (client.hostname or ""):
            return str(client.hostname)
        fields = client.hostname, client.port, client.userid, client.password, client.virtual_host
        return str(as_url("pymq", *fields))

    def verify_connection(self, connection: Transport) -> bool:
        """Return True while the connection is open."""
        return connection.connected

    def close_connection(self, connection: Transport) -> None:
        """Give back what is not settled, and close."""
        super().close_connection(connection)
        link, self.link = self.link, None
        if link is not None and not self.is_inherited:
            shared.call(link.close())
        self.inbox.close()

    def drain_events(self, connection: Transport, timeout: float | None = None) -> None:
        """Deliver one message to its consumer. Raises socket.timeout when none comes in time."""
        try:
            deliver = self.inbox.get(timeout)
        except queue.Empty:
            raise TimeoutError from None
        deliver()

    def register_with_event_loop(self, connection: Transport, loop: Any) -> None:
        """Let the event loop of a worker deliver messages when they come."""
        loop.add_reader(self.inbox.readable(), self._drain_readable, connection)

    def unregister_from_event_loop(self, connection: Transport, loop: Any) -> None:
        """Undo :meth:`register_with_event_loop`."""
        loop.remove_reader(self.inbox.readable())

    def _drain_readable(self, connection: Transport) -> None:
        self.inbox.clear_readable()
        try:
            for _ in range(DELIVERIES_A_TURN_MAX):
                self.drain_events(connection, timeout=0)
        except TimeoutError:
            return
        except BaseException:
            self.inbox.wake()  # of what is left
            raise
        self.inbox.wake()
