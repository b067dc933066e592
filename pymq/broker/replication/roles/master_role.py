"""SeenMasterRole: the role of the group's master, ASYNC_MASTER or SYNC_MASTER: a broker that takes over keeps it."""

from __future__ import annotations

from collections.abc import Callable

from pymq.config.values import MASTER_ROLES


class SeenMasterRole:
    """``name``: the role when it was last seen; empty: never seen."""

    def __init__(self, name: str, on_seen: Callable[[str], None]) -> None:
        """``on_seen`` is called each time a master's role is seen, changed or not."""
        self.name = name
        self._on_seen = on_seen

    def note(self, name: str) -> None:
        """Keep the role of the group's master. A name that is no master's role is ignored."""
        if name in MASTER_ROLES:
            self.name = name
            self._on_seen(name)
