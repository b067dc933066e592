"""The table of features and clients in docs/compatibility.md has a cell for every interop test, and no other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.interop.support import matrix
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "compatibility.md"


def collected() -> list[str]:
    names = {name for column in matrix.COLUMNS for name in column.files}
    files = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if path.name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_every_cell_is_a_test_that_passed() -> None:
    assert matrix.parse(matrix.table_in(PAGE.read_text()).splitlines()) == matrix.cells(
        dict.fromkeys(collected(), True)
    ), "run tests/interop with PYMQ_INTEROP_MATRIX=write (tests/interop/README.md)"


def test_a_cell_shows_the_worst_of_its_tests() -> None:
    go = "tests/interop/test_clients_go.py::test_scenario[pymq-{}]"
    outcomes = {go.format("tag_filter"): True, go.format("retry"): False, "tests/store/test_x.py::test_y[1]": False}
    page = f"before\n{matrix.BEGIN}\n{matrix.END}\nafter\n"
    first = matrix.updated(page, outcomes)
    assert matrix.parse(first.splitlines()) == {("tags", "Go 2.1.2"): "✓", ("retries", "Go 2.1.2"): "✗"}
    again = matrix.updated(first, {go.format("retry"): True})
    assert matrix.parse(again.splitlines()) == {("tags", "Go 2.1.2"): "✓", ("retries", "Go 2.1.2"): "✓"}
    assert again.startswith("before\n") and again.endswith(f"{matrix.END}\nafter\n")


def test_the_longest_fitting_client_has_the_test() -> None:
    java = "tests/interop/test_clients_java.py::test_scenario[apache-java-5.3.3-{}trace]"
    assert matrix.place(java.format("")) == ("trace", "Java 5.3.3")
    assert matrix.place(java.format("binary-")) == ("trace", "Java 5.3.3, binary headers")
    with pytest.raises(ValueError, match="add the scenario 'tracing'"):
        matrix.place("test_clients_go.py::test_scenario[tracing]")
    assert matrix.place("tests/interop/test_mqadmin.py::test_cluster_list") is None


def test_features_name_each_scenario_once() -> None:
    scenarios = [scenario for names in matrix.FEATURES.values() for scenario in names]
    assert len(scenarios) == len(set(scenarios))
