"""Pages of the console of one broker: how soon they come, how large they are, and what they and the samples cost."""

import http.client
import json
import statistics
import subprocess
import sys
import time
from typing import NamedTuple
from urllib.request import urlopen

from bench import process
from bench.cases import Figure
from bench.console_beside import sends_beside
from bench.rows import fill, loop_s
from bench.standalone import PyMQBroker

PAGES = {
    "overview": "",
    "brokers": "brokers",
    "broker": "brokers/broker-a/0",
    "topics": "topics",
    "topics, a search": "topics?q=topic_77",
    "topics, by stored": "topics?sort=stored&order=down",
    "topic": "topics/bench_topic_7",
    "groups": "groups",
    "group": "groups/bench_group_7",
    "group that is behind": "groups/bench_group_0",
    "messages": "messages?topic=bench_topic_7",
    "dead letters": "dlq",
    "clients": "clients",
    "raft": "raft",
    "users": "auth",
    "doctor": "doctor",
    "name servers": "namesrv",
    "about": "about",
}
LISTS = ("overview", "topics", "topics, a search", "groups", "group that is behind")  # of a large cluster
QUESTIONS = "pymq_console_questions_total"
WARM_COUNT = 10
FORGOTTEN_S = 2.2  # until the console asks again
SAMPLED_S = 60.0
COLD_TARGET_MS, WARM_TARGET_MS, LARGE_TARGET_MS = 500.0, 100.0, 300.0
SIZE_TARGET_KB = 60.0
START_TARGET_MIB, LATER_TARGET_MIB, LARGE_TARGET_MIB = 60.0, 120.0, 250.0
READY_TARGET_S = 1.0
BROKER_SHARE_TARGET, CONSOLE_SHARE_TARGET = 5.0, 10.0
MIB = 1024 * 1024


class Came(NamedTuple):
    """A page: its status, the milliseconds to its first byte, and its size."""

    status: int
    first_byte_ms: float
    size_bytes: int


def console_pages(server: PyMQBroker, topic_count: int, group_count: int, *, is_large: bool = False) -> list[Figure]:
    """Measures the console of a broker with topics of 8 queues and two messages in each, all read by all groups."""
    fill(server, [f"bench_topic_{n}" for n in range(topic_count)], [f"bench_group_{n}" for n in range(group_count)])
    name = f"console, {topic_count:,} topics"
    begun_s = time.monotonic()
    command = [sys.executable, "-m", "pymq", "console", "--namesrv", server.namesrv, "--port", "0", "--json"]
    command += ["--metrics-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as console:
        try:
            ready = json.loads(process.first_line(console))
            ready_s = time.monotonic() - begun_s
            begun_mib = process.resident_bytes(console.pid) / MIB
            figures = [Figure(f"{name}: a loop of 10 million additions here", loop_s(), "s", None)]
            figures += [Figure(f"{name}: ready", ready_s, "s", READY_TARGET_S)]
            figures += [Figure(f"{name}: memory at the start", begun_mib, "MiB", START_TARGET_MIB)]
            for page, path in PAGES.items():
                if not is_large or page in LISTS:
                    figures += _page(ready, f"{name}, {page}", path, is_large=is_large)
            figures += _samples(name, server.broker_pid, console.pid)
            if not is_large:
                paths = list(PAGES.values())
                figures += sends_beside(name, server, console.pid, ready["console"], paths)
            later_mib = process.resident_bytes(console.pid) / MIB
            target_mib = LARGE_TARGET_MIB if is_large else LATER_TARGET_MIB
            return [*figures, Figure(f"{name}: memory at the end", later_mib, "MiB", target_mib)]
        finally:
            process.stop(console)


def _page(ready: dict[str, str], name: str, path: str, *, is_large: bool) -> list[Figure]:
    url = ready["console"]
    time.sleep(FORGOTTEN_S)
    asked_before = _questions(ready["metrics"])
    cold = _get(url, path)
    asked = _questions(ready["metrics"]) - asked_before
    if cold.status != http.HTTPStatus.OK:
        return [Figure(f"{name}: status after {cold.first_byte_ms:,.0f} ms", cold.status, "", http.HTTPStatus.OK)]
    warm = [_get(url, path) for _ in range(WARM_COUNT)]
    warm_ms = statistics.median(came.first_byte_ms for came in warm)
    target_ms = LARGE_TARGET_MS if is_large else WARM_TARGET_MS
    return [
        Figure(f"{name}: first byte, cold", cold.first_byte_ms, "ms", COLD_TARGET_MS),
        Figure(f"{name}: first byte, warm", warm_ms, "ms", target_ms),
        Figure(f"{name}: questions, cold", asked, "", None),
        Figure(f"{name}: size", cold.size_bytes / 1000, "kB", SIZE_TARGET_KB),
    ]


def _questions(metrics: str) -> float:
    """Returns how many questions the console has asked the cluster so far."""
    with urlopen(f"http://{metrics}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(QUESTIONS))


def _get(url: str, path: str) -> Came:
    connection = http.client.HTTPConnection(url.partition("://")[2])
    try:
        begun_s = time.monotonic()
        connection.request("GET", f"/at/default/{path}")
        answer = connection.getresponse()
        first_byte_ms = (time.monotonic() - begun_s) * 1000
        body = answer.read()
        return Came(answer.status, first_byte_ms, len(body))
    finally:
        connection.close()


def _samples(name: str, broker_pid: int, console_pid: int) -> list[Figure]:
    """Measures what samples cost while nobody looks."""
    begun_s = time.monotonic()
    begun = [process.cpu_seconds(pid) for pid in (broker_pid, console_pid)]
    time.sleep(SAMPLED_S)
    took_s = time.monotonic() - begun_s
    used_s = [process.cpu_seconds(pid) - at for pid, at in zip((broker_pid, console_pid), begun, strict=True)]
    shares = [100 * each_s / took_s for each_s in used_s]
    return [
        Figure(f"{name}: samples, CPU of the broker", shares[0], "%", BROKER_SHARE_TARGET),
        Figure(f"{name}: samples, CPU of the console", shares[1], "%", CONSOLE_SHARE_TARGET),
    ]
