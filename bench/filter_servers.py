"""Measures a filter server with one and with two worker processes: the rates, and the CPU of its own process."""

import json
import shutil
import subprocess
from pathlib import Path

from bench import process
from bench.cases import QUEUES, Bench, Figure
from bench.control import BenchError
from bench.filtered import FilteredBatch, FilteredLoad
from pymq.model.record import encode_batch_entry

CASE = "filter-server"
BATCH = 32
MATCHES_PER_BATCH = 1
ITEM_COUNTS = {"1 KiB": 20, "8 KiB": 160}  # items in a message, by the size of its body
PRICE_MAX = 990
FILTER_CLASS = f"pymq.filters.jsonpath:$.items[?@.price > {PRICE_MAX}]"
ITEMS_DIVISOR = 2.5  # reduces the backlog: filtering takes about 10 us per item


def batch_of_orders(item_count: int) -> bytes:
    """Returns the body of one batch send: JSON orders with ``item_count`` items, one of them with a high price."""
    entries = []
    for number in range(BATCH):
        items = [
            {"sku": f"A-{number:05}", "price": (number * 7 + i) % PRICE_MAX, "count": i} for i in range(item_count)
        ]
        if number == BATCH // 2:
            items[-1]["price"] = PRICE_MAX + 1
        body = json.dumps({"id": number, "items": items}).encode()
        entries.append(encode_batch_entry(body, b""))
    return b"".join(entries)


class FilterServerProcess:
    """A ``pymq filter-server`` process in front of a broker."""

    def __init__(self, command: list[str], broker: str, workers: int, directory: Path) -> None:
        self._log = (directory / f"filter-server-{workers}.err").open("w")
        words = ["filter-server", "--broker", broker, "--workers", str(workers), "--json"]
        self._process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=self._log, text=True)
        self.address = ""

    def __enter__(self) -> "FilterServerProcess":
        try:
            self.address = self._ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process.stop(self._process)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def _ready(self) -> str:
        line = process.first_line(self._process)
        if not line:
            raise BenchError(
                f"the filter server did not become ready: {Path(self._log.name).read_text()[-2000:].strip()}"
            )
        return str(json.loads(line)["filter_server"])

    def cpu_seconds(self) -> tuple[float, float]:
        """Returns the CPU time of its own process, and of its workers."""
        own = process.own_cpu_seconds(self._process.pid)
        return own, process.cpu_seconds(self._process.pid) - own


def filter_server(bench: Bench, command: list[str], directory: Path) -> list[Figure]:
    """Measures JSONPath on bodies of each size, with one worker and with two."""
    place = directory / "filter-server-logs"  # the broker's directory has the name of the case
    place.mkdir()
    try:
        return [
            figure
            for size, item_count in ITEM_COUNTS.items()
            for figure in _scaling(bench, command, place, size, item_count)
        ]
    finally:
        shutil.rmtree(place)


def _scaling(bench: Bench, command: list[str], place: Path, size: str, item_count: int) -> list[Figure]:
    batch = FilteredBatch(batch_of_orders(item_count), BATCH, MATCHES_PER_BATCH, filter_class=FILTER_CLASS)
    load = FilteredLoad(bench.server.broker, bench.fresh_topic("filter_server"), QUEUES, "bench_filter_server", batch)
    try:
        load.fill(int(bench.sizes.backlog_messages / ITEMS_DIVISOR / item_count))
        one, _, _ = _through(load, command, bench.server.broker, 1, place)
        two, own_us, worker_us = _through(load, command, bench.server.broker, 2, place)
    finally:
        load.close()
    name = f"{CASE} {size}"
    return [
        Figure(f"{name} rate, one worker", one, "msg/s", None, True),
        Figure(f"{name} rate, two workers", two, "msg/s", None, True),
        Figure(f"{name} two workers to one", two / one, "times", 1.8, True),
        Figure(f"{name} worker CPU", worker_us, "us/msg", None),
        Figure(f"{name} own CPU", own_us, "us/msg", None),
        Figure(f"{name} own CPU, of the workers'", own_us / worker_us * 100, "%", 5.0),
    ]


def _through(
    load: FilteredLoad, command: list[str], broker: str, workers: int, directory: Path
) -> tuple[float, float, float]:
    """Returns messages per second, and CPU us per message of the filter server's own process and of its workers."""
    with FilterServerProcess(command, broker, workers, directory) as server:
        load.run(server.address)  # starts the processes and compiles the filter
        before = server.cpu_seconds()
        rate = load.run(server.address)
        own_s, workers_s = (after - start for after, start in zip(server.cpu_seconds(), before, strict=True))
    return rate.per_second, own_s / rate.messages * 1e6, workers_s / rate.messages * 1e6
