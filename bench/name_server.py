"""A name server under a large cluster's load: brokers register all their topics, clients ask for routes."""

import contextlib
import json
import multiprocessing
import resource
import subprocess
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from bench import process
from bench.cases import Figure
from bench.control import BenchError, Control
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_registration import body_crc32, encode_registration

NAME_SERVER_CASE = "name-server"
REGISTER_BROKER = 103
GET_ROUTEINFO_BY_TOPIC = 105
PERIOD_S = 30.0  # between two registrations of a broker, and between two look-ups of a client
STOP_S = 30.0
ALONE_SHARE = 3  # of the measured time, look-ups without registrations: what the machine itself takes
FIRST_ROUND_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class NameServerLoad:
    """The size of a cluster; ``seconds`` is how long it is measured."""

    topics: int
    brokers: int
    clients: int
    seconds: float


FULL_LOAD = NameServerLoad(10_000, 20, 5_000, 60.0)
QUICK_LOAD = NameServerLoad(1_000, 5, 500, 6.0)
SETTINGS = ("connectionCountMax=20000", "connectionCountPerAddressMax=20000", "memoryBudgetBytes=1GB")


def measure_name_server(command: list[str], directory: Path, load: NameServerLoad) -> list[Figure]:
    """Starts a name server, puts the load on it, and returns its CPU share, memory and the time of look-ups."""
    _allow_files(load.clients + 200)
    log = directory / "namesrv.log"
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    with log.open("w") as errors:
        server = subprocess.Popen(
            [*command, "namesrv", "--port", "0", "--json", *sets], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            raise BenchError(f"the name server did not start: {log.read_text()[-500:]}")
        return _measure(json.loads(line)["namesrv"], server.pid, load)
    finally:
        server.terminate()
        server.wait(STOP_S)
        if server.stdout is not None:
            server.stdout.close()


def _measure(address: str, pid: int, load: NameServerLoad) -> list[Figure]:
    # Another process: a registration of 2 MB would hold the look-ups of this one up, in Python's lock.
    ours, theirs = multiprocessing.Pipe()
    brokers = multiprocessing.get_context("spawn").Process(target=_register_all, args=(address, load, theirs))
    brokers.start()
    theirs.close()  # else its end would not be noticed
    try:
        if not ours.poll(FIRST_ROUND_DEADLINE_S):
            raise BenchError(f"{load.brokers} brokers were not registered within {FIRST_ROUND_DEADLINE_S:g} s")
        try:
            first_ms = ours.recv()
        except EOFError:
            raise BenchError("the process that registers brokers ended") from None
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Control(address)) for _ in range(load.clients)]
            alone_ms = sorted(_look_up(clients, load, load.seconds / ALONE_SHARE))
            ours.send("go on")
            cpu_s, begun_s = process.own_cpu_seconds(pid), time.perf_counter()
            taken_ms = _look_up(clients, load, load.seconds)
            elapsed_s = time.perf_counter() - begun_s
            cpu_percent = (process.own_cpu_seconds(pid) - cpu_s) / elapsed_s * 100
            if not brokers.is_alive():
                raise BenchError("a registration failed")
    finally:
        brokers.terminate()
        brokers.join()
        ours.close()
    taken_ms.sort()
    return [
        Figure("name server CPU", cpu_percent, "%", 30.0),
        Figure("name server look-up p50", taken_ms[len(taken_ms) // 2], "ms", None),
        Figure("name server look-up p99", taken_ms[len(taken_ms) * 99 // 100], "ms", 1.0),
        Figure("name server look-up p99 without registrations", alone_ms[len(alone_ms) * 99 // 100], "ms", None),
        Figure("name server look-up max", taken_ms[-1], "ms", None),
        Figure("name server first registration", first_ms, "ms", None),
        Figure("name server memory", process.resident_bytes(pid) / 2**20, "MiB", None),
    ]


def _register_all(address: str, load: NameServerLoad, pipe: Connection) -> None:
    """Registers all brokers, sends the mean ms that it took for each, waits, then repeats each one every PERIOD_S."""
    brokers = [Control(address) for _ in range(load.brokers)]
    requests = [_registration(number, load.topics) for number in range(load.brokers)]
    begun_s = time.perf_counter()
    for broker, (ext, body) in zip(brokers, requests, strict=True):
        broker.expect(REGISTER_BROKER, ext, body)
    pipe.send((time.perf_counter() - begun_s) * 1000 / load.brokers)
    pipe.recv()
    while True:
        for broker, (ext, body) in zip(brokers, requests, strict=True):
            time.sleep(PERIOD_S / load.brokers)
            broker.expect(REGISTER_BROKER, ext, body)


def _look_up(clients: list[Control], load: NameServerLoad, for_s: float) -> list[float]:
    """Sends a look-up at each planned moment; returns the ms from that moment to the answer, for each."""
    taken_ms = []
    interval_s = PERIOD_S / len(clients)
    begun_s = time.perf_counter()
    for number in range(int(for_s / interval_s)):
        planned_s = begun_s + number * interval_s
        wait_s = planned_s - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
            planned_s = time.perf_counter()  # how late this process wakes up is not the server's time
        topic = f"bench_topic_{number * 7919 % load.topics:06d}"
        header, _ = clients[number % len(clients)].ask(
            GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"}
        )
        if header["code"] != 0:
            raise BenchError(f"no route for {topic}: {header.get('remark')}")
        taken_ms.append((time.perf_counter() - planned_s) * 1000)
    return taken_ms


def _registration(number: int, topic_count: int) -> tuple[dict[str, str], bytes]:
    """Returns header and body of broker ``number``'s registration."""
    topics = [
        TopicConfig(topic_name=f"bench_topic_{topic:06d}", read_queue_nums=8, write_queue_nums=8)
        for topic in range(topic_count)
    ]
    body = encode_registration(topics, DataVersion(timestamp=1, counter=1))
    ext = {
        "brokerName": f"bench-broker-{number:02d}",
        "brokerAddr": f"10.0.0.{number + 1}:10911",
        "clusterName": "bench",
        "haServerAddr": f"10.0.0.{number + 1}:10912",
        "brokerId": "0",
        "compressed": "false",
        "bodyCrc32": str(body_crc32(body)),
    }
    return ext, body


def _allow_files(count: int) -> None:
    """Lets this process, and the server that it starts, open ``count`` files. Raises BenchError when it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise BenchError(f"{count} open files are needed, the limit is {hard}: raise it (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
