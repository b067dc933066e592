"""Receives and acknowledgements at one port for gRPC: workers that share it, one broker, and Apache's proxy and broker.

Go's client connects several times, because the system gives each connection to one of the workers. Client and servers
share the machine's cores. So compare the CPU of a message first; the rate is that of all together.
"""

from pathlib import Path

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


def measure_grpc(server: GrpcMachine | ApacheProxyBroker, name: str, sizes: Sizes, rounds: int) -> list[Figure]:
    """Return the figures of all rounds on a server, which this starts and stops. Each round has a topic of its own."""
    count = sizes.send_messages // DIVISOR
    figures = list[Figure]()
    server.start()
    try:
        addresses = server.addresses if isinstance(server, GrpcMachine) else [server.broker]
        for number in range(rounds):
            topic, group = f"workers_grpc_{number}", f"workers_grpc_{number}"
            for address in addresses:
                with Control(address) as control:
                    control.create_topic(topic, QUEUES, NORMAL)
                make_group(address, group)
            with running(server.endpoint, topic, group, "plain", CLIENTS) as load:
                load.run("send", int(SPARE * (WARM_UP + count)))
                load.run("receive", WARM_UP)
                figures += measured(server.broker_pid, load, "receive", count, f"{CASE}, {name}")
    finally:
        server.stop()
    return figures


def measure_workers_grpc(
    command: list[str], directory: Path, sizes: Sizes, count: int, rounds: int
) -> dict[int, list[Figure]]:
    """Return the figures of one broker and of ``count`` workers, by number."""
    return {
        number: measure_grpc(
            GrpcMachine(directory / f"{CASE}-{number}", command, number), name_of(number), sizes, rounds
        )
        for number in (1, count)
    }


def name_of(count: int) -> str:
    return f"{count} worker{'s' if count > 1 else ''}"
