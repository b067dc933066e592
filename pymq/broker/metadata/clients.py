"""ClientManager: connected producers and consumers with their groups and subscriptions, from their heartbeats."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pymq.broker.metadata.groups import GroupManager
from pymq.broker.metadata.member_subscriptions import MemberSubscriptions
from pymq.broker.metadata.notices import Notices
from pymq.broker.metadata.producer_ids import ProducerIds
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.model.subscription_report import differing_text
from pymq.net.memory_budget import CLIENT_TABLES, MemoryBudget
from pymq.rate_limited_log import RateLimitedLog
from pymq.wire.bodies_client import ConsumerData, SubscriptionData
from pymq.wire.command import ProvenSender
from pymq.wire.dispatch import Peer

log = logging.getLogger(__name__)

BROADCASTING = "BROADCASTING"

# What the tables hold, for the memory budget. Measured, with the places in dicts.
MEMBER_BYTES = 1000
SUBSCRIPTION_BYTES = 700
TAG_BYTES = 16  # of a tag beside its text: its place in a list
TAG_CODE_BYTES = 48
# Longer lists are kept as their JSON, one object. Thousands of small ones leave their memory to Python when they go: a
# few others lie among them, and the system gets none of it back.
LIST_LENGTH_MAX = 8
SILENT_A_TICK = 5000  # members that are removed at a time, in some 15 ms


@dataclass(slots=True)
class Client:
    """One client on one connection, as its last heartbeat described it. ``sender``: who proved to have sent that."""

    client_id: str
    peer: Peer
    language: str
    version: int
    seen_ms: int  # wall clock, for display
    seen_monotonic_ms: int
    sender: ProvenSender | None = None

    @property
    def user(self) -> str:
        """The user's name; empty on a broker that checks nothing."""
        return self.sender.name if self.sender is not None else ""

    def may_publish(self, topic: str) -> bool:
        """Return whether it may publish to ``topic`` now; anyone may on a broker that checks nothing."""
        return self.sender is None or self.sender.may_publish(topic)


@dataclass(slots=True)
class ConsumerGroup:
    """The connected members of a consumer group and what it subscribes to (topic -> subscription)."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    members: dict[Peer, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    by_member: MemberSubscriptions = field(default_factory=MemberSubscriptions)
    payer: Peer | None = None  # the member that the memory of the subscriptions counts for
    size_bytes: int = 0  # of the subscriptions

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Return each member once, sorted."""
        return sorted({client.client_id for client in self.members.values()})

    def find(self, client_id: str) -> Client | None:
        """Return the member of that id with the newest heartbeat."""
        found = [client for client in self.members.values() if client.client_id == client_id]
        return max(found, key=lambda client: client.seen_monotonic_ms, default=None)


