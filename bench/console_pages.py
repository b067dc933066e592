"""Pages of the console of one broker: how soon they come, how large they are, and what they and the samples cost."""

import http.client
import json
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

from bench import process
from bench.cases import Figure
from bench.rows import fill
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
    "messages": "messages?topic=bench_topic_7",
    "doctor": "doctor",
    "name servers": "namesrv",
    "about": "about",
}
LISTS = ("overview", "topics", "topics, a search", "groups")  # of a large cluster
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
    """A page: the milliseconds to its first byte, and its size."""

    first_byte_ms: float
    size_bytes: int


def console_pages(server: PyMQBroker, topic_count: int, group_count: int, *, is_large: bool = False) -> list[Figure]:
    """Measures the console of a broker with topics of 8 queues and two messages in each, all read by all groups."""
    fill(server, [f"bench_topic_{n}" for n in range(topic_count)], [f"bench_group_{n}" for n in range(group_count)])
    name = f"console, {topic_count:,} topics"
    begun_s = time.monotonic()
    command = [sys.executable, "-m", "pymq", "console", "--namesrv", server.namesrv, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as console:
        try:
            url = json.loads(process.first_line(console))["console"]
            ready_s = time.monotonic() - begun_s
            begun_mib = process.resident_bytes(console.pid) / MIB
            figures = [Figure(f"{name}: ready", ready_s, "s", READY_TARGET_S)]
            figures += [Figure(f"{name}: memory at the start", begun_mib, "MiB", START_TARGET_MIB)]
            for page, path in PAGES.items():
                if not is_large or page in LISTS:
                    figures += _page(url, f"{name}, {page}", path, is_large=is_large)
            figures += _samples(name, server.broker_pid, console.pid)
            later_mib = process.resident_bytes(console.pid) / MIB
            target_mib = LARGE_TARGET_MIB if is_large else LATER_TARGET_MIB
            return [*figures, Figure(f"{name}: memory at the end", later_mib, "MiB", target_mib)]
        finally:
            process.stop(console)


def _page(url: str, name: str, path: str, *, is_large: bool) -> list[Figure]:
    time.sleep(FORGOTTEN_S)
    cold = _get(url, path)
    warm = [_get(url, path) for _ in range(WARM_COUNT)]
    warm_ms = statistics.median(came.first_byte_ms for came in warm)
    target_ms = LARGE_TARGET_MS if is_large else WARM_TARGET_MS
    return [
        Figure(f"{name}: first byte, cold", cold.first_byte_ms, "ms", COLD_TARGET_MS),
        Figure(f"{name}: first byte, warm", warm_ms, "ms", target_ms),
        Figure(f"{name}: size", cold.size_bytes / 1000, "kB", SIZE_TARGET_KB),
    ]


def _get(url: str, path: str) -> Came:
    connection = http.client.HTTPConnection(url.partition("://")[2])
    try:
        begun_s = time.monotonic()
        connection.request("GET", f"/at/default/{path}")
        answer = connection.getresponse()
        first_byte_ms = (time.monotonic() - begun_s) * 1000
        body = answer.read()
        assert answer.status == http.HTTPStatus.OK, (path, answer.status, body[:500])
        return Came(first_byte_ms, len(body))
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
