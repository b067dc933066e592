"""A broker's figures: all of them (28), and one statistic for one key or all keys (315)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.report.runtime_info import RuntimeInfo
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.wire.admin_text import encode_in_steps
from pymq.wire.bodies_admin import StatsData, StatsWindow, encode_admin_body
from pymq.wire.bodies_client import encode_body
from pymq.wire.bodies_route import KvTable
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import StatsDataHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.stats.stats_manager import RateWindow, StatsManager
    from pymq.broker.work.sliced_work import Steps

STATISTICS_AT_ONCE = 100  # that are read before the next rest: some 1 ms


class FigureHandlers:
    """Shows what the broker has counted."""

    def __init__(self, runtime: Runtime, *, stats: StatsManager, runtime_info: RuntimeInfo) -> None:
        self._sliced_work = runtime.sliced_work
        self._stats = stats
        self._runtime_info = runtime_info

    def runtime_info(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return the broker's figures."""
        return Reply(body=encode_body(KvTable(table=self._runtime_info.table())))

    def stats_data(self, request: Command, header: StatsDataHeader, peer: Peer) -> Reply | None:
        """Return one statistic over the last minute, hour and day, for one key or for all."""
        if header.pymq_all:
            return self._sliced_work.answer(request, peer, self._all_stats(header.stats_name))
        found = self._stats.view(header.stats_name, header.stats_key)
        if found is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
        return Reply(body=encode_admin_body(_as_data(found)))

    def _all_stats(self, name: str) -> Steps[Reply]:
        found: dict[str, StatsData] = {}
        for number, key in enumerate(self._stats.keys(name)):
            windows = self._stats.view(name, key)
            if windows is not None and windows[-1].total:
                found[key] = _as_data(windows)
            if number % STATISTICS_AT_ONCE == 0:
                yield
        return Reply(body=(yield from encode_in_steps(StatsData(pymq_keys=found))))


def _as_data(windows: tuple[RateWindow, RateWindow, RateWindow]) -> StatsData:
    minute, hour, day = map(_window, windows)
    return StatsData(stats_minute=minute, stats_hour=hour, stats_day=day)


def _window(window: RateWindow) -> StatsWindow:
    return StatsWindow(sum=window.total, tps=round(window.per_second, 3), avgpt=round(window.per_call, 3))
