"""Backend: what the proxy asks of a cluster. Every method raises what the client library raises."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from pymq.client.outgoing import Outgoing
from pymq.client.subscription import Subscription
from pymq.model.message import MessageQueue, PullResult, SendResult
from pymq.model.record import StoredMessage
from pymq.model.route import TopicRoute
from pymq.net.client import OnRequest
from pymq.proxy.receipts import Handle
from pymq.proxy.sessions import Session
from pymq.proxy.settings import GroupRules
from pymq.wire.bodies_lites import LiteSubscription

BEAT_MS = 30_000  # between two heartbeats for a member or a producer


class Receive(NamedTuple):
    """A request for messages of all queues of one broker. Times in ms; ``broker_name`` empty: of any broker.

    ``lite_client``: the id of the client whose lite topics of ``topic`` are asked for.
    """

    topic: str
    group: str
    broker_name: str
    count_max: int
    invisible_ms: int
    wait_ms: int
    subscription: Subscription
    is_orderly: bool = False
    attempt_id: str | None = None
    lite_client: str = ""


class Pull(NamedTuple):
    """A request for messages of one queue from an offset on. ``wait_ms``: for the first one."""

    queue: MessageQueue
    group: str
    offset: int
    count_max: int
    wait_ms: int
    subscription: Subscription


class Received(NamedTuple):
    """A message, and the handle that settles it."""

    message: StoredMessage
    handle: Handle


class TransactionPlace(NamedTuple):
    """Where the half message of a transaction is."""

    topic: str
    broker_name: str
    queue_offset: int
    log_offset: int


# Gets the client's id, its group and the lite topic.
OnUnsubscribed = Callable[[str, str, str], object]
# Takes the half message of a transaction that a broker asks about, and the transaction's id.
OnQuestion = Callable[[StoredMessage, str, TransactionPlace], object]


class Backend(Protocol):
    """A cluster."""

    async def route(self, topic: str) -> TopicRoute:
        """Return a topic's route. Raises NotFoundError for an unknown topic."""
        ...

    async def topic_type(self, topic: str) -> str:
        """Return the type of messages that a topic takes, NORMAL without an attribute."""
        ...

    async def group_rules(self, group: str) -> GroupRules:
        """Return what the group's configuration says."""
        ...

    async def queues_to_write(self, topic: str) -> list[MessageQueue]:
        """Return the topic's writable queues. Raises NotFoundError for an unknown topic."""
        ...

    async def send(self, outgoing: Outgoing, queue: MessageQueue | None) -> SendResult:
        """Send to ``queue``, or to any one."""
        ...

    async def receive(self, order: Receive) -> list[Received]:
        """Return messages, after a wait for the first one; an empty list when none came."""
        ...

    async def pull(self, order: Pull) -> PullResult:
        """Return messages of a queue, after a wait for the first one."""
        ...

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit a group's offset."""
        ...

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """Return a group's committed offset; None without one."""
        ...

    async def offset_of(self, queue: MessageQueue, since_ms: int | None, *, at_end: bool) -> int:
        """Return the offset behind a queue's last message, or its first since a time, or its first."""
        ...

    async def ack(self, topic: str, group: str, handle: Handle) -> None:
        """Acknowledge a message."""
        ...

    async def change_invisible(self, topic: str, group: str, handle: Handle, invisible_ms: int) -> Handle:
        """Let a message come again after ``invisible_ms`` from now. Return its new handle."""
        ...

    async def check_place(self, topic: str, group: str, handle: Handle) -> None:
        """Check that the record at a handle's place in the log is the message that the handle names.

        A client can write any place into a handle, and this server may read records that the client may not. Raises
        ProxyRefusal (INVALID_RECEIPT_HANDLE), with the same text for a record that is another one and for none.
        """
        ...

    async def to_dead_letters(self, topic: str, group: str, handle: Handle, message_id: str) -> None:
        """Move the message at a handle's place to the group's dead letters, whichever message that is."""
        ...

    async def end_transaction(
        self, place: TransactionPlace, transaction_id: str, *, is_commit: bool, is_checked: bool
    ) -> None:
        """Commit or roll back; ``is_checked``: because a broker asked."""
        ...

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Recall a message that waits for its time. Return its id."""
        ...

    async def subscribe_lites(self, entry: LiteSubscription) -> None:
        """Have all brokers of the parent topic change a client's subscriptions to lite topics.

        Raises what the first broker raised that did not do so.
        """
        ...

    def hear_unsubscribed(self, on_unsubscribed: OnUnsubscribed) -> None:
        """Have ``on_unsubscribed`` called when a broker says that another client has a lite topic."""
        ...

    def join(self, session: Session) -> None:
        """Let brokers know a member of a consumer group; call it again every BEAT_MS."""
        ...

    def hear_operators(self, on_request: OnRequest) -> None:
        """Have ``on_request`` answer what operators ask members through their brokers."""
        ...

    def leave(self, session: Session) -> None:
        """Let brokers forget a member."""
        ...

    async def publish_for(self, topics: Collection[str], on_question: OnQuestion) -> None:
        """Let brokers know who may be asked about transactions of these topics; call it again every BEAT_MS."""
        ...
