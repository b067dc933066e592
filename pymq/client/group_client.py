"""The base of all clients of a group: they start and stop, alone or under ``async with``, and know about forks."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from pymq.client.instance import ClientInstance
from pymq.model.names import check_group


class GroupClient:
    """A client that uses the name of ``group``. Use it with ``async with``, or :meth:`start` and :meth:`stop`."""

    def __init__(self, group: str, instance: ClientInstance) -> None:
        """Raise UsageError for an illegal group."""
        self.group = check_group(group)
        self._instance = instance

    @property
    def client_id(self) -> str:
        """The id under which brokers list this client."""
        return self._instance.client_id

    @property
    def inherited(self) -> bool:
        """True in a forked child if the parent used this client: its calls raise ClosedError here."""
        return self._instance.inherited

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start background jobs, such as the refresh of routes. Raises ClosedError after a stop."""
        if not self._instance.running:
            self._instance.start()

    async def stop(self) -> None:
        """Close all connections; pending requests fail with UnreachableError."""
        await self._instance.close()
