"""Checks for conflicting replication settings, at the start and when they change."""

from __future__ import annotations

import ipaddress
from typing import Protocol

from pymq.config.values import SYNC_MASTER
from pymq.errors import ConfigError


class ReplicationSettings(Protocol):
    """The settings of :class:`pymq.config.broker.BrokerConfig` that these checks read."""

    broker_role: str
    listen_port: int
    in_sync_replicas: int
    min_in_sync_replicas: int
    ha_listen_port: int
    ha_master_address: str
    ha_slave_hosts: str
    ha_unproven_slave_hosts: str
    ha_unproven_master_hosts: str
    ha_send_heartbeat_interval_ms: int
    ha_housekeeping_interval_ms: int
    ha_max_gap_not_in_sync_bytes: int
    ha_transfer_batch_bytes: int


def check_replication(config: ReplicationSettings) -> None:
    """Raise ConfigError for a combination that breaks replication."""
    if config.min_in_sync_replicas > config.in_sync_replicas:
        raise ConfigError(
            f"minInSyncReplicas={config.min_in_sync_replicas} is more than inSyncReplicas={config.in_sync_replicas}: "
            "lower the first or raise the second"
        )
    heartbeat_ms, silence_ms = config.ha_send_heartbeat_interval_ms, config.ha_housekeeping_interval_ms
    if heartbeat_ms >= silence_ms:
        raise ConfigError(
            f"haSendHeartbeatInterval={heartbeat_ms} is not less than haHousekeepingInterval={silence_ms}: every quiet "
            f"replication connection would be closed before its next heartbeat; set it to {silence_ms // 4} or less"
        )
    if config.ha_listen_port and config.ha_listen_port == config.listen_port:
        raise ConfigError(
            f"haListenPort={config.ha_listen_port} equals listenPort: set another port, or 0 for listenPort + 1"
        )
    host, _, port = config.ha_master_address.rpartition(":")
    if config.ha_master_address and not (host and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(
            f"haMasterAddress={config.ha_master_address[:60]}: write the master's HA address as host:port, or nothing "
            "to learn it from the name servers"
        )
    for key, hosts in (
        ("haSlaveHosts", config.ha_slave_hosts),
        ("haUnprovenSlaveHosts", config.ha_unproven_slave_hosts),
        ("haUnprovenMasterHosts", config.ha_unproven_master_hosts),
    ):
        for name in filter(None, (part.strip() for part in hosts.split(";"))):
            try:
                ipaddress.ip_address(name)
            except ValueError:
                raise ConfigError(f"{key}: {name[:60]!r} is not an IP address: several are separated by ;") from None


def replication_warnings(config: ReplicationSettings) -> list[str]:
    """Return one sentence for each combination that works but is probably a mistake."""
    found = []
    if config.ha_unproven_slave_hosts:
        found.append(
            f"haUnprovenSlaveHosts={config.ha_unproven_slave_hosts}: every program on these hosts gets the whole log "
            "from the HA port without credentials; it is meant for RocketMQ's slaves"
        )
    heartbeat_ms, silence_ms = config.ha_send_heartbeat_interval_ms, config.ha_housekeeping_interval_ms
    if heartbeat_ms * 2 > silence_ms:
        found.append(
            f"haSendHeartbeatInterval={heartbeat_ms} is more than half of haHousekeepingInterval={silence_ms}: one "
            "late heartbeat ends the connection between master and slave"
        )
    if config.broker_role == SYNC_MASTER and config.in_sync_replicas == 1:
        found.append("brokerRole=SYNC_MASTER waits for no slave with inSyncReplicas=1: set it to 2 or more")
    if config.ha_max_gap_not_in_sync_bytes < config.ha_transfer_batch_bytes:
        found.append(
            f"haMaxGapNotInSync={config.ha_max_gap_not_in_sync_bytes} is less than one frame (haTransferBatchSize="
            f"{config.ha_transfer_batch_bytes}): a slave does not count as in sync while it receives one"
        )
    return found
