"""A network in memory: name servers and brokers that answer when a test releases the answers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pymq.model.route import BrokerData
from pymq.wire.bodies_replication import EpochEntryBody, HaClientState, ReplicationStatus
from pymq.wire.bodies_route import encode_cluster_info
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from pymq.wire.streams import StreamHandler

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
        self.waiting: list[tuple[str, int, Callable[[Command | str], None]]] = []
        self.last_body = b""  # of a question
        self.bodies: dict[str, bytes] = {}  # an address's answer to everything
        self.changing: set[str] = set()

    def connect(self, address: str, handler: StreamHandler) -> None:
        raise AssertionError("nothing is streamed")

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        self.waiting.append((address, command.code, on_answer))
        self.last_body = command.body

    def answer_all(self) -> list[str]:
        """Answer until no request is left, and return the addresses that were asked."""
        asked = []
        while self.waiting:
            address, code, on_answer = self.waiting.pop(0)
            asked.append(address)
            on_answer(self._answer(address, code))
        return asked

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
        if address in self.changing:
            return Command(14, remark="it is becoming the master")
        if address not in self.brokers:
            return f"no connection to {address}"
        reported = self.brokers[address]
        return (
            Command(3, remark="not supported") if reported is None else Command(0, body=msgspec.json.encode(reported))
        )
