"""The history of a run and the page that shows it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from pymq.pipeline.report import BATCHES_KEPT, Batch, History, page, write_report


def batch(number: int, sink: str = "s", behind: int | None = 5) -> Batch:
    return Batch(sink, number, f"2026-01-31T12:00:{number % 60:02d}Z", 10 * number, 2.5 * number, 100, behind)


def test_sums_count_all_batches_and_the_last_ones_are_kept() -> None:
    history = History()
    for number in range(BATCHES_KEPT + 1):
        history.add(batch(number))
    assert history.batches("s") == BATCHES_KEPT + 1
    assert history.rows("s") == 10 * sum(range(BATCHES_KEPT + 1))
    assert [kept.batch_id for kept in history.kept("s")] == list(range(1, BATCHES_KEPT + 1))
    assert (history.sinks(), history.behind("s"), history.last("s").batch_id) == (["s"], 5, BATCHES_KEPT)
    assert (history.rows("t"), history.batches("t"), history.behind("t"), list(history.kept("t"))) == (0, 0, None, [])


def test_a_page_has_a_chart_of_each_figure_that_is_known(tmp_path: Path) -> None:
    history = History()
    for number in range(3):
        history.add(batch(number))
        history.add(batch(number, "<t>", behind=None))
    text = page("a<b", history)
    document = ElementTree.fromstring(text.removeprefix("<!doctype html>").replace('<meta charset="utf-8">', ""))
    assert [heading.text for heading in document.iter("h3")] == [
        "Rows a second", "Time of a batch (ms)", "Rows behind", "Rows a second", "Time of a batch (ms)",
    ]  # fmt: skip
    first = next(document.iter("polyline")).attrib["points"].split()
    assert first == ["80.0,145.0", "400.0,75.0", "720.0,5.0"]
    assert "Pipeline a&lt;b" in text and "&lt;t&gt;" in text and "http" not in text
    write_report(tmp_path / "new" / "r.html", "a<b", history)
    assert (tmp_path / "new" / "r.html").read_text(encoding="utf-8") == text
    assert "No batch was finished." in page("a", History())
