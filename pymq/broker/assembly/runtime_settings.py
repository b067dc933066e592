"""broker_runtime_settings: a broker's settings at run time; kept ones are in ``config/runtimeSettings.json``."""

from __future__ import annotations

from pymq.broker.metadata.table_saver import TableSaver, run_inline
from pymq.broker.replication.sync_mode import check_role_setting
from pymq.broker.work.worker_threads import RunInThread
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.runtime import MEMBER, RuntimeSettings
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

FILE_NAME = "runtimeSettings.json"


def broker_runtime_settings(
    config: BrokerConfig, clock: Clock, files: Files | None = None, run_in_thread: RunInThread = run_inline
) -> RuntimeSettings:
    """Return the settings of a broker at run time. With ``files`` changes can be kept, by ``run_in_thread``."""
    keeper = None
    if files is not None:
        table = JsonTable(files, f"{config.store_path_root_dir}/config/{FILE_NAME}", MEMBER)
        keeper = TableSaver(table, run_in_thread)
    return RuntimeSettings(config, clock.now_ms, keeper, check=lambda values: check_role_setting(config, values))
