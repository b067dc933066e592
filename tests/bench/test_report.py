"""The table says what was measured: medians, ratios in the right direction, targets met or missed."""

from rich.console import Console

from bench.cases import Figure
from bench.report import Collected


def text_of(collected: Collected, other: str | None) -> str:
    console = Console(width=120, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as capture:
        console.print(collected.table("ours", other))
    return capture.get()


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if name in line)


def test_ratio_is_above_one_where_ours_is_better() -> None:
    collected = Collected()
    for value in (100.0, 300.0, 200.0):
        collected.add("ours", [Figure("rate", value, "msg/s", 150, True), Figure("cost", value / 100, "us", 1.5)])
    collected.add("theirs", [Figure("rate", 50.0, "msg/s", 150, True), Figure("cost", 8.0, "us", 1.5)])
    text = text_of(collected, "theirs")
    assert "4.00x" in line_of(text, "rate") and " met" in line_of(text, "rate")
    assert "4.00x" in line_of(text, "cost") and "MISSED" in line_of(text, "cost")


def test_a_figure_of_one_server_alone() -> None:
    collected = Collected()
    collected.add("theirs", [Figure("rate", 50.0, "msg/s", 150, True)])
    assert "50.0" in line_of(text_of(collected, "theirs"), "rate")
    assert collected.median("ours", "rate") is None
