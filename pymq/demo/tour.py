"""The steps of the tour in order; each prints its purpose and the command that does the same."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pymq.client import PushConsumer
from pymq.demo import checking, rows, sending
from pymq.demo.server import DemoServer
from pymq.model.record import StoredMessage
from pymq.spark.session import gateway

T = TypeVar("T")

TOPICS = (rows.ROWS_TOPIC, rows.ORDERS_TOPIC)
QUEUES = "8"
GROUP = "demo_group"
PATIENCE_S = 30.0
TAIL_TAG = "cars"
TAIL_COUNT = "3"

ROWS_BY_DATA_SET = """
    SELECT tags AS data_set, count(*) AS rows, count(DISTINCT queueId) AS queues, sum(length(body)) AS bytes
    FROM messages WHERE topic = 'demo_rows' GROUP BY tags ORDER BY rows DESC LIMIT 5
"""
CARS_BY_ORIGIN = """
    SELECT get_json_object(decode(body, 'UTF-8'), '$.Origin') AS origin, count(*) AS cars,
           round(avg(CAST(get_json_object(decode(body, 'UTF-8'), '$.Miles_per_Gallon') AS double)), 1)
           AS miles_per_gallon
    FROM messages WHERE topic = 'demo_rows' AND tags = 'cars' GROUP BY 1 ORDER BY miles_per_gallon DESC
"""
MONEY_BY_STATE = """
    SELECT tags AS state, count(*) AS orders,
           sum(CAST(get_json_object(decode(body, 'UTF-8'), '$.cents') AS bigint)) / 100 AS money
    FROM messages WHERE topic = 'demo_orders' GROUP BY tags ORDER BY state
