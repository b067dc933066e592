"""RocketMQ's values for settings that other modules compare with."""

from __future__ import annotations

from typing import Final

BROKER_ID_MAX: Final = 2**31 - 1
# brokerRole
ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"
MASTER_ROLES: Final = frozenset({ASYNC_MASTER, SYNC_MASTER})

SYNC_FLUSH: Final = "SYNC_FLUSH"  # flushDiskType
