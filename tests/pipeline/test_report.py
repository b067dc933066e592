"""The history of a run and the page that shows it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from pymq.pipeline.report import BATCHES_KEPT, DOTS_MAX, QUEUES_SHOWN, Batch, History, page, round_up, write_report
from pymq.pipeline.works import batch_of


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
    assert first == ["80.0,146.0", "394.0,78.0", "708.0,10.0"]
    assert [text.text for text in document.iter("text")][:5] == [
        "0",
        "2.5",
        "5",
        "2026-01-31 12:00:00",
        "2026-01-31 12:00:02",
    ]
    assert [title.text for title in document.iter("title")][1] == "batch 0, 2026-01-31 12:00:00: 0"
    cells = [cell.text for cell in document.iter("td")]
    assert cells == ["s", "3", "30", "100", "0.1 s", "5", "<t>", "3", "30", "100", "0.1 s", "not known"]
    assert "Pipeline a&lt;b" in text and "&lt;t&gt;" in text and "http" not in text
    write_report(tmp_path / "new" / "r.html", "a<b", history)
    assert (tmp_path / "new" / "r.html").read_text(encoding="utf-8") == text
    assert "No batch was finished." in page("a", History())


def test_one_batch_is_seen_and_many_have_no_dots() -> None:
    history = History()
    history.add(batch(0))
    text = page("a", history)
    assert text.count("<circle ") == 3 and text.count("12:00:00</text>") == 3
    for number in range(1, DOTS_MAX):
        history.add(batch(number))
    assert page("a", history).count("<circle ") == 3 * DOTS_MAX
    history.add(batch(DOTS_MAX))
    assert "<circle " not in page("a", history)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, 1), (1, 1), (1.01, 2), (9.5, 10), (10, 10), (230_001, 300_000), (0.02, 0.02)]
)
def test_an_axis_ends_at_a_round_number(value: float, shown: float) -> None:
    assert round_up(value) == pytest.approx(shown)


def test_a_page_shows_the_queues_with_the_most_rows() -> None:
    history = History()
    counts = {f"t<1> b/{number}": 100 * number for number in range(QUEUES_SHOWN)}
    for _ in range(2):
        history.add(batch(0)._replace(queue_rows=counts))
    text = page("a", history)
    assert text.count("<rect ") == QUEUES_SHOWN and "fewer rows" not in text
    assert ">t&lt;1&gt; b/31</text>" in text and ">6,200</text>" in text
    widths = [float(bar.split('width="')[1].split('"')[0]) for bar in text.split("<rect ")[1:]]
    assert widths[0] == 370.0 and widths == sorted(widths, reverse=True)
    history.add(batch(1)._replace(queue_rows={"t b/32": 1}))
    assert page("a", history).count("<rect ") == QUEUES_SHOWN
    assert "Queues with fewer rows: 1<" in page("a", history)


def test_a_report_of_spark_says_each_queues_rows() -> None:
    def report(**source: str | None) -> dict[str, Any]:
        offsets = {"startOffset": None, "endOffset": None, "latestOffset": None, **source}
        figures = {"numInputRows": 5, "processedRowsPerSecond": None, "batchDuration": 7}
        return {"batchId": 1, "timestamp": "t", "sources": [offsets], **figures}

    read = batch_of("s", report(startOffset='{"t": {"b": {"0": 2}}}', endOffset='{"t": {"b": {"0": 5, "1": 2}}}'))
    assert (read.queue_rows, read.behind_rows) == ({"t b/0": 3, "t b/1": 2}, None)
    known = batch_of("s", report(endOffset='{"t": {"b": {"0": 5}}}', latestOffset='{"t": {"b": {"0": 9}}}'))
    assert (known.queue_rows, known.behind_rows) == ({"t b/0": 5}, 4)
    assert batch_of("s", report(endOffset="[3]")).queue_rows == {}
