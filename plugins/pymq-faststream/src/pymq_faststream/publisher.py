"""Publishers: what ``broker.publisher(topic)`` returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Unpack, cast

from faststream._internal.configs import PublisherSpecificationConfig, PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.types import PublisherMiddleware
from faststream.response import PublishCommand, PublishType
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec

from pymq.client import SendResult
from pymq.model.names import check_topic
from pymq_faststream.config import PymqBrokerConfig
from pymq_faststream.message import PymqMessage
from pymq_faststream.response import MessageOptions, PublishOptions, PymqPublishCommand, check_options, message_options


class PublisherOptions(MessageOptions, total=False):
    """The keywords of ``publisher``."""

    headers: dict[str, str] | None
    reply_to: str
    batch: bool
    persistent: bool
    title: str | None
    description: str | None
    schema: Any
    include_in_schema: bool


@dataclass(kw_only=True)
class PublisherConfig(PublisherUsecaseConfig):
    """What a publisher adds to all that it publishes."""

    _outer_config: PymqBrokerConfig
    topic: str
    headers: dict[str, str]
    reply_to: str
    batch: bool
    options: MessageOptions


@dataclass(kw_only=True)
class PublisherSpecConfig(PublisherSpecificationConfig):
    """What a document says of a publisher."""

    topic: str
    title_: str | None = None
    description_: str | None = None
    schema_: Any = field(default=None)


class PymqPublisherSpecification(PublisherSpecification[PymqBrokerConfig, PublisherSpecConfig]):
    """Describes a publisher for AsyncAPI documents."""

    @property
    def topic(self) -> str:
        """The topic with the routers' prefixes."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        """The name of its channel."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Return the channel."""
        message = Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads(), "Publisher"))
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }


class PymqPublisherUsecase(PublisherUsecase):
    """Publishes to one topic: by :meth:`publish`, or what the function returns that it decorates."""

    _outer_config: PymqBrokerConfig

    def __init__(self, config: PublisherConfig, specification: PymqPublisherSpecification) -> None:
        super().__init__(config, cast("Any", specification))
        self._config = config

    @property
    def topic(self) -> str:
        """The topic with the routers' prefixes."""
        return f"{self._outer_config.prefix}{self._config.topic}"

    @property
    def is_batch(self) -> bool:
        """True when results of handlers are lists of messages."""
        return self._config.batch

    async def publish(self, *messages: Any, topic: str = "", **options: Unpack[PublishOptions]) -> SendResult | None:
        """Publish one message; with ``batch=True`` any number. The keywords come before the publisher's own ones."""
        if len(messages) != 1 and not self.is_batch:
            raise TypeError(f"publish() got {len(messages)} messages: without batch=True a publisher takes one")
        new_id = self._outer_config.id_generator
        cmd = PymqPublishCommand.of(PublishType.PUBLISH, messages, topic or self.topic, options, new_id)
        return await self._send(cmd, ())

    async def request(self, message: Any, topic: str = "", **options: Unpack[PublishOptions]) -> PymqMessage:
        """Publish a message and return the reply of a subscriber. Raises TimeoutError without one."""
        new_id = self._outer_config.id_generator
        cmd = PymqPublishCommand.of(PublishType.REQUEST, (message,), topic or self.topic, options, new_id)
        self._complete(cmd)
        reply: PymqMessage = await self._basic_request(cmd, producer=self._outer_config.producer)
        return reply

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]) -> None:
        """Publish the result of a handler."""
        result = PymqPublishCommand.from_cmd(cmd, batch=self.is_batch)
        result.destination = self.topic
        await self._send(result, _extra_middlewares)

    def _complete(self, cmd: PymqPublishCommand) -> None:
        """Add what this publisher adds to all messages, where the command says nothing else."""
        cmd.headers = {**self._config.headers, **cmd.headers}
        cmd.reply_to = cmd.reply_to or self._config.reply_to
        cmd.options = {**self._config.options, **cmd.options}

    async def _send(self, cmd: PymqPublishCommand, middlewares: Iterable[PublisherMiddleware]) -> SendResult | None:
        self._complete(cmd)
        publish = self._basic_publish_batch if self.is_batch else self._basic_publish
        result: SendResult | None = await publish(
            cmd, producer=self._outer_config.producer, _extra_middlewares=middlewares
        )
        return result


def create_publisher(config: PymqBrokerConfig, topic: str, options: PublisherOptions) -> PymqPublisherUsecase:
    """Return a publisher that no broker knows yet."""
    check_options("a publisher", options, PublisherOptions)
    check_topic(topic)
    specification = PymqPublisherSpecification(
        config,
        PublisherSpecConfig(
            topic=topic,
            title_=options.get("title"),
            description_=options.get("description"),
            schema_=options.get("schema"),
            include_in_schema=options.get("include_in_schema", True),
        ),
    )
    endpoint = PublisherConfig(
        _outer_config=config,
        topic=topic,
        headers=options.get("headers") or {},
        reply_to=options.get("reply_to", ""),
        batch=options.get("batch", False),
        options=message_options(options),
    )
    return PymqPublisherUsecase(endpoint, specification)
