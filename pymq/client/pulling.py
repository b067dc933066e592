"""One pull: the request, the address it goes to, and what its answer's code means."""

from __future__ import annotations

from pymq.client.answers import read_answer
from pymq.client.filter_servers import ask_filter_servers
from pymq.client.instance import ClientInstance
from pymq.client.subscription import Subscription, explained
from pymq.errors import RefusedError
from pymq.model import sysflag
from pymq.model.message import MessageQueue, PullResult, PullStatus
from pymq.model.properties import TAGS, find_property
from pymq.model.record import StoredMessage
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader

# A parked pull is answered within its suspension and 15 s more (spec: long poll); then it is lost.
SUSPEND_SLACK_S = 15.0
PULL_TIMEOUT_S = 10.0
# A filter server may have to start a worker process and to compile the filter before it answers its first pull.
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
    """Pulls once; ``sys_flag`` says what the request carries, the suspend bit is added for ``suspend_ms`` > 0.

    Raises RefusedError for codes that are no pull result, UnreachableError, NotFoundError (no route).
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
        answer.body,
        fields.suggest_which_broker_id,
        queue.broker_name,
    )


def keep_wanted(result: PullResult, subscription: Subscription) -> None:
    """Takes out of ``result.raw`` what only shares a wanted tag's hash, and what the client's filter leaves out.

    A result that loses all becomes NO_MATCHED_MESSAGE. ``next_offset`` goes back to a message at which the filter
    stops. Raises FilterStopError when that is the first one.
    """
    if not result.raw or (not subscription.tags and subscription.local is None):
        return
    messages = result.messages()
    kept = [message for message in messages if _has_wanted_tag(message, subscription)]
    if subscription.local is not None and kept:
        judged = subscription.local.keep(kept)
        kept = judged.messages
        if judged.stop_offset is not None:
            result.next_offset = judged.stop_offset
    if len(kept) < len(messages):
        result.raw = _cut_out(result.raw, messages, kept)
        if not kept:
            result.status = PullStatus.NO_MATCHED_MESSAGE


def _has_wanted_tag(message: StoredMessage, subscription: Subscription) -> bool:
    if not subscription.tags:
        return True
    tag = find_property(message.raw_properties, TAGS.encode())
    return subscription.accepts(tag.decode("utf-8", "replace") if tag else "")


def _cut_out(raw: bytes, messages: list[StoredMessage], kept: list[StoredMessage]) -> bytes:
    """The bytes of the messages that were kept, which are among ``messages``, the records of ``raw``."""
    offsets = {message.queue_offset for message in kept}
    parts: list[bytes] = []
    at = 0
    for message in messages:
        if message.queue_offset in offsets:
            parts.append(raw[at : at + message.size_bytes])
        at += message.size_bytes
    return b"".join(parts)
