"""The comparison finds every way in which an export can differ from the sent messages."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from pymq.demo.checking import compare
from pymq.demo.sending import digest

SENT = {"a:0": digest(b"zero"), "a:1": digest(b"one")}


def write(directory: Path, name: str, exported: list[tuple[str, bytes]]) -> None:
    place = directory / "topic=t"
    place.mkdir(exist_ok=True)
    columns = {"keys": [key for key, _ in exported], "body": [body for _, body in exported]}
    parquet.write_table(pa.table(columns), place / name)


def test_exact_over_several_files(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", [("a:0", b"zero")])
    write(tmp_path, "2.parquet", [("a:1", b"one")])
    result = compare(SENT, tmp_path)
    assert result.exact
    assert result.exported == 2


@pytest.mark.parametrize(
    ("exported", "field"),
    [
        ([("a:0", b"zero")], "missing"),
        ([("a:0", b"zero"), ("a:1", b"one"), ("a:1", b"one")], "repeated"),
        ([("a:0", b"zero"), ("a:1", b"one"), ("b:0", b"other")], "unknown"),
        ([("a:0", b"zero"), ("a:1", b"uno")], "changed"),
    ],
)
def test_each_difference_is_counted(tmp_path: Path, exported: list[tuple[str, bytes]], field: str) -> None:
    write(tmp_path, "1.parquet", exported)
    result = compare(SENT, tmp_path)
    assert getattr(result, field) == 1
    assert not result.exact
    names = {"missing", "repeated", "unknown", "changed"} - {field}
    assert all(getattr(result, name) == 0 for name in names)
