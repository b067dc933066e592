"""LiteControl: carries out what clients say of their subscriptions to lite topics (200071).

Java: LiteSubscriptionCtlProcessor. Beyond it, entries that can't be carried out are refused, and quotas are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.pop.lite_offsets import LiteOffsets
from pymq.broker.pop.lite_subscriptions import LiteClient, LiteSubscriptions
from pymq.broker.pop.ordered_queues import OrderedQueue, OrderedQueues
from pymq.errors import Refusal, StoreError
from pymq.model.lite_groups import BIND_TOPIC, LiteGroupRules, lite_group_rules
from pymq.model.lite_topics import is_parent, light_queue_name, lite_name_problem
from pymq.wire import bodies_lites as wire
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from pymq.wire.dispatch import Peer
from pymq.wire.headers.lites import NotifyUnsubscribeLiteHeader

if TYPE_CHECKING:
    from pymq.broker.metadata.cursors import CursorManager
    from pymq.broker.metadata.groups import GroupManager
    from pymq.broker.metadata.metadata import Metadata
    from pymq.broker.metadata.topics import TopicManager
    from pymq.store.store import LightReader


class LiteControl:
    """Changes subscriptions, and groups' offsets where a client or the group asks for it."""

    def __init__(
        self,
        *,
        metadata: Metadata,
        lights: LightReader,
        subscriptions: LiteSubscriptions,
        ordered_queues: OrderedQueues,
        offsets: LiteOffsets,
    ) -> None:
        self._topics: TopicManager = metadata.topics
        self._groups: GroupManager = metadata.groups
        self._cursors: CursorManager = metadata.cursors
        self._lights = lights
        self._subscriptions = subscriptions
        self._ordered = ordered_queues
        self._offsets = offsets

    def rules(self, group: str, parent: str) -> LiteGroupRules:
        """Return how a group reads the lite topics of ``parent``.

        Raises Refusal: 17, 26 for a topic or group that is not there, 29 for a topic that has no lite topics, or that
        the group is not bound to.
        """
        if not is_parent(self._topics.require(parent).attributes):
            raise _invalid(f"topic {parent} has no lite topics: only topics with message.type=LITE have them")
        found = self._groups.get(group)
        rules = None if found is None else lite_group_rules(found.attributes)
        if rules is None or rules.parent != parent:
            bound = "no topic" if rules is None else f"topic {rules.parent}"
            raise _invalid(
                f"group {group[:127]} is bound to {bound}, so it can't read lite topics of {parent}: give it the "
                f"attribute {BIND_TOPIC}={parent}"
            )
        return rules

    def change(self, entry: wire.LiteSubscription, peer: Peer, user: str) -> None:
        """Carry out one entry. Raises Refusal before anything of it has changed."""
        group, parent, client_id = entry.group or "", entry.topic or "", entry.client_id or ""
        for name, value in (("clientId", client_id), ("group", group), ("topic", parent)):
            if not value.strip():
                raise _invalid(f"a subscription has no {name}: name the client, its group and the parent topic")
        rules = self.rules(group, parent)
        lites = dict.fromkeys(entry.lite_topic_set or ())
        for lite in lites:
            problem = lite_name_problem(lite)
            if problem is not None:
                raise _invalid(problem)
        if entry.action in (wire.PARTIAL_REMOVE, wire.COMPLETE_REMOVE):
            self._remove(entry.action, self._subscriptions.owned(group, client_id, user), rules, list(lites))
        elif rules.is_wildcard:
            self._check_whole(entry.action, group)
            self._subscriptions.join(group, client_id, peer, user, rules)
        else:
            client = self._subscriptions.join(group, client_id, peer, user, rules)
            if entry.action == wire.PARTIAL_ADD:
                self._add(client, list(lites), rules, entry.offset_option)
            elif not 0 < entry.version < client.version:  # else a newer set has overtaken it
                client.version = entry.version
                self._replace(client, lites, rules, entry.offset_option)

    def has_news(self, group: str, parent: str, lite: str) -> bool:
        """Return True when a lite topic has messages that the group has not acknowledged, also when that is unclear."""
        try:
            return self._offsets.has_news(group, parent, lite)
        except (StoreError, OSError):
            return True  # the pop meets the same error and answers with it

    def look_again(self, client: LiteClient) -> int:
        """Have a client's lite topics with messages looked at; return their number."""
        group = client.group
        if group.is_wildcard:
            names = self._lights.names_of(group.parent)
            group.unseen = iter(names)
            return len(names)
        found = [lite for lite in client.lites if self.has_news(group.name, group.parent, lite)]
        for lite in found:
            self._subscriptions.mark(group, lite)
        return len(found)

    # -- within --------------------------------------------------------------------------------------------------

    def _check_whole(self, action: str, group: str) -> None:
        if action != wire.COMPLETE_ADD:
            raise Refusal(
                ResponseCode.ILLEGAL_OPERATION,
                f"group {group} gets all lite topics (lite.sub.wildcard): its clients can't subscribe to single ones",
            )

    def _add(
        self, client: LiteClient, lites: list[str], rules: LiteGroupRules, option: wire.LiteOffsetOption | None
    ) -> None:
        added = dict.fromkeys(lite for lite in lites if lite not in client.lites)
        self._subscriptions.check_room(client, added, len(client.lites), rules.client_quota)
        for lite in added:
            if rules.is_exclusive:
                for other in list(self._subscriptions.subscribers(client.group, lite)):
                    self._exclude(other, lite, rules)
            self._subscribe(client, lite, option)
        if option is not None:
            group = client.group
            for lite in [lite for lite in lites if lite not in added]:
                self._begin_at(group.name, group.parent, lite, option)
                if self.has_news(group.name, group.parent, lite):
                    self._subscriptions.mark(group, lite)

    def _replace(
        self,
        client: LiteClient,
        wanted: dict[str, None],
        rules: LiteGroupRules,
        option: wire.LiteOffsetOption | None,
    ) -> None:
        """Give a client this set. What is somebody else's in an exclusive group stays there, and the client hears it:
        it may have missed that its subscription was ended."""
        lost = [
            lite
            for lite in wanted
            if rules.is_exclusive and lite not in client.lites and self._subscriptions.subscribers(client.group, lite)
        ]
        added = (
            [lite for lite in wanted if lite not in client.lites and lite not in lost]
            if lost
            else [lite for lite in wanted if lite not in client.lites]
        )
        gone = [lite for lite in client.lites if lite not in wanted]
        self._subscriptions.check_room(client, added, len(client.lites) - len(gone), rules.client_quota)
        for lite in gone:
            self._unsubscribe(client, lite, rules)
        for lite in added:
            self._subscribe(client, lite, option)
        for lite in lost:
            _notify(client, lite)

    def _remove(self, action: str, client: LiteClient | None, rules: LiteGroupRules, lites: list[str]) -> None:
        if client is None:
            return
        if action == wire.COMPLETE_REMOVE:
            lites = list(client.lites)
        elif rules.is_wildcard:
            self._check_whole(action, client.group.name)
        for lite in lites:
            if lite in client.lites:
                self._unsubscribe(client, lite, rules)
        if action == wire.COMPLETE_REMOVE:
            self._subscriptions.leave(client)
        else:
            self._subscriptions.renew(client)

    def _subscribe(self, client: LiteClient, lite: str, option: wire.LiteOffsetOption | None) -> None:
        group = client.group
        if option is not None:
            self._begin_at(group.name, group.parent, lite, option)
        self._subscriptions.add(client, lite, has_news=self.has_news(group.name, group.parent, lite))

    def _unsubscribe(self, client: LiteClient, lite: str, rules: LiteGroupRules) -> None:
        group = client.group
        self._subscriptions.remove(client, lite)
        if rules.resets_when_unsubscribed and not self._subscriptions.subscribers(group, lite):
            self._reset(group.name, group.parent, lite)

    def _exclude(self, other: LiteClient, lite: str, rules: LiteGroupRules) -> None:
        self._subscriptions.remove(other, lite)
        if rules.resets_when_excluded:
            self._reset(other.group.name, other.group.parent, lite)
        _notify(other, lite)

    def _reset(self, group: str, parent: str, lite: str) -> None:
        """Have a group read a lite topic from its begin."""
        queue = OrderedQueue(light_queue_name(parent, lite), group, 0)
        if self._cursors.query(group, queue.topic, 0) > 0:
            self._ordered.move(queue, 0)

    def _begin_at(self, group: str, parent: str, lite: str, option: wire.LiteOffsetOption) -> None:
        """Move the group as an offset option says. Raises Refusal at the limit of offsets."""
        queue = OrderedQueue(light_queue_name(parent, lite), group, 0)
        committed = self._cursors.query(group, queue.topic, 0)
        end = self._lights.max_offset(parent, lite)
        wanted: int | None = None
        if option.type == wire.OFFSET:
            wanted = option.value
        elif option.type == wire.TAIL_N and committed >= 0:
            wanted = committed - option.value
        elif option.type == wire.TIMESTAMP:
            wanted = self._lights.offset_at(parent, lite, option.value)
        elif option.type == wire.POLICY and option.value == wire.FROM_MIN:
            wanted = 0
        elif option.type == wire.POLICY and option.value == wire.FROM_MAX:
            wanted = end
        if wanted is None:
            return
        wanted = min(max(wanted, 0), end)
        if wanted == committed:
            return
        if committed < 0:
            self._cursors.check_room()
        self._ordered.move(queue, wanted)


def _notify(client: LiteClient, lite: str) -> None:
    """Tell a client that another one has the lite topic."""
    header = NotifyUnsubscribeLiteHeader(lite_topic=lite, consumer_group=client.group.name, client_id=client.client_id)
    client.peer.push(request(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header, oneway=True))


def _invalid(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)
