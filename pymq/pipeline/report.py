"""What a run did, batch by batch, and the HTML page that shows it. The page needs no server and no network."""

from __future__ import annotations

import html
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

BATCHES_KEPT = 2_000
QUEUES_SHOWN = 32
# Up to so many batches each have a dot, which says its figures where the mouse is.
DOTS_MAX = 200
_WIDTH, _HEIGHT = 720, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 12, 10, 24
_BAR_LEFT, _BAR_RIGHT, _BAR_HEIGHT = 260, 90, 16
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 820px; color: #222; }
table { border-collapse: collapse; } td, th { padding: .2em 1em .2em 0; text-align: left; }
td.number, th.number { text-align: right; } svg { width: 100%; height: auto; background: #f7f7f7; }
svg text { font: 11px system-ui, sans-serif; fill: #555; } polyline { fill: none; stroke: #1f6feb; stroke-width: 1.5; }
polygon { fill: #1f6feb; opacity: .12; } line { stroke: #ddd; } rect, circle { fill: #1f6feb; }
h3 { margin: 1em 0 .2em; font-size: 1em; } td, th { border-bottom: 1px solid #eee; }
"""
_NO_QUEUES: Mapping[str, int] = {}


class Batch(NamedTuple):
    """A finished batch of a sink's query, as Spark reports it."""

    sink: str
    batch_id: int
    timestamp: str
    input_rows: int
    rows_per_s: float
    batch_ms: int
    behind_rows: int | None
    """Rows of topics that are stored and not yet read; None when no source says so."""
    queue_rows: Mapping[str, int] = _NO_QUEUES
    """Rows of each queue, by topic, broker and number; empty when no source says so."""


class History:
    """The batches of a run: sums of all, and the last :data:`BATCHES_KEPT` of each sink."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[Batch]] = {}
        self._rows: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._queues: dict[str, Counter[str]] = {}

    def add(self, batch: Batch) -> None:
        self._kept.setdefault(batch.sink, deque(maxlen=BATCHES_KEPT)).append(batch)
        self._rows[batch.sink] = self.rows(batch.sink) + batch.input_rows
        self._counts[batch.sink] = self.batches(batch.sink) + 1
        self._queues.setdefault(batch.sink, Counter()).update(batch.queue_rows)

    def sinks(self) -> list[str]:
        """Return the sinks that finished a batch."""
        return list(self._kept)

    def kept(self, sink: str) -> Sequence[Batch]:
        return list(self._kept.get(sink, ()))

    def last(self, sink: str) -> Batch:
        return self._kept[sink][-1]

    def rows(self, sink: str) -> int:
        """Return how many rows its query has read."""
        return self._rows.get(sink, 0)

    def batches(self, sink: str) -> int:
        return self._counts.get(sink, 0)

    def queue_rows(self, sink: str) -> Mapping[str, int]:
        """Return how many rows its query has read of each queue."""
        return self._queues.get(sink, _NO_QUEUES)

    def behind(self, sink: str) -> int | None:
        """Return what was stored and not read after the last batch; None when that is not known."""
        return self._kept[sink][-1].behind_rows if sink in self._kept else None


def write_report(path: Path, name: str, history: History) -> None:
    """Write the page. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(name, history), encoding="utf-8")


def page(name: str, history: History) -> str:
    """Return the page's HTML: a table of all sinks, and charts for each."""
    title = f"Pipeline {html.escape(name)}"
    rows = "".join(_row(sink, history) for sink in history.sinks())
    charts = "".join(_charts(sink, history) for sink in history.sinks())
    if not rows:
        charts = "<p>No batch was finished.</p>"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{_period(history)}</p>"
        '<table><tr><th>Sink</th><th class="number">Batches</th><th class="number">Rows read</th>'
        '<th class="number">Rows/s</th><th class="number">Longest batch</th>'
        f'<th class="number">Behind</th></tr>{rows}</table>{charts}</body></html>\n'
    )


def _row(sink: str, history: History) -> str:
    behind = history.behind(sink)
    batches = history.kept(sink)
    busy_s = sum(batch.batch_ms for batch in batches) / 1000
    numbers = [
        f"{history.batches(sink):,}",
        f"{history.rows(sink):,}",
        f"{sum(batch.input_rows for batch in batches) / busy_s:,.0f}" if busy_s else "not known",
        f"{max(batch.batch_ms for batch in batches) / 1000:,.1f} s",
        "not known" if behind is None else f"{behind:,}",
    ]
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    return f"<tr><td>{html.escape(sink)}</td>{cells}</tr>"


def _period(history: History) -> str:
    """Return from when to when the batches are, as far as their times are known."""
    times = sorted(batch.timestamp for sink in history.sinks() for batch in history.kept(sink))
    return f"{_shown_time(times[0])} to {_shown_time(times[-1])} UTC" if times else ""


def _shown_time(timestamp: str) -> str:
    return html.escape(timestamp[:19].replace("T", " "))


def _charts(sink: str, history: History) -> str:
    batches = history.kept(sink)
    charts = [
        _chart("Rows a second", [(batch, batch.rows_per_s) for batch in batches]),
        _chart("Time of a batch (ms)", [(batch, float(batch.batch_ms)) for batch in batches]),
    ]
    behind = [(batch, float(batch.behind_rows)) for batch in batches if batch.behind_rows is not None]
    if behind:
        charts.append(_chart("Rows behind", behind))
    if queues := history.queue_rows(sink):
        charts.append(_bars(queues))
    return f"<h2>{html.escape(sink)}</h2>{''.join(charts)}"


def _chart(title: str, values: Sequence[tuple[Batch, float]]) -> str:
    """Return a line chart of the batches in order; its vertical axis goes from 0 to a round number."""
    top = round_up(max(value for _, value in values))
    height = _HEIGHT - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(values) - 1)
    places = [(_LEFT + at * step, _TOP + height * (1 - value / top)) for at, (_, value) in enumerate(values)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    area = f"{_LEFT},{_TOP + height} {points} {places[-1][0]:.1f},{_TOP + height}"
    grid = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:g}" y2="{y:g}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:g}" text-anchor="end">{top * part / 2:,g}</text>'
        for part, y in ((part, _TOP + height * (1 - part / 2)) for part in (0, 1, 2))
    )
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>batch {batch.batch_id}, {_shown_time(batch.timestamp)}: '
        f"{value:,.0f}</title></circle>"
        for (x, y), (batch, value) in (zip(places, values, strict=True) if len(values) <= DOTS_MAX else ())
    )
    begin, end = (_shown_time(values[at][0].timestamp) for at in (0, -1))
    last = f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">{end}</text>' if len(values) > 1 else ""
    return (
        f'<h3>{title}</h3><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}">{grid}'
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{begin}</text>{last}'
        f'<polygon points="{area}"/><polyline points="{points}"/>{dots}</svg>'
    )


