"""Admin calls to name servers: shared values, their configuration, a broker's write permission."""

from __future__ import annotations

from typing import NamedTuple

from pymq.client.admin.connection import AdminConnection
from pymq.errors import PymqError, RefusedError
from pymq.wire.bodies_admin import decode_admin_body
from pymq.wire.bodies_route import KvTable, TopicList, decode_cluster_info
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.header import decode_header
from pymq.wire.headers.route import (
    AddWritePermAnswer,
    BrokerNameHeader,
    KvKeyHeader,
    KvNamespaceHeader,
    KvValueAnswer,
    PutKvHeader,
    WipeWritePermAnswer,
)
from pymq.wire.settings_text import decode_settings, encode_settings

_NO_VALUE = frozenset({ResponseCode.QUERY_NOT_FOUND})


class NamesrvView(NamedTuple):
    """What one name server knows: the names of brokers and of topics."""

    brokers: frozenset[str]
    topics: frozenset[str]


class NamesrvAdmin:
    """Calls to name servers. A change is sent to all of them, because they don't share their state.

    A change raises PartialError when some of them could not be reached or refused it.
    """

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    @property
    def addresses(self) -> list[str]:
        """The addresses of the name servers this client uses."""
        return list(self._connection.namesrv_addresses)

    async def views(self) -> dict[str, NamesrvView | PymqError]:
        """Return what each name server knows by its address, or why it does not answer."""
        connection = self._connection
        infos = await connection.try_each_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO)
        lists = await connection.try_each_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        found: dict[str, NamesrvView | PymqError] = {}
        for address, info in infos.items():
            topics = lists[address]
            if isinstance(info, PymqError):
                found[address] = info
            elif isinstance(topics, PymqError):
                found[address] = topics
            else:
                brokers = decode_cluster_info(info.body).broker_addr_table
                names = decode_admin_body(TopicList, topics.body).topic_list
                found[address] = NamesrvView(frozenset(brokers), frozenset(names))
        return found

    async def put_value(self, namespace: str, key: str, value: str) -> None:
        """Set a shared value."""
        header = PutKvHeader(namespace=namespace, key=key, value=value)
        await self._connection.ask_each_namesrv(RequestCode.PUT_KV_CONFIG, header)

    async def value(self, namespace: str, key: str) -> str | None:
        """Return a shared value, None when it is not set."""
        try:
            header = KvKeyHeader(namespace=namespace, key=key)
            code = RequestCode.GET_KV_CONFIG
            answer = await self._connection.ask_namesrv(code, header, missing_codes=_NO_VALUE)
        except RefusedError as error:
            if error.code in _NO_VALUE:
                return None
            raise
        return decode_header(KvValueAnswer, answer.ext).value

    async def delete_value(self, namespace: str, key: str) -> None:
        """Remove a shared value."""
        header = KvKeyHeader(namespace=namespace, key=key)
        await self._connection.ask_each_namesrv(RequestCode.DELETE_KV_CONFIG, header)

    async def values(self, namespace: str) -> dict[str, str]:
        """Return all shared values of a namespace; empty for an unknown one."""
        try:
            header = KvNamespaceHeader(namespace=namespace)
            code = RequestCode.GET_KVLIST_BY_NAMESPACE
            answer = await self._connection.ask_namesrv(code, header, missing_codes=_NO_VALUE)
        except RefusedError as error:
            if error.code in _NO_VALUE:
                return {}
            raise
        return decode_admin_body(KvTable, answer.body).table

    async def config(self, address: str | None = None) -> dict[str, str]:
        """Return the settings of one name server, by default of the first that answers."""
        code = RequestCode.GET_NAMESRV_CONFIG
        if address is None:
            answer = await self._connection.ask_namesrv(code)
        else:
            answer = await self._connection.ask_broker(address, code)
        return decode_settings(answer.body)

    async def configs(self) -> dict[str, dict[str, str] | PymqError]:
        """Return the settings of every name server by its address, or why there are none."""
        found = await self._connection.try_each_namesrv(RequestCode.GET_NAMESRV_CONFIG)
        return {
            address: answer if isinstance(answer, PymqError) else decode_settings(answer.body)
            for address, answer in found.items()
        }

    async def update_config(self, changes: dict[str, str], address: str | None = None) -> None:
        """Change settings of one name server while it runs, by default of every one.

        Raises RefusedError for settings that can't be changed, PartialError when only some servers have changed them.
        """
        body, code = encode_settings(changes), RequestCode.UPDATE_NAMESRV_CONFIG
        if address is None:
            await self._connection.ask_each_namesrv(code, None, body)
        else:
            await self._connection.ask_broker(address, code, None, body)

    async def wipe_write_permission(self, broker_name: str) -> int:
        """Remove a broker's write permission from all routes; return the largest topic count of any name server."""
        header = BrokerNameHeader(broker_name=broker_name)
        answers = await self._connection.ask_each_namesrv(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        return max(decode_header(WipeWritePermAnswer, answer.ext).wipe_topic_count for answer in answers)

    async def add_write_permission(self, broker_name: str) -> int:
        """Undo :meth:`wipe_write_permission`."""
        header = BrokerNameHeader(broker_name=broker_name)
        answers = await self._connection.ask_each_namesrv(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        return max(decode_header(AddWritePermAnswer, answer.ext).add_topic_count for answer in answers)
