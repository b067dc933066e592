"""The checks of attacked imports see faults."""

from __future__ import annotations

from tests.spark.kills.imports import FILES, KEYS, ROWS_OF_A_FILE, fault

ROWS = FILES * ROWS_OF_A_FILE


def test_faults_are_seen() -> None:
    numbers = list(range(ROWS))
    assert fault([numbers]) == ""
    assert fault([numbers[:-2]]) == "2 rows are missing"
    assert fault([[0, 1, 1]]) == "1 is doubled or out of order"
    assert fault([[KEYS, 0]]) == "0 is doubled or out of order"
    assert fault([[0, KEYS], [0]]) == "0 is doubled or out of order"
