"""RocketMQ's values and names of settings that other modules compare with."""

from __future__ import annotations

from typing import Final

BROKER_ID_MAX: Final = 2**31 - 1
WORKER_COUNT_MAX: Final = 64  # brokers of one machine that share a data directory
# brokerRole
ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"
MASTER_ROLES: Final = frozenset({ASYNC_MASTER, SYNC_MASTER})

SYNC_FLUSH: Final = "SYNC_FLUSH"  # flushDiskType

# Settings that decide how soon segments are deleted: to change one is to delete.
RETENTION_KEYS: Final = frozenset(
    {
        "fileReservedTime",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "cleanFileForciblyEnable",
        "commitLogBytesMax",
        "diskFreeBytesMin",
    }
)
