"""MemberSubscriptions: what each member of a consumer group subscribes to, to find members that differ.

A group shares its queues over all members, and a broker keeps one subscription per topic, the newest. Where members
differ, each one skips what only the others want, in the queues that it reads: those messages are lost to the group.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from pymq.model.names import RETRY_PREFIX
from pymq.model.selection import NOT_SUBSCRIBED, selection_text
from pymq.wire.bodies_client import SubscriptionData
from pymq.wire.dispatch import Peer

VARIANTS_MAX = 8  # of a group; members with yet another one count as the last
TOPICS_MAX = 64  # of a variant, that are compared
_TOPIC_BYTES = 100  # a topic's place in a variant, beside its texts

Variant = dict[str, str]  # topic -> selection


class MemberSubscriptions:
    """The members of one group by connection. Members with equal subscriptions share one variant."""

    __slots__ = ("_members", "_variants")

    def __init__(self) -> None:
        self._members: dict[Peer, Variant] = {}
        self._variants: list[Variant] = []

    def note(self, peer: Peer, subscriptions: Iterable[SubscriptionData]) -> None:
        """Note what a member's heartbeat says."""
        variant = _variant(subscriptions)
        known = self._members.get(peer)
        if known == variant:
            return
        for one in self._variants:
            if one == variant:
                self._members[peer] = one
                break
        else:
            if len(self._variants) >= VARIANTS_MAX:
                variant = self._variants[-1]
            else:
                self._variants.append(variant)
            self._members[peer] = variant
        self._drop_unused(known)

    def forget(self, peer: Peer) -> None:
        """Forget a member that left."""
        self._drop_unused(self._members.pop(peer, None))

    @property
    def differ(self) -> bool:
        """True while two members subscribe differently."""
        return len(self._variants) > 1

    @property
    def size_bytes(self) -> int:
        """About what the variants take in memory."""
        return sum(
            _TOPIC_BYTES + sys.getsizeof(topic) + sys.getsizeof(text)
            for variant in self._variants
            for topic, text in variant.items()
        )

    def differences(self) -> dict[str, dict[str, int]]:
        """Return, for each topic that members subscribe to differently, selection -> number of members."""
        if not self.differ:
            return {}
        counts = [(variant, sum(one is variant for one in self._members.values())) for variant in self._variants]
        found: dict[str, dict[str, int]] = {}
        for topic in sorted({topic for variant in self._variants for topic in variant}):
            selections: dict[str, int] = {}
            for variant, count in counts:
                selection = variant.get(topic, NOT_SUBSCRIBED)
                selections[selection] = selections.get(selection, 0) + count
            if len(selections) > 1:
                found[topic] = selections
        return found

    def _drop_unused(self, variant: Variant | None) -> None:
        if variant is not None and not any(one is variant for one in self._members.values()):
            self._variants = [one for one in self._variants if one is not variant]


def _variant(subscriptions: Iterable[SubscriptionData]) -> Variant:
    texts = {
        one.topic: selection_text(one.expression_type, one.sub_string, is_class_filter=one.class_filter_mode)
        for one in subscriptions
        if not one.topic.startswith(RETRY_PREFIX)
    }
    if len(texts) <= TOPICS_MAX:
        return texts
    return {topic: texts[topic] for topic in sorted(texts)[:TOPICS_MAX]}
