"""Serves the newest facts as metrics, and collects new ones in the background."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence

from pymq.cli.common.options import request_credentials
from pymq.cli.common.serving_metrics import MetricsPlace, metrics_member, metrics_text, serving_metrics
from pymq.cli.exporter.names import Names
from pymq.cli.exporter.old_names import OldNames
from pymq.cli.exporter.own_names import OwnNames
from pymq.cli.output import print_json_line
from pymq.client.admin import Admin
from pymq.clock import Clock, SystemClock
from pymq.metrics.family import Collector
from pymq.net.runtime import StopSignals
from pymq.operations.facts import Facts, FactsCollector

log = logging.getLogger(__name__)


class View:
    """The metrics of the newest facts."""

    def __init__(self, names: Names, clock: Clock) -> None:
        self.facts = Facts()
        self._collectors: list[Collector] = []
        if names is not Names.exporter:
            self._collectors.append(OwnNames(lambda: self.facts, clock))
        if names is not Names.pymq:
            self._collectors.append(OldNames(lambda: self.facts))

    def collectors(self) -> Sequence[Collector]:
        return self._collectors

    def labels(self) -> Mapping[str, str]:
        return {}

    @property
    def budget(self) -> None:
        """No memory budget: an exporter serves no peers but its scrapers."""


async def serve(
    addresses: list[str], place: MetricsPlace | None, names: Names, interval_s: float, timeout_s: float, as_json: bool
) -> None:
    """Collect and serve until a signal stops it. Raises UsageError when the host or port can't be used."""
    clock = SystemClock()
    view = View(names, clock)
    with StopSignals() as signals:
        async with (
            Admin(addresses, timeout_s=timeout_s, credentials=request_credentials.get()) as admin,
            serving_metrics(place, view) as metrics,
        ):
            collector = FactsCollector(admin, clock, with_stats=names is not Names.pymq)
            collecting = asyncio.get_running_loop().create_task(keep_collecting(collector, view, interval_s))
            try:
                _print_ready(metrics, as_json)
                await signals.wait()
            finally:
                collecting.cancel()
                await asyncio.gather(collecting, return_exceptions=True)


async def keep_collecting(collector: FactsCollector, view: View, interval_s: float) -> None:
    """Collect without end, and log when the name servers stop answering and when they answer again."""
    was_failing = False
    while True:
        view.facts = await collector.collect()
        is_failing = bool(view.facts.error)
        if is_failing and not was_failing:
            log.warning("nothing can be collected: %s", view.facts.error)
        elif was_failing and not is_failing:
            log.info("collecting again")
        was_failing = is_failing
        await asyncio.sleep(interval_s)


def _print_ready(metrics: str, as_json: bool) -> None:
    if as_json:
        print_json_line({**metrics_member(metrics), "pid": os.getpid()})
    else:
        print(f"exporter ready{metrics_text(metrics)}", flush=True)
