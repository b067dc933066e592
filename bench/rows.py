"""Rows of all topics and groups of one broker: what each question costs it, beside sends."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.request import urlopen

from bench import process
from bench.cases import QUEUES, Figure
from bench.standalone import PyMQBroker
from bench.tables import ask_all
from pymq.client import Admin
from pymq.clock import SystemClock
from pymq.operations.doctor.gather import Gatherer, SocketProbe
from pymq.operations.doctor.registry import OWN_CHECKS, run_checks
from pymq.operations.group.lag import lag_of_all
from pymq.operations.group.listing import list_groups
from pymq.operations.top.sample import Sampler
from tests.hostile.harness import V2, Health, Peer, ask

GROUPS_BEHIND = 5  # that lack a message in every queue
ROUNDS = 3
TIMEOUT_S = 20.0
LOOP_COUNT = 10_000_000
ENDS_TARGET_S, LAGS_TARGET_S, TOP_TARGET = 0.1, 0.5, 10.0
SETTLE_S = 3.0

Question = Callable[[Admin], Awaitable[Any]]


def rows(server: PyMQBroker, topic_count: int, group_count: int) -> list[Figure]:
    """Measures a broker with topics of 8 queues and two messages in each, all read by all groups."""
    names = [f"bench_topic_{number}" for number in range(topic_count)]
    fill(server, names, [f"bench_group_{number}" for number in range(group_count)])
    server.stop()
    server.start()  # so that the longest turn is not one of the filling
    process.settle_cpu(SETTLE_S)
    probe = ask(310, {**V2, "b": names[0], "e": "0"}, b"x")
    begun_turn_s = _longest_turn_s(server)
    figures = [Figure("rows, a loop of 10 million additions here", loop_s(), "s", None)]
    with Health(server.broker, probe):
        for name, question, target_s in QUESTIONS:
            costs = [asyncio.run(_cost(server, question)) for _ in range(ROUNDS)]
            figures += [
                Figure(f"rows, {name}: CPU", min(cpu_s for cpu_s, _, _ in costs), "s", target_s),
                Figure(f"rows, {name}", min(wall_s for _, wall_s, _ in costs), "s", None),
                Figure(f"rows, {name}: requests", min(count for _, _, count in costs), "", None),
            ]
        figures += asyncio.run(_top(server))
    return [
        *figures,
        Figure("rows, longest turn before, CPU", begun_turn_s * 1000, "ms", None),
        Figure("rows, longest turn, CPU", _longest_turn_s(server) * 1000, "ms", None),
    ]


def fill(server: PyMQBroker, topics: list[str], groups: list[str]) -> None:
    """Makes topics of 8 queues with two messages in each, and groups with places in all; five of them are behind."""
    counts = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
    rest = {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    with Peer(server.broker) as peer:
        ask_all(peer, [ask(17, {"topic": name, "defaultTopic": "TBW102", **counts, **rest}) for name in topics])
        for queue in range(QUEUES):
            ask_all(peer, [ask(310, {**V2, "b": name, "e": str(queue)}, b"x") for name in topics] * 2)
        for number, group in enumerate(groups):
            ask_all(peer, [ask(200, body=json.dumps({"groupName": group}).encode())])
            commit = {"consumerGroup": group, "commitOffset": "1" if number < GROUPS_BEHIND else "2"}
            ask_all(
                peer,
                [ask(15, {**commit, "topic": name, "queueId": str(at)}) for name in topics for at in range(QUEUES)],
            )


async def _cost(server: PyMQBroker, question: Question) -> tuple[float, float, int]:
    """Returns the broker's CPU time, the time until the answer, and the number of requests to the broker."""
    async with Admin(server.namesrv, timeout_s=TIMEOUT_S) as admin:
        await admin.cluster.masters()  # connects
        counted = _count_requests(admin, server.broker)
        begun_s, begun_ns = time.monotonic(), process.scheduled_ns(server.broker_pid)
        await question(admin)
        return (
            (process.scheduled_ns(server.broker_pid) - begun_ns) / 1e9,
            time.monotonic() - begun_s,
            len(counted),
        )


async def _top(server: PyMQBroker) -> list[Figure]:
    """Measures one round of `pymq top` after the first."""
    async with Admin(server.namesrv, timeout_s=TIMEOUT_S) as admin:
        sampler = Sampler(admin, SystemClock())
        counts, costs_s = [], []
        for _ in range(1 + ROUNDS):
            counted = _count_requests(admin, server.broker)
            begun_ns = process.scheduled_ns(server.broker_pid)
            await sampler.sample()
            costs_s.append((process.scheduled_ns(server.broker_pid) - begun_ns) / 1e9)
            counts.append(len(counted))
    return [
        Figure("rows, a round of top: requests", max(counts), "", TOP_TARGET),
        Figure("rows, a round of top: CPU", min(costs_s), "s", None),
    ]


def _count_requests(admin: Admin, address: str) -> list[int]:
    """Returns a list that gets the code of each request to the broker from now on."""
    connection, found = admin._connection, list[int]()
    ask_broker = type(connection).ask_broker

    async def counted(to: str, code: int, *parts: Any) -> Any:
        if to == address:
            found.append(code)
        return await ask_broker(connection, to, code, *parts)

    connection.ask_broker = counted  # type: ignore[method-assign, assignment]
    return found


def _longest_turn_s(server: PyMQBroker) -> float:
    with urlopen(f"http://{server.metrics}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return max(float(line.split()[-1]) for line in lines if line.startswith("pymq_longest_turn_cpu_seconds"))


def loop_s() -> float:
    """Returns the CPU time of a loop on this machine now: its speed drifts."""
    begun_s, total = time.process_time(), 0
    for number in range(LOOP_COUNT):
        total += number
    return time.process_time() - begun_s


async def _lags_of_pairs(admin: Admin) -> None:
    for master in await admin.cluster.masters():
        await admin.groups.all_topic_lags_at(master.address)


async def _doctor(admin: Admin) -> None:
    """Asks what the doctor asks, without its wait for groups that are behind, and judges it."""
    places = admin.namesrv.addresses
    gatherer = Gatherer(places, lambda some: Admin(some), clock=SystemClock(), probe=SocketProbe(), observe_ms=0)
    run_checks(OWN_CHECKS, await gatherer.state())


QUESTIONS: list[tuple[str, Question, float | None]] = [
    ("ends of all topics", lambda admin: admin.topics.all_ends(), ENDS_TARGET_S),
    ("lag of all groups", lambda admin: admin.groups.all_lags(), LAGS_TARGET_S),
    ("lag of all groups with times", lambda admin: admin.groups.all_lags(with_times=True), None),
    ("lag of all groups, summed by topic", lambda admin: admin.groups.all_readers(), None),
    ("lag of all groups by topic and group", _lags_of_pairs, LAGS_TARGET_S),
    ("members of all groups", lambda admin: admin.groups.all_member_counts(), None),
    ("group list", lambda admin: list_groups(admin, show_all=False), None),
    ("doctor", _doctor, None),
    ("group lag, with all times", lambda admin: lag_of_all(admin, None, SystemClock(), with_all_times=True), None),
    ("group lag", lambda admin: lag_of_all(admin, None, SystemClock()), None),
    ("all places", lambda admin: admin.instances.positions(), None),
]
