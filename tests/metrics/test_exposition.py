"""The exposition text: the series that Prometheus' own parser reads, and the time slices of its production."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pymq.metrics.exposition import LEFT_OUT, number_text, slices
from pymq.metrics.family import PAUSE, Family, Metric, Reading, Rows, counter, gauge, histogram, label_text
from pymq.metrics.histogram import TimeHistogram

GAUGE = gauge("g", "A gauge.", "x", "y")
LABELS = {"cluster": "c", "node_id": "n"}


class Given:
    """A collector of these families that counts the readings taken from it."""

    metrics: Sequence[Metric] = (GAUGE,)

    def __init__(self, *families: Family | None) -> None:
        self._families = families

    def collect(self) -> Iterator[Family | None]:
        yield from self._families


class Ticking:
    """A clock that advances by a tenth of a slice at each reading."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.0001
        return self.now_s


def text(*families: Family | None) -> str:
    return b"".join(slices([Given(*families)], LABELS, Ticking())).decode()


def parsed(*families: Family | None) -> dict[str, list[tuple[str, dict[str, str], float]]]:
    """Return family name -> samples, as Prometheus' library reads them."""
    return {
        found.name: [(sample.name, sample.labels, sample.value) for sample in found.samples]
        for found in text_string_to_metric_families(text(*families))
    }


def test_a_family_is_read_back() -> None:
    found = parsed(Family(GAUGE, [Reading(("1", "2"), 3.5)]))
    assert found["g"] == [("g", {"cluster": "c", "node_id": "n", "x": "1", "y": "2"}, 3.5)]


def test_rows_are_written_as_single_readings_are() -> None:
    values = {("1", 'a"b'): 3, ("2", "c\\d"): 2**60, ("3", "e\nf"): -1}
    rows = Rows([label_text(GAUGE.labels, labels) for labels in values], list(values.values()))
    assert text(Family(GAUGE, [rows])) == text(Family(GAUGE, [Reading(*one) for one in values.items()]))


@given(st.text(), st.text())
def test_any_label_is_read_back(first: str, second: str) -> None:
    value = first.replace("\r", "")  # the library splits lines there, Prometheus does not
    for odd in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029":
        value, second = value.replace(odd, ""), second.replace(odd, "").replace("\r", "")
    value = value.encode("utf-8", "ignore").decode()
    second = second.encode("utf-8", "ignore").decode()
    ((_, labels, _),) = parsed(Family(GAUGE, [Reading((value, second), 1)]))["g"]
    assert (labels["x"], labels["y"]) == (value, second)


def test_a_metrics_own_label_wins() -> None:
    own = gauge("g", "", "cluster")
    ((_, labels, _),) = parsed(Family(own, [Reading(("mine",), 1)]))["g"]
    assert labels == {"cluster": "mine", "node_id": "n"}


def test_a_histogram_is_read_back() -> None:
    times = TimeHistogram((1, 10))
    times.add(3)
    found = parsed(times.family(histogram("h_seconds", "Times.", unit="seconds")))["h_seconds"]
    assert [(name, labels.get("le"), value) for name, labels, value in found] == [
        ("h_seconds_bucket", "0.001", 0),
        ("h_seconds_bucket", "0.01", 1),
        ("h_seconds_bucket", "+Inf", 1),
        ("h_seconds_count", None, 1),
        ("h_seconds_sum", None, 0.003),
    ]


def test_a_counter_keeps_its_given_name() -> None:
    assert "# TYPE c_total counter" in text(Family(counter("c_total", ""), [Reading((), 1)]))


def test_omitted_series_are_counted() -> None:
    found = parsed(Family(GAUGE, [], 7), Family(counter("c_total", ""), []))
    assert [(labels["metric"], value) for _, labels, value in found[LEFT_OUT.name]] == [("g", 7)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((0, "0"), (1, "1"), (True, "1"), (-3, "-3"), (2.5, "2.5"), (1e300, "1e+300"), (2**60, str(float(2**60)))),
        *((float("inf"), "+Inf"), (float("-inf"), "-Inf"), (float("nan"), "NaN"), (2**53 - 1, str(2**53 - 1))),
    ],
)
def test_numbers(value: float, expected: str) -> None:
    assert number_text(value) == expected


def test_a_long_text_is_produced_in_time_slices() -> None:
    readings = [Reading((str(number), ""), number) for number in range(95)]
    pieces = list(slices([Given(Family(GAUGE, readings))], LABELS, Ticking()))
    # Two header lines, 95 readings and two lines about omitted series: ten clock readings are one slice.
    assert [piece.count(b"\n") for piece in pieces] == [pytest.approx(10, abs=1)] * (len(pieces) - 1) + [
        pytest.approx(5, abs=5)
    ]
    assert b"".join(pieces).decode() == text(Family(GAUGE, readings))


def test_work_without_readings_ends_a_slice_too() -> None:
    pieces = list(slices([Given(*[PAUSE] * 30, Family(GAUGE, [PAUSE] * 30))], LABELS, Ticking()))
    assert len(pieces) >= 6
