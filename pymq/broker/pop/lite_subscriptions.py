"""LiteSubscriptions: which clients want which lite topics, and which of these have news for whom. In memory only.

A lite topic with news is *due* in its group: each of its subscribers has it in a list, and one that waits is woken. Who
takes it first gets its messages, and the others pass it over. Members of a wildcard group share one list of all
lite topics. Java: LiteSubscriptionRegistryImpl, LiteEventDispatcher.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from typing import Final

from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model.lite_groups import NO_QUOTA, LiteGroupRules
from pymq.net.memory_budget import CLIENT_TABLES
from pymq.wire.codes import ResponseCode
from pymq.wire.dispatch import Peer

# What a client and a subscription hold, for the memory budget. Measured, with their places in dicts.
LITE_CLIENT_BYTES: Final = 1000
LITE_SUBSCRIPTION_BYTES: Final = 300
CLIENT_ID_LENGTH_MAX: Final = 255
# Java: liteSubscriptionCheckTimeoutMills. A client that says nothing for this long has no subscriptions any more.
SILENT_MS: Final = 180_000
ENDED_A_TICK: Final = 1000
EVERYBODY: Final = ""  # the waiting place of a wildcard group's members

_Subscribers = dict["LiteClient", None]


class LiteClient:
    """One member of a group with the lite topics that it wants. ``due``: those with news, the oldest news first.

    ``user`` proved to have made it, empty on a broker that checks nothing; ``peer`` is the connection of its last
    subscription.
    """

    __slots__ = (
        "client_id", "due", "group", "last_attempt", "last_lites", "lites", "peer", "pop_ms", "seen_ms", "user",
        "version",
    )  # fmt: skip

    def __init__(self, client_id: str, group: LiteGroup, peer: Peer, user: str) -> None:
        self.client_id = client_id
        self.group = group
        self.peer = peer
        self.user = user
        self.lites: dict[str, None] = {}
        self.due: dict[str, None] = {}
        self.seen_ms = 0  # monotonic
        self.pop_ms = -1  # Unix ms of the last pop
        self.version = 0  # of the last complete set
        self.last_attempt: str | None = None
        self.last_lites: list[str] = []  # what the last attempt got


class LiteGroup:
    """The members of a group, and who wants which lite topic of ``parent``.

    ``due`` has the lite topics with news. Of a wildcard group it is the members' common list, and ``unseen`` the lite
    topics that were there before its first member.
    """

    __slots__ = ("clients", "due", "is_wildcard", "name", "parent", "subscribers", "unseen")

    def __init__(self, name: str, parent: str, *, is_wildcard: bool) -> None:
        self.name = name
        self.parent = parent
        self.is_wildcard = is_wildcard
        self.clients: dict[str, LiteClient] = {}
        self.subscribers: dict[str, _Subscribers] = {}
        self.due: dict[str, None] = {}
        self.unseen: Iterator[str] = iter(())


class LiteSubscriptions:
    """All clients' subscriptions. ``count`` is their number, those of wildcard groups' members left out."""

    def __init__(self, runtime: Runtime, *, names_of: Callable[[str], list[str]]) -> None:
        """``names_of`` returns the lite topics of a parent."""
        self._clock = runtime.clock
        self._config = runtime.config
        self._budget = runtime.budget
        self._names_of = names_of
        self._parents: dict[str, dict[str, LiteGroup]] = {}  # by parent and group
        self._groups: dict[str, LiteGroup] = {}
        self._by_peer: dict[Peer, dict[LiteClient, None]] = {}
        self._by_age: dict[LiteClient, None] = {}  # the one that was silent for longest first
        self.count = 0
        # Wakes one pop that waits at (group, client id, or EVERYBODY); False when none waits there.
        self.wake: Callable[[str, str], bool] = lambda group, client_id: False

    # -- clients -------------------------------------------------------------------------------------------------

    def find(self, group: str, client_id: str) -> LiteClient | None:
        """Return a client with subscriptions."""
        known = self._groups.get(group)
        return None if known is None else known.clients.get(client_id)

    def owned(self, group: str, client_id: str, user: str) -> LiteClient | None:
        """Return a client with subscriptions. Raises Refusal(NO_PERMISSION) when another user made it."""
        client = self.find(group, client_id)
        if client is not None and client.user != user:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"the client id {client_id[:60]!r} of group {group} belongs to another user: choose another id",
            )
        return client

    def clients_of(self, group: str) -> Collection[LiteClient]:
        """Return a group's clients with subscriptions."""
        known = self._groups.get(group)
        return () if known is None else known.clients.values()

    def groups_of(self, parent: str) -> Collection[LiteGroup]:
        """Return the groups with clients that subscribe to a parent's lite topics."""
        return self._parents.get(parent, {}).values()

    def subscribers(self, group: LiteGroup, lite: str) -> Collection[LiteClient]:
        """Return who gets a lite topic in a group."""
        return group.clients.values() if group.is_wildcard else group.subscribers.get(lite, ())

    @property
    def client_count(self) -> int:
        """The number of clients with subscriptions."""
        return len(self._by_age)

    @property
    def due_count(self) -> int:
        """The number of lite topics with news that wait for a pop, of all groups."""
        return sum(len(group.due) for group in self._groups.values())

    def join(self, group: str, client_id: str, peer: Peer, user: str, rules: LiteGroupRules) -> LiteClient:
        """Return a client, and make it if it is new; its subscriptions are renewed. Raises Refusal.

        When the group's parent or kind changed, its subscriptions are void.
        """
        known = self._groups.get(group)
        if known is not None and (known.parent, known.is_wildcard) != (rules.parent, rules.is_wildcard):
            for each in list(known.clients.values()):
                self.leave(each)
            known = None
        client = self.owned(group, client_id, user)
        if client is None:
            if len(client_id) > CLIENT_ID_LENGTH_MAX:
                raise Refusal(
                    ResponseCode.INVALID_PARAMETER,
                    f"the client id has {len(client_id)} characters, the limit is {CLIENT_ID_LENGTH_MAX}: shorten it",
                )
            self._check_client_count()
            if known is None:
                known = self._groups[group] = LiteGroup(group, rules.parent, is_wildcard=rules.is_wildcard)
                self._parents.setdefault(rules.parent, {})[group] = known
                if rules.is_wildcard:
                    known.unseen = iter(self._names_of(rules.parent))
            client = known.clients[client_id] = LiteClient(client_id, known, peer, user)
            self._connect(client, peer)
            self.wake(group, client_id)  # a pop that came before
        elif client.peer is not peer:
            self._disconnect(client)
            self._connect(client, peer)
        self.renew(client)
        if self._budget.is_over:
            self._budget.relieve()
        return client

    def renew(self, client: LiteClient) -> None:
        """Take note that a client is alive."""
        client.seen_ms = self._clock.monotonic_ms()
        self._by_age.pop(client, None)
        self._by_age[client] = None

    def leave(self, client: LiteClient) -> None:
        """End all subscriptions of a client."""
        group = client.group
        if group.clients.get(client.client_id) is not client:
            return
        for lite in list(client.lites):
            self.remove(client, lite)
        del group.clients[client.client_id]
        self._disconnect(client)
        self._by_age.pop(client, None)
        if not group.clients:
            del self._groups[group.name]
            of_parent = self._parents[group.parent]
            del of_parent[group.name]
            if not of_parent:
                del self._parents[group.parent]

    def disconnect(self, peer: Peer) -> None:
        """End the subscriptions of a connection that has ended."""
        for client in list(self._by_peer.get(peer, ())):
            self.leave(client)

    def tick(self) -> None:
        """End the subscriptions of clients that were silent for SILENT_MS, at most ENDED_A_TICK at a time."""
        limit_ms = self._clock.monotonic_ms() - SILENT_MS
        for _ in range(ENDED_A_TICK):
            client = next(iter(self._by_age), None)
            if client is None or client.seen_ms > limit_ms:
                return
            self.leave(client)

    def _connect(self, client: LiteClient, peer: Peer) -> None:
        client.peer = peer
        self._by_peer.setdefault(peer, {})[client] = None
        self._hold(client, 1)

    def _disconnect(self, client: LiteClient) -> None:
        of_peer = self._by_peer[client.peer]
        del of_peer[client]
        if not of_peer:
            del self._by_peer[client.peer]
        self._hold(client, -1)

    def _hold(self, client: LiteClient, sign: int) -> None:
        """Count what a client holds for its connection, or no longer."""
        size_bytes = LITE_CLIENT_BYTES + sys.getsizeof(client.client_id) + sum(map(_size_bytes, client.lites))
        self._budget.hold_for(client.peer, CLIENT_TABLES, sign * size_bytes)

    def _check_client_count(self) -> None:
        limit = self._config.lite_subscription_count_max
        if len(self._by_age) >= limit:
            raise _over_quota(f"the broker has {limit} clients that subscribe to lite topics", limit)

    # -- lite topics of a client ---------------------------------------------------------------------------------

    def check_room(self, client: LiteClient, added: Collection[str], kept_count: int, client_quota: int) -> None:
        """Check that a client may have ``added`` beside ``kept_count`` others. Raises Refusal(2018)."""
        if client_quota != NO_QUOTA and kept_count + len(added) > client_quota:
            raise Refusal(
                ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"client {client.client_id[:60]!r} of group {client.group.name} wants {kept_count + len(added)} lite "
                f"topics, the limit is {client_quota} (lite.sub.client.quota of the group): unsubscribe from some, or "
                "raise the limit",
            )
        limit = self._config.lite_subscription_count_max
        if self.count - len(client.lites) + kept_count + len(added) > limit:
            raise _over_quota(f"the broker has {self.count} subscriptions to lite topics, {len(added)} are new", limit)

    def add(self, client: LiteClient, lite: str, *, has_news: bool) -> None:
        """Add a lite topic that the client does not have."""
        group = client.group
        subscribers = group.subscribers.get(lite)
        if subscribers is None:
            subscribers = group.subscribers[lite] = {}
        subscribers[client] = None
        client.lites[lite] = None
        self.count += 1
        self._budget.hold_for(client.peer, CLIENT_TABLES, _size_bytes(lite))
        if lite in group.due:
            client.due[lite] = None
        elif has_news:
            self.mark(group, lite)

    def remove(self, client: LiteClient, lite: str) -> None:
        """Take a lite topic away from a client that has it."""
        group = client.group
        subscribers = group.subscribers[lite]
        del subscribers[client]
        del client.lites[lite]
        self.count -= 1
        self._budget.hold_for(client.peer, CLIENT_TABLES, -_size_bytes(lite))
        was_due = client.due.pop(lite, client) is None and lite in group.due
        if not subscribers:
            del group.subscribers[lite]
            group.due.pop(lite, None)
        elif was_due:  # perhaps this client alone was woken for it
            self._wake_one(group, lite)

    # -- news ----------------------------------------------------------------------------------------------------

    def on_news(self, parent: str, lite: str) -> None:
        """Take note that a lite topic has new messages for all groups."""
        groups = self._parents.get(parent)
        if groups is not None:
            for group in groups.values():
                self.mark(group, lite)

    def on_free(self, parent: str, lite: str, group_name: str) -> None:
        """Take note that a lite topic may have messages for one group."""
        group = self._groups.get(group_name)
        if group is not None and group.parent == parent:
            self.mark(group, lite)

    def mark(self, group: LiteGroup, lite: str) -> None:
        """Have a lite topic looked at in a group."""
        if lite in group.due:
            return
        if group.is_wildcard:
            group.due[lite] = None
            self.wake(group.name, EVERYBODY)
            return
        subscribers = group.subscribers.get(lite)
        if subscribers is None:
            return
        group.due[lite] = None
        for client in subscribers:
            client.due[lite] = None
        self._wake_one(group, lite)

    def take_due(self, client: LiteClient) -> Iterator[str]:
        """Yield the lite topics to look at for a client; each is not due any more.

        Those that were there before a wildcard group's first member come last.
        """
        group = client.group
        own = group.due if group.is_wildcard else client.due
        for _ in range(len(own)):
            lite = next(iter(own), None)
            if lite is None:
                break
            del own[lite]
            if group.is_wildcard or group.due.pop(lite, client) is None:
                yield lite
        yield from group.unseen

    def _wake_one(self, group: LiteGroup, lite: str) -> None:
        """Wake one subscriber that waits. The others get their turn next time."""
        subscribers = group.subscribers[lite]
        for client in subscribers:
            if self.wake(group.name, client.client_id):
                del subscribers[client]
                subscribers[client] = None
                return


def _size_bytes(lite: str) -> int:
    return LITE_SUBSCRIPTION_BYTES + sys.getsizeof(lite)


def _over_quota(what: str, limit: int) -> Refusal:
    return Refusal(
        ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
        f"{what}, the limit is {limit} (maxLiteSubscriptionCount): unsubscribe from some, or raise the limit",
    )
