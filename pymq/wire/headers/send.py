"""Headers of sends: codes 10 (named fields), 310 and 320 (one-letter fields), 36 and their answers."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64


class SendMessageHeader(Header, kw_only=True, frozen=True):
    """SEND_MESSAGE (10) and SEND_REPLY_MESSAGE (324)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


# Wire letters of SendMessageRequestHeaderV2.
V2_LETTERS = {
    "producer_group": "a",
    "topic": "b",
    "default_topic": "c",
    "default_topic_queue_nums": "d",
    "queue_id": "e",
    "sys_flag": "f",
    "born_timestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsume_times": "j",
    "unit_mode": "k",
    "max_reconsume_times": "l",
    "batch": "m",
    "broker_name": "n",
}


class SendMessageV2Header(Header, rename=V2_LETTERS, kw_only=True, frozen=True):
    """SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320), SEND_REPLY_MESSAGE_V2 (325): the fields of 10 as letters."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    broker_name: str | None = None


def send_v2_fields(
    *,
    producer_group: str,
    topic: str,
    default_topic: str,
    default_topic_queue_nums: int,
    queue_id: int,
    sys_flag: int,
    born_timestamp: int,
    flag: int,
    properties: str,
    batch: bool,
    broker_name: str,
) -> dict[str, str]:
    """Return an ordinary send's named fields: the same as encode_header of SendMessageV2Header, in a third of the
    time."""
    return {
        "a": producer_group,
        "b": topic,
        "c": default_topic,
        "d": str(default_topic_queue_nums),
        "e": str(queue_id),
        "f": str(sys_flag),
        "g": str(born_timestamp),
        "h": str(flag),
        "i": properties,
        "m": "true" if batch else "false",
        "n": broker_name,
    }


class SendMessageAnswer(
    Header,
    kw_only=True,
    frozen=True,
    rename={
        "region": "MSG_REGION",
        "trace_on": "TRACE_ON",
        "message_id": "msgId",
        "queue_id": "queueId",
        "queue_offset": "queueOffset",
        "transaction_id": "transactionId",
        "batch_unique_id": "batchUniqId",
        "recall_handle": "recallHandle",
    },
):
    """The answer to a send. ``message_id`` is the offset message id; a batch's are joined by commas.

    An inner batch has one, and ``batch_unique_id`` is its unique key.
    """

    message_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    recall_handle: str | None = None
    batch_unique_id: str | None = None
    region: str = "DefaultRegion"
    trace_on: bool = True


class PushReplyHeader(Header, kw_only=True, frozen=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326): a reply on its way to the client that waits for it. Hosts are ``ip:port``."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Int64


class RecallMessageHeader(Header, kw_only=True, frozen=True):
    """RECALL_MESSAGE (370): ``recall_handle`` is what the answer to the send gave."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageAnswer(Header, kw_only=True, frozen=True, rename={"message_id": "msgId", "region": "MSG_REGION"}):
    """The answer to a recall. ``message_id`` is the unique key of the message."""

    message_id: str
    region: str = "DefaultRegion"


class ConsumerSendMsgBackHeader(Header, kw_only=True, frozen=True):
    """CONSUMER_SEND_MSG_BACK (36): ``offset`` is the commit log offset of the message to retry."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
