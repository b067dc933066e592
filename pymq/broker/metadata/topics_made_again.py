"""TopicsMadeAgain: connected consumers of a topic that was deleted and made again begin at its begin.

They don't know of it, and go on at offsets of the former topic, which messages of the new one may have by then: these
would be skipped without a word, with a lag of 0. A pending reset tells a group with its next pull; members of a
broadcasting group learn of it one by one (:mod:`pymq.broker.metadata.broadcast_begins`). A group that was away has no
offsets any more, because they went with the former topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.errors import Refusal

if TYPE_CHECKING:
    from pymq.broker.metadata.broadcast_begins import BroadcastBegins
    from pymq.broker.metadata.clients import ClientManager
    from pymq.broker.metadata.cursors import CursorManager
    from pymq.broker.metadata.topics import TopicManager
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)


class TopicsMadeAgain:
    """Hears of changed topics on a master."""

    def __init__(
        self,
        *,
        topics: TopicManager,
        clients: ClientManager,
        cursors: CursorManager,
        broadcast_begins: BroadcastBegins,
        store: MessageStore,
        wake_pulls: Callable[[str, int], None],
    ) -> None:
        """``wake_pulls(topic, queue_id)`` has parked pulls read again, so that they learn of a reset at once."""
        self._topics = topics
        self._clients = clients
        self._cursors = cursors
        self._broadcast_begins = broadcast_begins
        self._store = store
        self._wake_pulls = wake_pulls
        topics.add_listener(self._changed)

    def _changed(self, changed: list[str]) -> None:
        for name in changed:
            topic = self._topics.get(name)
            if topic is None:
                self._broadcast_begins.forget(name)
            if topic is not None and self._store.deletions.end(name):
                self._begin_again(name, range(topic.queue_count))

    def _begin_again(self, topic: str, queue_ids: range) -> None:
        if any(self._store.queue_end(topic, queue_id) is not None for queue_id in queue_ids):
            return  # only its settings have changed
        self._broadcast_begins.made_again(topic)
        for group in self._clients.groups_of(topic):
            known = self._clients.consumer_group(group)
            try:
                for queue_id in queue_ids:
                    if known is None or not known.is_broadcasting:
                        self._cursors.reset(group, topic, queue_id, 0)
                    self._wake_pulls(topic, queue_id)
            except Refusal as refusal:
                log.warning("group %s may skip messages of %s, which was made again: %s", group, topic, refusal.remark)
            else:
                log.info("group %s begins again in topic %s, which was made again", group, topic)
