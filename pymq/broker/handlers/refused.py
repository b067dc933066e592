"""Request codes that RocketMQ's broker knows and this one refuses, each with the reason in the answer."""

from __future__ import annotations

from typing import Final

from pymq.wire.codes import RequestCode as Code
from pymq.wire.controller_codes import CONTROLLER_REFUSALS, NO_CONTROLLER

_CONTAINER = "there is no broker container: start one process for each broker"
_COLD_DATA = "cold data is not throttled: reads of old messages have the limits of all reads"
_ROCKSDB = "the store does not use RocksDB"

REFUSED_CODES: Final[dict[int, str]] = {
    Code.REGISTER_MESSAGE_FILTER_CLASS: (
        "a broker runs no filter classes: give them to a filter server (pymq filter-server)"
    ),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ROCKSDB,
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ROCKSDB,
    Code.POP_ROLLBACK: _ROCKSDB,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: "static topics are not served: make an ordinary one (mqadmin updateTopic)",
    Code.ADD_BROKER: _CONTAINER,
    Code.REMOVE_BROKER: _CONTAINER,
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: "no slave acts for a lost master: pymq broker promote makes one the master",
    Code.RESET_MASTER_FLUSH_OFFSET: "a master's flushed offset can't be reset from outside: a slave follows its log",
    Code.ACK_LITE_MESSAGE: "messages of lite topics are acknowledged with ACK_MESSAGE (200051) and its field liteTopic",
    Code.NOTIFY_UNSUBSCRIBE_LITE: "brokers send this to clients: unsubscribe with LITE_SUBSCRIPTION_CTL (200071)",
    **CONTROLLER_REFUSALS,
    Code.NOTIFY_BROKER_ROLE_CHANGED: NO_CONTROLLER,
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _COLD_DATA,
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _COLD_DATA,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: _COLD_DATA,
    Code.SWITCH_TIMER_ENGINE: "timer messages have one engine, the file time wheel: it is always on",
    Code.SET_COMMITLOG_READ_MODE: "the read-ahead of the log can't be changed: it is the operating system's",
}
