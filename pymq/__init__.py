"""PyMQ: every role of an Apache RocketMQ style system in one Python package."""

from importlib import import_module

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "App":  # loaded on first use: servers and commands start without it; __init__.pyi has its type
        return import_module("pymq.client.app").App
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
