"""What a subscriber wants of PyMQ, checked, and as settings of pymq.client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict

from faststream.middlewares import AckPolicy

from pymq.client.options import SettingOptions
from pymq.errors import UsageError
from pymq.model.names import check_group, check_topic
from pymq_faststream.response import check_options

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import CustomCallable

MAX_RECORDS = 32


class SubscriberOptions(TypedDict, total=False):
    """The keywords of ``subscriber``."""

    group: str | None
    tags: str
    sql: str | None
    ordered: bool
    broadcast: bool
    consume_from: str | int
    max_workers: int
    batch: bool
    max_records: int
    max_retries: int | None
    retry_delay_level: int
    settings: SettingOptions
    persistent: bool
    dependencies: Sequence[Dependant]
    parser: CustomCallable | None
    decoder: CustomCallable | None
    codec: CodecProto | None
    ack_policy: AckPolicy
    no_reply: bool
    title: str | None
    description: str | None
    include_in_schema: bool


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """The options that PyMQ acts on."""

    topics: tuple[str, ...]
    group: str | None = None
    tags: str = "*"
    sql: str | None = None
    ordered: bool = False
    broadcast: bool = False
    consume_from: str | int = "last"
    max_workers: int = 1
    batch: bool = False
    max_records: int = MAX_RECORDS
    max_retries: int | None = None
    retry_delay_level: int = 0
    settings: SettingOptions | None = None

    def topics_in(self, prefix: str) -> list[str]:
        """Return the topics with the prefix of routers."""
        return [prefix + topic for topic in self.topics]

    @property
    def wanted(self) -> str:
        """The messages that are wanted, as all members of a group must want them."""
        return f"sql {self.sql!r}" if self.sql is not None else f"tags {self.tags!r}"

    def consumer_settings(self, graceful_timeout_s: float | None) -> SettingOptions:
        """Return the settings of the consumer. ``settings`` come last."""
        result: SettingOptions = {
            "orderly": self.ordered,
            "broadcasting": self.broadcast,
            "consume_from": self.consume_from,
            "concurrency_max": self.max_workers,
            "batch_count_max": self.max_records if self.batch else 1,
            "max_reconsume_times": -1 if self.max_retries is None else self.max_retries,
            "delay_level": self.retry_delay_level,
            "stop_timeout_s": graceful_timeout_s or 0.0,
        }
        return {**result, **(self.settings or {})}


def subscription_of(topics: tuple[str, ...], options: SubscriberOptions) -> Subscription:
    """Return the subscription. Raises UsageError for an option that is unknown or can't be."""
    check_options("a subscriber", options, SubscriberOptions)
    if not topics:
        raise UsageError("a subscriber without a topic: give at least one")
    if len(set(topics)) != len(topics):
        raise UsageError(f"the topics {', '.join(topics)} name one twice")
    for topic in topics:
        check_topic(topic)
    given: dict[str, Any] = {each.name: options[each.name] for each in fields(Subscription) if each.name in options}  # type: ignore[literal-required]
    result = Subscription(topics=topics, **given)
    if result.group is not None:
        check_group(result.group)
    if result.max_retries is not None and result.max_retries < 0:
        raise UsageError(f"max_retries is {result.max_retries}: 0 for none, or leave it out for the broker's 16")
    return result
