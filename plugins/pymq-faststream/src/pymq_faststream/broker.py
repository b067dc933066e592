"""PymqBroker: FastStream's broker on PyMQ."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import combinations
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, cast

import anyio
from fast_depends import dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream.message import gen_cor_id
from faststream.middlewares import AckPolicy
from faststream.response import PublishType
from faststream.security import BaseSecurity
from faststream.specification.schema import BrokerSpec

from pymq.client import Producer, SendResult, Tls
from pymq.client.options import ProducerOptions
from pymq.model.names import check_group
from pymq_faststream.cluster import cluster_of
from pymq_faststream.config import GROUP, PymqBrokerConfig, make_log_state
from pymq_faststream.message import PymqMessage, Raw
from pymq_faststream.producer import PymqProducer
from pymq_faststream.registrator import PymqRegistrator
from pymq_faststream.response import PublishOptions, PymqPublishCommand
from pymq_faststream.subscriber import PymqSubscriber

if TYPE_CHECKING:
    from fast_depends import Provider
    from fast_depends.dependencies import Dependant
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable, IdGenerator
    from faststream.specification.schema.extra import Tag, TagDict

GRACEFUL_TIMEOUT_S = 15.0


class PymqBroker(PymqRegistrator, BrokerUsecase[Raw, Producer, PymqBrokerConfig]):
    """A broker at ``host:port``, several of these, or ``pymq://user:secret@host:port``: addresses of name servers.

    ``url`` None: the environment's NAMESRV_ADDR, else ``127.0.0.1:9876``. ``group``: begins the names of groups that
    subscribers don't name, and is the producer's. ``create_topics``: make topics that are missing, with ``queue_count``
    queues. ``security``: SASLPlaintext has user and secret; ``use_ssl`` means TLS, of which ``tls`` tells more.
    ``producer_options``: keywords of :class:`pymq.client.Producer`. The other arguments are those of all brokers.
    """

    def __init__(
        self,
        url: str | Iterable[str] | None = None,
        *,
        group: str = GROUP,
        create_topics: bool = True,
        queue_count: int = 4,
        tls: Tls | None = None,
        producer_options: ProducerOptions | None = None,
        graceful_timeout: float | None = GRACEFUL_TIMEOUT_S,
        ack_policy: AckPolicy = EMPTY,
        id_generator: IdGenerator = gen_cor_id,
        decoder: CustomCallable | None = None,
        parser: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[PymqRegistrator] = (),
        security: BaseSecurity | None = None,
        specification_url: str | Iterable[str] | None = None,
        protocol: str | None = None,
        protocol_version: str | None = None,
        description: str | None = None,
        tags: Iterable[Tag | TagDict] = (),
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        provider: Provider | None = None,
        serializer: SerializerProto | None = EMPTY,
        context: ContextRepo | None = None,
    ) -> None:
        cluster = cluster_of(url, security=security, tls=tls, creates_topics=create_topics, queue_count=queue_count)
        shown = cluster.addresses if specification_url is None else specification_url
        self._producer_options = producer_options or {}
        super().__init__(
            routers=routers,
            config=PymqBrokerConfig(
                cluster=cluster,
                group=check_group(group),
                producer=PymqProducer(cluster, parser, decoder),
                broker_decoder=decoder,
                broker_parser=parser,
                broker_codec=codec,
                broker_middlewares=middlewares,
                broker_dependencies=dependencies,
                logger=make_log_state(logger=logger, log_level=log_level),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                id_generator=id_generator,
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                url=[shown] if isinstance(shown, str) else list(shown),
                protocol=protocol or ("rocketmq-secure" if cluster.tls is not None else "rocketmq"),
                protocol_version=protocol_version,
                description=description,
                tags=tags,
                security=security,
            ),
        )

    async def _connect(self) -> Producer:
        config = self.config.broker_config
        client = config.cluster.producer(config.group, self._producer_options)
        await client.start()
        cast("PymqProducer", config.producer).connect(client, config.fd_config._serializer, config.broker_codec)
        return client

    async def start(self) -> None:
        """Connect and start all subscribers. Raises what their start raises, and UsageError for a group in conflict."""
        for one, other in combinations(cast("list[PymqSubscriber]", self.subscribers), 2):
            one.check_beside(other)
        await self.connect()
        await super().start()

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Stop all subscribers, then end the connections."""
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            client, self._connection = self._connection, None
            if client is not None:
                cast("PymqProducer", self.config.producer).disconnect()
                await client.stop()
            await self.config.broker_config.cluster.close()

    async def publish(self, message: Any, topic: str, **options: Unpack[PublishOptions]) -> SendResult | None:
        """Publish a message, and return where it is stored. Raises what :meth:`pymq.client.Producer.send` raises."""
        cmd = PymqPublishCommand.of(PublishType.PUBLISH, (message,), topic, options, self.config.id_generator)
        result: SendResult | None = await self._basic_publish(cmd, producer=self.config.producer)
        return result

    async def publish_batch(  # type: ignore[override]
        self, *messages: Any, topic: str, **options: Unpack[PublishOptions]
    ) -> SendResult | None:
        """Publish messages in one request, all or none. A :class:`PymqPublishMessage` has headers of its own."""
        cmd = PymqPublishCommand.of(PublishType.PUBLISH, messages, topic, options, self.config.id_generator)
        result: SendResult | None = await self._basic_publish_batch(cmd, producer=self.config.producer)
        return result

    async def request(  # type: ignore[override]
        self, message: Any, topic: str, **options: Unpack[PublishOptions]
    ) -> PymqMessage:
        """Publish a message and return the reply of a subscriber. Raises TimeoutError without one in time (3 s)."""
        cmd = PymqPublishCommand.of(PublishType.REQUEST, (message,), topic, options, self.config.id_generator)
        reply: PymqMessage = await self._basic_request(cmd, producer=self.config.producer)
        return reply

    async def ping(self, timeout: float | None) -> bool:
        """Return True once a name server and one of its brokers answer, False when they don't within ``timeout``."""
        with anyio.move_on_after(timeout):
            await self.config.broker_config.cluster.ping()
            return True
        return False
