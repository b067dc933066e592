"""Performs one pull: builds the request, picks the address, and maps the response code to a status."""

from __future__ import annotations

from pymq.client.answers import read_answer
from pymq.client.filter_servers import ask_filter_servers
from pymq.client.instance import ClientInstance
from pymq.client.subscription import Subscription, explained
from pymq.errors import RefusedError
from pymq.model import sysflag
from pymq.model.inner_batch import with_single_records
from pymq.model.message import MessageQueue, PullResult, PullStatus
from pymq.model.properties import TAGS, find_property
from pymq.model.record import StoredMessage
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader, beyond_default

# A suspended pull is answered at most 15 s after its suspension ends (spec: long poll); later it counts as lost.
SUSPEND_SLACK_S = 15.0
PULL_TIMEOUT_S = 10.0
# A filter server may have to start a worker process and compile the filter before it answers its first pull.
FILTER_SLACK_S = 30.0

_STATUS = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


async def pull_once(
    instance: ClientInstance,
    group: str,
    queue: MessageQueue,
    offset: int,
    subscription: Subscription,
    *,
    count_max: int,
    bytes_max: int | None,
    suspend_ms: int,
    sys_flag: int,
    commit_offset: int = 0,
    broker_id: int = 0,
) -> PullResult:
    """Pull once. ``sys_flag`` marks what the request carries; ``suspend_ms`` > 0 adds the suspend bit.

    Raises RefusedError for codes that are not a pull result, UnreachableError, NotFoundError (no route).
    """
    carries_subscription = sys_flag & sysflag.PULL_SUBSCRIPTION
    header = PullMessageHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count_max,
        sys_flag=sys_flag
        | (sysflag.PULL_SUSPEND if suspend_ms else 0)
        | (sysflag.PULL_CLASS_FILTER if subscription.class_filter else 0),
        commit_offset=commit_offset,
        suspend_timeout_millis=suspend_ms,
        sub_version=0 if carries_subscription else subscription.version,
        subscription=subscription.expression if carries_subscription else None,
        expression_type=subscription.expression_type,
        max_msg_bytes=bytes_max,
        pymq_max_msg_nums=beyond_default(count_max),
    )
    address = await instance.routes.read_address(queue, broker_id)
    timeout_s = suspend_ms / 1000 + SUSPEND_SLACK_S if suspend_ms else PULL_TIMEOUT_S
    if subscription.class_filter:
        answer, address = await ask_filter_servers(
            instance, queue, address, lambda: request(RequestCode.PULL_MESSAGE, header), timeout_s + FILTER_SLACK_S
        )
    else:
        answer = await instance.remoting.invoke(address, request(RequestCode.PULL_MESSAGE, header), timeout_s)
    status = _STATUS.get(answer.code)
    if status is None:
        raise explained(RefusedError(answer.code, answer.remark, address), subscription)
    fields = read_answer(PullMessageAnswer, answer, address)
    return PullResult(
        status,
        fields.next_begin_offset,
        fields.min_offset,
        fields.max_offset,
        with_single_records(answer.body, offset),
        fields.suggest_which_broker_id,
        queue.broker_name,
    )


def filter_result(result: PullResult, subscription: Subscription) -> None:
    """Remove messages from ``result.raw``: other tags with the same hash, and those the client's filter rejects.

    A result without messages left becomes NO_MATCHED_MESSAGE. If the filter stops at a message, ``next_offset``
    becomes that message's offset. Raises FilterStopError when that is the first message.
    """
    if not result.raw or (not subscription.tags and subscription.local is None):
        return
    messages = result.messages()
    kept = [message for message in messages if _has_subscribed_tag(message, subscription)]
    if subscription.local is not None and kept:
        filtered = subscription.local.keep(kept)
        kept = filtered.messages
        if filtered.stop_offset is not None:
            result.next_offset = filtered.stop_offset
    if len(kept) < len(messages):
        result.raw = _records_of(result.raw, messages, kept)
        if not kept:
            result.status = PullStatus.NO_MATCHED_MESSAGE


def _has_subscribed_tag(message: StoredMessage, subscription: Subscription) -> bool:
    if not subscription.tags:
        return True
    tag = find_property(message.raw_properties, TAGS.encode())
    return subscription.accepts(tag.decode("utf-8", "replace") if tag else "")


def _records_of(raw: bytes, messages: list[StoredMessage], kept: list[StoredMessage]) -> bytes:
    """Return the records of the ``kept`` messages; ``raw`` holds the records of all ``messages``, in order."""
    offsets = {message.queue_offset for message in kept}
    parts: list[bytes] = []
    at = 0
    for message in messages:
        if message.queue_offset in offsets:
            parts.append(raw[at : at + message.size_bytes])
        at += message.size_bytes
    return b"".join(parts)
