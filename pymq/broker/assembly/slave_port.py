"""SlavePort: the port on which slaves follow a master, while the broker's parts come and go with its role."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.addresses import listen_on_ha_port
from pymq.broker.replication.side import ReplicationSide
from pymq.config import BrokerConfig
from pymq.net.streams import StreamServer
from pymq.wire.streams import StreamHandler

MakeServer = Callable[[Callable[[], StreamHandler]], StreamServer]


class SlavePort:
    """The port of one broker."""

    def __init__(self, config: BrokerConfig, make_server: MakeServer) -> None:
        """``make_server`` returns a server that gives its connections to ``accept``."""
        self._config = config
        self._wanted = config.ha_listen_port
        self._make_server = make_server
        self._server: StreamServer | None = None

    async def listen(self, side: ReplicationSide) -> None:
        """Listen, for a plain group's master. Raises UsageError when the configured port is in use."""
        if side.accept is not None:
            self._server = self._make_server(side.accept)
            await listen_on_ha_port(self._server, self._config, self._wanted)

    def stop(self) -> None:
        """End all connections, and listen no more."""
        if self._server is not None:
            self._server.stop()
            self._server = None
