"""Tables that a query names."""

from __future__ import annotations

import pytest

from pymq.pipeline.sql_names import tables_of


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM a", {"a"}),
        ("select x from a, b as c, d where e", {"a", "b", "d"}),
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT JOIN `c d` USING (x)", {"a", "b", "c d"}),
        ("SELECT 'FROM a', \"JOIN b\" -- FROM c\n FROM d /* , e */", {"d"}),
        ("SELECT * FROM (SELECT y FROM a GROUP BY y, z), b", {"a"}),
        ("WITH t AS (SELECT 1) SELECT * FROM t UNION ALL SELECT * FROM u", {"t", "u"}),
        ("SELECT 1", set()),
    ],
)
def test_tables_of(sql: str, tables: set[str]) -> None:
    assert tables_of(sql) == tables
