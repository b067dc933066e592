"""What a consumer reports about itself: its subscription before it starts (46) and its running info (307)."""

from __future__ import annotations

import msgspec

from pymq.wire.bodies_client import SubscriptionData


class ClientCheck(msgspec.Struct, rename="camel", kw_only=True):
    """CHECK_CLIENT_CONFIG (46): asks whether the broker can parse this subscription."""

    client_id: str
    group: str
    subscription_data: SubscriptionData


class ProcessQueueInfo(msgspec.Struct, rename="camel", kw_only=True):
    """One assigned queue (Java: ProcessQueueInfo). The cache's offsets are 0 while it is empty; times are Unix ms."""

    commit_offset: int
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mi_b: int = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False  # the wire's spelling
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(msgspec.Struct, kw_only=True):
    """Rates of one topic: round trips in ms, messages per second."""

    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = msgspec.field(default=0, name="consumeFailedMsgs")


def running_properties(
    *, namesrv: str, orderly: bool, thread_count: int, started_ms: int, version: str
) -> dict[str, str]:
    """Return the named values that mqadmin shows of a running push consumer (Java: ConsumerRunningInfo.PROP_*)."""
    return {
        "PROP_NAMESERVER_ADDR": namesrv,
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": "true" if orderly else "false",
        "PROP_THREADPOOL_CORE_SIZE": str(thread_count),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CLIENT_VERSION": version,
    }


def to_fields(value: msgspec.Struct) -> dict[str, object]:
    """Return the struct as a plain map with wire names."""
    fields: dict[str, object] = msgspec.to_builtins(value)
    return fields
