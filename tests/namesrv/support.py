"""Builders for the name server's tests: registrations, and a peer that only has an address."""

from __future__ import annotations

from collections.abc import Callable

from pymq.model.tables import DataVersion, TopicConfig
from pymq.namesrv.registration import BrokerIdentity, Registration
from pymq.wire.command import Command
from pymq.wire.reply import Reply

CLUSTER = "DefaultCluster"


def identity(name: str = "broker-a", broker_id: int = 0, port: int = 10911, cluster: str = CLUSTER) -> BrokerIdentity:
    return BrokerIdentity(cluster, name, broker_id, f"127.0.0.1:{port}")


def topics(*names: str, perm: int = 6, queues: int = 4) -> dict[str, TopicConfig]:
    return {
        name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm) for name in names
    }


def report(broker: BrokerIdentity, *names: str, version: int = 1, perm: int = 6, **fields: object) -> Registration:
    given = {"topics": topics(*names, perm=perm), "data_version": DataVersion(counter=version), **fields}
    return Registration(identity=broker, **given)  # type: ignore[arg-type]


class FakePeer:
    """A connection without a socket; equal to itself only."""

    def __init__(self, address: str = "127.0.0.1:50000") -> None:
        self.address = address
        self.host_bytes = b"\x7f\0\0\x01\0\0\xc3\x50"
        self.client_certificate: bytes | None = None
        self.closed = False
        self.is_behind = False

    def push(self, command: Command) -> None:
        raise AssertionError("a name server pushes nothing")

    def ask(self, command: Command, on_answer: Callable[[Command | None], None], timeout_ms: int) -> None:
        raise AssertionError("a name server asks nothing")

    def answer(self, request: Command, reply: Reply) -> None:
        raise AssertionError("a name server answers at once")
