"""A worker process whose filter does what the body of each message orders."""

from __future__ import annotations

import os
import time

from pymq.errors import ExpressionError, FilterError
from pymq.filter.messages import FilterMessage
from pymq.filter.plugins import CompiledFilter, EachMessage, FilterPlugin
from pymq.filter.registry import installed_filters
from pymq.filterserver.worker import main

FOREVER_S = 3600


def obey(message: FilterMessage) -> bool | None:
    """Do what the body orders."""
    order = message.body
    if order == b"hang":
        time.sleep(FOREVER_S)
    elif order == b"die":
        os._exit(7)
    elif order == b"memory":
        bytearray(8 << 30)
    elif order == b"bad":
        raise FilterError("this one is bad")
    elif order == b"print":
        print("a filter that prints")
    elif order == b"pid":
        raise FilterError(str(os.getpid()))
    return {b"no": False, b"null": None}.get(order, True)


class Hostile:
    """Expressions: ``obey``, or an order for the compilation."""

    name = "hostile"
    doc = "For tests."

    def __init__(self, name: str = "hostile", *, keeps_state: bool = False) -> None:
        self.name = name
        self.keeps_state = keeps_state

    def compile(self, expression: str) -> CompiledFilter:
        if expression == "hang":
            time.sleep(FOREVER_S)
        if expression == "raise":
            raise RuntimeError("no such luck")
        if expression != "obey":
            raise ExpressionError(1, f"{expression!r} is no order")
        return EachMessage(obey)


FILTERS = {"hostile": Hostile(), "stateful": Hostile("stateful", keeps_state=True)}


def find(name: str) -> FilterPlugin:
    return FILTERS.get(name) or installed_filters().find(name)


if __name__ == "__main__":
    main(lambda: find)
