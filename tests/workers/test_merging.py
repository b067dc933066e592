"""Metrics of several workers as one text: Prometheus' own parser finds each line once, and each metric in one place."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from pymq.metrics.exposition import slices
from pymq.metrics.family import Family, Metric, MetricKind, Reading, gauge
from pymq.workers.merging import merged

DEPTH = gauge("pymq_depth", "Messages\nto read.", "topic")
SIZES = Metric("pymq_sizes", MetricKind.HISTOGRAM, "bytes", (), "Sizes.")
ONLY = gauge("pymq_only", "In one worker alone.")


class Figures:
    metrics = (DEPTH, SIZES, ONLY)

    def __init__(self, number: int) -> None:
        self._number = number

    def collect(self) -> Iterator[Family]:
        hostile = f'a"\n# HELP pymq_depth {self._number}'
        yield Family(DEPTH, [Reading((hostile,), self._number), Reading(("b",), 2)])
        sizes = [Reading(("1",), 5, "_bucket"), Reading((), 5, "_count"), Reading((), 9, "_sum")]
        yield Family(SIZES, sizes)
        if self._number:
            yield Family(ONLY, [Reading((), 1)])


def text(number: int) -> str:
    return b"".join(slices([Figures(number)], {"node_id": f"m-{number}"}, lambda: 0.0)).decode()


def test_each_metric_stands_in_one_place_with_the_lines_of_all_workers() -> None:
    whole = merged([text(0), text(1)])
    families = {family.name: family for family in text_string_to_metric_families(whole)}
    assert list(families) == ["pymq_depth", "pymq_sizes", "pymq_metrics_left_out", "pymq_only"]
    depths = {
        (sample.labels["node_id"], sample.labels["topic"]): sample.value for sample in families["pymq_depth"].samples
    }
    assert depths[("m-0", "b")] == 2 and len(depths) == 4 and 1.0 in depths.values()
    assert [sample.name for sample in families["pymq_sizes"].samples].count("pymq_sizes_sum") == 2
    assert whole.count("# HELP pymq_depth ") == 3, "once as its head, twice inside of a label"


def test_nothing_and_one_text_stay_as_they_are() -> None:
    assert merged([]) == ""
    assert merged([text(1)]) == text(1)


def test_a_text_without_kinds_is_taken_too() -> None:
    assert merged(["# HELP a meaning\na 1\n", "rubbish\n"]) == "# HELP a meaning\n# TYPE a untyped\na 1\n"
