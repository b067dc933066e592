"""Admin calls to name servers: shared values, their configuration, a broker's write permission."""

from __future__ import annotations

from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.settings_text import decode_settings, encode_settings
from pymq.errors import RefusedError
from pymq.wire.bodies_admin import decode_admin_body
from pymq.wire.bodies_route import KvTable
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


class NamesrvAdmin:
    """Calls to name servers. A change is sent to all of them, because they don't share their state."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    @property
    def addresses(self) -> list[str]:
        """The addresses of the name servers this client uses."""
        return list(self._connection.namesrv_addresses)

    async def put_value(self, namespace: str, key: str, value: str) -> None:
        """Sets a shared value."""
        header = PutKvHeader(namespace=namespace, key=key, value=value)
        await self._connection.ask_each_namesrv(RequestCode.PUT_KV_CONFIG, header)

    async def value(self, namespace: str, key: str) -> str | None:
        """Returns a shared value, None when it is not set."""
        try:
            header = KvKeyHeader(namespace=namespace, key=key)
            answer = await self._connection.ask_namesrv(RequestCode.GET_KV_CONFIG, header)
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return decode_header(KvValueAnswer, answer.ext).value

    async def delete_value(self, namespace: str, key: str) -> None:
        """Removes a shared value."""
        header = KvKeyHeader(namespace=namespace, key=key)
        await self._connection.ask_each_namesrv(RequestCode.DELETE_KV_CONFIG, header)

    async def values(self, namespace: str) -> dict[str, str]:
        """Returns all shared values of a namespace; empty for an unknown one."""
        try:
            header = KvNamespaceHeader(namespace=namespace)
            answer = await self._connection.ask_namesrv(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        return decode_admin_body(KvTable, answer.body).table

    async def config(self, address: str | None = None) -> dict[str, str]:
        """Returns the settings of one name server, by default of the first that answers."""
        code = RequestCode.GET_NAMESRV_CONFIG
        if address is None:
            answer = await self._connection.ask_namesrv(code)
        else:
            answer = await self._connection.ask_broker(address, code)
        return decode_settings(answer.body)

    async def update_config(self, changes: dict[str, str]) -> None:
        """Changes settings of every name server while it runs."""
        await self._connection.ask_each_namesrv(RequestCode.UPDATE_NAMESRV_CONFIG, None, encode_settings(changes))

    async def wipe_write_permission(self, broker_name: str) -> int:
        """Removes a broker's write permission from all routes; returns the largest topic count of any name server."""
        header = BrokerNameHeader(broker_name=broker_name)
        answers = await self._connection.ask_each_namesrv(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        return max(decode_header(WipeWritePermAnswer, answer.ext).wipe_topic_count for answer in answers)

    async def add_write_permission(self, broker_name: str) -> int:
        """Undoes :meth:`wipe_write_permission`."""
        header = BrokerNameHeader(broker_name=broker_name)
        answers = await self._connection.ask_each_namesrv(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        return max(decode_header(AddWritePermAnswer, answer.ext).add_topic_count for answer in answers)
