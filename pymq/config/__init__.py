"""Typed settings with RocketMQ's names, from defaults, environment, a properties file and flags."""

from pymq.config.base import Config, Setting
from pymq.config.broker import BrokerConfig
from pymq.config.load import load_broker_config, load_namesrv_config, parse_properties
from pymq.config.namesrv import NamesrvConfig
from pymq.config.security import exposure_warnings

__all__ = [
    "BrokerConfig",
    "Config",
    "NamesrvConfig",
    "Setting",
    "exposure_warnings",
    "load_broker_config",
    "load_namesrv_config",
    "parse_properties",
]
