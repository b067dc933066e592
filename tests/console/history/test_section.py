"""The charts of a subject on a page, or why there are none."""

from __future__ import annotations

import re
from math import nan

from pymq.console.history.counted import Mean, Means
from pymq.console.history.rings import CLUSTER, Kind, Measure, Subject
from pymq.console.history.section import Charts, charts_of
from pymq.console.pages.rendering import make_environment
from pymq.errors import RefusedError
from tests.console.history.worlds import HOUR_MS, Seen, run

TOPIC, GROUP = Subject(Kind.topic, "orders"), Subject(Kind.group, "billing")
BROKER = Subject(Kind.broker, "h:1")


def charts(seen: Seen, subject: Subject) -> Charts:
    return run(charts_of(seen.sight, subject, seen.clock.now_ms()))


def html(section: Charts) -> str:
    return make_environment().get_template("charts.html").render(section=section)


def test_a_topic_has_charts_with_a_table_of_the_same_numbers() -> None:
    seen = Seen()
    seen.put(TOPIC, Measure.in_rate, *[812.0] * 20)
    seen.put(TOPIC, Measure.out_rate, *[790.0] * 6)
    found = charts(seen, TOPIC)
    assert [chart.measure for chart in found.charts] == [Measure.in_rate, Measure.out_rate] and not found.note
    text = html(found)
    assert text.count('role="img"') == 2 and text.count("<title") == 2 and text.count("<desc") == 2
    assert "Messages in <b>812</b> a second" in text
    assert text.count("<tr>") == 61 and '<td class="n">812</td><td class="n">790</td></tr>' in text
    assert "style=" not in text and "<script" not in text
    svg = max(re.findall("<svg.*?</svg>", text), key=len)
    assert len(svg) < 1536
    times = [time_ms for time_ms, _, _ in found.rows]
    assert times[-1] == found.end_ms == seen.clock.now_ms() and times[0] == found.end_ms - HOUR_MS + 60_000


def test_unknown_minutes_are_dashes_and_no_zeros() -> None:
    seen = Seen()
    seen.put(TOPIC, Measure.in_rate, *[5.0] * 6, *[nan] * 6, *[7.0] * 6)
    found = charts(seen, TOPIC)
    assert [values for _, values, _ in found.rows][-4:] == [[None], [5.0], [None], [7.0]]
    assert found.as_record()["in"][-4:] == [None, 5.0, None, 7.0]
    assert '<td class="n">\u2013</td>' in html(found)


def test_a_group_has_a_trend() -> None:
    seen = Seen()
    seen.put(GROUP, Measure.lag, *[1000.0 * at for at in range(40)])
    found = charts(seen, GROUP)
    assert found.trend == "growing, 100 a second"
    assert "Lag: growing, 100 a second" in html(found)


def test_a_broker_has_charts_of_its_log_disk_and_lag_with_their_units() -> None:
    seen = Seen()
    broker = Subject(Kind.broker, "h:1")
    measures = (Measure.in_rate, Measure.out_rate, Measure.log_rate, Measure.disk, Measure.slave_lag)
    for measure in measures:
        seen.put(broker, measure, *[5_000_000.0] * 6)
    found = charts(seen, broker)
    assert [chart.measure for chart in found.charts] == list(measures)
    text = html(found)
    assert "Log written <b>4.8 MB</b> a second" in text and "Behind its master <b>4.8 MB</b>" in text
    assert "Messages in <b>5,000,000</b> a second" in text and text.count('<td class="n">4.8 MB</td>') == 2


def test_before_the_first_sample_the_page_says_when_it_comes() -> None:
    found = charts(Seen(), CLUSTER)
    assert not found.charts and "first figures come" in found.note
    assert "<svg" not in html(found) and "first figures come" in html(found)


def test_a_person_without_the_right_sees_why_and_no_figure() -> None:
    seen = Seen()
    seen.put(TOPIC, Measure.in_rate, 812.0)
    seen.admin.errors["orders"] = RefusedError(16, "User:reader has no permission to access Topic:orders")
    found = charts(seen, TOPIC)
    assert not found.charts and "has no permission to access Topic:orders" in found.note
    assert "812" not in html(found) and "in" not in found.as_record()


