"""A network in memory: name servers and brokers that answer when a test releases the answers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pymq.model.route import BrokerData
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import (
    EpochEntryBody,
    HaClientState,
    LogDigests,
    LogDigestsRequest,
    ReplicationStatus,
)
from pymq.wire.bodies_route import encode_cluster_info
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.streams import StreamHandler

DIGESTS = RequestCode.PYMQ_LIST_LOG_DIGESTS
NAMESRV = "10.0.9.1:9876"
OURS = "10.0.0.1:10911"
THEIRS = "10.0.0.2:10911"
THIRD = "10.0.0.3:10911"


def epochs_up_to(epoch: int) -> list[EpochEntryBody]:
    """A history whose first entry every member of the group has, and whose newest one only one broker has."""
    first, newest = EpochEntryBody(1, 0, "b" * 16), EpochEntryBody(epoch, 50, "a" * 16)
    return [first, newest][: min(epoch, 2)]


def status(address: str, broker_id: int, epoch: int = 0, **fields: object) -> ReplicationStatus:
    """``epoch`` 2 and later is of the history that the tests' own brokers have, see :func:`epochs_up_to`."""
    given = {
        "cluster": "DefaultCluster",
        "broker_name": "broker-a",
        "role": "SLAVE" if broker_id else "ASYNC_MASTER",
        "epoch_history": epochs_up_to(epoch),
        **fields,
    }
    return ReplicationStatus(address=address, broker_id=broker_id, **given)  # type: ignore[arg-type]


def following(master: str, **fields: object) -> HaClientState:
    return HaClientState(master_address=master, state="following", **fields)  # type: ignore[arg-type]


class Asking:
    """``registered``: name server -> address -> id; ``brokers``: address -> its status, None for RocketMQ's."""

    def __init__(self) -> None:
        self.registered: dict[str, dict[str, int]] = {NAMESRV: {}}
        self.brokers: dict[str, ReplicationStatus | None] = {}
        self.waiting: list[tuple[str, int, bytes, Callable[[Command | str], None]]] = []
        self.last_body = b""  # of a question
        self.bodies: dict[str, bytes] = {}  # an address's answer to everything
        self.changing: set[str] = set()
        self.codes: dict[str, int] = {}  # an address's answer to every question about its status or its log
        self.busy_logs: set[str] = set()  # addresses that are too busy to give digests
        self.logs: dict[str, MessageStore] = {}  # an address's log, of which it gives digests

    def connect(self, address: str, handler: StreamHandler) -> None:
        raise AssertionError("nothing is streamed")

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        self.waiting.append((address, command.code, command.body, on_answer))
        self.last_body = command.body

    def answer_all(self) -> list[str]:
        """Answer until no request is left, and return the addresses that were asked."""
        asked = []
        while self.waiting:
            address, code, body, on_answer = self.waiting.pop(0)
            asked.append(address)
            on_answer(self._digests(address, body) if code == DIGESTS else self._answer(address, code))
        return asked

    def _digests(self, address: str, body: bytes) -> Command:
        if address in self.codes or address in self.busy_logs:
            return Command(ResponseCode.SYSTEM_BUSY, remark="not now")
        asked, store = msgspec.json.decode(body, type=LogDigestsRequest), self.logs[address]
        digest = store.tail_digest(asked.end, asked.end - asked.start)
        answer = LogDigests(
            broker_name="",
            cluster="",
            segment_size_bytes=0,
            log_start=0,
            log_end=0,
            start=asked.start,
            digests=[digest],
        )
        return Command(0, body=msgspec.json.encode(answer))

    def _answer(self, address: str, code: int) -> Command | str:
        if address in self.bodies:
            return Command(0, body=self.bodies[address])
        if code == RequestCode.GET_BROKER_CLUSTER_INFO:
            found = self.registered.get(address)
            if found is None:
                return f"no connection to {address}"
            data = BrokerData(
                cluster="DefaultCluster",
                broker_name="broker-a",
                broker_addrs={broker_id: broker for broker, broker_id in found.items()},
            )
            return Command(0, body=encode_cluster_info({"broker-a": data}, {"DefaultCluster": ["broker-a"]}))
        assert code == RequestCode.PYMQ_GET_REPLICATION_STATUS
        if address in self.codes:
            return Command(self.codes[address], remark="not now")
        if address in self.changing:
            return Command(14, remark="it is becoming the master")
        if address not in self.brokers:
            return f"no connection to {address}"
        reported = self.brokers[address]
        return (
            Command(3, remark="not supported") if reported is None else Command(0, body=msgspec.json.encode(reported))
        )
