"""Typed settings with RocketMQ's names, from defaults, environment, a properties file and flags.

The modules are loaded when one of their names is used: a client and most commands need :mod:`pymq.config.values` only,
and making the settings of a broker takes a tenth of the time of a short command.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymq.config.base import Config, Setting
    from pymq.config.broker import BrokerConfig
    from pymq.config.load import load_broker_config, load_namesrv_config, parse_properties
    from pymq.config.namesrv import NamesrvConfig
    from pymq.config.security import check_exposure

__all__ = [
    "BrokerConfig",
    "Config",
    "NamesrvConfig",
    "Setting",
    "check_exposure",
    "load_broker_config",
    "load_namesrv_config",
    "parse_properties",
]

_MODULES = {
    "BrokerConfig": "broker",
    "Config": "base",
    "NamesrvConfig": "namesrv",
    "Setting": "base",
    "check_exposure": "security",
    "load_broker_config": "load",
    "load_namesrv_config": "load",
    "parse_properties": "load",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
