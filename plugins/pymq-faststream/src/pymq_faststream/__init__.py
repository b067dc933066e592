"""A FastStream broker on PyMQ and Apache RocketMQ."""

from faststream import TestApp

from pymq_faststream.annotations import PymqMessage
from pymq_faststream.broker import PymqBroker
from pymq_faststream.registrator import PymqPublisher, PymqRoute, PymqRouter
from pymq_faststream.response import PymqPublishCommand, PymqPublishMessage, PymqResponse
from pymq_faststream.testing import TestPymqBroker

__all__ = [
    "PymqBroker",
    "PymqMessage",
    "PymqPublishCommand",
    "PymqPublishMessage",
    "PymqPublisher",
    "PymqResponse",
    "PymqRoute",
    "PymqRouter",
    "TestApp",
    "TestPymqBroker",
]
