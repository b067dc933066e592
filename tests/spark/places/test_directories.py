"""Tells URLs of object stores from paths; what needs a file system refuses them in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pymq.cli.spark.spark_compact import app
from pymq.errors import UsageError
from pymq.spark.places.directories import local_directory


@pytest.mark.parametrize("text", ["lake", "./lake", "/data/lake", "C:/lake", "a:b"])
def test_paths(text: str) -> None:
    assert local_directory("output", text) == Path(text)


@pytest.mark.parametrize("text", ["s3a://bucket/lake", "gs://b/l", "abfss://c@a.dfs.core.windows.net/l", "file:/lake"])
def test_urls(text: str) -> None:
    with pytest.raises(UsageError, match=f"^output {text} is a URL: name a directory of a file system"):
        local_directory("output", text)


def test_a_compaction_refuses_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["s3a://bucket/lake"])
    assert "DIR s3a:/bucket/lake is a URL" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
