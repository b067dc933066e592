"""Receives and acknowledgements at one port for gRPC: workers that share it, one broker, and Apache's proxy and broker.

Go's client connects several times, because the system gives each connection to one of the workers. Client and servers
share the machine's cores. So compare the CPU of a message first; the rate is that of all together.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from bench.cases import QUEUES, Figure, Sizes
from bench.control import Control
from bench.grpc_cases import NORMAL, ApacheProxyBroker, PyMQGrpcBroker, make_group
from bench.grpc_go import measured, running
from bench.workers import Machine

CASE = "workers-grpc"
CLIENTS = 8
DIVISOR = 12  # of the messages of the plain sends
# A receive waits at a worker that has nothing left, though another one has: no worker may become empty before the end.
SPARE = 1.4
WARM_UP = 30_000  # Java has compiled then


class GrpcMachine(Machine, PyMQGrpcBroker):
    """A standalone with workers that share one port for gRPC; with one it is a broker alone."""


@dataclass(frozen=True)
class Contender:
    """A server that is measured: its kind, what its figures are called, and the server."""

    kind: str
    name: str
    server: GrpcMachine | ApacheProxyBroker


def measure_in_turn(contenders: list[Contender], sizes: Sizes, rounds: int) -> Iterator[tuple[str, list[Figure]]]:
    """Start the servers, yield (kind, figures) of each in each round, and stop them.

    A server is idle in others' turns. Turns, because a machine's speed changes within minutes.
    """
    with ExitStack() as started:
        for contender in contenders:
            contender.server.start()
            started.callback(contender.server.stop)
        for number in range(rounds):
            for contender in contenders:
                yield contender.kind, _measure(contender, sizes, f"workers_grpc_{number}")


def _measure(contender: Contender, sizes: Sizes, topic: str) -> list[Figure]:
    server, group = contender.server, topic
    for address in server.addresses if isinstance(server, GrpcMachine) else [server.broker]:
        with Control(address) as control:
            control.create_topic(topic, QUEUES, NORMAL)
        make_group(address, group)
    count = sizes.send_messages // DIVISOR
    with running(server.endpoint, topic, group, "plain", CLIENTS) as load:
        load.run("send", int(SPARE * (WARM_UP + count)))
        load.run("receive", WARM_UP)
        return measured(server.broker_pid, load, "receive", count, f"{CASE}, {contender.name}")


def name_of(count: int) -> str:
    return f"{count} worker{'s' if count > 1 else ''}"
