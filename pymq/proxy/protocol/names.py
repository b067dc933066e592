"""Numbers of the protocol's enums, for code that needs no classes. Their names are in messaging.proto."""

from __future__ import annotations

from typing import Final


class Code:
    """How a call ended."""

    OK: Final = 20000
    MULTIPLE_RESULTS: Final = 30000
    BAD_REQUEST: Final = 40000
    ILLEGAL_TOPIC: Final = 40002
    ILLEGAL_CONSUMER_GROUP: Final = 40003
    ILLEGAL_MESSAGE_TAG: Final = 40004
    ILLEGAL_MESSAGE_KEY: Final = 40005
    ILLEGAL_MESSAGE_GROUP: Final = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY: Final = 40007
    INVALID_TRANSACTION_ID: Final = 40008
    ILLEGAL_MESSAGE_ID: Final = 40009
    ILLEGAL_FILTER_EXPRESSION: Final = 40010
    ILLEGAL_INVISIBLE_TIME: Final = 40011
    ILLEGAL_DELIVERY_TIME: Final = 40012
    INVALID_RECEIPT_HANDLE: Final = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: Final = 40014
    UNRECOGNIZED_CLIENT_TYPE: Final = 40015
    MESSAGE_CORRUPTED: Final = 40016
    CLIENT_ID_REQUIRED: Final = 40017
    ILLEGAL_POLLING_TIME: Final = 40018
    ILLEGAL_OFFSET: Final = 40019
    ILLEGAL_LITE_TOPIC: Final = 40020
    UNAUTHORIZED: Final = 40100
    FORBIDDEN: Final = 40300
    MESSAGE_NOT_FOUND: Final = 40401
    TOPIC_NOT_FOUND: Final = 40402
    CONSUMER_GROUP_NOT_FOUND: Final = 40403
    OFFSET_NOT_FOUND: Final = 40404
    MESSAGE_BODY_TOO_LARGE: Final = 41301
    MESSAGE_BODY_EMPTY: Final = 41302
    TOO_MANY_REQUESTS: Final = 42900
    LITE_TOPIC_QUOTA_EXCEEDED: Final = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED: Final = 42902
    MESSAGE_PROPERTIES_TOO_LARGE: Final = 43101
    INTERNAL_SERVER_ERROR: Final = 50001
    HA_NOT_AVAILABLE: Final = 50002
    NOT_IMPLEMENTED: Final = 50100
    PROXY_TIMEOUT: Final = 50400
    MASTER_PERSISTENCE_TIMEOUT: Final = 50401
    SLAVE_PERSISTENCE_TIMEOUT: Final = 50402
    FAILED_TO_CONSUME_MESSAGE: Final = 60000


_CODE_NAMES: Final = {number: name for name, number in vars(Code).items() if name.isupper()}


def code_name(code: int) -> str:
    """Return the name of a code in the protocol's definition; its number for one that is unknown."""
    return _CODE_NAMES.get(code, str(code))


class MessageType:
    """What a message is, and what a topic takes."""

    NORMAL: Final = 1
    FIFO: Final = 2
    DELAY: Final = 3
    TRANSACTION: Final = 4
    LITE: Final = 5
    PRIORITY: Final = 6


class ClientType:
    """What a client is."""

    PRODUCER: Final = 1
    PUSH_CONSUMER: Final = 2
    SIMPLE_CONSUMER: Final = 3
    PULL_CONSUMER: Final = 4
    LITE_PUSH_CONSUMER: Final = 5
    LITE_SIMPLE_CONSUMER: Final = 6


class Permission:
    """What clients may do with a queue."""

    NONE: Final = 1
    READ: Final = 2
    WRITE: Final = 3
    READ_WRITE: Final = 4


class FilterType:
    """The kinds of filter expressions."""

    TAG: Final = 1
    SQL: Final = 2


class OffsetPolicy:
    """Which offset of a queue QueryOffset asks for."""

    BEGINNING: Final = 0
    END: Final = 1
    TIMESTAMP: Final = 2


class Encoding:
    """Whether a body is compressed; GZIP stands for any compression."""

    IDENTITY: Final = 1
    GZIP: Final = 2


MD5: Final = 2  # of DigestType
COMMIT: Final = 1  # of TransactionResolution
ROLLBACK: Final = 2
SOURCE_SERVER_CHECK: Final = 2  # of TransactionSource
