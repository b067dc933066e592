"""URLs of object stores are no directories: what PyMQ commits by renames refuses them in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pymq.cli.spark_export import app
from pymq.errors import UsageError
from pymq.spark.directories import local_directory


@pytest.mark.parametrize("text", ["lake", "./lake", "/data/lake", "C:/lake", "a:b"])
def test_paths(text: str) -> None:
    assert local_directory("output", text) == Path(text)


@pytest.mark.parametrize("text", ["s3a://bucket/lake", "gs://b/l", "abfss://c@a.dfs.core.windows.net/l", "file:/lake"])
def test_urls(text: str) -> None:
    with pytest.raises(UsageError, match=f"^output {text} is a URL, and its commits need .*: name a mounted directory"):
        local_directory("output", text)


def test_an_export_refuses_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["-t", "orders", "--output", "s3a://bucket/lake"])
    assert "output s3a://bucket/lake is a URL" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
