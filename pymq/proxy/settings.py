"""Settings: the server's answer to a client's settings, and how groups retry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymq.model.lite_groups import NO_QUOTA, QUOTA_DEFAULT, lite_group_rules
from pymq.model.lite_topics import LITE_NAME_SIZE_MAX_BYTES
from pymq.model.tables import SubscriptionGroupConfig
from pymq.proxy.checks import BATCH_SIZE_MAX, BODY_BYTES_MAX, POLLING_MS_MAX, check_group, check_topic
from pymq.proxy.protocol.messages import Duration, Settings
from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.refusals import ProxyRefusal

PRODUCER_ATTEMPTS_MAX = 3
PRODUCER_BACKOFF_FIRST_MS = 10
PRODUCER_BACKOFF_MAX_MS = 1000
PRODUCER_BACKOFF_FACTOR = 2.0
# Java: CustomizedRetryPolicy.
RETRY_STEPS_S = (1, 5, 10, 30, *range(60, 660, 60), 1200, 1800, 3600, 7200)
DEFAULT_REQUEST_TIMEOUT_MS = 3000
SETTINGS_BYTES_MAX = 1024 * 1024  # they are kept as long as the client is there
SETTINGS_ENTRIES_MAX = 16_384  # topics, subscriptions, addresses and steps of a backoff
_INT32_MAX = 2**31 - 1
ENTRY_BYTES = 512  # that an entry takes beside its text


@dataclass(frozen=True, slots=True)
class GroupRules:
    """What a group's configuration says about its consumers."""

    is_orderly: bool = False
    attempts_max: int = SubscriptionGroupConfig(group_name="").retry_max_times + 1
    lite_quota: int = QUOTA_DEFAULT  # of lite topics that a client subscribes to

    @classmethod
    def of(cls, config: SubscriptionGroupConfig | None) -> GroupRules:
        """Return a group's rules; None stands for a group that no broker has configured."""
        if config is None:
            return cls()
        lite = lite_group_rules(config.attributes)
        quota = lite.client_quota if lite is not None else QUOTA_DEFAULT
        return cls(
            config.consume_message_orderly,
            config.retry_max_times + 1,
            min(quota, _INT32_MAX) if quota != NO_QUOTA else _INT32_MAX,
        )


def check_settings(settings: Any) -> str:
    """Return the consumer group of a client's settings, empty for a producer. Raises ProxyRefusal."""
    if settings.ByteSize() > SETTINGS_BYTES_MAX:
        text = f"the settings have {settings.ByteSize()} bytes, the limit is {SETTINGS_BYTES_MAX}: use several clients"
        raise ProxyRefusal(Code.BAD_REQUEST, text)
    count = entry_count(settings)
    if count > SETTINGS_ENTRIES_MAX:
        text = f"the settings have {count} entries, the limit is {SETTINGS_ENTRIES_MAX}: use several clients"
        raise ProxyRefusal(Code.BAD_REQUEST, text)
    match settings.WhichOneof("pub_sub"):
        case "publishing":
            for topic in settings.publishing.topics:
                check_topic(topic.name)
            return ""
        case "subscription":
            return check_group(settings.subscription.group.name)
        case _:
            raise ProxyRefusal(Code.UNRECOGNIZED_CLIENT_TYPE, "the settings name neither publishing nor a subscription")


def entry_count(settings: Any) -> int:
    """Return how many repeated parts a client's settings have."""
    return (
        len(settings.access_point.addresses)
        + len(settings.backoff_policy.customized_backoff.next)
        + len(settings.publishing.topics)
        + len(settings.subscription.subscriptions)
    )


def settings_size(settings: Any) -> int:
    """Return how many bytes a client's settings take in memory, about."""
    return int(settings.ByteSize()) + ENTRY_BYTES * entry_count(settings)


def answer_settings(settings: Any, rules: GroupRules) -> Any:
    """Return a client's settings with the values that the server sets."""
    answer = Settings()
    answer.CopyFrom(settings)
    answer.metric.on = False
    policy = answer.backoff_policy
    policy.Clear()
    if settings.HasField("publishing"):
        answer.publishing.max_body_size = BODY_BYTES_MAX
        answer.publishing.validate_message_type = True
        policy.max_attempts = PRODUCER_ATTEMPTS_MAX
        policy.exponential_backoff.initial.CopyFrom(duration_of(PRODUCER_BACKOFF_FIRST_MS))
        policy.exponential_backoff.max.CopyFrom(duration_of(PRODUCER_BACKOFF_MAX_MS))
        policy.exponential_backoff.multiplier = PRODUCER_BACKOFF_FACTOR
        return answer
    subscription = answer.subscription
    subscription.fifo = rules.is_orderly
    subscription.receive_batch_size = BATCH_SIZE_MAX
    subscription.long_polling_timeout.CopyFrom(duration_of(POLLING_MS_MAX))
    if settings.client_type in (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER):
        subscription.lite_subscription_quota = rules.lite_quota
        subscription.max_lite_topic_size = LITE_NAME_SIZE_MAX_BYTES
    policy.max_attempts = rules.attempts_max
    policy.customized_backoff.next.extend([duration_of(seconds * 1000) for seconds in RETRY_STEPS_S])
    return answer


def duration_of(duration_ms: int) -> Any:
    """Return a Duration."""
    return Duration(seconds=duration_ms // 1000, nanos=duration_ms % 1000 * 1_000_000)
