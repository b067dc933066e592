"""Single records of a queue: the pull of one, and the digest that recognizes it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from pymq.model import sysflag
from pymq.model.inner_batch import with_single_records
from pymq.model.record import StoredMessage, decode_records, log_malformed
from pymq.spark.planning.ranges import DEFAULT_GROUP
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.headers.pull import PullMessageHeader

DIGEST_SIZE_BYTES: Final = 8


def pull_of_one(topic: str, queue_id: int, offset: int) -> Command:
    """Return the pull of one record."""
    header = PullMessageHeader(
        consumer_group=DEFAULT_GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=1,
        sys_flag=sysflag.PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )
    return request(RequestCode.PULL_MESSAGE, header)


def digest_at(answer: Command, offset: int) -> str | None:
    """Return the digest of the record at an offset from the answer of a pull."""
    found = record_at(answer, offset)
    return None if found is None else record_digest(found)


def record_at(answer: Command, offset: int) -> StoredMessage | None:
    """Return the record at an offset from the answer of a pull."""
    if answer.code == ResponseCode.SUCCESS:
        for message in decode_records(with_single_records(bytes(answer.body), offset), log_malformed):
            if message.queue_offset == offset:
                return message
    return None


def record_digest(message: StoredMessage) -> str:
    """Return a digest of what identifies a record; all replicas of it have the same."""
    times = f"{message.physical_offset}:{message.born_timestamp_ms}:{message.store_timestamp_ms}:{message.message_id}:"
    return blake2b(times.encode() + message.body, digest_size=DIGEST_SIZE_BYTES).hexdigest()