def test_old_figures_stay_when_there_are_no_new_ones_and_the_reason_is_there() -> None:
    seen = Seen()
    seen.put(TOPIC, Measure.in_rate, 812.0)
    seen.recorder.problem, seen.recorder.advice = "the cluster does not answer", "pymq doctor finds out why."
    found = charts(seen, TOPIC)
    assert found.charts and "the cluster does not answer. pymq doctor" in html(found)


def test_a_console_without_samples_says_so() -> None:
    found = run(charts_of(None, TOPIC, 5 * HOUR_MS))
    assert "takes no samples" in found.note and list(found.rows) == []


def test_a_page_that_is_opened_gets_room() -> None:
    seen = Seen(series_max=1)
    seen.put(Subject(Kind.topic, "a"), Measure.in_rate, 1.0)
    assert "no room for the figures of all" in charts(seen, TOPIC).note
    seen.put(TOPIC, Measure.in_rate, 812.0)
    assert charts(seen, TOPIC).charts


def test_a_groups_topic_has_a_chart_with_ids_of_its_own() -> None:
    seen = Seen()
    pair = Subject(Kind.pair, "billing", "orders")
    seen.put(pair, Measure.lag, *[5.0] * 12)
    seen.put(GROUP, Measure.lag, *[7.0] * 12)
    found = [charts(seen, pair), charts(seen, GROUP)]
    assert [chart.title for chart in found[0].charts] == ["Lag on this topic"]
    ids = re.findall(r'id="([^"]+)"', "".join(map(html, found)))
    assert len(ids) == len(set(ids)) == 4


def count(seen: Seen, means: Means) -> list[Subject]:
    """Let brokers have counted ``means``; return the subjects that they are asked for."""
    asked: list[Subject] = []

    async def counted(subject: Subject) -> Means:
        asked.append(subject)
        return means

    seen.recorder.counted = counted  # type: ignore[method-assign]
    return asked


def test_what_brokers_counted_is_there_before_the_first_sample_in_another_tone_and_in_the_table() -> None:
    seen = Seen()
    count(seen, {Measure.in_rate: Mean(812.0, HOUR_MS)})
    found = charts(seen, TOPIC)
    text = html(found)
    assert [chart.measure for chart in found.charts] == [Measure.in_rate] and not found.note
    assert text.count('class="line counted"') == 2, "the line, and that of the legend"
    assert text.count('<td class="n counted">mean 812</td>') == 60
    assert "What brokers counted themselves from" in text and "as a mean" in text
    record = found.as_record()
    assert record["countedByBrokers"] == {
        "in": {"mean": 812.0, "beginMs": found.end_ms - HOUR_MS, "endMs": found.end_ms}
    }
    assert record["in"] == [None] * 60, "a mean is no sample"


def test_own_figures_take_the_place_of_counts() -> None:
    seen = Seen()
    asked = count(seen, {Measure.in_rate: Mean(812.0, HOUR_MS)})
    seen.put(TOPIC, Measure.in_rate, *[5.0] * 12)
    text = html(charts(seen, TOPIC))
    assert text.count("mean 812") == 58 and text.count('<td class="n">5</td>') == 2 and asked == [TOPIC]
    for measure in (Measure.in_rate, Measure.out_rate):
        seen.put(BROKER, measure, *[5.0] * 360)
    found = charts(seen, BROKER)
    assert asked == [TOPIC], "a whole hour is known"
    assert "brokers counted" not in html(found) and found.as_record()["countedByBrokers"] == {}


def test_counts_are_not_asked_for_a_person_without_the_right() -> None:
    seen = Seen()
    asked = count(seen, {Measure.in_rate: Mean(812.0, HOUR_MS)})
    seen.admin.errors["orders"] = RefusedError(16, "User:reader has no permission to access Topic:orders")
    assert "812" not in html(charts(seen, TOPIC)) and not asked
