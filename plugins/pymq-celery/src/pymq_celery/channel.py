"""Channel: kombu's view of queues and exchanges. Task queues are topics that are popped; others are broadcasts."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from amqp.protocol import queue_declare_ok_t
from kombu.entity import PERSISTENT_DELIVERY_MODE
from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.transport.virtual.base import Base64

from pymq.client.loop_thread import on_loop, shared
from pymq.errors import NotFoundError, UsageError
from pymq_celery import broadcasts
from pymq_celery.broadcasts import EVERYTHING, Reader, Source, tag_of
from pymq_celery.fetching import Queue
from pymq_celery.inbox import Inbox
from pymq_celery.link import Link
from pymq_celery.names import exchange_topic, queue_topic
from pymq_celery.work import Work

log = logging.getLogger(__name__)


class Kind(Enum):
    """What a queue of this connection is. One that deletes itself is undecided until it is bound or read."""

    WORK = "work"
    BROADCAST = "broadcast"
    UNDECIDED = "undecided"


class Channel(virtual.Channel):  # type: ignore[misc] # kombu's types are of no use
    """A channel of a :class:`~pymq_celery.transport.Transport`; each has its own prefetch count."""

    supports_fanout = True
    do_restore = False

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._callbacks: dict[str, tuple[bool, Callable[[Any], Any]]] = {}  # by consumer tag: no_ack, callback
        self._readers: dict[str, Reader] = {}
        self._prefetch_count = 0
        # Kept: the application may acknowledge after the channel is closed.
        self._link: Link = connection.link
        self._kinds: dict[str, Kind] = connection.kinds
        self._inbox: Inbox = connection.inbox
        self.closed: bool
        self._work = Work(self._link, self._received, self._failed)

    def _post(self, function: Callable[[], None]) -> None:
        """Call on the loop, without waiting."""
        self._link.loop.call_soon_threadsafe(function)

    # -- queues --------------------------------------------------------------------------------------------------

    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> queue_declare_ok_t:
        """Make a queue's topics. ``passive``: say how many messages wait in it, or that there is none."""
        queue = queue or f"amq.gen-{uuid.uuid4()}"
        if passive:
            return queue_declare_ok_t(queue, self._waiting_count(queue), 0)
        if self._kinds.get(queue) in (Kind.WORK, Kind.BROADCAST):
            pass
        elif exclusive or (auto_delete and (not durable or "x-expires" in (arguments or {}))):
            self._make_broadcast(queue)
        elif auto_delete:
            self._kinds[queue] = Kind.UNDECIDED
        else:
            self._make_work(queue)
        return queue_declare_ok_t(queue, 0, 0)

    def prepare_queue_arguments(self, arguments: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return a queue's arguments in AMQP's names: an expiry tells queue_declare that the queue is one process's."""
        return dict(to_rabbitmq_queue_arguments(arguments, **kwargs))

    def _waiting_count(self, queue: str) -> int:
        if self._kinds.get(queue, Kind.WORK) is not Kind.WORK:
            return 0
        try:
            return self._size(queue)
        except NotFoundError as error:
            raise ChannelError(
                f"NOT_FOUND - no queue {queue!r}: {error}", (50, 10), "Channel.queue_declare", "404"
            ) from error

    def _make_work(self, queue: str) -> None:
        for topic in self._topics(queue):
            shared.call(self._link.ensure_topic(topic, self._link.options.queue_count))
        self._kinds[queue] = Kind.WORK

    def _make_broadcast(self, queue: str) -> None:
        shared.call(broadcasts.note_place(self._link, queue, self._exchange_topic("")))
        self._kinds[queue] = Kind.BROADCAST

    def _kind(self, queue: str) -> Kind:
        """Return what a queue is, and make it what it can only be when that is open."""
        if self._kinds.get(queue, Kind.UNDECIDED) is Kind.UNDECIDED:
            if broadcasts.has_place(self._link, queue, self._exchange_topic("")):  # another connection declared it
                self._kinds[queue] = Kind.BROADCAST
            else:
                self._make_work(queue)
        return self._kinds[queue]

    def _topics(self, queue: str) -> tuple[str, ...]:
        link = self._link
        return tuple(queue_topic(link.cluster.prefix, queue, step) for step in link.options.priority_steps)

    def _exchange_topic(self, exchange: str) -> str:
        return exchange_topic(self._link.cluster.prefix, exchange)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        if self._kinds.get(queue) is Kind.UNDECIDED and self.typeof(exchange).type == "fanout":
            self._make_broadcast(queue)
        if self._kind(queue) is Kind.BROADCAST:
            shared.call(broadcasts.note_place(self._link, queue, self._exchange_topic(exchange)))

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any) -> None:
        """Delete a queue with its messages."""
        if if_empty and self._waiting_count(queue):
            return
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            self.queue_unbind(queue, exchange, routing_key, arguments)
        if self._kinds.pop(queue, Kind.WORK) is Kind.WORK:
            for topic in self._topics(queue):
                shared.call(self._link.delete_topic(topic))
        else:
            shared.call(broadcasts.forget_places(self._link, queue))

    def after_reply_message_received(self, queue: str) -> None:
        """Keep the queue: the next remote control command of this process uses it again."""

    def _size(self, queue: str) -> int:
        return sum(shared.call(self._link.size(topic)) for topic in self._topics(queue))

    def _purge(self, queue: str) -> int:
        if self._kind(queue) is Kind.BROADCAST:
            return 0
        return sum(shared.call(self._work.purge(topic)) for topic in self._topics(queue))

    # -- sends ---------------------------------------------------------------------------------------------------

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any) -> None:
        """Send to the task queues that are bound here, and to the exchange's topic for all that broadcasts want."""
        self._inplace_augment_message(message, exchange, routing_key)
        if not exchange and self._is_work(routing_key):
            self._put(routing_key, message)
            return
        queues = self._lookup(exchange, routing_key) if exchange else []
        is_persistent = message["properties"].get("delivery_mode") == PERSISTENT_DELIVERY_MODE
        if exchange and not queues and is_persistent and self.typeof(exchange).type != "fanout":
            raise UsageError(
                f"no queue is known here for exchange {exchange!r} with routing key {routing_key!r}: bindings are "
                "known only to processes that declare them, so declare it here (Celery: task_queues, or queue=…)"
            )
        for queue in queues:
            if self._kind(queue) is Kind.WORK:
                self._put(queue, message)
        shared.call(self._link.broadcast(self._exchange_topic(exchange), message, tag_of(routing_key)))

    def _is_work(self, queue: str) -> bool:
        if queue not in self._kinds:  # another process declared it, or nobody did
            return shared.call(self._link.has_topic(self._topics(queue)[0]))
        return self._kind(queue) is Kind.WORK

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        if exchange not in self.state.exchanges:
            return []
        return list(self.typeof(exchange).lookup(self.get_table(exchange), exchange, routing_key, default))

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        link = self._link
        step = link.options.step_of(self._get_message_priority(message))
        shared.call(link.put(queue_topic(link.cluster.prefix, queue, step), message))

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Leave text as it is, so that tools and filters can read it; bytes become base64."""
        if isinstance(body, str):
            return body, "utf-8"
        return Base64().encode(body), "base64"

    # -- deliveries ----------------------------------------------------------------------------------------------

    def basic_consume(self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any) -> None:
        """Begin to read a queue."""
        self._callbacks[consumer_tag] = (no_ack, callback)
        self._tag_to_queue[consumer_tag] = queue
        self._consumers.add(consumer_tag)
        if self._kind(queue) is Kind.WORK:
            self._post(partial(self._work.consume, Queue(consumer_tag, self._topics(queue))))
            return
        deliver = partial(self._received, consumer_tag)
        self._readers[consumer_tag] = shared.call(
            on_loop(lambda: Reader(self._link, queue, self._sources(queue), deliver, self._inbox.__len__))
        )

    def _sources(self, queue: str) -> list[Source]:
        """Return what a broadcast queue reads: messages for its name, and those of its bindings, by exchange."""
        sources = [Source(self._exchange_topic(""), tag_of(queue), queue.__eq__)]
        keys: dict[str, list[tuple[str, Any]]] = {}
        for exchange, routing_key, arguments in self.state.queue_bindings(queue):
            keys.setdefault(exchange, []).append((routing_key, arguments))
        for exchange, bound in keys.items():
            kind = self.typeof(exchange)
            tags = EVERYTHING
            table = [kind.prepare_bind(queue, exchange, *each) for each in bound]
            if kind.type == "direct":
                tags = " || ".join(tag_of(routing_key) for routing_key, _ in bound)
            sources.append(Source(self._exchange_topic(exchange), tags, partial(_takes, kind, table, exchange)))
        return sources

    def basic_cancel(self, consumer_tag: str) -> None:
        """Read a queue no more."""
        self._callbacks.pop(consumer_tag, None)
        self._consumers.discard(consumer_tag)
        self._tag_to_queue.pop(consumer_tag, None)
        reader = self._readers.pop(consumer_tag, None)
        self._post(partial(self._work.cancel, consumer_tag) if reader is None else reader.stop)

    def _received(self, consumer_tag: str, payload: dict[str, Any]) -> None:
        """Take a message on the loop, for the thread that drains the connection."""
        self._inbox.put(partial(self._delivered, consumer_tag, payload))

    def _failed(self, error: BaseException) -> None:
        """Let the thread that drains the connection raise an error."""

        def fail() -> None:
            raise error

        self._inbox.put(fail)

    def _delivered(self, consumer_tag: str, payload: dict[str, Any]) -> None:
        delivery_tag = payload["properties"]["delivery_tag"]
        no_ack, callback = self._callbacks.get(consumer_tag, (False, None))
        if callback is None:  # cancelled meanwhile
            if not self.closed:
                self._post(partial(self._work.give_back, delivery_tag))
            return
        if no_ack:
            self._post(partial(self._work.ack, delivery_tag))
        elif not self._prefetch_count:
            self._post(partial(self._work.delivered, delivery_tag))
        callback(self.Message(payload, channel=self))

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Return a message of a queue, None when it has none."""
        if self._kind(queue) is Kind.WORK:
            payload = shared.call(self._work.get(self._topics(queue)))
        else:
            payload = shared.call(broadcasts.get(self._link, queue, self._sources(queue)))
        if payload is None:
            return None
        if no_ack:
            self._post(partial(self._work.ack, payload["properties"]["delivery_tag"]))
        return self.Message(payload, channel=self)

    # -- settlements ---------------------------------------------------------------------------------------------

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        """Hold at most so many messages of task queues; 0: no limit."""
        self._prefetch_count = prefetch_count
        self._post(partial(self._work.set_prefetch, prefetch_count))

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Acknowledge a message. It comes again if the process dies before a broker knows, some ms later."""
        if multiple:
            raise NotImplementedError("an acknowledgement counts for one message: pass multiple=False")
        self._post(partial(self._work.ack, delivery_tag))

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Let a message come again at once, or move it to the dead letters."""
        self._post(partial(self._work.give_back if requeue else self._work.give_up, delivery_tag))

    def basic_recover(self, requeue: bool = False) -> None:
        """Let all messages of this channel come again."""
        self._post(self._work.give_all_back)

    def close(self) -> None:
        """Cancel all consumers and give back what is not settled."""
        if self.closed:
            return
        if self.connection.is_inherited:  # the parent process goes on with it
            self.closed = True
            return
        for consumer_tag in list(self._callbacks):
            self.basic_cancel(consumer_tag)
        self.closed = True
        shared.call(self._work.close())
        self.connection.close_channel(self)


def _takes(kind: Any, table: list[Any], exchange: str, routing_key: str) -> bool:
    """Return True when one of an exchange's bindings fits a routing key."""
    return kind.type == "fanout" or bool(kind.lookup(table, exchange, routing_key, None))
