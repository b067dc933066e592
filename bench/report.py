"""Prints figures as a table: medians, ratios to the other broker, and met or missed targets."""

import statistics
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from bench.cases import Figure


class Collected:
    """Figures of several rounds, by server and name."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, list[float]]] = {}
        self._figures: dict[str, Figure] = {}

    def add(self, server: str, figures: Iterable[Figure]) -> None:
        for figure in figures:
            self._figures.setdefault(figure.name, figure)
            self._values.setdefault(server, {}).setdefault(figure.name, []).append(figure.value)

    def median(self, server: str, name: str) -> float | None:
        values = self._values.get(server, {}).get(name)
        return statistics.median(values) if values else None

    def as_data(self) -> dict[str, object]:
        """Returns all measured values, for a JSON file."""
        return {
            "figures": {
                name: {"unit": figure.unit, "target": figure.target, "higher_is_better": figure.higher_is_better}
                for name, figure in self._figures.items()
            },
            "values": self._values,
        }

    def table(self, ours: str, other: str | None) -> Table:
        """Returns a table with a row per figure: ours, theirs, the ratio (above 1: ours is better), the target."""
        table = Table(title="Medians of all rounds")
        table.add_column("figure")
        table.add_column(ours, justify="right")
        if other:
            table.add_column(other, justify="right")
            table.add_column("times better", justify="right")
        table.add_column("target", justify="right")
        for name, figure in self._figures.items():
            mine = self.median(ours, name)
            row = [f"{name} ({figure.unit})", _text(mine)]
            if other:
                theirs = self.median(other, name)
                row += [_text(theirs), _ratio(mine, theirs, figure.higher_is_better)]
            table.add_row(*row, _target(figure, mine))
        return table

    def show(self, ours: str, other: str | None) -> None:
        Console(width=110).print(self.table(ours, other))


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def _ratio(mine: float | None, theirs: float | None, higher_is_better: bool) -> str:
    if not mine or not theirs:
        return "-"
    return f"{mine / theirs if higher_is_better else theirs / mine:.2f}x"


def _target(figure: Figure, mine: float | None) -> str:
    if figure.target is None:
        return "-"
    sign = ">=" if figure.higher_is_better else "<="
    text = f"{sign} {_text(figure.target)}"
    if mine is None:
        return text
    met = mine >= figure.target if figure.higher_is_better else mine <= figure.target
    return f"{text} {'met' if met else 'MISSED'}"
