"""Request codes that RocketMQ's broker knows and this one refuses, each with the reason in the answer."""

from __future__ import annotations

from typing import Final

_FILTER_CLASS = "a broker runs no filter classes: give them to a filter server (pymq filter-server)"
_STATIC = "static topics are not served"
_CONTROLLER = "there is no controller"
_CONTAINER = "there is no broker container"
_COLD_DATA = "cold data is not throttled"
_AUTH = "authentication is not configured"
_ROCKSDB = "the store does not use RocksDB"

REFUSED_CODES: Final[dict[int, str]] = {
    302: _FILTER_CLASS,
    354: _ROCKSDB,
    355: _ROCKSDB,
    513: _STATIC,
    902: _CONTAINER,
    903: _CONTAINER,
    905: _CONTAINER,
    908: "a master's flushed offset can't be reset from outside",
    1007: _CONTROLLER,
    1008: _CONTROLLER,
    2001: _COLD_DATA,
    2002: _COLD_DATA,
    2003: _COLD_DATA,
    2004: _COLD_DATA,
    **dict.fromkeys(range(3001, 3011), _AUTH),
    200056: _ROCKSDB,
}
