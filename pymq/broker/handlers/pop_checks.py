"""What pops of topics and of lite topics share: checks of what they ask for, and answers without messages."""

from __future__ import annotations

from pymq.errors import PymqError, Refusal
from pymq.model.pop import MESSAGES_PER_CHECK_POINT_MAX
from pymq.wire.codes import ResponseCode
from pymq.wire.dispatch import error_reply
from pymq.wire.headers.lites import PopLiteAnswer
from pymq.wire.headers.pop import PopMessageAnswer
from pymq.wire.reply import Reply

COUNT_MAX = MESSAGES_PER_CHECK_POINT_MAX
# RocketMQ's limit, that of its timer: a check point must not outlive the segment of its message.
INVISIBLE_MAX_MS = 3 * 24 * 3600 * 1000
# A pop this much older than its own waiting time has no client any more that waits for its answer.
LATE_MS = 500
# The answer to a waiting pop leaves this long before the client gives up.
ANSWER_MARGIN_MS = 50
# Of an orderly pop; each queue of each group keeps its last one. Java's clients send a UUID.
ATTEMPT_ID_LENGTH_MAX = 255


def wait_ms_of(born_ms: int, poll_ms: int, now_ms: int) -> int:
    """Return how long a request may wait still; below 0 when its time is over. ``born_ms`` 0 stands for now."""
    elapsed_ms = now_ms - born_ms if born_ms > 0 else 0
    return min(poll_ms, poll_ms - elapsed_ms) - ANSWER_MARGIN_MS


def check_wishes(count_name: str, count: int, invisible_ms: int, attempt_id: str | None) -> None:
    """Check the numbers of a pop, whose field ``count_name`` is the count of messages. Raises Refusal."""
    if not 1 <= count <= COUNT_MAX:
        raise invalid(f"{count_name}={count}: ask for 1 to {COUNT_MAX} messages")
    check_invisible(invisible_ms)
    if len(attempt_id or "") > ATTEMPT_ID_LENGTH_MAX:
        raise invalid(
            f"attemptId has {len(attempt_id or '')} characters, the limit is {ATTEMPT_ID_LENGTH_MAX}: use a UUID"
        )


def check_invisible(invisible_ms: int) -> None:
    """Check an invisible time. Raises Refusal."""
    if not 0 <= invisible_ms <= INVISIBLE_MAX_MS:
        raise invalid(f"invisibleTime={invisible_ms}: use 0 to {INVISIBLE_MAX_MS} ms")


def invalid(text: str) -> Refusal:
    """Return the refusal of a value."""
    return Refusal(ResponseCode.INVALID_PARAMETER, text)


def is_late(wait_ms: int) -> bool:
    """Return True when no client waits any more for the answer; ``wait_ms``: of :func:`wait_ms_of`."""
    return wait_ms + ANSWER_MARGIN_MS < -LATE_MS


def late_reply(broker_name: str, wait_ms: int, ext: PopMessageAnswer | PopLiteAnswer) -> Reply:
    """Return the answer to a pop that came too late."""
    return Reply(
        ResponseCode.POLLING_TIMEOUT,
        f"{broker_name}: the pop came {-wait_ms - ANSWER_MARGIN_MS} ms after its waiting time, the limit is "
        f"{LATE_MS}: compare the client's clock with the broker's",
        ext,
    )


def failed_reply(error: PymqError | OSError, ext: PopMessageAnswer | PopLiteAnswer) -> Reply:
    """Return the answer to a pop that failed. RocketMQ's clients read its numbers whatever the code is."""
    reply = error_reply(error) if isinstance(error, PymqError) else Reply(ResponseCode.SYSTEM_ERROR, str(error))
    reply.ext = ext
    return reply
