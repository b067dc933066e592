"""pymq message resend: a message whose transaction nobody ended is found, and sent to its topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pymq.client import Message, StoredMessage, TransactionState
from pymq.client.sync import TransactionProducer
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.offset.test_command import reached
from tests.cli.schemas import assert_documented

DISCARDED = "TRANS_CHECK_MAX_TIME_TOPIC"


class Silent:
    """A listener that never knows."""

    def execute(self, message: Message, arg: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check(self, message: StoredMessage) -> TransactionState:
        return TransactionState.UNKNOWN


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    soon = {"transactionTimeOut": "0", "transactionCheckInterval": "100", "transactionCheckMax": "0"}
    with StandaloneProcess(settings=soon) as process:
        yield process


def test_a_discarded_message_is_found_and_sent_to_its_topic(pymq: Pymq, server: StandaloneProcess) -> None:
    assert pymq("topic", "create", "transfers", "--type", "transaction", "--wq", "1").code == EXIT_OK
    with TransactionProducer("PG", namesrv=server.namesrv, listener=Silent()) as producer:
        result = producer.send_in_transaction(Message("transfers", b"100", keys="k1"), timeout_s=30)
    reached(lambda: pymq("message", "query", DISCARDED, "--key", "k1").code == EXIT_OK)
    assert "100" in pymq("tail", DISCARDED, "--from", "start", "--no-follow", "-o", "raw").out
    (plan,) = pymq("message", "resend", result.message_id, "-o", "json").json()
    assert_documented("message resend", plan)
    assert plan == {"message_id": result.message_id, "to": "transfers", "sent": False}
    assert pymq("message", "query", "transfers", "--key", "k1").code == EXIT_NOT_FOUND
    assert pymq("message", "resend", result.message_id, "--yes").code == EXIT_OK
    (sent,) = pymq("tail", "transfers", "--from", "start", "--no-follow", "-o", "jsonl").json_lines()
    assert (sent["body"], sent["message_id"]) == ("100", result.message_id)
    assert pymq("message", "resend", "0" * 32).code == EXIT_NOT_FOUND
