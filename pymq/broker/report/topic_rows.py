"""TopicRows: the ends of all topics in one answer, or of some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pymq.broker.report.queue_ends import QueueEnds, pieces
from pymq.broker.report.row_pages import Sight, after, page_of, seen
from pymq.errors import Refusal
from pymq.model.tables import TopicConfig
from pymq.wire.admin_text import encode_table_in_steps
from pymq.wire.bodies_rows import NAMED_MAX, TopicEnds
from pymq.wire.codes import ResponseCode
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.topics import TopicManager
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore


TRIED_COUNT = 8  # records that are read for the newest time of a topic, when the first ones are damaged


class TopicRows:
    """Answers GET_TOPIC_STATS_INFO (202) for the rows of all topics, or of named ones."""

    def __init__(self, *, topics: TopicManager, store: MessageStore) -> None:
        self._topics = topics
        self._store = store

    def ends(self, sight: Sight, after_name: str | None) -> Steps[Reply]:
        """Return a page of sums by topic, for the topics that the sender may see.

        Raises Refusal(NO_PERMISSION) for a sender who may see none.
        """
        visible = yield from seen(self._topics.all(), sight.topic)
        sight.check(visible, "Topic")
        page = yield from page_of(visible, after(after_name))
        return (yield from self._answer(page.names, page.next, sight))

    def ends_of(self, sight: Sight, names: Sequence[str]) -> Steps[Reply]:
        """Return sums of the named topics that are there and that the sender may see: none at all, if need be.

        Raises Refusal for more than :data:`NAMED_MAX` names.
        """
        if len(names) > NAMED_MAX:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"the body names {len(names)} topics: at most {NAMED_MAX} in one request; ask again for the rest",
            )
        visible = [name for name in dict.fromkeys(names) if self._topics.get(name) is not None and sight.topic(name)]
        return (yield from self._answer(visible, None, sight))

    def _answer(self, names: Sequence[str], next_name: str | None, sight: Sight) -> Steps[Reply]:
        rows: dict[str, TopicEnds] = {}
        for name in names:
            topic = self._topics.get(name)
            if topic is not None:
                rows[name] = yield from self._row(topic)
            yield
        table: dict[str, Any] = {"pymqEnds": rows, "pymqNext": next_name, "pymqWithheld": sight.withheld}
        return Reply(body=(yield from encode_table_in_steps(table)))

    def _row(self, topic: TopicConfig) -> Steps[TopicEnds]:
        end = stored = 0
        places: list[int] = []
        for ids in pieces(topic):
            queues = QueueEnds(self._store, topic, ids)
            end += queues.total
            for view in queues.views:
                if view is not None and (count := view.max_offset - view.min_offset):
                    stored += count
                    places.append(view.last_physical_offset)
            yield
        return TopicEnds(queues=topic.queue_count, end=end, stored=stored, last_ms=self._newest_ms(sorted(places)))

    def _newest_ms(self, places: list[int]) -> int | None:
        """Return the store time of the highest place in the log that has a good record."""
        # Store times never go back in the log.
        for place in places[: -TRIED_COUNT - 1 : -1]:
            store_ms = self._store.store_time_at(place) if place >= 0 else -1
            if store_ms >= 0:
                return store_ms
        return None
