"""BroadcastBegins: each member of a broadcasting group begins at the begin of a topic that was made again.

Such members keep their offsets themselves: a reset of the group would reach the first one that pulls, and the others,
or one that was away meanwhile, would go on at offsets of the former topic. So the first pull of each member from each
queue begins at 0. A client that asked for the queue's end, or for its offset at a time, has no offset of the former
topic: it begins where it likes. A client without a heartbeat belongs to no group here. A restart of the broker ends
this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymq.broker.metadata.clients import ClientManager
    from pymq.wire.dispatch import Peer

TOPICS_MAX = 1000  # that were made again and are remembered, the newest
QUEUES_MAX = 100_000  # of all members of a topic; one more is not known to have begun before

_ANY_GROUP = ""  # with a client's address in place of its id


class BroadcastBegins:
    """Knows, by topic that was made again, which members have begun in which queues."""

    def __init__(self, clients: ClientManager) -> None:
        self._clients = clients
        self._begun: dict[str, set[tuple[str, str, int]]] = {}  # topic -> group, client id, queue

    def made_again(self, topic: str) -> None:
        """Let every member begin again."""
        self._begun.pop(topic, None)
        if len(self._begun) >= TOPICS_MAX:
            del self._begun[next(iter(self._begun))]
        self._begun[topic] = set()

    def forget(self, topic: str) -> None:
        """Forget a topic that is gone."""
        self._begun.pop(topic, None)

    def asked_where_to_begin(self, topic: str, queue_id: int, peer: Peer) -> None:
        """Note that a client asks for a place in a queue to begin at."""
        begun = self._begun.get(topic)
        if begun is not None and len(begun) < QUEUES_MAX:
            begun.add((_ANY_GROUP, peer.address, queue_id))

    def is_new(self, group: str, topic: str, queue_id: int, peer: Peer) -> bool:
        """Return True for a pull that :meth:`begin` has to see."""
        return topic in self._begun and self._new_place(group, topic, queue_id, peer) is not None

    def begin(self, group: str, topic: str, queue_id: int, offset: int, peer: Peer) -> bool:
        """Return True for a pull that has to begin at 0, once: the member's next pull of the queue is as any other."""
        key = self._new_place(group, topic, queue_id, peer) if topic in self._begun else None
        if key is None:
            return False
        self._begun[topic].add(key)
        return offset > 0

    def _new_place(self, group: str, topic: str, queue_id: int, peer: Peer) -> tuple[str, str, int] | None:
        """Return a member of a broadcasting group, in a queue where it has not begun; None for all others."""
        found = self._clients.consumer_group(group)
        member = found.members.get(peer) if found is not None and found.is_broadcasting else None
        begun = self._begun[topic]
        if member is None or len(begun) >= QUEUES_MAX or (_ANY_GROUP, peer.address, queue_id) in begun:
            return None
        key = (group, member.client_id, queue_id)
        return None if key in begun else key
