"""Types of handler arguments that FastStream fills in."""

from typing import Annotated

from faststream import Context
from faststream.annotations import ContextRepo, Logger
from faststream.params import NoCast

from pymq_faststream.broker import PymqBroker as _Broker
from pymq_faststream.message import PymqMessage as _Message

__all__ = ["ContextRepo", "Logger", "NoCast", "PymqBroker", "PymqMessage"]

PymqBroker = Annotated[_Broker, Context("broker")]
PymqMessage = Annotated[_Message, Context("message")]
