"""What tells the workers of a machine apart: each one's settings, from those of the machine."""

from __future__ import annotations

import re

from pymq.config import BrokerConfig
from pymq.config.base import format_value
from pymq.config.raft import GROUP_KEY, PEERS_KEY
from pymq.config.workers import COUNT_KEY, MACHINE_KEY, NUMBER_KEY, WORKERS_KEY
from pymq.errors import ConfigError
from pymq.model.tables import PERM_READ
from pymq.store.disk.workers_file import Layout, Worker

# Of two workers: each takes its port, the one before the last (fast) and the next one (HA).
PORTS_APART = 10
PORT_MAX = 65_535
MEMORY_BUDGET_MIN_BYTES = 32 * 1024 * 1024
MEMORY_SHARE = 4  # all budgets together get at most a quarter of the machine's memory
_PORT_AT_END = re.compile(r":(\d{1,5})(?=;|$|\s)")


def worker_settings(
    config: BrokerConfig, layout: Layout, worker: Worker, root: str, memory_bytes: int, count: int
) -> dict[str, str]:
    """Return the settings of one worker that differ from the machine's ``config``, by key.

    ``count``: of workers that stay. Others take no messages of clients, so that they become empty. Raises ConfigError
    for a port above 65535.
    """
    number = worker.number
    settings = {
        WORKERS_KEY: "1",
        MACHINE_KEY: layout.machine,
        NUMBER_KEY: str(number),
        COUNT_KEY: str(count),
        "brokerName": worker.name,
        "storePathRootDir": worker.directory(root),
        "metricsExporterType": "DISABLE",  # the machine serves the metrics of all
        "memoryBudgetBytes": str(memory_budget_bytes(config.memory_budget_bytes, memory_bytes, len(layout.active))),
    }
    if number >= count:
        settings["brokerPermission"] = str(config.broker_permission & PERM_READ)
    for key in ("listenPort", "fastListenPort", "haListenPort"):
        first = int(config.get(key))
        if first > 0:  # 0 and -1 say how a port is found, not which one it is
            settings[key] = str(_moved(key, first, number))
    if config.audit_log_dir:
        settings["auditLogDir"] = f"{config.audit_log_dir}/{worker.name}"
    if config.ha_master_address:
        settings["haMasterAddress"] = moved_ports("haMasterAddress", config.ha_master_address, number)
    if config.raft_enabled:
        settings |= {GROUP_KEY: worker.name, PEERS_KEY: moved_ports(PEERS_KEY, config.raft_peers, number)}
    return settings


def memory_budget_bytes(configured: int, memory_bytes: int, count: int) -> int:
    """Return the memory budget of one of ``count`` workers: as configured, within its share of the machine's memory."""
    return max(min(configured, memory_bytes // MEMORY_SHARE // count), MEMORY_BUDGET_MIN_BYTES)


def moved_ports(key: str, text: str, number: int) -> str:
    """Return addresses separated by ``;`` with the ports of another machine's worker ``number``. Raises ConfigError."""
    return _PORT_AT_END.sub(lambda found: f":{_moved(key, int(found[1]), number)}", text)


def given_settings(config: BrokerConfig, given: dict[str, str]) -> dict[str, str]:
    """Return what the command line of the machine sets, for the command line of a worker.

    A relative path of the data directory is not among them: each worker has its own.
    """
    known = config.settings()
    return {key: format_value(config.get(key)) if key in known else text for key, text in given.items()}


def _moved(key: str, port: int, number: int) -> int:
    moved = port + number * PORTS_APART
    if moved > PORT_MAX:
        raise ConfigError(
            f"{key}={port} leaves no port for worker {number}, which would have {moved}: give a port below "
            f"{PORT_MAX - number * PORTS_APART + 1}, or fewer workers"
        )
    return moved