class ClientManager:
    """The connected clients. Notifies a group's members when its members or subscriptions change."""

    def __init__(self, *, clock: Clock, config: BrokerConfig, groups: GroupManager, budget: MemoryBudget) -> None:
        self._budget = budget
        self._clock = clock
        self._config = config
        self._groups = groups
        self._consumers: dict[str, ConsumerGroup] = {}
        self._log = RateLimitedLog(log, clock, "consumer groups")
        self._producers: dict[str, dict[Peer, Client]] = {}
        self._producer_ids = ProducerIds(clock, lambda: config.channel_expiry_ms)
        # By connection (producer groups, consumer groups), so that its end needs no search.
        self._memberships: dict[Peer, tuple[set[str], set[str]]] = {}
        self._unnotified: dict[str, ConsumerGroup] | None = None  # set while many members go at once
        self._notices = Notices(self._peers_of)
        self.consumer_group = self._consumers.get

    # -- heartbeats ----------------------------------------------------------------------------------------------

    def client(
        self, client_id: str, peer: Peer, language: str, version: int, sender: ProvenSender | None = None
    ) -> Client:
        """Return the sender of a heartbeat as it describes itself, with the present time."""
        return Client(client_id, peer, language, version, self._clock.now_ms(), self._clock.monotonic_ms(), sender)

    def group_count(self, peer: Peer, producers: Iterable[str], consumers: Iterable[str]) -> int:
        """Return the number of groups that a connection would belong to after it joined these."""
        known_producers, known_consumers = self._memberships.get(peer, (set(), set()))
        return len(known_producers.union(producers)) + len(known_consumers.union(consumers))

    def register_producer(self, group: str, client: Client) -> None:
        """Note that a producer is alive."""
        members = self._producers.setdefault(group, {})
        known = members.get(client.peer)
        members[client.peer] = client
        if known is None or (known.client_id, known.user) != (client.client_id, client.user):
            if known is not None:
                self._producer_ids.leave(known)
            self._producer_ids.join(client)
        self._join(client.peer, self._membership(client.peer)[0], group)

    def register_consumer(self, client: Client, data: ConsumerData, *, keep_subscriptions: bool = False) -> bool:
        """Note that a consumer is alive. If members or subscriptions changed, notify the group and return True.

        ``keep_subscriptions``: the heartbeat leaves them out because they have not changed.
        """
        group = self._consumers.get(data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        group.consume_type = str(data.consume_type)
        group.message_model = str(data.message_model)
        group.consume_from_where = str(data.consume_from_where)
        known = group.members.get(client.peer)
        changed = known is None or known.client_id != client.client_id
        group.members[client.peer] = client
        self._join(client.peer, self._membership(client.peer)[1], data.group_name)
        if not keep_subscriptions:
            changed = _update_subscriptions(group, data.subscription_data_set or []) or changed
            self._compare(group, client.peer, data.subscription_data_set or [])
            size_bytes = sum(map(_size_bytes, group.subscriptions.values())) + group.by_member.size_bytes
            self._charge(group, client.peer, size_bytes)
        if self._budget.is_over:
            self._budget.relieve()
        if changed:
            self._notify(group)
        return changed

    def unregister(self, peer: Peer, producer_group: str | None, consumer_group: str | None) -> None:
        """Remove a client from a group of producers, of consumers, or both."""
        producers, consumers = self._memberships.get(peer, (set(), set()))
        if producer_group in producers:
            producers.discard(producer_group)
            self._remove_producer(producer_group, peer)
        if consumer_group in consumers:
            consumers.discard(consumer_group)
            self._remove_consumer(consumer_group, peer)
        if not producers and not consumers:
            self._memberships.pop(peer, None)

    def disconnect(self, peer: Peer) -> None:
        """Remove the client of a connection that has ended from all its groups."""
        producers, consumers = self._memberships.pop(peer, (set(), set()))
        for name in producers:
            self._remove_producer(name, peer)
        for name in consumers:
            self._remove_consumer(name, peer)

    def forget_unproven(self) -> None:
        """Forget the clients whose users were deleted, or got other secrets: a heartbeat joins those that are there."""
        groups = [*(group.members for group in self._consumers.values()), *self._producers.values()]
        for peer in {
            client.peer
            for members in groups
            for client in members.values()
            if client.sender is not None and not client.sender.is_still_there
        }:
            self.disconnect(peer)

    def tick(self) -> None:
        """Forget clients without a heartbeat for ``channelExpiredTimeout``, at most SILENT_A_TICK at a time.

        A group is notified once, however many of its members go. Large groups get the next piece of their notices.
        """
        self._notices.tick()
        if not self._memberships:
            return
        oldest_ms = self._clock.monotonic_ms() - self._config.channel_expiry_ms
        tables = [(0, name, members) for name, members in self._producers.items()]
        tables += [(1, name, group.members) for name, group in self._consumers.items()]
        silent = [
            (kind, name, peer)
            for kind, name, members in tables
            for peer, client in members.items()
            if client.seen_monotonic_ms < oldest_ms
        ][:SILENT_A_TICK]
        changed: dict[str, ConsumerGroup] = {}
        self._unnotified = changed
        try:
            for kind, name, peer in silent:
                log.info("group %s: removed %s, which sent no heartbeat", name, peer.address)
                self.unregister(peer, None if kind else name, name if kind else None)
        finally:
            self._unnotified = None
        for group in changed.values():
            self._notify(group)

    # -- questions -----------------------------------------------------------------------------------------------

    def consumer_groups(self) -> list[ConsumerGroup]:
        """Return all groups with connected members."""
        return list(self._consumers.values())

    def member_ids(self, group: str) -> list[str]:
        """Return the client ids of a group's connected members, sorted; empty when none is connected."""
        found = self._consumers.get(group)
        return [] if found is None else found.client_ids()

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return a group's subscription to a topic; None when it has none or is not connected."""
        found = self._consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def differing(self, group: str) -> str:
        """Return a text about members of a group that subscribe differently, empty when they are alike."""
        found = self._consumers.get(group)
        return (
            "" if found is None or not found.by_member.differ else differing_text(group, found.by_member.differences())
        )

    def groups_of(self, topic: str) -> list[str]:
        """Return the connected groups that subscribe to the topic, sorted."""
        return sorted(group.name for group in self._consumers.values() if topic in group.subscriptions)

    def producers(self, group: str) -> list[Client]:
        """Return the connected producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer_peer(self, client_id: str) -> Peer | None:
        """Return the connection that gets the replies to a client id (:class:`ProducerIds`), None without one."""
        return self._producer_ids.peer(client_id)

    def all_producers(self) -> dict[str, list[Client]]:
        """Return the connected producers by group."""
        return {group: list(members.values()) for group, members in self._producers.items()}

    # -- within --------------------------------------------------------------------------------------------------

    def _compare(self, group: ConsumerGroup, peer: Peer, subscriptions: Iterable[SubscriptionData]) -> None:
        """Log when members of a group subscribe differently, again at growing intervals, and when that ends."""
        differed = group.by_member.differ
        group.by_member.note(peer, subscriptions)
        if group.by_member.differ:
            self._log.write(group.name, differing_text(group.name, group.by_member.differences()))
        elif differed:
            self._log.write(group.name, f"members of group '{group.name}' subscribe alike again", logging.INFO)

    def _membership(self, peer: Peer) -> tuple[set[str], set[str]]:
        found = self._memberships.get(peer)
        if found is None:
            found = self._memberships[peer] = (set(), set())
        return found

    def _join(self, peer: Peer, names: set[str], name: str) -> None:
        if name not in names:
            names.add(name)
            self._budget.hold_for(peer, CLIENT_TABLES, MEMBER_BYTES)

    def _charge(self, group: ConsumerGroup, payer: Peer | None, size_bytes: int) -> None:
        """Count a group's subscriptions for ``payer`` from now on."""
        if group.payer is not None:
            self._budget.hold_for(group.payer, CLIENT_TABLES, -group.size_bytes)
        group.payer, group.size_bytes = payer, size_bytes
        if payer is not None:
            self._budget.hold_for(payer, CLIENT_TABLES, size_bytes)

    def _remove_producer(self, name: str, peer: Peer) -> None:
        members = self._producers.get(name, {})
        client = members.pop(peer, None)
        if client is not None:
            self._producer_ids.leave(client)
            self._budget.hold_for(peer, CLIENT_TABLES, -MEMBER_BYTES)
        if not members:
            self._producers.pop(name, None)

    def _remove_consumer(self, name: str, peer: Peer) -> None:
        group = self._consumers.get(name)
        if group is None or group.members.pop(peer, None) is None:
            return
        group.by_member.forget(peer)
        self._budget.hold_for(peer, CLIENT_TABLES, -MEMBER_BYTES)
        if group.payer is peer:
            self._charge(group, next(iter(group.members), None), group.size_bytes)
        if group.members:
            self._notify(group)
        else:
            del self._consumers[name]

    def _notify(self, group: ConsumerGroup) -> None:
        if self._unnotified is not None:
            self._unnotified[group.name] = group
            return
        # Each member of a broadcasting group reads every queue, so it need not know the others.
        if group.is_broadcasting or not self._config.notify_consumer_ids_changed_enable:
            return
        config = self._groups.get(group.name)
        if config is not None and not config.notify_consumer_ids_changed_enable:
            return
        self._notices.send(group.name, len(group.members))

    def _peers_of(self, group: str) -> Iterable[Peer]:
        found = self._consumers.get(group)
        return () if found is None else found.members


def _update_subscriptions(group: ConsumerGroup, wanted: Iterable[SubscriptionData]) -> bool:
    """Take newer subscriptions and drop topics without one; return True when the set of topics changed.

    Java: ConsumerGroupInfo.updateSubscription. A newer expression for the same topic is taken without a notification.
    """
    changed = False
    topics = set()
    for subscription in wanted:
        topics.add(subscription.topic)
        known = group.subscriptions.get(subscription.topic)
        if known is None:
            changed = True
        if known is None or subscription.sub_version > known.sub_version:
            _pack(subscription)
            group.subscriptions[subscription.topic] = subscription
    for topic in [topic for topic in group.subscriptions if topic not in topics]:
        del group.subscriptions[topic]
        changed = True
    return changed


def _size_bytes(subscription: SubscriptionData) -> int:
    """Return about how much a subscription takes."""
    texts = [subscription.topic, subscription.sub_string, subscription.filter_class_source]
    return (
        SUBSCRIPTION_BYTES
        + sum(map(sys.getsizeof, texts))
        + _list_bytes(subscription.tags_set, TAG_BYTES)
        + _list_bytes(subscription.code_set, TAG_CODE_BYTES)
    )


def _pack(subscription: SubscriptionData) -> None:
    """Keep long lists as JSON: the broker only shows them."""
    lists: Any = subscription
    for name in ("tags_set", "code_set"):
        values = getattr(lists, name)
        if isinstance(values, list) and len(values) > LIST_LENGTH_MAX:
            setattr(lists, name, msgspec.Raw(msgspec.json.encode(values)))


def _list_bytes(values: Any, place_bytes: int) -> int:
    """Return about how much tags or their codes take, of which each has a place of ``place_bytes``."""
    if isinstance(values, msgspec.Raw):
        return memoryview(values).nbytes
    return sum(place_bytes + (sys.getsizeof(value) if isinstance(value, str) else 0) for value in values or ())
