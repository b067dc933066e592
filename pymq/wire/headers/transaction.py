"""Headers of transactions: the end of one (37), the question about one (39), and the order to ask again (323)."""

from __future__ import annotations

from pymq.wire.header import Header, Int32, Int64

_BROKER_NAME = "bname"


class EndTransactionHeader(Header, kw_only=True, frozen=True):
    """END_TRANSACTION (37). ``commit_or_rollback``: 8 commits, 12 rolls back, 0 says that it is not known yet.

    ``tran_state_table_offset``: the half message's queue offset; ``msg_id``: the message's unique key.
    """

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str = ""
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None


class CheckTransactionHeader(
    Header,
    kw_only=True,
    frozen=True,
    rename={
        "tran_state_table_offset": "tranStateTableOffset",
        "commit_log_offset": "commitLogOffset",
        "msg_id": "msgId",
        "transaction_id": "transactionId",
        "offset_msg_id": "offsetMsgId",
        "broker_name": _BROKER_NAME,
    },
):
    """CHECK_TRANSACTION_STATE (39), from a broker to a producer; the body is the message as a record."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = None


class ResumeCheckHeader(Header, kw_only=True, frozen=True):
    """RESUME_CHECK_HALF_MESSAGE (323). ``msg_id``: the half message's id, which holds its place in the log."""

    msg_id: str
    topic: str | None = None