def round_up(value: float) -> float:
    """Return the next number of one digit, and zeros, that is not less; 1 for 0."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return math.ceil(value / unit) * unit


def _bars(queues: Mapping[str, int]) -> str:
    """Return a bar for each of the queues with the most rows, so that a skew shows."""
    shown = sorted(queues.items(), key=lambda item: (-item[1], item[0]))[:QUEUES_SHOWN]
    top = shown[0][1] or 1
    bars = "".join(
        f'<text x="{_BAR_LEFT - 6}" y="{at + 11}" text-anchor="end">{html.escape(name[-40:])}</text>'
        f'<rect x="{_BAR_LEFT}" y="{at + 2}" width="{length:.1f}" height="{_BAR_HEIGHT - 5}"/>'
        f'<text x="{_BAR_LEFT + length + 6:.1f}" y="{at + 11}">{rows:,}</text>'
        for at, length, name, rows in (
            (number * _BAR_HEIGHT, (_WIDTH - _BAR_LEFT - _BAR_RIGHT) * rows / top, name, rows)
            for number, (name, rows) in enumerate(shown)
        )
    )
    more = f"<p>Queues with fewer rows: {len(queues) - QUEUES_SHOWN:,}</p>" if len(queues) > QUEUES_SHOWN else ""
    return (
        f'<h3>Rows by queue</h3><svg viewBox="0 0 {_WIDTH} {len(shown) * _BAR_HEIGHT + 4}" role="img" '
        f'aria-label="Rows by queue">{bars}</svg>{more}'
    )
