"""Operators' requests about topics: make, change, delete, list, count (17, 18, 215, 5002, 351, 21, 202, 305, 316)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.handlers.name_lists import checked_list
from pymq.broker.metadata.late import WhenRegistered, answer_when_registered, answer_when_saved, version_ext
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.metadata.topic_rules import changed_attributes, check_topic_name
from pymq.broker.report.row_pages import Sight
from pymq.broker.report.topic_rows import TopicRows
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.model import pop
from pymq.model.message import MessageQueue
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.admin_text import encode_in_steps, encode_table_in_steps
from pymq.wire.bodies_admin import (
    ListedTopics,
    TopicConfigList,
    TopicOffset,
    TopicStats,
    decode_admin_body,
    encode_admin_body,
)
from pymq.wire.bodies_client import PYMQ_LANGUAGE
from pymq.wire.bodies_route import TopicList
from pymq.wire.bodies_rows import NamedTopics
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import (
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
    TopicStatsAnswer,
    TopicStatsHeader,
)
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.writer import Writer
    from pymq.broker.pop.revive_log import ReviveLog
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore

TOPICS_AT_ONCE = 200  # that are deleted with one write of the file of deletions
QUEUES_AT_ONCE = 32  # whose figures are read, with a record of the log each, before the next rest

# Calls its argument when the name servers know the change, or can't be reached.


class TopicAdminHandlers:
    """Makes, changes and deletes topics. A change is answered when it is saved and the name servers know it."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        revive_log: ReviveLog,
        stats: StatsManager,
        store: MessageStore,
        writer: Writer,
        when_registered: WhenRegistered,
    ) -> None:
        self._sliced_work = runtime.sliced_work
        self._config = runtime.config
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._cursors = metadata.cursors
        self._request_modes = metadata.request_modes
        self._order_infos = metadata.order_infos
        self._revive_log = revive_log
        self._stats = stats
        self._store = store
        self._writer = writer
        self._when_registered = when_registered
        self._share_deletions = metadata.share_deletions
        self._rows = TopicRows(topics=metadata.topics, store=store)

    def create(self, request: Command, header: CreateTopicHeader, peer: Peer) -> None:
        """Make or change a topic: queue numbers, permission, attributes."""
        check_topic_name(header.topic)
        wanted = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=self._topics.changed_attributes(header.topic, header.attributes),
        )
        self._put([wanted], request, peer, header.pymq_expected_version)

    def create_list(self, request: Command, header: None, peer: Peer) -> None:
        """Make or change several topics, all or none. Attributes come with a sign, as in single requests."""
        wanted = []
        for topic in decode_admin_body(TopicConfigList, request.body).topic_config_list:
            check_topic_name(topic.topic_name)
            wanted.append(self._with_plain_attributes(topic))
        self._put(wanted, request, peer)

    def delete(self, request: Command, header: DeleteTopicHeader, peer: Peer) -> None:
        """Delete a topic with its queues, offsets, meters, hand-outs and retries. An unknown one counts as deleted.

        Raises Refusal for one that was made again since its deletion was planned.
        """
        check_topic_name(header.topic)
        planned = header.pymq_deleted_below
        if planned is not None and self._store.deletions.end(header.topic) > planned:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"topic {header.topic} was deleted, and made again, after this deletion was planned: look at it again",
            )
        self._delete([header.topic], request, peer)

    def delete_list(self, request: Command, header: None, peer: Peer) -> None:
        """Delete several topics, all or none, as :meth:`delete` does one."""
        topics = checked_list("topic", decode_admin_body(ListedTopics, request.body).topic_list)
        for topic in topics:
            check_topic_name(topic)
        self._delete(topics, request, peer)

    def _delete(self, wanted: list[str], request: Command, peer: Peer) -> None:
        asked = request.envelope()
        known = self._topics.all().keys() | {topic for topic, _ in self._store.queues()}
        topics = {*wanted, *pop.retry_topics_of(frozenset(wanted), known, self._groups.all())}

        def finish() -> None:
            # The store must commit first what was sent to the topics in this turn.
            self._writer.commit()
            self._store.delete_topics(*known & topics)
            self._cursors.forget_topic(*topics)
            self._request_modes.forget(topics=topics)
            self._order_infos.forget_all(topics=topics)
            self._stats.forget_topic(*topics)
            self._revive_log.forget(topics=topics)
            answered = answer_when_registered(asked, peer, self._when_registered, Reply)
            self._share_deletions(self._store.deletions.ends, answered)

        self._topics.delete(*topics, done=answer_when_saved(request, peer, finish))

    def config_of(self, request: Command, header: GetTopicConfigHeader, peer: Peer) -> Reply:
        """Return one topic's configuration."""
        ext = version_ext(self._topics.data_version) if request.language == PYMQ_LANGUAGE else None
        return Reply(ext=ext, body=encode_admin_body(self._topics.require(header.topic)))

    def all_configs(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Return the whole table, for operators and slaves."""
        return self._sliced_work.answer(request, peer, self._all_configs())

    def _all_configs(self) -> Steps[Reply]:
        table = {
            "dataVersion": self._topics.data_version,
            "mappingDataVersion": DataVersion(),
            "topicConfigTable": self._topics.all(),
        }
        return Reply(body=(yield from encode_table_in_steps(table)))

    def stats(self, request: Command, header: TopicStatsHeader, peer: Peer) -> Reply | None:
        """Return each queue's ends and the time of its last message, and the topic's rate.

        With ``pymq_all``: sums over the queues, of all topics or of those in the body. PyMQ's clients also get the
        physical offset below which the topic's records are deleted. Raises Refusal.
        """
        if header.pymq_all:
            sight = Sight(request.sender, self._config.broker_cluster_name)
            if header.pymq_named:
                names = decode_admin_body(NamedTopics, request.body).names
                return self._sliced_work.answer(request, peer, self._rows.ends_of(sight, names))
            return self._sliced_work.answer(request, peer, self._rows.ends(sight, header.pymq_after))
        return self._sliced_work.answer(request, peer, self._topic_stats(header, request.language == PYMQ_LANGUAGE))

    def _topic_stats(self, header: TopicStatsHeader, is_pymq: bool) -> Steps[Reply]:
        topic = self._topics.require(header.topic)
        # Before the ends: who reads on from older ends with a newer one would miss what the topic had before.
        deleted = TopicStatsAnswer(pymq_deleted_below=self._store.deletions.end(header.topic)) if is_pymq else None
        offsets = {}
        for queue_id in range(topic.queue_count):
            end = self._store.max_offset(header.topic, queue_id)
            offsets[MessageQueue(header.topic, self._config.broker_name, queue_id)] = TopicOffset(
                min_offset=self._store.min_offset(header.topic, queue_id),
                max_offset=end,
                last_update_timestamp=max(0, self._store.store_time(header.topic, queue_id, end - 1)) if end else 0,
            )
            if queue_id % QUEUES_AT_ONCE == 0:
                yield
        rate = self._stats.put_per_second(header.topic)
        body = yield from encode_in_steps(TopicStats(offset_table=offsets, topic_put_tps=rate))
        return Reply(ext=deleted, body=body)

    def system_topics(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return the topics that every broker has."""
        return Reply(body=encode_admin_body(TopicList(topic_list=self._topics.system_names())))

    def clean_unused(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Remove queues of topics that have no configuration any more."""
        return self._sliced_work.answer(request, peer, self._clean_unused())

    def _clean_unused(self) -> Steps[Reply]:
        unused = sorted({topic for topic, _ in self._store.queues() if self._topics.get(topic) is None})
        for start in range(0, len(unused), TOPICS_AT_ONCE):
            batch = unused[start : start + TOPICS_AT_ONCE]
            self._writer.commit()
            self._store.delete_topics(*(topic for topic in batch if self._topics.get(topic) is None))
            yield
        self._share_deletions(self._store.deletions.ends, lambda error: None)
        return Reply()

    def _put(self, wanted: list[TopicConfig], request: Command, peer: Peer, expected: int | None = None) -> None:
        asked = request.envelope()

        def finish() -> None:
            ext = version_ext(self._topics.data_version) if expected is not None else None
            self._when_registered(lambda: peer.answer(asked, Reply(ext=ext)))

        self._topics.put(wanted, answer_when_saved(request, peer, finish), expected)

    def _with_plain_attributes(self, topic: TopicConfig) -> TopicConfig:
        signed = [f"{name}={value}" for name, value in topic.attributes.items() if name[:1] in "+-"]
        plain = {name: value for name, value in topic.attributes.items() if name[:1] not in "+-"}
        if not signed:
            return topic
        existing = {**self._topics.attributes(topic.topic_name), **plain}
        return TopicConfig(
            topic_name=topic.topic_name,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_filter_type=topic.topic_filter_type,
            topic_sys_flag=topic.topic_sys_flag,
            order=topic.order,
            attributes=changed_attributes(existing, ",".join(signed)),
        )
