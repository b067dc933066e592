"""PyMQ: every role of an Apache RocketMQ style system in one Python package."""

__version__ = "0.1.0"
