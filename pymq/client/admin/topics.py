"""Admin calls about topics: configuration on brokers, routes on name servers, offsets of queues."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

import msgspec

from pymq.client.admin.asking import BrokerTarget, by_key, change_each
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.guarded import Seen, change_entry
from pymq.client.admin.rows import RowAdmin, Rows
from pymq.errors import NotFoundError, RefusedError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.model.route import TopicRoute
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import GroupNames, TopicConfigTable, TopicOffset, TopicStats, decode_admin_body
from pymq.wire.bodies_route import TopicList, decode_route
from pymq.wire.bodies_rows import TopicEnds, topic_ends
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.admin import (
    VERSION_FIELD,
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
    TopicHeader,
    TopicStatsAnswer,
)
from pymq.wire.headers.route import ClusterHeader, DeleteTopicInNamesrvHeader, RouteHeader

_NO_TOPIC = frozenset({ResponseCode.TOPIC_NOT_EXIST})


class TopicAdmin:
    """Calls about topics."""

    def __init__(self, connection: AdminConnection, cluster: ClusterAdmin, rows: RowAdmin) -> None:
        self._connection = connection
        self._cluster = cluster
        self._rows = rows

    async def names(self, cluster: str | None = None) -> list[str]:
        """Return all topics of the name server, or of one cluster, sorted and with system topics."""
        if cluster is None:
            answer = await self._connection.ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            header = ClusterHeader(cluster=cluster)
            answer = await self._connection.ask_namesrv(RequestCode.GET_TOPICS_BY_CLUSTER, header)
        return sorted(decode_admin_body(TopicList, answer.body).topic_list)

    async def system_names(self) -> set[str]:
        """Return the topics named after clusters and brokers, and the brokers' system topics."""
        answer = await self._connection.ask_namesrv(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        listed = decode_admin_body(TopicList, answer.body)
        names = set(listed.topic_list)
        if listed.broker_addr:
            code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
            try:
                answer = await self._connection.ask_broker(listed.broker_addr, code)
            except (UnreachableError, RefusedError):
                return names  # the list of the name server is good enough
            names |= set(decode_admin_body(TopicList, answer.body).topic_list)
        return names

    async def route(self, topic: str) -> TopicRoute:
        """Return the topic's route. Raises NotFoundError."""
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        try:
            answer = await self._connection.ask_namesrv(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, header, missing_codes=_NO_TOPIC
            )
        except RefusedError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NotFoundError(f"no topic {topic!r}: pymq topic list shows all topics") from error
            raise
        route = decode_route(answer.body)
        self._connection.note_brokers(route.broker_datas)
        return route

    async def targets(self, topic: str) -> list[BrokerTarget]:
        """Return the masters that hold the topic, sorted by name. Raises NotFoundError."""
        route = await self.route(topic)
        brokers = [
            BrokerTarget(data.broker_name, data.cluster, data.master_address or "") for data in route.broker_datas
        ]
        return self._cluster.asking.reachable(sorted(brokers))

    async def config(self, address: str, topic: str) -> TopicConfig | None:
        """Return the topic's configuration on one broker, None when the broker lacks the topic."""
        return (await self._seen(address, topic)).entry

    async def _seen(self, address: str, topic: str) -> Seen[TopicConfig]:
        header = GetTopicConfigHeader(topic=topic, lo=True)
        try:
            answer = await self._connection.ask_broker(address, RequestCode.GET_TOPIC_CONFIG, header)
        except RefusedError as error:
            if error.code in _NO_TOPIC:
                return Seen(None, None)
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # 4.x before 4.9
                return Seen((await self.configs(address)).get(topic), None)
            raise
        version = answer.ext.get(VERSION_FIELD)
        return Seen(decode_admin_body(TopicConfig, answer.body), int(version) if version else None)

    async def configs(self, address: str) -> dict[str, TopicConfig]:
        """Return the configurations of all topics of one broker."""
        answer = await self._connection.ask_broker(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return decode_admin_body(TopicConfigTable, answer.body).topic_config_table

    async def put(self, address: str, config: TopicConfig) -> None:
        """Create the topic on one broker, or replace its configuration."""
        await self._write(address, config, None)

    async def _write(self, address: str, config: TopicConfig, version: int | None) -> dict[str, str]:
        # The broker keeps existing attributes: only changes are sent, as "+name=value".
        header = CreateTopicHeader(
            topic=config.topic_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=",".join(f"+{name}={value}" for name, value in config.attributes.items()),
            pymq_expected_version=version,
        )
        return (await self._connection.ask_broker(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)).ext

    async def update(
        self,
        topic: str,
        targets: Sequence[BrokerTarget],
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        attributes: dict[str, str] | None = None,
        is_dry: bool = False,
    ) -> list[tuple[BrokerTarget, TopicConfig, TopicConfig]]:
        """Change the given values and keep each broker's others; return (broker, before, after) for each broker.

        With ``is_dry`` it only returns them.

        Raises NotFoundError before anything is changed when a broker lacks the topic, ConflictError when another
        administrator changes it at the same time, PartialError when only some brokers made the change.
        """
        changes = {"read_queue_nums": read_queues, "write_queue_nums": write_queues, "perm": perm}
        given = {name: value for name, value in changes.items() if value is not None}
        for target in targets:
            if await self.config(target.address, topic) is None:
                raise NotFoundError(_not_on(topic, target))

        def merge(target: BrokerTarget, before: TopicConfig | None) -> TopicConfig:
            if before is None:
                raise NotFoundError(_not_on(topic, target))
            return msgspec.structs.replace(before, **given, attributes={**before.attributes, **(attributes or {})})

        async def change(target: BrokerTarget) -> tuple[BrokerTarget, TopicConfig, TopicConfig]:
            if is_dry:
                before = await self.config(target.address, topic)
                after = merge(target, before)
                return target, before or after, after
            changed = await change_entry(
                f"topic {topic!r} on {target.name or target.address}",
                lambda: self._seen(target.address, topic),
                lambda before: merge(target, before),
                # Other attributes are there already, and 5.x brokers refuse to set unchangeable ones again.
                lambda after, version: self._write(
                    target.address, msgspec.structs.replace(after, attributes=attributes or {}), version
                ),
            )
            assert changed.before is not None
            return target, changed.before, changed.after

        return await change_each(targets, change)

    async def delete(
        self,
        topic: str,
        targets: Sequence[BrokerTarget],
        *,
        everywhere: bool,
        known: Mapping[str, int] | None = None,
    ) -> None:
        """Delete the topic on the brokers, and on every name server if ``everywhere``.

        ``known``: what :meth:`deleted_below` said when the deletion was planned; a PyMQ broker refuses it for a topic
        that was made again since. Raises PartialError when only some brokers did it; then the name servers keep it.
        """
        code, known = RequestCode.DELETE_TOPIC_IN_BROKER, known or {}

        def delete_at(target: BrokerTarget) -> Awaitable[Command]:
            header = DeleteTopicHeader(topic=topic, pymq_deleted_below=known.get(target.address))
            return self._connection.ask_broker(target.address, code, header)

        await change_each(targets, delete_at)
        if everywhere:
            await self._connection.ask_each_namesrv(
                RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic)
            )

    async def stats(self, topic: str, targets: Sequence[BrokerTarget] | None = None) -> dict[MessageQueue, TopicOffset]:
        """Return first and next offset and last store time of every queue, sorted. Raises NotFoundError."""
        code, header = RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic)

        async def ask(address: str) -> dict[MessageQueue, TopicOffset]:
            answer = await self._connection.ask_or_none(address, code, header, _NO_TOPIC)
            return {} if answer is None else decode_admin_body(TopicStats, answer.body).offset_table

        answers = await self._cluster.asking.each(targets if targets is not None else await self.targets(topic), ask)
        return dict(sorted((queue, at) for _, table in answers for queue, at in table.items()))

    async def deleted_below(self, topic: str, targets: Sequence[BrokerTarget]) -> dict[str, int]:
        """Return by address below which physical offset of its log a broker has deleted the topic's records.

        Each deletion raises it: a larger one than before is a topic that was made again. RocketMQ's brokers don't say.
        """
        code, header = RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic)

        async def ask(address: str) -> int | None:
            answer = await self._connection.ask_or_none(address, code, header, _NO_TOPIC)
            return None if answer is None else decode_header(TopicStatsAnswer, answer.ext).pymq_deleted_below

        answers = await self._cluster.asking.each(targets, ask)
        return {target.address: end for target, end in answers if end is not None}

    async def ends_at(self, address: str) -> Rows[TopicEnds]:
        """Return how many messages each topic of one broker has taken and holds, and when the newest one was stored.

        PyMQ's brokers answer in one request, others take a request for each topic.
        """
        found = await self._rows.ends(address)
        if found is not None:
            return found
        code = RequestCode.GET_TOPIC_STATS_INFO

        async def ask(topic: str) -> TopicEnds | None:
            answer = await self._connection.ask_or_none(address, code, TopicHeader(topic=topic), _NO_TOPIC)
            return (
                None if answer is None else topic_ends(decode_admin_body(TopicStats, answer.body).offset_table.values())
            )

        rows = await by_key(sorted(await self.configs(address)), ask)
        return Rows((topic, row) for topic, row in rows.items() if row is not None)

    async def all_ends(self) -> Rows[dict[str, TopicEnds]]:
        """Return topic -> broker name -> the row of :meth:`ends_at`, over all masters."""
        found: Rows[dict[str, TopicEnds]] = Rows()
        for target, rows in await self._cluster.asking.each(await self._cluster.masters(), self.ends_at):
            found.withheld = found.withheld or rows.withheld
            for topic, row in rows.items():
                found.setdefault(topic, {})[target.name] = row
        return found

    async def groups(self, topic: str) -> list[str]:
        """Return the consumer groups that are online for the topic or have offsets in it. Raises NotFoundError."""
        code, header = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic)

        async def ask(address: str) -> list[str]:
            answer = await self._connection.ask_broker(address, code, header)
            return decode_admin_body(GroupNames, answer.body).group_list

        answers = await self._cluster.asking.each(await self.targets(topic), ask)
        return sorted({name for _, names in answers for name in names})


def _not_on(topic: str, target: BrokerTarget) -> str:
    return f"no topic {topic!r} on {target.name or target.address}: pymq topic create makes it"
