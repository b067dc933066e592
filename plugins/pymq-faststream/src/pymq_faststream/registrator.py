"""What brokers and routers share: ``subscriber`` and ``publisher``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from faststream._internal.broker import BrokerRouter
from faststream._internal.broker.registrator import Registrator
from faststream._internal.broker.router import ArgsContainer, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

from pymq_faststream.config import PymqBrokerConfig
from pymq_faststream.message import Raw
from pymq_faststream.publisher import PublisherOptions, PymqPublisherUsecase, create_publisher
from pymq_faststream.subscriber import (
    PymqSubscriber,
    PymqSubscriberSpecification,
    SubscriberConfig,
    SubscriberSpecConfig,
)
from pymq_faststream.subscription import SubscriberOptions, subscription_of

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.types import BrokerMiddleware, CustomCallable


class PymqRegistrator(Registrator[Raw, PymqBrokerConfig]):
    """Registers subscribers and publishers."""

    def subscriber(self, *topics: str, **options: Unpack[SubscriberOptions]) -> PymqSubscriber:  # type: ignore[override]
        """Return a subscriber of one or more topics, a decorator of handlers. Raises UsageError.

        The README has a table of all options with their defaults.
        """
        subscription = subscription_of(topics, options)
        config = cast("PymqBrokerConfig", self.config)
        calls = CallsCollection[Raw]()
        specification = PymqSubscriberSpecification(
            config,
            SubscriberSpecConfig(
                subscription=subscription,
                title_=options.get("title"),
                description_=options.get("description"),
                include_in_schema=options.get("include_in_schema", True),
            ),
            calls,
        )
        endpoint = SubscriberConfig(
            _outer_config=config,
            no_reply=options.get("no_reply", False),
            _ack_policy=options.get("ack_policy", EMPTY),
        )
        subscriber = PymqSubscriber(endpoint, specification, calls, subscription)
        super().subscriber(subscriber, persistent=options.get("persistent", True))
        return subscriber.add_call(
            parser_=options.get("parser") or self._parser,
            decoder_=options.get("decoder") or self._decoder,
            codec_=options.get("codec"),
            dependencies_=options.get("dependencies", ()),
        )

    def publisher(self, topic: str, **options: Unpack[PublisherOptions]) -> PymqPublisherUsecase:  # type: ignore[override]
        """Return a publisher to a topic, also a decorator of handlers whose results it publishes."""
        publisher = create_publisher(cast("PymqBrokerConfig", self.config), topic, options)
        super().publisher(publisher, persistent=options.get("persistent", True))
        return publisher

    def include_router(self, router: Registrator[Raw, Any], **options: Any) -> None:
        """Include a router of this broker's kind. Raises SetupError for another one."""
        if not isinstance(router, PymqRegistrator):
            raise SetupError(f"a router of type {type(router).__name__} can't be included: make it a PymqRouter")
        super().include_router(router, **options)


class PymqPublisher(ArgsContainer):
    """A publisher of a :class:`PymqRoute`; takes what ``publisher`` takes."""

    def __init__(self, topic: str, **options: Unpack[PublisherOptions]) -> None:
        super().__init__(topic, **options)


class PymqRoute(SubscriberRoute):
    """A handler for a router's ``handlers``; takes what ``subscriber`` takes."""

    def __init__(
        self,
        call: Callable[..., Any],
        *topics: str,
        publishers: Iterable[PymqPublisher] = (),
        **options: Unpack[SubscriberOptions],
    ) -> None:
        super().__init__(call, *topics, publishers=publishers, **options)


class PymqRouter(PymqRegistrator, BrokerRouter[Raw, PymqBrokerConfig]):
    """Subscribers and publishers that a broker includes; ``prefix`` begins all their topics."""

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[PymqRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[PymqRegistrator] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
    ) -> None:
        super().__init__(
            handlers=handlers,
            routers=routers,
            config=PymqBrokerConfig(
                prefix=prefix,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                include_in_schema=include_in_schema,
                ack_policy=ack_policy,
            ),
        )