"""


class DemoError(Exception):
    """A step of the tour failed."""


class Tour:
    """One run of the tour; all files are below ``directory``."""

    def __init__(self, directory: Path, orders: int, console: Console) -> None:
        self._directory = directory
        self._orders = orders
        self._console = console
        self._server = DemoServer(directory / "broker")
        self._export_dir = directory / "export"
        self._sent: sending.Sent = {}

    def walk(self) -> None:
        """Run all steps. Raises DemoError when one fails; stops the server in any case."""
        self._title(f"1  A broker and a name server in {self._directory}")
        self._server.start()
        try:
            self._say(f"name server {self._server.namesrv}, broker {self._server.broker}, process {self._server.pid}")
            self._say(f"pages while it runs: {self._server.console}")
            for topic in TOPICS:
                self._pymq("topic", "create", topic, "--wq", QUEUES, "--rq", QUEUES)
            self._send()
            self._tail()
            self._consume()
            self._export()
            self._query()
            self._check()
        finally:
            code = self._server.stop()
        if code != 0:
            raise DemoError(f"the broker stopped with exit code {code}")
        self._title("8  Stopped cleanly")
        self._say(f"broker data    {self._directory / 'broker'}")
        self._say(f"Parquet files  {self._export_dir}")
        self._say(f"start it again: pymq standalone --dir {self._directory / 'broker'} --console-port 8082")

    def _send(self) -> None:
        self._title("2  Every row of the vega_datasets files, and generated orders")
        namesrv = self._server.namesrv
        counts = {path.stem: sum(1 for _ in rows.rows_of(path)) for path in rows.data_files()}
        self._sent |= self._with_progress(
            "rows as JSON", sum(counts.values()), lambda advance: sending.send_rows(namesrv, advance)
        )
        self._sent |= self._with_progress(
            "orders in batches", self._orders, lambda advance: sending.send_orders(namesrv, self._orders, advance)
        )
        self._say(f"{len(self._sent):,} messages from {len(counts)} data sets and an order book")

    def _tail(self) -> None:
        self._title("3  A look with a tag filter")
        shown = self._pymq("tail", rows.ROWS_TOPIC, "--from", "start", "--tag", TAIL_TAG, "--count", TAIL_COUNT)
        lines = shown.splitlines()
        for line in lines:
            self._say(line)
        if len(lines) != int(TAIL_COUNT) or not all(f"[{TAIL_TAG}]" in line for line in lines):
            raise DemoError(f"tail should show {TAIL_COUNT} messages with tag {TAIL_TAG} but showed the above")

    def _consume(self) -> None:
        self._title(f"4  Consuming both topics as group {GROUP}")
        namesrv, expected = self._server.namesrv, len(self._sent)
        received: Counter[str] = self._with_progress(
            "consumed", expected, lambda advance: _consume(namesrv, expected, advance)
        )
        if received.keys() != self._sent.keys():
            missing = len(self._sent.keys() - received.keys())
            raise DemoError(
                f"the group received {len(received):,} different messages, {missing:,} sent ones are missing"
            )
        again = received.total() - len(received)
        self._say(f"{len(received):,} messages" + (f", {again:,} of them more than once" if again else ", each once"))
        self._pymq("group", "lag", GROUP, show=True)
        self._say(f"the same as a page: {self._server.console}/at/default/groups/{GROUP}")

    def _export(self) -> None:
        self._title("5  Exporting to Parquet")
        arguments = ["spark-export", *(f"--topic={topic}" for topic in TOPICS), "--output", str(self._export_dir)]
        self._say(f"$ pymq {' '.join(arguments)}")
        # Its own progress bar goes to the terminal.
        done = subprocess.run(self._server.command(*arguments), check=False)
        if done.returncode != 0:
            raise DemoError(f"spark-export failed with exit code {done.returncode}")

    def _query(self) -> None:
        self._title("6  Spark SQL on the Parquet files")
        spark = gateway.session(master="local[2]")
        try:
            spark.read.parquet(str(self._export_dir)).createOrReplaceTempView("messages")
            for query in (ROWS_BY_DATA_SET, CARS_BY_ORIGIN, MONEY_BY_STATE):
                found = spark.sql(query).collect()
                if not found:
                    raise DemoError(f"the query found nothing: {query}")
                self._say(" ".join(query.split()))
                self._table(found)
        finally:
            gateway.close(spark)

    def _check(self) -> None:
        self._title("7  Is every message there exactly once?")
        result = checking.compare(self._sent, self._export_dir)
        if not result.exact:
            raise DemoError(f"the export differs from what was sent: {result}")
        self._say(
            f"yes: {result.exported:,} rows exported, {len(self._sent):,} messages sent, every key and body equal"
        )

    def _pymq(self, *arguments: str, show: bool = False) -> str:
        """Run a command and return its output. Raises DemoError when it fails."""
        self._say(f"$ pymq {' '.join(arguments)}")
        done = subprocess.run(self._server.command(*arguments), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DemoError(
                f"pymq {' '.join(arguments)} failed with exit code {done.returncode}: {done.stderr.strip()}"
            )
        if show:
            self._console.print(done.stdout.rstrip(), highlight=False, markup=False)
        return done.stdout

    def _with_progress(
        self, what: str, total: int, work: Callable[[Callable[[int], None]], Coroutine[Any, Any, T]]
    ) -> T:
        columns = (
            TextColumn("   {task.description:<18}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(what, total=total, rate="")

            def advance(count: int) -> None:
                progress.advance(task, count)
                speed = progress.tasks[0].finished_speed or progress.tasks[0].speed
                progress.update(task, rate=f"{speed:,.0f}/s" if speed else "")

            return asyncio.run(work(advance))

    def _table(self, found: list[Any]) -> None:
        table = Table(*found[0].__fields__)
        for row in found:
            table.add_row(*(str(value) for value in row))
        self._console.print(table)

    def _title(self, text: str) -> None:
        self._console.print(f"\n[bold cyan]{text}[/]", highlight=False)

    def _say(self, text: str) -> None:
        self._console.print(f"   {text}", highlight=False, markup=False, soft_wrap=True)


async def _consume(namesrv: str, expected: int, on_received: Callable[[int], None]) -> Counter[str]:
    """Return how often each key arrived, once ``expected`` different ones have, or after 30 s without a message."""
    received: Counter[str] = Counter()
    progress = asyncio.Event()

    async def take(messages: Sequence[StoredMessage]) -> None:
        received.update(message.keys for message in messages)
        on_received(len(messages))
        progress.set()

    consumer = PushConsumer(GROUP, namesrv=namesrv, on_message=take, consume_from="first", batch_count_max=32)
    for topic in TOPICS:
        consumer.subscribe(topic, "*")
    await consumer.start()
    try:
        while len(received) < expected:
            progress.clear()
            await asyncio.wait_for(progress.wait(), PATIENCE_S)
    except TimeoutError:
        pass  # the caller compares and reports missing messages
    finally:
        await consumer.stop()
    return received
