"""The configuration that a broker and its endpoints share, and the broker's log lines."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from faststream._internal.configs import BrokerConfig, UnderlyingDriverAnnotation, UnderlyingDriverAnnotations
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger

from pymq_faststream.cluster import Cluster

if TYPE_CHECKING:
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.context import ContextRepo

GROUP = "faststream"
_MESSAGE_ID_LENGTH = 32


def _context_annotations() -> UnderlyingDriverAnnotations:
    from pymq_faststream import annotations, broker, message  # noqa: PLC0415 - they need this module

    return {
        cls: UnderlyingDriverAnnotation(type_hint=getattr(annotations, name), module=annotations.__name__, name=name)
        for name, cls in (("PymqMessage", message.PymqMessage), ("PymqBroker", broker.PymqBroker))
    }


@dataclass(kw_only=True)
class PymqBrokerConfig(BrokerConfig):
    """What a broker's endpoints need of it. A router has one too, of which only FastStream's fields count."""

    cluster: Cluster = field(default_factory=Cluster)
    group: str = GROUP
    default_driver_annotations: UnderlyingDriverAnnotations = field(default_factory=_context_annotations)


class LogStorage(DefaultLoggerStorage):
    """Makes a logger whose lines begin with topic and group, in columns."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 4, "group": 0}
        self._level = logging.INFO

    def set_level(self, level: int) -> None:
        """Take the level of the logger that is made."""
        self._level = level

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Make room for a subscriber's topic and group."""
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name, "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        """Return the logger, the same one each time."""
        logger = self._get_logger_ref()
        if logger is None:
            columns = " | ".join(f"%({name})-{width}s" for name, width in self._widths.items())
            logger = get_broker_logger(
                name="pymq",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=_MESSAGE_ID_LENGTH,
                fmt=f"%(asctime)s %(levelname)-8s - {columns} | %(message_id)-{_MESSAGE_ID_LENGTH}s - %(message)s",
                context=context,
                log_level=self._level,
            )
            self._logger_ref.add(logger)
        return logger


make_log_state = partial(make_logger_state, default_storage_cls=LogStorage)
