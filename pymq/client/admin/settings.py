"""Settings of one server, a broker or a name server: with their origins, and changes that lose no one else's.

PyMQ answers where each value came from and which keys may change at run time. Apache RocketMQ answers the values alone,
changes any key, and writes every change into its properties file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pymq.client.admin.connection import AdminConnection
from pymq.errors import PymqError
from pymq.wire.codes import RequestCode
from pymq.wire.header import decode_header
from pymq.wire.headers.admin import ConfigAnswer, GetConfigHeader, UpdateConfigHeader
from pymq.wire.settings_text import decode_settings, encode_settings

DEFAULT_ORIGIN = "default"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server's settings. ``version`` is empty when it tells none: an Apache name server.

    ``origins`` has the keys without their default, ``changeable`` those that may change at run time; both are None for
    an Apache server.
    """

    values: dict[str, str]
    version: str = ""
    origins: dict[str, str] | None = None
    changeable: frozenset[str] | None = None

    @property
    def is_apache(self) -> bool:
        return self.origins is None

    def origin(self, key: str) -> str | None:
        """Return default, env, file, flag, runtime (until a restart) or kept; None for an Apache server."""
        return None if self.origins is None else self.origins.get(key, DEFAULT_ORIGIN)


class SettingsAdmin:
    """Calls about settings to the server at an address "host:port"; ``is_namesrv``: a name server."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    async def read(self, address: str, *, is_namesrv: bool = False) -> ServerSettings:
        """Return a server's settings. Raises PymqError for an answer without any."""
        code = RequestCode.GET_NAMESRV_CONFIG if is_namesrv else RequestCode.GET_BROKER_CONFIG
        answer = await self._connection.ask_broker(address, code, GetConfigHeader(origins=True))
        about = decode_header(ConfigAnswer, answer.ext)
        values = decode_settings(answer.body)
        if not values:
            raise PymqError(f"the settings of {address} can't be read: the answer has no line name=value")
        return ServerSettings(
            values,
            about.version or "",
            msgspec.json.decode(about.origins, type=dict[str, str]) if about.origins else None,
            frozenset(about.changeable.split(";")) if about.changeable else None,
        )

    async def change(
        self,
        address: str,
        changes: Mapping[str, str],
        *,
        forget: Sequence[str] = (),
        is_kept: bool = False,
        seen: ServerSettings | None = None,
        is_namesrv: bool = False,
    ) -> None:
        """Change settings of a server while it runs, all or none.

        ``forget``: keys whose changes at run time are taken back; ``is_kept``: the change survives a restart, as it
        does on Apache RocketMQ in any case; ``seen``: the change is refused if the settings have changed since then
        (by PyMQ; Apache RocketMQ does not check it). Raises RefusedError.
        """
        code = RequestCode.UPDATE_NAMESRV_CONFIG if is_namesrv else RequestCode.UPDATE_BROKER_CONFIG
        header = UpdateConfigHeader(
            persist=is_kept, forget=";".join(forget), expected_version=seen.version if seen is not None else ""
        )
        await self._connection.ask_broker(address, code, header, encode_settings(changes))
