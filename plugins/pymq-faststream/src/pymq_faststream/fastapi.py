"""PymqRouter for FastAPI: HTTP routes and subscribers in one application. It needs FastAPI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, Unpack, cast

from fastapi.datastructures import Default
from faststream import ContextRepo
from faststream._internal.fastapi.router import StreamRouter

from pymq_faststream.broker import PymqBroker
from pymq_faststream.message import Raw
from pymq_faststream.publisher import PublisherOptions, PymqPublisherUsecase
from pymq_faststream.subscriber import PymqSubscriber
from pymq_faststream.subscription import SubscriberOptions

__all__ = ["PymqRouter"]


class ResponseOptions(TypedDict, total=False):
    """How FastAPI makes a message of a handler's result."""

    response_model: Any
    response_model_include: Any
    response_model_exclude: Any
    response_model_by_alias: bool
    response_model_exclude_unset: bool
    response_model_exclude_defaults: bool
    response_model_exclude_none: bool


class FastApiOptions(SubscriberOptions, ResponseOptions, total=False):
    """The keywords of ``subscriber``: a subscriber's and FastAPI's."""


class PymqRouter(StreamRouter[Raw]):
    """A FastAPI router whose :attr:`broker` starts and stops with the application.

    ``options``: keywords of :class:`fastapi.APIRouter` and of :class:`PymqBroker`.
    """

    broker_class = PymqBroker
    broker: PymqBroker

    def __init__(
        self, url: str | Iterable[str] | None = None, *, context: ContextRepo | None = None, **options: Any
    ) -> None:
        super().__init__(url, context=context, **options)

    def subscriber(  # type: ignore[override]
        self,
        *topics: str,
        **options: Unpack[FastApiOptions],
    ) -> PymqSubscriber:
        """Return a decorator of handlers, whose arguments and dependencies are FastAPI's."""
        defaults: FastApiOptions = {
            "dependencies": (),
            "response_model": Default(None),
            "response_model_include": None,
            "response_model_exclude": None,
            "response_model_by_alias": True,
            "response_model_exclude_unset": False,
            "response_model_exclude_defaults": False,
            "response_model_exclude_none": False,
        }
        arguments: dict[str, Any] = {**defaults, **options}
        return cast("PymqSubscriber", super().subscriber(*topics, **arguments))

    def publisher(self, topic: str, **options: Unpack[PublisherOptions]) -> PymqPublisherUsecase:  # type: ignore[override]
        """Return a publisher to a topic, also a decorator of handlers whose results it publishes."""
        return self.broker.publisher(topic, **options)
